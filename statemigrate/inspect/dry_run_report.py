"""What a dry run found, as data: printed, written as JSON, JUnit or HTML by others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from statemigrate.deployment import Kind
from statemigrate.migration import Direction

Effect = Literal["kept", "changed", "emptied", "added", "removed", "renamed"]


@dataclass(frozen=True)
class ValueExample:
    """One value before and after, its key and both sides as text; None where there is no side."""

    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Failure:
    """Values that did not migrate for the same cause, and a few of their keys."""

    cause: str
    values: int
    keys: tuple[str, ...]


@dataclass(frozen=True)
class RoundTripDifference:
    """Values whose ``field`` was not what it had been after `downgrade(upgrade(value))`."""

    field: str
    values: int
    examples: tuple[ValueExample, ...]


@dataclass(frozen=True)
class FieldEffect:
    """What migrating did to a field in ``values`` of the values that were looked at.

    ``becomes`` is the path that a field which was renamed has afterwards.
    """

    field: str
    effect: Effect
    values: int
    examples: tuple[ValueExample, ...]
    becomes: str | None = None

    @property
    def label(self) -> str:
        """The field, with the name it gets."""
        return (
            self.field
            if self.becomes is None
            else f"{self.field} \N{RIGHTWARDS ARROW} {self.becomes}"
        )


@dataclass(frozen=True)
class ScriptNote:
    """A script that values went through, and what its author says it does."""

    revision: str
    direction: Direction
    message: str


@dataclass(frozen=True)
class Loss:
    """A field that had values before a script's function, and has none after it.

    ``meant`` says that the script's `drops` names it; ``before`` shows one of the values. The
    function is that of the script of ``revision``, in the file ``script``. ``values`` is None where
    nothing is left in any value; else it is lost in so many of them, and ``keys`` are a few of
    theirs.
    """

    field: str
    direction: Direction
    revision: str
    script: str
    meant: bool
    before: str
    values: int | None = None
    keys: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The field, and in how many values it is lost if not in all."""
        if self.values is None:
            return self.field
        return f"{self.field} in {self.values:,} {'value' if self.values == 1 else 'values'}"


@dataclass(frozen=True)
class ConstantField:
    """A field whose values differed, and are all ``after`` after a script's function."""

    field: str
    direction: Direction
    revision: str
    script: str
    meant: bool
    after: str


@dataclass(frozen=True)
class BrokenLaw:
    """Values on which the functions of a script do not undo each other, although it claims it.

    ``law`` is the equation that does not hold, as in ``downgrade(upgrade(value)) == value``, and
    ``field`` the one that differs; if a function fails instead, ``cause`` says how. The script of
    ``revision`` is in the file ``script``. ``smallest`` is the smallest value that was found to
    break the law, with the fields that it needs for that.
    """

    law: str
    revision: str
    script: str
    field: str | None
    cause: str | None
    values: int
    examples: tuple[ValueExample, ...]
    smallest: ValueExample | None


@dataclass(frozen=True)
class FamilyTrial:
    """The values of one family, taken through the transforms to the target.

    A list's elements count one by one. ``stored`` is what the family holds, ``tried`` how much of
    it was taken: the rest lies outside the sample. ``reversible`` says whether a way back exists;
    ``differing`` values came back other than they were. Of ``looked_at`` values the fields were
    compared. Sizes are bytes as Avro, of the values that passed; the keys of ``sizes_before`` and
    ``sizes_after`` are powers of two, their numbers the values of at most that size. ``direction``
    names the function that takes the values to the target. What a field has is compared in every
    value that passed: ``losses`` are the fields that are empty now, in all values or in
    some, ``constants`` those that have one value only. ``dropped`` are values that a script gave no
    key, on purpose, ``several`` those that became more than one entry. ``examples`` are a few whole
    values, as lines of JSON. ``lawless`` values break one of the ``broken_laws``.
    """

    family: str
    revision: str
    stored: int
    tried: int
    failed: int
    failures: tuple[Failure, ...]
    reversible: bool
    differing: int
    differences: tuple[RoundTripDifference, ...]
    looked_at: int
    fields: tuple[FieldEffect, ...]
    bytes_before: int
    bytes_after: int
    sizes_before: Mapping[int, int]
    sizes_after: Mapping[int, int]
    direction: Direction = "upgrade"
    losses: tuple[Loss, ...] = ()
    constants: tuple[ConstantField, ...] = ()
    dropped: int = 0
    several: int = 0
    examples: tuple[ValueExample, ...] = ()
    lawless: int = 0
    broken_laws: tuple[BrokenLaw, ...] = ()

    @property
    def lost(self) -> tuple[Loss, ...]:
        """The losses that the scripts do not say are meant."""
        return tuple(each for each in self.losses if not each.meant)

    @property
    def passed(self) -> int:
        """The values that migrated."""
        return self.tried - self.failed


