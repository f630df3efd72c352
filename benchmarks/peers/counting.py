"""One partition's process loop without Spark: rows in Arrow, processor, commit, rows in Arrow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.processor import OUTPUT, STATE, Records, RecordTables, Totals
from benchmarks.records import Load, RecordKind, keys_of
from statemigrate.budget import BackfillOptions, Tuner
from statemigrate.deployment import Declared, DeploymentSettings, plan_store
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.task import OutputRows, processed
from statemigrate.embedded.task_plan import BatchPlan, BatchSchema, PartitionReport
from statemigrate.processor.handle import struct_of

_KEY, _ROWS = "key STRING", "key STRING, amount BIGINT, name STRING"
_ROWS_A_BATCH = 10_000


def counting(folder: Path, keys: int, rounds: int) -> list[dict[str, float]]:
    """Seconds, of the clock and of processors, of each batch that touches every key once."""
    return _timed(folder, keys, rounds, Totals(), STATE, "dense")


def keeping_records(
    folder: Path, keys: int, rounds: int, kind: RecordKind, load: Load = "dense"
) -> list[dict[str, float]]:
    """The same of a processor that reads a record and writes another one for each key.

    The first batch has a row of each key; ``load`` says which keys the later ones have rows of.
    """
    return _timed(folder, keys, rounds, Records(kind), kind.ddl, load)


def keeping_tables(
    folder: Path, keys: int, rounds: int, kind: RecordKind, load: Load = "dense"
) -> list[dict[str, float]]:
    """The same of a batch processor."""
    return _timed(folder, keys, rounds, RecordTables(kind), kind.ddl, load)


def _timed(
    folder: Path, keys: int, rounds: int, processor_: Any, ddl: str, load: Load
) -> list[dict[str, float]]:
    state, stores = PartitionState(), stores_of(ddl)
    found = []
    for version in range(rounds):
        numbers = list(keys_of(load if version else "dense", keys))
        batches = list(_input(numbers, version))
        began, processor = time.perf_counter(), time.process_time()
        touched, state = run_batch(folder, version, state, stores, iter(batches), processor_)
        passed = time.perf_counter() - began
        found.append({"seconds": passed, "processor": time.process_time() - processor})
        assert touched == len(set(numbers))
    return found


def stores_of(ddl: str = STATE) -> dict[str, Any]:
    """The plan of the processor's only store."""
    declared = Declared("totals", "value", struct_of(ddl))
    return {"totals": plan_store(declared, None, None, DeploymentSettings())}


def run_batch(
    folder: Path,
    version: int,
    state: PartitionState,
    stores: dict[str, Any],
    rows: Iterator[Any],
    code: Any = None,
) -> tuple[int, PartitionState]:
    """Run and commit a batch of Arrow batches; its rows of output, and the state after it."""
    schema = BatchSchema(struct_of(_ROWS), struct_of(_KEY), (0,), struct_of(OUTPUT))
    plan = _plan(Layout.of(folder / "checkpoint"), folder, version, state, stores)
    report, output = PartitionReport(0), OutputRows(schema.output)
    made = processed(rows, plan, schema, code or Totals(), report, output)
    touched = sum(batch.num_rows for batch in made)
    return touched, PartitionState.from_json(report.state)


def _plan(
    layout: Layout, folder: Path, version: int, state: PartitionState, stores: dict[str, Any]
) -> BatchPlan:
    options = BackfillOptions()
    return BatchPlan(
        version=version,
        layout=layout,
        working=str(folder / "working"),
        partitions=(state,),
        stores=stores,
        retired=frozenset(),
        write_on_read=True,
        backfill=options,
        tuner=Tuner.start(options),
        snapshot_every=10,
        first_of_run=version == 0,
        processing_time=0,
    )


def _input(numbers: list[int], amount: int) -> Iterator[Any]:
    import pyarrow as pa

    ordered = sorted(numbers, key=str)
    for start in range(0, len(ordered), _ROWS_A_BATCH):
        part = ordered[start : start + _ROWS_A_BATCH]
        columns = {
            "key": [f"key-{number}" for number in part],
            "amount": pa.array([amount] * len(part), pa.int64()),
            "name": [f"name {number % 1000}" for number in part],
        }
        yield pa.RecordBatch.from_pydict(columns)
