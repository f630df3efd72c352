"""How far the migration of one store is, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from statemigrate.commands.following.deployed import Behind
from statemigrate.deployment import Kind

Progress = Literal["migrated", "migrating", "behind", "ahead", "unknown"]
"""What a store is to its scripts: see `StoreStatus.state`."""


@dataclass(frozen=True)
class FamilyStatus:
    """A family: its values, by partition too, and how many of them a backfill could not migrate.

    ``quarantined`` is None where the engine does not note it.
    """

    name: str
    revision: str
    values: int
    partitions: Mapping[int, int]
    quarantined: int | None


@dataclass(frozen=True)
class StoreStatus:
    """A store: the deployed target, the lineage's head, and the families.

    ``families`` has those that values are still to leave, newest first; ``in_target`` counts the
    values that are in the target's, None on the embedded engine. ``head`` is None for a store
    without scripts, or with broken ones, of which ``is_broken`` tells. ``rate`` is in values a
    second, over the last batches or since an earlier status, ``seconds`` what is left at that rate;
    both None while unknown, and ``seconds`` where nothing moves. ``rewrites`` says that only a
    rewrite leads on: no query migrates it. ``goes_back`` says that values of a newer revision than
    the target are left. ``behind`` is None unless newer scripts exist than what is deployed;
    ``wanted`` is the head, or the revision that was asked for, where another one is deployed;
    ``is_unscripted`` says that there are scripts, and the target's is not among them.
    """

    store: str
    kind: Kind
    target: str
    head: str | None
    in_target: int | None
    families: tuple[FamilyStatus, ...]
    next_action: str
    rate: float | None = None
    seconds: float | None = None
    is_broken: bool = False
    rewrites: bool = False
    goes_back: bool = False
    behind: Behind | None = None
    wanted: str | None = None
    is_unscripted: bool = False

    @property
    def state(self) -> Progress:
        """What the store is to its scripts.

        "behind" while newer scripts exist than what is deployed, whatever is left; "ahead" where an
        older revision was asked for than the deployed one; "unknown" with broken scripts, or where
        the deployed revision's is not among them. Else "migrating" while values are left, and
        "migrated" when none is.
        """
        if self.is_broken or self.is_unscripted:
            return "unknown"
        if self.behind is not None:
            return "behind"
        if self.wanted is not None:
            return "ahead"
        return "migrating" if self.left else "migrated"

    @property
    def is_current(self) -> bool:
        """Whether what is deployed is the head, or what was asked for, as far as there are scripts.

        Not known to be so is not so.
        """
        return self.state in ("migrated", "migrating")

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to deploy, nor to migrate. Broken scripts have no say in it."""
        return not self.left and self.behind is None

    @property
    def head_in_words(self) -> str:
        """What the target is to the scripts."""
        if self.is_broken:
            return "its scripts are broken"
        if self.head is None:
            return "no scripts"
        if self.is_unscripted:
            return "which no script here has"
        return "the head" if self.head == self.target else f"the head is {self.head}"

    @property
    def left(self) -> int:
        """The values that are not in the target's format yet."""
        return sum(each.values for each in self.families)

    @property
    def quarantined(self) -> int:
        """The values that a backfill could not migrate."""
        return sum(each.quarantined or 0 for each in self.families)

    @property
    def is_dual(self) -> bool:
        """Whether reads look into more than the target's family."""
        return bool(self.families)

    def paced(self, gone: int | None, elapsed: float) -> StoreStatus:
        """The same at the rate at which ``gone`` values left in ``elapsed`` seconds.

        Without a rate where that is not known, and where there is more than before.
        """
        if gone is None or gone < 0 or elapsed <= 0:
            return replace(self, rate=None, seconds=None)
        rate = gone / elapsed
        return replace(self, rate=rate, seconds=self.left / rate if rate else None)
