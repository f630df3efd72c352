"""What a life does to a checkpoint: run a query, backfill or retire it while it is stopped, look.

Each function is called in a child of a nursery, with plain arguments; see `support.crash.nursery`.
A place has the folders ``checkpoint``, ``working``, ``input`` (a file a batch) and ``output``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from statemigrate.budget import BackfillOptions
from statemigrate.checkpoint.epochs import Epoch
from statemigrate.commands.current import read_log
from statemigrate.deployment import DeploymentSettings, Kind, StorePlan, plan_store
from statemigrate.embedded.batches import Batches, Engine, facts_of
from statemigrate.embedded.continuation import last_committed, require_committed
from statemigrate.embedded.embedded_options import EmbeddedOptions
from statemigrate.embedded.layout import (
    DirectoryLock,
    Layout,
    checkpoint_locks,
    remove_stale_copies,
)
from statemigrate.embedded.manifest import Manifest
from statemigrate.embedded.mirror import Mirror
from statemigrate.embedded.offline import stopped
from statemigrate.embedded.restore import open_at
from statemigrate.embedded.task import EmbeddedHandle
from statemigrate.embedded.task_plan import BatchSchema, working_copy
from statemigrate.embedded.versions import claim
from statemigrate.event_log.events import Stamp
from statemigrate.event_log.log import LogEvents, Note, planned_revisions, unknown
from statemigrate.families import Span
from statemigrate.processor.handle import declared_variables
from statemigrate.processor.keys import TupleKeyCodec
from support.histories.processor import KEY, OUTPUT, ROWS, USER_KEY, Obedient
from support.histories.tables import ByTables
from support.histories.values import FORMATS, STORES, lineage, shown
from support.histories.without_spark import Rows, Session, local


@dataclass(frozen=True)
class Deployment:
    """Code and options that a query is deployed with; ``stores`` are names of `STORES`."""

    stores: tuple[str, ...]
    revision: str
    partitions: int = 1
    snapshot_every: int = 2
    retain: int = 2
    backfill: bool = True
    chunk: int = 1_000
    retire: bool = True
    write_on_read: bool = True
    tables: bool = False
    """Whether its code takes many keys at once."""

    @property
    def kinds(self) -> dict[str, Kind]:
        return {store: STORES[store] for store in self.stores}

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Deployment:
        return cls(**{**document, "stores": tuple(document["stores"])})


def prepare() -> None:
    """In a prepared process: import what lives import late; their logs are not to be printed."""
    logging.disable(logging.CRITICAL)
    for name in ("pyarrow.ipc", "pandas", "pyspark.sql.conversion", "pyspark.sql.types"):
        import_module(name)
    import_module("rocksdict")
    import_module("fastavro")
    for store in STORES:
        lineage(store)


def run(root: str, deployed: dict[str, Any]) -> None:
    """Start the query, let it finish what is in its input, stop it."""
    place = Path(root)
    run_at(Layout.of(place / "checkpoint"), place, Deployment.from_json(deployed))


def run_at(layout: Layout, place: Path, deployment: Deployment) -> None:
    """As `run`, of a checkpoint that may be elsewhere; ``place`` has all but the checkpoint."""
    with _locked(layout, place / "working"):
        engine = _engine(place, deployment, claim(layout))
        committed = last_committed(layout)
        note = whole_start(_planned(deployment, committed))
        note.start(layout.files, _next(layout), facts_of(committed))
        if unknown(LogEvents(layout.files), facts_of(committed), is_whole_query=True):
            raise AssertionError("a start has not told the log all that the state has")
        batches = Batches(engine, partial(_planned, deployment))
        session = Session()
        for batch in range(_next(layout), len(list((place / "input").iterdir()))):
            _log(layout, batch)
            batches.run(_rows(place, session, batch), batch)
            layout.files.create(f"commits/{batch}", b'v1\n{"nextBatchWatermarkMs":0}')
        batches.close()
        _compare_log(layout)


def whole_start(plans: dict[str, StorePlan]) -> Note:
    """What the log records of a start with ``plans``, as that of an embedded query does."""
    return Note(STAMP, planned_revisions(plans), is_whole_query=True)


def _compare_log(layout: Layout) -> None:
    """What the log says last of each store is what the last committed version has.

    It may not know yet of a family that was dropped: that ends no batch.
    """
    manifest = last_committed(layout)
    if manifest is None:
        return
    entries = read_log(layout.files, manifest.version).entries
    for store, facts in facts_of(manifest).stores.items():
        told = next(each for each in entries if each.store == store and each.took_place)
        if told.revision != facts.revision or not set(facts.families) <= set(told.families):
            raise AssertionError(f"the log says {told}, and the state has {facts}")


def run_believing(root: str, deployed: dict[str, Any]) -> None:
    """As `run`, by an engine that believes a working copy whatever became of it."""
    from statemigrate.embedded import restore

    restore.withdraw = lambda _copy: None
    restore.proven_state = _claimed
    run(root, deployed)


def run_proving(root: str, deployed: dict[str, Any]) -> None:
    """As `run`, by an engine that takes any state for one too large to be read in a batch."""
    from statemigrate.embedded import (
        snapshot_verification as proving,
    )
    from statemigrate.embedded import (
        snapshot_verification as recount,
    )

    recount._SMALL = 0
    proving._RECORDS_A_STEP = 4
    run(root, deployed)


def _claimed(copy: Path) -> str | None:
    from statemigrate.embedded.durable import read_document
    from statemigrate.embedded.restore import INTEGRITY_MARKER

    return (
        read_document(copy / INTEGRITY_MARKER)["state"]
        if (copy / INTEGRITY_MARKER).is_file()
        else None
    )


def backfill(root: str, deployed: dict[str, Any]) -> None:
    """Migrate all that is left, and drop what is empty then, as the command does."""
    place, deployment = Path(root), Deployment.from_json(deployed)
    layout = Layout.of(place / "checkpoint")
    with stopped(layout, working_directory=place / "working") as query:
        query.backfill(_plans(deployment, layout))
    if deployment.retire:
        with stopped(layout, working_directory=place / "working") as query:
            query.retire(_plans(deployment, layout))


def repair(root: str, deployed: dict[str, Any]) -> dict[str, Any]:
    """Repair the stopped query, as the command does."""
    from statemigrate.commands.repair import repair as make_whole

    del deployed
    place = Path(root)
    found = make_whole(place / "checkpoint", apply=True, working_directory=place / "working")
    return found.to_json()


def look(root: str, where: str) -> dict[str, Any]:
    """The last committed version, and every entry of every family, through copies in ``where``."""
    return look_at(Layout.of(Path(root) / "checkpoint"), where)


def look_at(layout: Layout, where: str) -> dict[str, Any]:
    """As `look`, at a checkpoint that may be elsewhere."""
    manifest = require_committed(layout)
    layout = layout.within(Path(where))
    Mirror(layout).bring(manifest.partitions)
    found = []
    for number, state in enumerate(manifest.partitions):
        database = open_at(state, layout.partition(number), working_copy(where, number))
        try:
            for name in sorted(database.families):
                found += _entries(name, database.column(name))
        finally:
            database.close()
    return {"version": manifest.version, "entries": found}


def _entries(family: str, column: Any) -> list[tuple[str, str, int, int, str]]:
    from statemigrate.embedded.rocksdb_families import family_class

    store, _, revision = family.partition("@")
    revision = revision or "base"
    kind = STORES[store]
    opened = family_class(kind)(
        family,
        revision,
        FORMATS[revision],
        column=column,
        write=lambda _key, _before, _value: None,
        write_many=lambda _keys, _before, _values: None,
    )
    found = []
    for data, value in opened.scan(Span()):
        (key,), rest = TupleKeyCodec(KEY).split(data)
        user = TupleKeyCodec(USER_KEY).decode(rest)[0] if kind == "map" else 0
        found.append((store, revision, key, user, shown(value)))
    opened.release()
    return found


def _log(layout: Layout, batch: int) -> None:
    """Spark's own record of a batch, written before it is run and kept when it is run again."""
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1_000 + batch, "conf": {}}
    text = f'v1\n{json.dumps(metadata)}\n{{"logOffset":{batch}}}'
    layout.files.create(f"offsets/{batch}", text.encode())


