"""Commands against a query that runs on Spark's own state: what they may do to its files.

Spark is simulated as far as files go: its two logs, and the log of the backfill source, which takes
one chunk file a batch. Real are the feeder, withdrawing, plans, and adopting.
"""

from __future__ import annotations

import io
import json
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from statemigrate.checkpoint.logs.offsets import batches_in, names_in, parse_offsets
from statemigrate.errors import CheckpointError
from statemigrate.files import Files
from statemigrate.native.adoption import adopt
from statemigrate.native.chunks import (
    CHUNKS,
    ENTRIES,
    WAITING,
    BackfillLimits,
    ChunkFiles,
    PlanRecord,
)
from statemigrate.native.feeder import Feeder
from statemigrate.native.pacing import Batch
from support.object_store import MemoryFiles
from support.offset_logs import checkpoint, tree
from support.rivals.scenes import expect, repeatable
from support.rivals.scheduler import Choices, Rivals
from support.rivals.spark_logs import QUERY, SparkLogs

KEYS = 7
_A_CHUNK = 2
_LOG = "sources/1"


class PacedBackfill:
    """A running query takes chunks that its feeder makes, while somebody types commands.

    ``commands`` are "plan" and "pause", after a first plan. Whatever the order, every key is
    delivered in a batch that is committed, once the last command is to plan and the query goes on.
    """

    def __init__(self, commands: tuple[str, ...] = ("pause", "plan")) -> None:
        self._commands = commands
        self._to_tell: list[int] = []
        """The entries of batches of which the listener was not told yet."""

    def play(self, choices: Choices) -> Rivals:
        """See `support.rivals.scenes.Scene`."""
        files = MemoryFiles.holding(
            {"metadata": json.dumps({"id": QUERY}).encode(), f"{CHUNKS}/_made": b""}
        )
        migrated: dict[int, set[int]] = {}
        self._to_tell.clear()
        with repeatable():
            self._plan(files, migrated, "first")
            rivals = Rivals(files, choices)
            ends = rivals.run(
                partial(self._query, rivals.files(0), migrated, 5),
                partial(self._feed, rivals.files(1), 6),
                partial(self._command, rivals.files(2), migrated),
            )
            for each in ends:
                expect(each.error is None, rivals, repr(each.error))
            if self._commands[-1:] != ("pause",):
                self._go_on(rivals, files, migrated)
        return rivals

    def _go_on(self, rivals: Rivals, files: MemoryFiles, migrated: dict[int, set[int]]) -> None:
        """The query is started again, and runs until there is nothing to do."""
        feeder = Feeder(ChunkFiles(files))
        feeder.begin()
        for _ in range(3 * KEYS):
            self._query(files, migrated, 1)
            self._tell(feeder)
        done = set().union(*migrated.values())
        left = sorted(set(range(KEYS)) - done)
        expect(not left, rivals, f"the keys {left} were planned, and never delivered")
        waiting = ChunkFiles(files).uncut() | {
            name for name in ChunkFiles(files).written() if not name.startswith("empty/")
        }
        expect(not waiting, rivals, f"files of keys are left: {sorted(waiting)}")

    def _query(self, files: Files, migrated: dict[int, set[int]], batches: int) -> None:
        """Spark's file source and its logs."""
        logs = SparkLogs(files, "query")
        taken = self._taken(files)
        first = max(batches_in(names_in(files, "offsets")), default=-1) + 1
        for batch in logs.batches(first + batches):
            offset = len(taken) - 1
            below = f"{files.location}/{CHUNKS}/"
            there = [
                f"{files.location}/{each.name}"
                for each in files.list(CHUNKS, recursive=True)
                if not each.base_name.startswith(("_", "."))
            ]
            new = sorted(set(there) - set(taken))[:1]
            for path in new:
                offset += 1
                line = json.dumps({"path": path, "timestamp": 1, "batchId": offset})
                files.create(f"{_LOG}/{offset}", f"v1\n{line}".encode())
                taken.append(path)
            control = json.dumps({"logOffset": offset}) if taken else "-"
            logs.begin(batch, json.dumps({"logOffset": batch}), control)
            keys = set()
            for path in new:
                keys |= self._keys(files, f"{CHUNKS}/{path.removeprefix(below)}")
            logs.commit(batch)
            migrated[batch] = keys
            self._to_tell.append(len(keys))

    def _taken(self, files: Files) -> list[str]:
        entries = sorted(files.list(_LOG), key=lambda each: int(each.base_name))
        return [json.loads(files.get(e.name).decode().split("\n")[1])["path"] for e in entries]

    def _keys(self, files: Files, name: str) -> set[int]:
        try:
            data = files.get(name)
        except FileNotFoundError:
            # The source has ignoreMissingFiles.
            return set()
        return set(parquet.read_table(io.BytesIO(data)).column("key").to_pylist())

    def _feed(self, files: Files, times: int) -> None:
        """What the listener does: an error is logged, and the next time it tries again."""
        feeder = Feeder(ChunkFiles(files))
        with suppress(CheckpointError):
            feeder.begin()
        for _ in range(times):
            with suppress(CheckpointError):
                self._tell(feeder)

    def _tell(self, feeder: Feeder) -> None:
        for number, entries in enumerate(self._to_tell):
            feeder.after(Batch(1_000.0 * number, 100.0, 0, entries))
        self._to_tell.clear()
        feeder.idle()

    def _command(self, files: Files, migrated: dict[int, set[int]]) -> None:
        for number, verb in enumerate(self._commands):
            if verb == "plan":
                self._plan(files, migrated, f"plan{number}")
            else:
                ChunkFiles(files).withdraw()

    def _plan(self, files: Files, migrated: dict[int, set[int]], name: str) -> None:
        """`plan_backfill`, with the state read and the blocks written without Spark."""
        chunks = ChunkFiles(files)
        chunks.withdraw()
        committed = max(batches_in(names_in(files, "commits")), default=-1)
        done = {key for batch, keys in migrated.items() if batch <= committed for key in keys}
        keys = sorted(set(range(KEYS)) - done)
        offset = chunks.log().offset
        block = pa.table({"key": keys, ENTRIES: [1] * len(keys)})
        written = io.BytesIO()
        parquet.write_table(block, written)
        files.put(f"{WAITING}/{name}/part-00000-x.parquet", written.getvalue())
        pace = BackfillLimits(0.5, _A_CHUNK)
        chunks.write_plan(PlanRecord(name, len(keys), 0, offset, pace, ("totals",)))


