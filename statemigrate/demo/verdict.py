"""The demonstration's verdict: figures, and every key compared.

What the demonstration of a rewrite found out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from statemigrate.demo.demo_size import DemoOptions
from statemigrate.demo.jobs.after import cents
from statemigrate.demo.paths import DemoFolder, example_migrations
from statemigrate.demo.stage import COLUMNS, REWRITTEN, BatchOutcome, Crash
from statemigrate.state import StateTables, open_state

# Comparing what is there with what must be there, key by key and field by field.


Summaries = Mapping[str, tuple[Any, ...]]
"""By entity, the other columns, as those of `statemigrate.demo.stage.COLUMNS`."""

_EXAMPLES = 3


@dataclass(frozen=True)
class KeyComparison:
    """How many keys were compared, and how many are not as they must be.

    ``unexpected`` keys belong to no event. ``counted_twice`` are those of the differing ones whose
    number or sum of bids is too large. ``examples`` says what the first few differences are.
    """

    keys: int
    missing: int
    unexpected: int
    differing: int
    counted_twice: int
    examples: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference at all, and something to compare."""
        return self.keys > 0 and not (self.missing or self.unexpected or self.differing)

    def to_json(self) -> dict[str, Any]:
        """The form for machines."""
        return {**asdict(self), "equal": self.is_equal}


def compare_summaries(
    expected: Summaries, found: Summaries, columns: Sequence[str] = COLUMNS
) -> KeyComparison:
    """Compare ``found`` with ``expected``: every key of either, every field.

    The first of the ``columns`` is the key; ``bids`` and ``total`` are among them.
    """
    counting = [columns.index(name) - 1 for name in ("bids", "total")]
    missing = [key for key in expected if key not in found]
    unexpected = [key for key in found if key not in expected]
    differing = [key for key, row in expected.items() if key in found and found[key] != row]
    twice = [key for key in differing if _is_larger(found[key], expected[key], counting)]
    wrong = (missing + unexpected + differing)[:_EXAMPLES]
    examples = tuple(
        f"{key}: expected {expected.get(key)}, found {found.get(key)}" for key in wrong
    )
    return KeyComparison(
        len(expected), len(missing), len(unexpected), len(differing), len(twice), examples
    )


def _is_larger(found: tuple[Any, ...], expected: tuple[Any, ...], places: list[int]) -> bool:
    return any((found[at] or 0) > (expected[at] or 0) for at in places)


# What a demonstration found out, in figures.


@dataclass(frozen=True)
class BatchTimes:
    """Median milliseconds of a deployment's batches with rows, its first one left out.

    ``without_backfill`` leaves out the slowest partition's share of the backfill.
    """

    batches: int
    rows: int
    with_backfill: float
    without_backfill: float | None

    @classmethod
    def of(cls, batches: Sequence[BatchOutcome]) -> BatchTimes:
        """Sum up a deployment; its first batch also starts the workers and proves nothing."""
        timed = [each for each in batches[1:] if each.rows] or list(batches)
        live = [each.without_backfill for each in timed if each.without_backfill is not None]
        return cls(
            len(batches),
            sum(each.rows for each in batches),
            _median([each.milliseconds for each in timed]),
            _median(live) if live else None,
        )


@dataclass(frozen=True)
class MigrationFigures:
    """How the old family was emptied: its values at the start, and who migrated them."""

    old_values: int
    touched: int
    backfilled: int
    left: int
    retired: tuple[str, ...]

    @classmethod
    def of(cls, batches: Sequence[BatchOutcome]) -> MigrationFigures:
        """Sum up what came after the first deployment, from its first batch on."""
        first, last = batches[0], batches[-1]
        return cls(
            first.left + first.touched + first.backfilled,
            sum(each.touched for each in batches),
            sum(each.backfilled for each in batches),
            last.left,
            tuple(name for each in batches for name in each.retired),
        )

    @property
    def is_complete(self) -> bool:
        """Whether every old value was migrated exactly once and the family is gone."""
        once = self.touched + self.backfilled == self.old_values
        return once and self.left == 0 and bool(self.retired)


