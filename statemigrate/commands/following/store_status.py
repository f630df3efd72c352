"""How far the migration of one store is, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from statemigrate.deployment import Kind


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
    rewrite leads on: no query migrates it.
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

    @property
    def head_in_words(self) -> str:
        """What the target is to the scripts."""
        if self.is_broken:
            return "its scripts are broken"
        if self.head is None:
            return "no scripts"
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
