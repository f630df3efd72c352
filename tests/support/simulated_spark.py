"""A query on Spark's own state without Spark: its files, and what Spark does with its variables.

Real are the checkpoint's logs, metadata and schema files, the start-up check, the record of
deployments, the handle with dual access, adopting and undoing. Simulated are the database, in which
an undeclared family stays with its values, Spark's reader, which finds only listed variables of the
newest batches, and the removal of old metadata.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from statemigrate.checkpoint.operators.metadata import OperatorEntry, StoreEntry
from statemigrate.checkpoint.operators.schemas import FamilySchema, written_v3
from statemigrate.checkpoint.operators.shapes import NoPrefix
from statemigrate.deployment import DeploymentSettings
from statemigrate.errors import CheckpointError
from statemigrate.files.cached import Remembered
from statemigrate.files.open import open_files
from statemigrate.formats import Struct
from statemigrate.migration import Lineage
from statemigrate.native import variables_startup as variables
from statemigrate.native.checkpoint import SparkCheckpoint
from statemigrate.native.chunks import ChunkFiles
from statemigrate.native.control_source import require_control_source
from statemigrate.native.deployment_check import RunOnVariables, begin_run
from statemigrate.native.variables_startup import check_forgetting
from statemigrate.native.worker import NativeHandle
from support.offset_logs import PROCESSOR, put

STORE = "totals"
RETAINED = 2
"""Batches whose state and metadata Spark keeps, besides the newest."""
NAMES = ("rows", "statemigrate_control")
Database = dict[str, dict[str, tuple[Any, ...]]]


class RefusedBySparkError(Exception):
    """Spark refuses to start the query."""


class UserCodeError(Exception):
    """The user's own code raises."""


@dataclass
class Code:
    """A processor that counts rows a key, written for one format of its store."""

    ddl: str
    store: str = STORE
    held: Any = None

    def init(self, handle: Any) -> None:
        self.held = handle.getValueState(self.store, self.ddl)

    def handleInputRows(self) -> None:
        """What `check_forgetting` tells a processor by."""

    def count(self) -> int:
        """One row more for the current key; how many there are now."""
        row = self.held.get()
        is_text = "text" in self.ddl
        before = 0 if row is None else int(row[0].removeprefix("n")) if is_text else row[0]
        found = before + 1
        self.held.update((f"n{found}",) if is_text else (found, "x")[: self.ddl.count(",") + 1])
        return found


class Reader(SparkCheckpoint):
    """Spark's reader over simulated queries, by their checkpoints' paths."""

    queries: Mapping[str, Query] = {}

    def __init__(
        self,
        path: str,
        spark: Any = None,
        *,
        batch: int | None = None,
        operator: int | None = None,
        paged: bool = True,
        files: Remembered | None = None,
    ) -> None:
        self.path, self.files = path, files or Remembered(open_files(path))
        self._spark, self._batch, self._operator = spark, batch, operator
        self._paged = paged
        self._query = self.queries[path]

    def at(self, batch: int) -> Reader:
        return Reader(self.path, batch=batch, paged=self._paged)

    def count(self, variable: str) -> int:
        """How many values Spark's reader finds."""
        batch = self.committed_batch() if self._batch is None else self._batch
        if batch not in self._query.databases or variable not in self.variables(batch):
            raise CheckpointError(
                "SM-CHECKPOINT-003", f"{variable} of batch {batch} is not found by Spark's reader"
            )
        return len(self._query.databases[batch].get(variable, {}))

    def is_empty(self, variable: str) -> bool:
        return not self.count(variable)

    def column_families(self) -> frozenset[str]:
        return frozenset(self._query.databases[self.committed_batch()])

    def check_provider(self) -> None:
        pass

    def check_not_moved(self) -> None:
        pass


class _Variable:
    def __init__(self, query: Query, entries: dict[str, tuple[Any, ...]]) -> None:
        self._query, self._entries = query, entries

    def exists(self) -> bool:
        return self._query.key in self._entries

    def get(self) -> tuple[Any, ...] | None:
        return self._entries.get(self._query.key)

    def update(self, row: tuple[Any, ...]) -> None:
        self._entries[self._query.key] = tuple(row)

    def clear(self) -> None:
        self._entries.pop(self._query.key, None)