@dataclass(frozen=True)
class Figures:
    """The whole result. ``rerun_batch`` is the first batch of the second deployment."""

    options: DemoOptions
    crash: Crash
    rerun_batch: int
    before: BatchTimes
    after: BatchTimes
    migration: MigrationFigures
    state: KeyComparison
    output: KeyComparison
    seconds: dict[str, float]

    @property
    def is_good(self) -> bool:
        """Whether the run shows what it is meant to show, without any difference."""
        return (
            self.crash.batch == self.rerun_batch
            and self.migration.is_complete
            and self.state.is_equal
            and self.output.is_equal
        )

    def to_json(self) -> dict[str, Any]:
        """The form for machines."""
        did = {**asdict(self.migration), "complete": self.migration.is_complete}
        return _document(self, {"rerun_batch": self.rerun_batch}, {"migration": did})


def _document(
    found: Figures | RewriteFigures, batches: dict[str, Any], did: dict[str, Any]
) -> dict[str, Any]:
    """The form for machines, with ``batches`` and what was ``did`` of either demonstration."""
    return {
        "equal": found.is_good,
        **asdict(found.options),
        "killed": asdict(found.crash),
        **batches,
        "batch_milliseconds": {"before": asdict(found.before), "after": asdict(found.after)},
        **did,
        "state": found.state.to_json(),
        "output": found.output.to_json(),
        "seconds": found.seconds,
    }


def _median(values: Sequence[float]) -> float:
    return round(median(values), 1) if values else 0.0


# The three tellings of how the stream ended: the state, the sink, and the batch computation.


_SEQUENCE = "sequence"


def in_state(folder: DemoFolder) -> Summaries:
    """Every key's value in the last committed version of the state, in the new format."""
    if folder.options.engine != "embedded":
        return by_entity(pq.read_table(folder.state))
    with open_state(folder.checkpoint, migrations=example_migrations()) as state:
        found = dict(_auctions(state))
        found.update(
            (key[0], (None, person["name"], None, person["city"], None, None, None))
            for key, person in state["persons"].entries()
        )
    return found


def in_output(folder: DemoFolder) -> Summaries:
    """The last row of every key that the sink was given, by batch."""
    return by_entity(last_rows(folder.output))


def in_events(folder: DemoFolder) -> Summaries:
    """What Spark SQL computed from all events."""
    return by_entity(pq.read_table(folder.expected))


def last_rows(sink: Path) -> pa.Table:
    """The last row of every entity, of files that a sink was given batch by batch."""
    rows = pa.concat_tables([pq.read_table(path) for path in sorted(sink.glob("*.parquet"))])
    rows = rows.append_column(_SEQUENCE, pa.array(range(rows.num_rows)))
    last = rows.group_by("entity").aggregate([(_SEQUENCE, "max")])
    return rows.take(last[f"{_SEQUENCE}_max"])


def by_entity(rows: pa.Table, columns: Sequence[str] = COLUMNS) -> Summaries:
    """The rows of a table by the first of their columns."""
    entities, *others = (rows[column].to_pylist() for column in columns)
    return dict(zip(entities, zip(*others, strict=True), strict=True))


def _auctions(state: StateTables) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for key, auction in state["auctions"].entries():
        item, price = auction["item"], auction["price"]
        yield (
            key[0],
            (
                auction["seller"],
                item["name"],
                item["category"],
                None,
                price["bids"],
                cents(price["total"]),
                cents(price["highest"]),
            ),
        )


@dataclass(frozen=True)
class RewritingFigures:
    """What a rewrite did with rows of state, by its own report; ``problems`` is what verify found.

    ``partitions`` has the rows that each new one got.
    """

    read: int
    written: int
    merged: int
    dropped: int
    partitions: tuple[int, ...]
    seconds: float
    problems: tuple[str, ...]

    @classmethod
    def of(cls, folder: DemoFolder) -> RewritingFigures:
        """Those that the process which did it left in the folder."""
        document = json.loads(folder.rewritten.read_text())
        (family,) = document["report"]["families"]
        partitions = tuple(each["rows"] for each in family["written"].values())
        return cls(
            family["read"]["rows"],
            sum(partitions),
            family["merged"],
            family["dropped"],
            partitions,
            round(document["report"]["seconds"], 1),
            tuple(document["problems"]),
        )

    @property
    def is_complete(self) -> bool:
        """Whether every row is accounted for, and some met."""
        accounted = self.read == self.written + self.merged + self.dropped
        return accounted and self.merged > 0 and not self.problems


