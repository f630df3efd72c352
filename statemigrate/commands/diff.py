"""`diff`: what differs in state between two batches, or between two checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.errors import CheckpointError, TransformError, rows_hidden
from statemigrate.formats import Mask, plain_rows
from statemigrate.native import looks_again
from statemigrate.state import Project, StateTables, compared, no_such_store, require_masked

if TYPE_CHECKING:
    import pyarrow as pa

    from statemigrate.native import Spark
    from statemigrate.state import ReadOnError


@dataclass(frozen=True)
class StoreDiff:
    """What differs in one ``store``; ``table`` has a row for each key, or row of one, that does.

    ``key`` and ``value`` are the columns of both. ``counts`` says how many rows are added, removed
    and changed; where no more than ``most`` were asked for, the table has the first of them.
    ``only_in`` is "before" or "after" for a store that is not there at both.
    """

    store: str
    key: tuple[str, ...]
    value: tuple[str, ...]
    table: pa.Table | None
    counts: Mapping[str, int]
    only_in: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The difference as JSON; without rows where values are hidden."""
        document: dict[str, Any] = {"store": self.store, **self.counts, "only_in": self.only_in}
        if not rows_hidden():
            document["rows"] = [] if self.table is None else plain_rows(self.table)
        return document


@dataclass(frozen=True)
class StateDiff:
    """What differs between the batches ``before`` and ``after``, by store."""

    before: int
    after: int
    stores: tuple[StoreDiff, ...]

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not any(sum(each.counts.values()) or each.only_in for each in self.stores)

    def to_json(self) -> dict[str, Any]:
        """The differences as JSON."""
        stores = [each.to_json() for each in self.stores]
        return {"before": self.before, "after": self.after, "stores": stores}


@looks_again
def diff(  # noqa: PLR0913 - all but two by name
    checkpoint: str | Path,
    new: str | Path | None = None,
    *,
    store: str | None = None,
    before: int | None = None,
    after: int | None = None,
    key: Sequence[str] = (),
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    mask: Sequence[str] = (),
    most: int | None = None,
    spark: Spark = None,
) -> StateDiff:
    """What differs in the state of a checkpoint between the batches ``before`` and ``after``.

    They are the newest batch and the one before it unless given. With ``new``, another checkpoint,
    it is what differs between the two, at their newest batches unless given. ``store`` names one
    store, and ``key`` has the beginning of a key of it, as one types it. All rows are counted;
    ``most`` is how many of a store are kept, all for None. The other parameters are those of
    `open_state`.

    Where a value does not migrate, the columns of `open_state` that say why are there too.

    Raises `CheckpointError` for a batch or a store that is not there, and `StartupError` where the
    columns of a store are not the same at both.
    """
    project = Project(migrations, dict(targets or {}), stores or {}, spark, operator)

    def compare(on_error: ReadOnError) -> StateDiff:
        def opened(place: str | Path, batch: int | None) -> StateTables:
            return StateTables(str(place), project, batch, Mask.of(mask), on_error)

        if new is None:
            last = opened(checkpoint, after)
            first = last.at(_batch_before(last) if before is None else before)
        else:
            first, last = opened(checkpoint, before), opened(new, after)
        require_masked(first, last)
        names = dict.fromkeys([*first.stores, *last.stores]) if store is None else {store: None}
        found = tuple(diff_of(first, last, name, key, most) for name in names)
        return StateDiff(first.batch, last.batch, found)

    try:
        return compare("raise")
    except TransformError:
        return compare("null")


def diff_of(
    first: StateTables,
    last: StateTables,
    name: str,
    key: Sequence[str] = (),
    most: int | None = None,
) -> StoreDiff:
    """What differs in one store, which at least one of the two has. Raises as `diff`."""
    import pyarrow as pa

    if name not in first and name not in last:
        raise no_such_store(last.checkpoint, name, last.stores)
    sides = [each[name] for each in (first, last) if name in each]
    some = sides[-1]
    names = some.key_columns, some.layout.content_names
    counts = Counter[str]({"added": 0, "removed": 0, "changed": 0})
    if len(sides) < 2:
        return StoreDiff(name, *names, None, counts, "after" if name in last else "before")
    values = some.keys_from(key)[0] if key else ()
    kept: list[pa.Table] = []
    for part in compared(sides[0], sides[1], values):
        counts.update(part["_change"].to_pylist())
        room = None if most is None else max(0, most - sum(each.num_rows for each in kept))
        kept.append(part.slice(0, room))
    return StoreDiff(name, *names, pa.concat_tables(kept).combine_chunks(), counts)


def _batch_before(state: StateTables) -> int:
    earlier = [each for each in state.batches if each < state.batch]
    if not earlier:
        raise CheckpointError(
            "SM-CHECKPOINT-016",
            f"{state.checkpoint} has no batch before {state.batch}",
            expected="a batch that is committed and still kept",
            found=f"batches {', '.join(map(str, state.batches))}",
            next_action="name two of its batches, or wait for another batch",
            path=state.checkpoint,
            batch=state.batch,
        )
    return earlier[-1]