class Adoption:
    """`adopt` finds a query between two batches and takes it for a stopped one, and it goes on.

    Whatever comes of it, what is committed keeps its offsets, and a second `adopt` of the stopped
    query finishes what the first one has begun.
    """

    def __init__(self, folder: Path) -> None:
        root = checkpoint(folder, batches=3)
        here = f"file:{root}".encode()
        self._content = {
            name: data.replace(here, b"memory://checkpoint")
            for name, data in tree(root).items()
            if data is not None
        }

    def play(self, choices: Choices) -> Rivals:
        """See `support.rivals.scenes.Scene`."""
        files = MemoryFiles.holding(dict(self._content))
        rivals = Rivals(files, choices)
        with repeatable():
            query, command = rivals.run(
                partial(self._query, rivals.files(0)),
                lambda: adopt(rivals.files(1), apply=True, wait=0.0),
            )
            expect(query.error is None, rivals, repr(query.error))
            refused = isinstance(command.error, CheckpointError) or command.error is None
            expect(refused, rivals, repr(command.error))
            try:
                adopt(files, apply=True, stopped=True, wait=0.0)
            except CheckpointError as error:
                expect("already" in str(error), rivals, f"a second `adopt` ends in {error}")
        newest = max(batches_in(names_in(files, "offsets")))
        for batch in range(newest + 1):
            lines = parse_offsets(files.get(f"offsets/{batch}"), "").lines
            own = json.dumps({"logOffset": batch})
            expect(lines[0] == own, rivals, f"batch {batch} has the offsets {lines}")
            # Spark reads these two when it starts.
            if batch >= newest - 1:
                expect(lines[1:] == ("-",), rivals, f"batch {batch} has no room: {lines}")
        return rivals

    def _query(self, files: Files) -> None:
        logs = SparkLogs(files, "query")
        for batch in logs.batches(5):
            logs.begin(batch, json.dumps({"logOffset": batch}))
            files.create(f"sources/0/{batch}", b"v1\nwhat the source keeps")
            logs.commit(batch)
