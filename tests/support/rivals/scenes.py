"""What rivals do to one checkpoint, and what has to be so once all have ended, whatever the order.

A scene is prepared once and played many times. `play` makes two drivers do what it says, and raises
`WrongError` where an ending is none of those that are allowed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch
from uuid import UUID

from pyspark.sql.types import StructType

from statemigrate.checkpoint import epochs
from statemigrate.checkpoint.epochs import EPOCHS, epoch_name, newest_epoch
from statemigrate.checkpoint.shape import describe
from statemigrate.deployment import DeploymentSettings
from statemigrate.embedded.batches import Batches, facts_of
from statemigrate.embedded.continuation import next_start, require_committed
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.offline import StoppedQuery
from statemigrate.embedded.versions import claim
from statemigrate.errors import CheckpointInUseError, RewriteError, StartupError
from statemigrate.event_log.log import Note
from statemigrate.files import Files, LocalFiles
from statemigrate.files.documents import unsealed
from statemigrate.native.decorator import fenced
from statemigrate.native.deployment_check import (
    ObservedCheckpoint,
    Run,
    RunOnVariables,
    StoreRecord,
    begin_run,
    read_record,
)
from statemigrate.pages.deployed_pages import PagedDeployment, RunOnPages
from statemigrate.pages.record import PagesRecord, read_pages_record
from statemigrate.rewrite.claims import is_claim
from statemigrate.rewrite.origin import Target
from statemigrate.rewrite.rewrite_plan import make_plan
from statemigrate.rewrite.run import publish_shape
from statemigrate.rewrite.sources import RewriteOptions
from support.histories import lives
from support.histories.bucket import OLD, Place
from support.histories.model import Model
from support.histories.scenes import changes, first_values
from support.histories.without_spark import Session
from support.object_store import MemoryFiles, ObjectStore
from support.rivals.scheduler import Alone, Choices, InOrder, Rivals
from support.rivals.spark_logs import QUERY, ConcurrentUpdateError, SparkLogs
from support.spark_checkpoints import aggregation


class WrongError(AssertionError):
    """An order of operations that ends as it must not."""


class Scene(Protocol):
    """Drivers that come to the same files."""

    def play(self, choices: Choices) -> Rivals:
        """Let them, from the same beginning each time. Raises `WrongError`."""


@dataclass(frozen=True)
class Handed:
    """A call of a sink: by whom, under which epoch of its own, which was the newest one then."""

    driver: int
    own: int
    newest: int
    batch: int
    rows: Any


def expect(holds: bool, rivals: Rivals, said: str) -> None:
    """Raise `WrongError`, with the order of operations, unless something holds."""
    if not holds:
        order = "\n  ".join(map(str, rivals.operations))
        raise WrongError(f"{said}\nin this order:\n  {order}")


def _check_handed(rivals: Rivals, handed: Sequence[Handed], rows: Callable[[int], Any]) -> None:
    """Nobody wrote once another had begun, and whoever wrote a batch wrote the same rows."""
    for each in handed:
        expect(each.own == each.newest, rivals, f"a fenced driver has called its sink: {each}")
        wanted = rows(each.batch)
        expect(each.rows == wanted, rivals, f"{each}, and its rows are {wanted}")


def _check_ends(rivals: Rivals, ends: Sequence[Any], began: dict[int, int]) -> None:
    """One goes on, or had come to its end; every other one says why it does not."""
    allowed = (CheckpointInUseError, ConcurrentUpdateError, StartupError)
    for each in ends:
        expect(each.error is None or isinstance(each.error, allowed), rivals, repr(each.error))
        # It is the right checkpoint, and nobody is to correct it.
        misleads = "is not the checkpoint" in str(each.error)
        expect(not misleads, rivals, str(each.error))
    if all(each.error is not None for each in ends):
        # The one before committed a batch in Spark's log between its last look and the commit.
        last = max(began, key=lambda number: began[number], default=0)
        by_spark = isinstance(ends[last].error, ConcurrentUpdateError | StartupError)
        expect(by_spark, rivals, f"nobody goes on: {[repr(each.error) for each in ends]}")


def _number(files: Files) -> int:
    return max((int(e.base_name.removesuffix(".json")) for e in files.list(EPOCHS)), default=0)


class EmbeddedStarts:
    """Two starts of one query of the embedded engine on a bucket: each runs all batches.

    With ``command`` the second one is a command that migrates the state of a stopped query.
    """

    def __init__(self, folder: Path, batches: int = 1, *, command: bool = False) -> None:
        self._folder, self._command = folder, command
        self._deployment = replace(
            OLD, stores=("notes",), revision="r1", partitions=1, chunk=3, snapshot_every=50
        )
        first = replace(self._deployment, revision="base")
        self._staged = Place(folder / "staged", ObjectStore(), Model())
        self._staged.feed(first_values(first.stores))
        self._staged.run(first)
        self._staged.version = 0
        self._staged.model.batch(first_values(first.stores), "base", first.stores)
        self._staged.feed(*[changes(first.stores)] * batches)
        self._until = batches + 1
        alone = self._staged.copied(folder / "alone")
        alone.run(self._deployment)
        self._rows = {
            batch: json.loads((folder / "alone/output" / str(batch)).read_text())
            for batch in range(1, self._until)
        }

    def play(self, choices: Choices) -> Rivals:
        """See `Scene`."""
        places = [self._staged.copied(self._folder / name) for name in ("first", "second")]
        files = MemoryFiles(places[0].store)
        handed: list[Handed] = []
        began: dict[int, int] = {}
        rivals = Rivals(files, choices)
        bodies = [
            partial(self._backfill if number and self._command else self._start,
                    number, place, rivals, files, handed, began)
            for number, place in enumerate(places)
        ]  # fmt: skip
        with repeatable():
            ends = rivals.run(*bodies)
        _check_handed(rivals, handed, self._rows.__getitem__)
        _check_ends(rivals, ends, began)
        self._go_on(rivals, places[0])
        return rivals

    def _start(
        self,
        number: int,
        place: Place,
        rivals: Rivals,
        store: MemoryFiles,
        handed: list[Handed],
        began: dict[int, int],
    ) -> None:
        """`EmbeddedQuery.start`, and what Spark does then."""
        layout = Layout(place.root / "working" / "mirror", rivals.files(number))
        (place.root / "working").mkdir(exist_ok=True)
        deployment = self._deployment
        batch, committed = next_start(layout)
        epoch = claim(layout)
        began[number] = epoch.number
        note = lives.whole_start(lives._planned(deployment, committed))
        note.start(layout.files, batch, facts_of(committed))

        def sink(frame: Any, batch: int) -> None:
            rows = sorted([row["key"], json.loads(row["read"])] for row in frame.rows())
            handed.append(Handed(number, epoch.number, _number(store), batch, rows))
            # The sink takes its time.
            rivals.operation(number, "sink", str(batch))

        engine = replace(lives._engine(place.root, deployment, epoch), sink=sink)
        batches = Batches(engine, partial(lives._planned, deployment))
        logs = SparkLogs(layout.files, f"driver {number}")
        session = Session()
        for each in logs.batches(self._until):
            logs.begin(each)
            batches.run(lives._rows(place.root, session, each), each)  # type: ignore[arg-type]
            logs.commit(each)

    def _backfill(
        self,
        number: int,
        place: Place,
        rivals: Rivals,
        _store: MemoryFiles,
        _handed: list[Handed],
        began: dict[int, int],
    ) -> None:
        """`stopped` without the sign that a query gives each half minute, which may be late."""
        layout = Layout(place.root / "working" / "mirror", rivals.files(number))
        working = place.root / "working"
        working.mkdir(exist_ok=True)
        require_committed(layout)
        epoch = claim(layout)
        began[number] = epoch.number
        manifest = require_committed(layout, before=epoch.number)
        query = StoppedQuery(epoch, manifest, working)
        plans = lives._planned(self._deployment, manifest)
        query.backfill(plans)
        query.retire(plans)

    def _go_on(self, rivals: Rivals, place: Place) -> None:
        """The next start finishes what is left, and all values are those of the model."""
        place.lose_machine()
        ends = Rivals(MemoryFiles(place.store), Alone())
        handed: list[Handed] = []
        with repeatable():
            (end,) = ends.run(
                partial(self._start, 0, place, ends, MemoryFiles(place.store), handed, {})
            )
        expect(end.error is None, rivals, f"the next start ends in {end.error!r}")
        _check_handed(rivals, handed, self._rows.__getitem__)
        if self._command:
            place.model.may_migrate(self._deployment.stores, "r1")
        try:
            place.compare(self._deployment)
        except AssertionError as error:
            expect(False, rivals, f"the state is not the model's: {error}")
        expect(place.version == self._until - 1, rivals, f"batch {place.version} is the last")


class NativeStarts:
    """Two starts on Spark's own state, of code for different families, with a fenced sink."""

    def __init__(self, batches: int = 1) -> None:
        self._until = batches + 1

    def play(self, choices: Choices) -> Rivals:
        """See `Scene`."""
        files = MemoryFiles.holding({"metadata": json.dumps({"id": QUERY}).encode()})
        before = SparkLogs(files, "before")
        before.begin(0)
        before.commit(0)
        handed: list[Handed] = []
        began: dict[int, int] = {}
        rivals = Rivals(files, choices)
        local = threading.local()
        named = patch("statemigrate.native.decorator.this_driver", lambda: local.name)
        with repeatable(), named:
            ends = rivals.run(*(
                partial(self._start, number, rivals, files, handed, began, local)
                for number in range(2)
            ))  # fmt: skip
        _check_handed(rivals, handed, lambda batch: f"rows of batch {batch}")
        _check_ends(rivals, ends, began)
        if began:
            last = max(began, key=lambda number: began[number])
            noted = self._recorded(files)
            whose = f"the record is that of {noted}, and {last} has begun last"
            expect(noted == f"deployment {last}", rivals, whose)
        return rivals

    def _start(
        self,
        number: int,
        rivals: Rivals,
        store: MemoryFiles,
        handed: list[Handed],
        began: dict[int, int],
        local: threading.local,
    ) -> None:
        files = rivals.files(number)
        local.name = f"driver {number}"
        seen = ObservedCheckpoint(
            files.location, QUERY, 0, f"deployment {number}", lent=files, driver=local.name
        )
        run = self._run(number, seen)

        def write(_rows: Any, batch: int) -> None:
            own = began[number]
            rows = f"rows of batch {batch}"
            handed.append(Handed(number, own, _number(store), batch, rows))
            rivals.operation(number, "sink", str(batch))

        sink = fenced(write, checkpoint=files)  # type: ignore[arg-type]
        logs = SparkLogs(files, local.name)
        has_begun = False
        for batch in logs.batches(self._until):
            logs.begin(batch)
            if not has_begun:
                begin_run(seen, run)
                began[number] = _own_epoch(store, local.name)
                has_begun = True
            sink(None, batch)  # type: ignore[arg-type]
            logs.commit(batch)

    def _run(self, number: int, seen: ObservedCheckpoint) -> Run:
        """What a driver begins with."""
        record = StoreRecord((f"totals@{number}", "totals"), 0, {}, seen.deployment)
        return RunOnVariables(seen, {"totals": record}, lambda name: (name,), Note(lives.STAMP))

    def _recorded(self, files: Files) -> str:
        """Whose record there is at the end."""
        return read_record(files)["totals"].deployment


