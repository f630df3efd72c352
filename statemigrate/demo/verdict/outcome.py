"""The three tellings of how the stream ended: the state, the sink, and the batch computation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from statemigrate.demo.jobs.after import cents
from statemigrate.demo.stage.places import DemoFolder, example_migrations
from statemigrate.demo.stage.rows import COLUMNS
from statemigrate.demo.verdict.comparison import Summaries
from statemigrate.state.reader import StateReader

_SEQUENCE = "sequence"


def in_state(folder: DemoFolder) -> Summaries:
    """Every key's value in the last committed version of the state, in the new format."""
    if folder.options.engine != "embedded":
        return by_entity(pq.read_table(folder.state))
    with StateReader(folder.checkpoint, migrations=example_migrations()) as reader:
        found = dict(_auctions(reader))
        found.update(
            (key[0], (None, person["name"], None, person["city"], None, None, None))
            for key, person in reader.entries("persons")
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


def _auctions(reader: StateReader) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for key, auction in reader.entries("auctions"):
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