@dataclass(frozen=True)
class RewriteFigures:
    """The whole result. ``rerun_batch`` is the batch with which the first code was taken up again.

    ``first_batch`` is the one with which the new code went on; ``refused`` says that no rewrite
    was possible of the killed query's checkpoint.
    """

    options: DemoOptions
    crash: Crash
    rerun_batch: int
    last_batch: int
    first_batch: int
    refused: bool
    before: BatchTimes
    after: BatchTimes
    rewriting: RewritingFigures
    state: KeyComparison
    output: KeyComparison
    seconds: dict[str, float]

    @property
    def is_good(self) -> bool:
        """Whether the run shows what it is meant to show, without any difference."""
        return (
            self.refused
            and self.crash.batch == self.rerun_batch
            and self.first_batch == self.last_batch + 1
            and self.rewriting.is_complete
            and self.state.is_equal
            and self.output.is_equal
        )

    def to_json(self) -> dict[str, Any]:
        """The form for machines."""
        names = ("refused", "rerun_batch", "last_batch", "first_batch")
        did = {**asdict(self.rewriting), "complete": self.rewriting.is_complete}
        return _document(self, {name: getattr(self, name) for name in names}, {"rewrite": did})


@dataclass(frozen=True)
class PreviewedChange:
    """What a preview has found: over all ``batches`` by store what differs, and in which fields.

    ``example`` is a row of state with other values, before and after the change. ``unchanged`` says
    that the checkpoint in production is as it was.
    """

    batches: tuple[int, ...]
    totals: tuple[dict[str, Any], ...]
    unexpected: tuple[str, ...]
    example: dict[str, Any] | None
    unchanged: bool

    @classmethod
    def of(cls, folder: DemoFolder, role: str) -> PreviewedChange:
        """That which the process left in the folder that ran the preview."""
        found = json.loads(folder.previewed(role).read_text())
        return cls(
            tuple(found["batches"]),
            tuple(found["totals"]),
            tuple(found["unexpected"]),
            found["example"],
            found["unchanged"],
        )

    @property
    def fields(self) -> frozenset[str]:
        """The fields that differ, as STORE.FIELD."""
        return frozenset(
            f"{each['store']}.{name}" for each in self.totals for name in each["fields"]
        )


@dataclass(frozen=True)
class PreviewFigures:
    """The whole result: the change as it was first, with a fault, and as it was then."""

    options: DemoOptions
    first: PreviewedChange
    second: PreviewedChange
    seconds: dict[str, float]

    @property
    def is_good(self) -> bool:
        """Whether the fault was found by its fields, and nothing else."""
        return (
            self.first.fields == _FAULTY
            and bool(self.first.unexpected)
            and not (self.second.fields or self.second.unexpected)
            and self.first.unchanged
            and self.second.unchanged
        )

    def to_json(self) -> dict[str, Any]:
        """The form for machines."""
        return {
            "equal": self.is_good,
            **asdict(self.options),
            "first": asdict(self.first),
            "second": asdict(self.second),
            "seconds": self.seconds,
        }


_FAULTY = frozenset({"aggregation-0.sum", "aggregation-0.max", "output.total", "output.highest"})


def compare_rewritten(folder: DemoFolder, files: int) -> tuple[KeyComparison, KeyComparison]:
    """Compare the new state with Spark SQL; and the last output of what the last files touched."""
    expected = by_entity(pq.read_table(folder.expected), REWRITTEN)
    state = by_entity(pq.read_table(folder.state), REWRITTEN)
    touched = _touched(folder, files)
    output = by_entity(last_rows(folder.new_output), REWRITTEN)
    wanted = {key: row for key, row in expected.items() if key in touched}
    return (
        compare_summaries(expected, state, REWRITTEN),
        compare_summaries(wanted, output, REWRITTEN),
    )


def _touched(folder: DemoFolder, files: int) -> set[str]:
    """The auctions that have bids in the last so many files."""
    last = sorted(folder.events.glob("*.parquet"))[-files:]
    tables = [pq.read_table(path, columns=["entity", "kind"]) for path in last]
    return {
        entity
        for table in tables
        for entity in table.filter(pc.equal(table["kind"], "bid"))["entity"].to_pylist()
    }