class PagedStarts(NativeStarts):
    """Two starts on pages, of code for different numbers of pages, with a fenced sink."""

    def _run(self, number: int, seen: ObservedCheckpoint) -> Run:
        key = StructType().add("key", "string")
        there = read_pages_record(seen.files)
        record = PagesRecord(4 + number, key.jsonValue(), {}, seen.deployment)
        before = None if there is None else there.deployment
        note = Note(lives.STAMP, {})
        settings = DeploymentSettings()
        return RunOnPages(PagedDeployment(key, (0,), key, {}, settings, seen, record, note, before))

    def _recorded(self, files: Files) -> str:
        record = read_pages_record(files)
        assert record is not None
        return record.deployment


def _own_epoch(store: MemoryFiles, driver: str) -> int:
    numbers = range(newest_epoch(store), 0, -1)
    return next(
        each for each in numbers
        if unsealed(store.get(epoch_name(each)), "an epoch")["driver"] == driver
    )  # fmt: skip


class Rewrites:
    """Two rewrites into one directory, of other numbers of partitions, but for their rows."""

    def __init__(self, folder: Path) -> None:
        self._old = LocalFiles(aggregation(folder / "old"))
        shape = describe(self._old)
        self._partitions = (3, 5)
        self._plans = [
            make_plan(shape, None, RewriteOptions(partitions=each)) for each in self._partitions
        ]
        self._alone = []
        for number in range(2):
            files = MemoryFiles()
            self._make(number, files)
            self._alone.append(files.content)

    def play(self, choices: Choices) -> Rivals:
        """See `Scene`."""
        files = MemoryFiles()
        rivals = Rivals(files, choices)
        with repeatable():
            ends = rivals.run(*(partial(self._make, n, rivals.files(n)) for n in range(2)))
        won = [number for number, each in enumerate(ends) if each.error is None]
        errors = [each.error for each in ends if each.error is not None]
        expect(len(won) == 1, rivals, f"{len(won)} are done: {errors}")
        named = isinstance(errors[0], CheckpointInUseError | RewriteError)
        expect(named, rivals, repr(errors[0]))
        # Whoever came when all was done leaves no more than that it has come and gone.
        found = {name: data for name, data in files.content.items() if not is_claim(name)}
        expect(found == self._alone[won[0]], rivals, "what is there is not the winner's")
        return rivals

    def _make(self, number: int, files: Files) -> None:
        """A whole rewrite, but that rows are neither read nor written."""
        plan = self._plans[number]
        with Target(files, plan.fingerprint, self._old.location).begun() as made:
            made.require_own()
            made.files.delete_folder("state/0")
            for partition in range(self._partitions[number]):
                made.files.put(f"state/0/{partition}/4.snapshot", f"of plan {number}".encode())
            made.finish(0, ())
            publish_shape(plan.new, made.files, ())
            made.publish(self._old.get("metadata"))


