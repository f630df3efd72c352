"""The backfill against the least code that could do it, and its memory."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measuring import Result, in_turn, median_ratio, seconds
from benchmarks.states import LINEAGE, NEW, NEW_FAMILY, OLD, OLD_FAMILY, filled, place, upgrade
from statemigrate.access import DualAccess
from statemigrate.budget import Budget, run_chunk
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition, PartitionPaths
from statemigrate.families import Source, Span
from statemigrate.formats import Value
from statemigrate.processor.garbage import few_collections

_CHUNK = 50_000


def measure(records: int = 1_000_000, rounds: int = 3) -> list[Result]:
    """Speed against the bare loop, and peak memory against a tenth of the records."""
    return [_speed(records, rounds), _memory(records)]


def _speed(records: int, rounds: int) -> Result:
    with place() as at:
        state = filled(at, OLD_FAMILY, records)
        bare, ours = in_turn(
            lambda: bare_loop(at, state, records),
            lambda: seconds(lambda: backfill_all(at, state, records)),
            rounds,
        )
    figures = {
        "records": records,
        "bare_records_per_second": [round(records / each) for each in bare],
        "backfill_records_per_second": [round(records / each) for each in ours],
    }
    ratio = median_ratio(bare, ours)
    compared = "records/s against iterate-decode-transform-encode-write"
    return Result("backfill speed", compared, ratio, "at least", 0.9, figures)


def backfill_all(at: PartitionPaths, state: PartitionState, records: int) -> float:
    """Backfill everything in committed chunks, each a batch of its own.

    The seconds of processors that it took without opening and committing.
    """
    version, migrated, taken = 1, 0, 0.0
    while migrated < records:
        partition = Partition(at, state, version)
        target = partition.target(NEW_FAMILY, "value")
        source: Source[Value] = Source(
            partition.source(OLD_FAMILY, "value"),
            LINEAGE.path(OLD_FAMILY.revision, NEW_FAMILY.revision),
        )
        access: DualAccess[Value] = DualAccess("items", target, [source])
        began = time.process_time()
        with few_collections():
            migrated += run_chunk(access, source, partition, Budget(_CHUNK, 1e9)).migrated
        taken += time.process_time() - began
        state = partition.commit(snapshot=False)
        version += 1
    assert state.entries == {OLD_FAMILY.name: 0, NEW_FAMILY.name: None}, state.entries
    return taken


def bare_loop(at: PartitionPaths, state: PartitionState, records: int) -> float:
    """One process, one loop, rocksdict and fastavro alone, on a copy of the same records."""
    import fastavro
    from rocksdict import Options, Rdict, WriteBatch, WriteOptions

    old_schema = fastavro.parse_schema(OLD.avro_schema)
    new_schema = fastavro.parse_schema(NEW.avro_schema)
    with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as folder:
        families = {name: Options(raw_mode=True) for name in ("old", "new")}
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        database = Rdict(folder, options, column_families=families)
        _copy(at, state, database.get_column_family("old"))
        handles = [database.get_column_family_handle(name) for name in ("old", "new")]
        write_options: Any = WriteOptions()
        write_options.disable_wal = True

        def loop() -> None:
            batch, done = WriteBatch(raw_mode=True), 0
            for key, data in database.get_column_family("old").items():
                value = fastavro.schemaless_reader(io.BytesIO(data), old_schema, None)
                buffer = io.BytesIO()
                fastavro.schemaless_writer(buffer, new_schema, upgrade(value))
                batch.put(key, buffer.getvalue(), handles[1])
                batch.delete(key, handles[0])
                done += 1
                if done % _CHUNK == 0:
                    database.write(batch, write_options)
                    batch = WriteBatch(raw_mode=True)
            database.write(batch, write_options)
            assert done == records

        elapsed = seconds(loop)
        handles.clear()
        database.close()
        return elapsed


def _copy(at: PartitionPaths, state: PartitionState, into: Any) -> None:
    partition = Partition(at, state, 1)
    source = partition.source(OLD_FAMILY, "value")
    for key, value in source.scan(Span()):
        into.put(key, OLD.encode(value))
    partition.abandon()


def _memory(records: int) -> Result:
    small, large = _peak(records // 10), _peak(records)
    figures = {"small_bytes": small, "large_bytes": large, "records": records}
    compared = f"peak memory, {records:,} records against {records // 10:,}"
    return Result("backfill memory", compared, large / small, "at most", 1.2, figures)


def _peak(records: int) -> int:
    """Peak resident bytes of a process that only backfills ``records`` prepared records."""
    with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as folder:
        for step in ("prepare", "run"):
            command = [sys.executable, "-m", "benchmarks.backfilling", step, folder, str(records)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        return int(json.loads(done.stdout)["peak"])


def _main(step: str, folder: str, records: int) -> None:
    at = PartitionPaths(0, Path(folder) / "durable", Path(folder) / "working")
    stored = Path(folder) / "state.json"
    if step == "prepare":
        from dataclasses import asdict

        stored.write_text(json.dumps(asdict(filled(at, OLD_FAMILY, records))))
        return
    backfill_all(at, PartitionState.from_json(json.loads(stored.read_text())), records)
    print(json.dumps({"peak": peak_of_this_process()}))


def peak_of_this_process() -> int:
    """Linux's high-water mark; getrusage's would include the parent's memory from the fork."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