class _Handle:
    """Spark's own handle; ``schemas`` are those of what is declared, in order."""

    def __init__(self, query: Query, database: Database) -> None:
        self._query, self._database = query, database
        self.schemas: dict[str, Any] = {}

    def getValueState(self, name: str, schema: Any, ttl: int | None = None) -> _Variable:
        assert ttl is None
        self.schemas[name] = Struct(schema).struct_type() if isinstance(schema, str) else schema
        return _Variable(self._query, self._database.setdefault(name, {}))

    def deleteIfExists(self, name: str) -> None:
        self._database.pop(name, None)


@dataclass
class Query:
    """A query of one source at ``root``, whose sources have names if it is ``named``.

    ``databases`` has the column families of the batches that are kept, and ``inputs`` the keys of
    every batch that was begun. ``chunks`` are keys that a backfill has planned, a batch each.
    """

    root: Path
    lineage: Lineage
    migrations: Path
    named: bool = False
    databases: dict[int, Database] = field(default_factory=dict)
    inputs: dict[int, list[str]] = field(default_factory=dict)
    chunks: list[list[str]] = field(default_factory=list)
    key: str = ""
    _schema_files: int = 0

    def __post_init__(self) -> None:
        put(self.root / "metadata", '{"id":"2b9f2f0e-0000-4000-8000-000000000000"}')

    @property
    def committed(self) -> int:
        return self._newest("commits")

    @property
    def begun(self) -> int:
        return self._newest("offsets")

    @property
    def database(self) -> Database:
        """What is committed."""
        return self.databases.get(self.committed, {})

    def plain(self, batches: list[list[str]], *, control: bool = False, kill: bool = False) -> Any:
        """The release of before migrations, which knows the oldest family alone."""
        code = Code(str(self.lineage.formats[0].ddl))  # type: ignore[attr-defined]
        if control:
            require_control_source(ChunkFiles(str(self.root)))
            ChunkFiles(str(self.root)).create()
            check_forgetting(str(self.root), None, code)
        return self._run(batches, code, control, kill, lambda handle, _batch: handle, _nothing)

    def migrated(
        self,
        revision: str,
        batches: list[list[str]],
        *,
        control: bool,
        kill: bool = False,
        fails: bool = False,
    ) -> Any:
        """A release whose processor is marked, with ``revision`` as its target.

        Where it ``fails`` its own ``init`` ends the run, after the check has noted the start.
        """
        code = Code(str(self.lineage.format_of(revision).ddl))  # type: ignore[attr-defined]
        settings = DeploymentSettings(self.migrations, {STORE: revision}, checkpoint=str(self.root))
        made = variables.checked(code, settings, {STORE: self.lineage})
        if control:
            require_control_source(ChunkFiles(str(self.root)))
            ChunkFiles(str(self.root)).create()
        seen = made.observed
        assert seen is not None

        def plan() -> None:
            begin_run(seen, RunOnVariables(seen, made.records, made.family_names, made.note))
            if fails:
                raise UserCodeError("init raises")

        def handle(spark: _Handle, batch: int) -> NativeHandle:
            return NativeHandle(spark, made, retires=batch == seen.batch + 1)

        return self._run(batches, code, control, kill, handle, plan)

    def _run(  # one run of the query, from its planning to its end
        self,
        batches: list[list[str]],
        code: Code,
        control: bool,
        kill: bool,
        made: Any,
        plan: Any,
    ) -> list[tuple[int, dict[str, int]]]:
        """By committed batch what the code said of each key; the last one is not with ``kill``."""
        self._check_sources(1 + control)
        todo = [self.inputs[self.begun]] if self.begun > self.committed else []
        todo += batches
        said: list[tuple[int, dict[str, int]]] = []
        first = self.committed + 1
        for number, keys in enumerate(todo):
            batch = first + number
            database = copy.deepcopy(self.databases.get(batch - 1, {}))
            self._begin(batch, keys, control)
            if not number:
                plan()
            spark = _Handle(self, database)
            handle = made(spark, batch)
            code.init(handle)
            if not number:
                self._note(batch, spark.schemas)
            answers = self._batch(code, handle, keys, control)
            if kill and number == len(todo) - 1:
                return said
            self._commit(batch, database)
            said.append((batch, answers))
        return said

    def _batch(self, code: Code, handle: Any, keys: list[str], control: bool) -> dict[str, int]:
        """What is said of each key; of a chunk nobody but marked code gets a row."""
        answers = {}
        chunk = self.chunks[0] if self.chunks and control else []
        marked = handle if isinstance(handle, NativeHandle) else None
        for key in keys:
            self.key = key
            if marked is not None:
                marked.visit((key,))
            answers[key] = code.count()
            if marked is not None:
                marked.leave()
        for key in chunk if marked is not None else ():
            self.key = key
            marked.visit((key,))
            marked.migrate()
            marked.leave()
        if chunk:
            self.chunks.pop(0)
        return answers

    def _check_sources(self, sources: int) -> None:
        if self.begun < 0 or self.named:
            return
        found = len((self.root / f"offsets/{self.begun}").read_text().split("\n")[2:])
        if found != sources:
            raise RefusedBySparkError(
                f"[{found}] sources in the checkpoint, {sources} in the query"
            )

    def _begin(self, batch: int, keys: list[str], control: bool) -> None:
        self.inputs[batch] = keys
        metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}})
        lines = [json.dumps({"logOffset": batch})] * (1 + control)
        if self.named:
            lines = [f"{name}:{line}" for name, line in zip(NAMES, lines, strict=False)]
        version = "v2" if self.named else "v1"
        put(self.root / f"offsets/{batch}", "\n".join([version, metadata, *lines]))

    def _commit(self, batch: int, database: Database) -> None:
        put(self.root / f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')
        self.databases[batch] = database
        self.databases = {n: each for n, each in self.databases.items() if n >= batch - RETAINED}
        folder = self.root / "state/0/_metadata/v2"
        runs = sorted(int(each.name) for each in folder.iterdir() if each.name.isdecimal())
        kept = max((run for run in runs if run <= batch - RETAINED), default=-1)
        for run in runs:
            if run < kept:
                (folder / str(run)).unlink()

    def _note(self, batch: int, schemas: Mapping[str, Any]) -> None:
        """What Spark writes when a run plans its first batch."""
        files = self._schemas_before(batch)
        is_same = files and {*self._declared(files[-1])} == {*schemas}
        if not is_same:
            self._schema_files += 1
            name = f"state/0/_stateSchema/default/{batch}_{self._schema_files}"
            key = Struct("key STRING").struct_type().jsonValue()
            found = [
                FamilySchema(each, key, schema.jsonValue(), NoPrefix())
                for each, schema in schemas.items()
            ]
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(written_v3(found))
            files = [*files, f"file:{self.root}/{name}"]
        at = self.root / f"state/0/_metadata/v2/{batch}"
        if at.exists():
            # Of the killed code that had begun this batch.
            return
        variables = [
            {"stateName": name, "stateVariableType": "ValueState", "ttlEnabled": False}
            for name in schemas
        ]
        properties = {"timeMode": "NoTime", "outputMode": "Update", "stateVariables": variables}
        entry = OperatorEntry(
            0, PROCESSOR, (StoreEntry("default", 0, 2, tuple(files)),), json.dumps(properties)
        )
        put(at, entry.data.decode())

    def _schemas_before(self, batch: int) -> list[str]:
        folder = self.root / "state/0/_metadata/v2"
        names = [each.name for each in folder.iterdir()] if folder.exists() else []
        runs = [int(name) for name in names if name.isdecimal() and int(name) < batch]
        if not runs:
            return []
        document = json.loads((folder / str(max(runs))).read_text().partition("\n")[2])
        return list(document["stateStoreInfo"][0]["stateSchemaFilePaths"])

    def _declared(self, uri: str) -> list[str]:
        from statemigrate.checkpoint.operators.schemas import parse_schemas

        path = Path(uri.removeprefix("file:"))
        return [each.name for each in parse_schemas(path.read_bytes(), uri)]

    def _newest(self, log: str) -> int:
        folder = self.root / log
        names = [each.name for each in folder.iterdir()] if folder.exists() else []
        return max((int(name) for name in names if name.isdecimal()), default=-1)


def _nothing() -> None:
    pass