@dataclass(frozen=True)
class BackfillEstimate:
    """How long a backfill would take: ``basis`` says in words what that was estimated from."""

    values: int
    seconds: float
    batches: int
    basis: str


@dataclass(frozen=True)
class Meetings:
    """Where scripts change keys: the ``entries`` they make, and under how many ``keys`` they lie.

    ``met`` are the keys of several entries, which become one if the scripts ``merge``, and stop a
    rewrite if they do not. Elements of a list and rows of a join ``gather`` under one key instead,
    unless the new code has a value or a map there. Where several scripts change keys, those at the
    end count. ``examples`` are a few of the met keys as text, each with the number of its entries.
    """

    entries: int
    keys: int
    met: int
    merges: bool
    examples: tuple[tuple[str, int], ...] = ()
    gather: bool = False

    @property
    def stops(self) -> bool:
        """Whether a rewrite is certain to stop at the keys that are met."""
        return bool(self.met) and not (self.merges or self.gather)

    @property
    def meeting(self) -> int:
        """The entries that do not have a key for themselves."""
        return self.entries - self.keys + self.met


@dataclass(frozen=True)
class DryRunReport:
    """A dry run of one store on the state as of ``batch``, the last committed one.

    ``families`` are those other than the target's, newest first; ``in_target`` counts the values
    that have migrated already. ``sample`` is the number of values requested, None for all.
    ``batch`` is None if the values came from a file. ``seconds`` is the time for reading and
    trying, ``rate`` the number of values tried in a second. ``questions`` are open questions of the
    scripts. ``rewrites`` means that only a rewrite can migrate the store, and no running query;
    ``meetings`` are counted if keys change and all values are tried. ``scripts`` are the scripts
    that ran, oldest first. ``made_at`` is the time in Unix seconds, and ``version`` that of
    statemigrate.
    """

    store: str
    kind: Kind
    engine: str
    checkpoint: str
    batch: int | None
    target: str
    sample: int | None
    in_target: int
    families: tuple[FamilyTrial, ...]
    seconds: float
    backfill: BackfillEstimate | None
    questions: int = 0
    rewrites: bool = False
    meetings: Meetings | None = None
    scripts: tuple[ScriptNote, ...] = ()
    made_at: float | None = None
    version: str = ""

    @property
    def tried(self) -> int:
        """The values that were tried."""
        return sum(each.tried for each in self.families)

    @property
    def passed(self) -> int:
        """The values that migrated."""
        return sum(each.passed for each in self.families)

    @property
    def failed(self) -> int:
        """The values that did not."""
        return sum(each.failed for each in self.families)

    @property
    def differing(self) -> int:
        """The values that were different after the way back."""
        return sum(each.differing for each in self.families)

    @property
    def lost(self) -> int:
        """The fields that lost their values without a script that lists them in ``drops``."""
        return sum(len(each.lost) for each in self.families)

    @property
    def in_order(self) -> bool:
        """Whether every tried value migrates, no field is lost by mistake, and all laws hold."""
        return not (self.failed or self.lost or self.unmerged or self.lawless)

    @property
    def lawless(self) -> int:
        """The values on which a script's functions do not undo each other as it claims."""
        return sum(each.lawless for each in self.families)

    @property
    def unmerged(self) -> int:
        """The keys of several entries that no script merges."""
        return self.meetings.met if self.meetings and self.meetings.stops else 0

    @property
    def stored(self) -> int:
        """The values that are not in the target's format yet."""
        return sum(each.stored for each in self.families)

    @property
    def rate(self) -> float:
        """Values tried in a second."""
        return self.tried / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        """The report as JSON holds it, with its sums."""
        sums = (
            *("stored", "tried", "passed", "failed", "differing", "lost", "lawless", "unmerged"),
            "rate",
        )
        return {**asdict(self), **{name: getattr(self, name) for name in sums}}