def _engine(place: Path, deployment: Deployment, epoch: Epoch) -> Engine:
    return Engine(
        layout=Layout.over(epoch.files).within(place / "working"),
        working=str(place / "working"),
        processor=_processor(deployment),
        schema=BatchSchema(ROWS, KEY, (0,), OUTPUT),
        settings=_settings(deployment),
        options=EmbeddedOptions(
            partitions=deployment.partitions,
            snapshot_every=deployment.snapshot_every,
            retain=deployment.retain,
            retire_drained=deployment.retire,
            backfill=BackfillOptions(
                enabled=deployment.backfill,
                initial_rows=deployment.chunk,
                maximum_rows=deployment.chunk,
                idle_milliseconds=600_000,
                minimum_milliseconds=600_000,
            ),
            working_directory=str(place / "working"),
        ),
        sink=lambda frame, batch: _sink(place, frame, batch),
        frames=local,
        epoch=epoch,
        stamp=STAMP,
    )


def _processor(deployment: Deployment) -> Any:
    by_key = Obedient(deployment.kinds, deployment.revision)
    return ByTables(by_key) if deployment.tables else by_key


STAMP = Stamp("tried", "nobody", "0", None)


def _settings(deployment: Deployment) -> DeploymentSettings:
    targets = dict.fromkeys(deployment.stores, deployment.revision)
    return DeploymentSettings(targets=targets, write_on_read=deployment.write_on_read)


def _next(layout: Layout) -> int:
    """The batch that Spark runs next: the last one again where it was not committed."""
    return 1 + max((int(each.base_name) for each in layout.files.list("commits")), default=-1)


def _plans(deployment: Deployment, layout: Layout) -> dict[str, StorePlan]:
    return _planned(deployment, last_committed(layout))


def _planned(deployment: Deployment, committed: Manifest | None) -> dict[str, StorePlan]:
    stored = {} if committed is None else committed.stored_stores()
    processor = _processor(deployment)
    return {
        each.store: plan_store(
            each, lineage(each.store), stored.get(each.store), _settings(deployment)
        )
        for each in declared_variables(processor, EmbeddedHandle)
    }


def _rows(place: Path, session: Session, batch: int) -> Rows:
    commands = json.loads((place / "input" / str(batch)).read_text())
    return Rows(session, (tuple((key, json.dumps(each)) for key, each in commands),))


def _sink(place: Path, frame: Any, batch: int) -> None:
    rows = sorted((row["key"], json.loads(row["read"])) for row in frame.rows())
    (place / "output" / str(batch)).write_text(json.dumps(rows))


@contextmanager
def _locked(layout: Layout, working: Path) -> Iterator[None]:
    locks = checkpoint_locks(layout)
    locks.append(DirectoryLock(working / "lock", "the working directory"))
    remove_stale_copies(working)
    if layout.remote is None:
        layout.heartbeat.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for lock in locks:
            lock.release()