@contextmanager
def repeatable() -> Iterator[None]:
    """No threads but the drivers', and names that are the same each time."""
    numbers = count(1)
    with ExitStack() as stack:
        stack.enter_context(patch("uuid.uuid4", lambda: UUID(int=next(numbers) << 64)))
        for home in ("statemigrate.files.protocol", "statemigrate.embedded.mirror"):
            stack.enter_context(patch(f"{home}.ThreadPoolExecutor", InOrder))
        yield


class Epochs:
    """Three drivers begin an epoch at one moment, and leave a document: the shortest scene."""

    def __init__(self, drivers: int = 2) -> None:
        self._drivers = drivers

    def play(self, choices: Choices) -> Rivals:
        """See `Scene`."""
        files = MemoryFiles()
        rivals = Rivals(files, choices)
        with repeatable():
            ends = rivals.run(
                *(partial(self._begin, n, rivals.files(n)) for n in range(self._drivers))
            )
        errors = [each.error for each in ends if each.error is not None]
        named = all(isinstance(each, CheckpointInUseError) for each in errors)
        expect(named and len(errors) < self._drivers, rivals, repr(errors))
        last = newest_epoch(files)
        left = files.get("left").decode()
        driver = unsealed(files.get(epoch_name(last)), "an epoch")["driver"]
        expect(driver == left, rivals, f"{left} has written last, and {driver} has begun last")
        return rivals

    def _begin(self, number: int, files: Files) -> None:
        name = f"driver {number}"
        epochs.claim(files, name, leaves={"left": name}).leave()
