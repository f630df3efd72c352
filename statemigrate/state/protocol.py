"""A checkpoint's committed state, whichever engine wrote it."""

from __future__ import annotations

import base64
import json
import re
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from statemigrate.deployment import (
    Declared,
    DeploymentSettings,
    StoredFamily,
    StoredStore,
    StorePlan,
    plan_store,
)
from statemigrate.errors import CheckpointError, StartupError, StatemigrateError, did_you_mean
from statemigrate.files import Files
from statemigrate.formats import Value
from statemigrate.migration import Lineage
from statemigrate.state.project import Project

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from statemigrate.formats import Format


# Values where they are, and the tasks that are run over them there.
#
# A task travels to the workers that read the values, is called for each part of them that one
# worker has, and what it says of a part comes back as a JSON document. Nothing else of the values
# moves.


Tick = Callable[[int], None]
"""Gets, from time to time, how many values have been read so far."""
Document = dict[str, Any]
"""What JSON can hold."""


def no_tick(done: int) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Share:
    """``take`` of ``of`` things, evenly spread."""

    take: int
    of: int

    def picks(self, index: int) -> bool:
        """Whether the one at ``index`` is among them."""
        return (index + 1) * self.take // self.of > index * self.take // self.of

    @property
    def is_all(self) -> bool:
        """Whether it is all of them."""
        return self.take == self.of


ALL = Share(1, 1)
Shares = Mapping[str, Mapping[int, Share]]
"""By family and partition, the part that is read; all of it where there is no entry."""


@dataclass(frozen=True)
class Block:
    """Some values: for each its key, and the bytes that the family's format writes.

    ``plain`` makes the values, where there is a quicker way than to read the bytes.
    """

    keys: Sequence[Any]
    stored: Sequence[bytes]
    plain: Callable[[], Sequence[Value]] | None = None

    def values(self, fmt: Format) -> Iterator[tuple[Any, bytes, Value]]:
        """Each value with its key and its bytes, which are of ``fmt``; it may be changed."""
        plain = fmt.decode_many(self.stored) if self.plain is None else self.plain()
        return zip(self.keys, self.stored, plain, strict=True)


@dataclass
class Part:
    """The values of one family that one worker reads, a block at a time.

    A key is as the engine has it; ``shown`` turns it into the tuple that a user knows. ``seen``
    counts what was passed, read or left out.
    """

    family: str
    format: Format
    shown: Callable[[Any], tuple[Any, ...]]
    blocks: Iterator[Block] = field(default_factory=lambda: iter(()))
    seen: int = 0

    @property
    def values(self) -> Iterator[tuple[Any, bytes, Value]]:
        """Each value with its key and its bytes; the value may be changed."""
        for block in self.blocks:
            yield from block.values(self.format)


Task = Callable[[Part], Document]
"""What is done with a part. It must travel to workers, and consume all of the part's values."""


class Values(Protocol):
    """The values of some families."""

    def map(
        self, task: Task, *, shares: Shares | None = None, tick: Tick = no_tick
    ) -> Iterator[tuple[str, Document]]:
        """Run ``task`` over them, in parallel, on Spark; a family and a document for each part.

        ``shares`` says what of them the task sees. Raises what the task raises.
        """


Entry = tuple[tuple[Any, ...], Any]
Suspect = tuple[str, tuple[Any, ...], Any, bool]
"""A family, a key, its value there, and whether a backfill has marked it as failed."""


@dataclass(frozen=True)
class Collisions:
    """Of ``entries`` how many different ``keys`` they have, and how many of these several have.

    ``examples`` are a few of the latter as bytes, each with the number of entries that have it.
    """

    entries: int
    keys: int
    met: int
    examples: tuple[tuple[bytes, int], ...] = ()


class State(Protocol):
    """The stores of a checkpoint as of one committed batch; nothing is ever written."""

    engine: str
    operator: str | None
    """The name of the operator on pages that is reported, empty if it has none; None without."""
    checkpoint: str
    files: Files
    """The checkpoint's; of Spark's own state as they were when they were first read."""
    batch: int
    """The id of the last committed batch."""
    can_be_rewritten: bool
    """Whether `rewrite` makes a new checkpoint of it, and so runs scripts that no query can."""
    counts_target: bool
    """Whether it is noted somewhere how many values are in the target's family."""
    target_is_deployed: bool
    """Whether a store's target is what the last deployment wrote, with no other note of that."""
    keeps_control_source: bool
    """Whether its backfill source is there from the first batch on, and cannot be taken out."""

    def key_of(self, store: str) -> StructType:
        """The type of a store's keys: what the query groups by, or what the operator does."""

    @property
    def stores(self) -> Mapping[str, StoredStore]:
        """What is stored, by name."""

    @property
    def operator_stores(self) -> Set[str]:
        """The names of those that are the state of Spark's own operators."""

    def counts(self, store: str, *, but: str = "") -> Mapping[str, Mapping[int, int]]:
        """The values in each family, by partition; ``but`` names one to leave out.

        A list's elements count one by one.
        """

    def pages_with(self, families: Sequence[str]) -> int | None:
        """How many pages have values of these families, at most; None of state without pages."""

    def quarantined(self, store: str) -> Mapping[str, int] | None:
        """By family, the keys that a backfill could not migrate; None where that is not noted."""

    def earlier(self, families: Sequence[str]) -> tuple[float, int] | None:
        """What these families held some batches before, and how many seconds before.

        None where that is not noted.
        """

    def entries(self, plan: StorePlan, key: tuple[Any, ...] | None = None) -> Iterator[Entry]:
        """Every key once with its value in the target's format; only keys that begin with ``key``.

        Raises `TransformError` for a value that does not migrate.
        """

    def values(self, plan: StorePlan, families: Sequence[StoredFamily]) -> Values:
        """The values of some families of ``plan``'s store, where they are, as they are."""

    def keys_after(
        self,
        plan: StorePlan,
        family: StoredFamily,
        keys: Callable[[Iterator[Any]], Iterator[bytes]],
    ) -> Collisions:
        """How often ``keys`` gives the same bytes for rows and plain values of a family.

        Raises `UnsupportedError` on the embedded engine, whose checkpoint is not rewritten.
        """

    def suspects(self, plan: StorePlan) -> Iterator[Suspect]:
        """Values in families other than the target's that a backfill may have left behind."""

    def close(self) -> None:
        """Let go of what reading needed."""


def reported_stores(state: State, scripted: Collection[str]) -> Mapping[str, StoredStore]:
    """The stores that are reported where none is named.

    Where a query has stores of its own, the state of Spark's own operators in the query counts only
    if it is ``scripted``: nobody who migrates live has to do with it.
    """
    found = state.stores
    theirs = state.operator_stores
    if theirs >= found.keys():
        return found
    return {name: each for name, each in found.items() if name not in theirs or name in scripted}


def stored_store(state: State, store: str) -> StoredStore:
    """What ``state`` holds of a store. Raises `CheckpointError` if there is none of that name."""
    stores = state.stores
    if store not in stores:
        raise no_such_store(state.checkpoint, store, stores)
    return stores[store]


def no_such_store(checkpoint: str, store: str, stores: Iterable[str]) -> CheckpointError:
    """The checkpoint holds other stores."""
    stores = list(stores)
    return CheckpointError(
        "SM-STATE-033",
        f"the checkpoint {checkpoint} has no store {store}",
        expected=f"one of {', '.join(stores) or 'none: its state is empty'}",
        found=store,
        next_action=f"name a store of this checkpoint{did_you_mean(store, stores)}",
        path=checkpoint,
    )


def planned(
    state: State,
    store: str,
    lineages: Mapping[str, Lineage],
    project: Project,
    *,
    rewrites: bool = False,
) -> StorePlan:
    """How code written for the project's target would access the store.

    Raises `StartupError` as that code's start would; with ``rewrites``, not for scripts that are
    for a rewrite alone.
    """
    stored = stored_store(state, store)
    lineage = lineages.get(store)
    target = stored.target.format
    if lineage is not None:
        target = lineage.format_of(lineage.resolve(project.targets.get(store, "head")))
    elif len({family.revision for family in stored.families}) > 1:
        raise unscripted(state.checkpoint, store)
    declared = Declared(store, stored.kind, target, _struct(stored.user_key))
    settings = DeploymentSettings(targets=project.targets, accept_edited=project.accept_edited)
    return plan_store(declared, lineage, stored, settings, rewrites=rewrites)


def _struct(document: dict[str, Any] | None) -> StructType | None:
    if document is None:
        return None
    from pyspark.sql.types import StructType

    return StructType.fromJson(document)


def unscripted(checkpoint: str, store: str) -> StartupError:
    """A store has values of several revisions, and there are no scripts for it."""
    return StartupError(
        "SM-START-031",
        f"store {store} of {checkpoint} has been migrated, and there is no script for it",
        expected=f"the scripts of store {store}",
        found="none",
        next_action="name the folder of this query's scripts with --migrations",
        store=store,
    )


# Errors of tasks, raised again at the driver: Spark itself hands over only their text.


_CARRIED_ERROR = re.compile(r"statemigrate-error-([A-Za-z0-9+/=]+)-end")
Batches = Callable[[Iterable[Any]], Iterator[Any]]


class WorkerError(RuntimeError):
    """Carries an error of this package through Spark."""


class CarriesErrors:
    """A function for ``mapInArrow``; see `reraising_worker_errors` for its errors."""

    def __init__(self, function: Batches) -> None:
        self._function = function

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """What the function makes of batches."""
        try:
            yield from self._function(batches)
        except StatemigrateError as error:
            document = json.dumps(error.to_json()).encode()
            raise WorkerError(
                f"[{error.code}] statemigrate-error-{base64.b64encode(document).decode()}-end"
            ) from error


@contextmanager
def reraising_worker_errors() -> Iterator[None]:
    """Raise the error that a task reported in place of Spark's."""
    try:
        yield
    except StatemigrateError:
        raise
    except Exception as error:
        found = _CARRIED_ERROR.search(str(error))
        if found is None:
            raise
        raise StatemigrateError.from_json(json.loads(base64.b64decode(found[1]))) from error


# How far the tasks of a Spark job are, seen from outside while they run on this machine.


_EVERY = 8_192
_SECONDS = 0.25


@dataclass(frozen=True)
class Ticks:
    """Where tasks note how many values they have read: a small file for each.

    Spark tells of a task's accumulators only when it has ended. On another machine than the
    driver's the notes are lost, and nothing but the progress shown depends on them.
    """

    directory: Path

    def count(self, task: int, index: int) -> None:
        """Note that the task is at ``index``; most calls do nothing."""
        if index % _EVERY == _EVERY - 1:
            self.directory.mkdir(parents=True, exist_ok=True)
            noted = self.directory / str(task)
            before = int(noted.read_text() or 0) if noted.exists() else 0
            noted.write_text(str(before + _EVERY))

    def total(self) -> int:
        """What all tasks have noted; a file that is just being written counts for nothing."""
        return sum(int(path.read_text() or 0) for path in self.directory.glob("*"))


@contextmanager
def ticking(tick: Tick) -> Iterator[Ticks]:
    """Call ``tick`` a few times a second with what the tasks have noted, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="statemigrate-ticks-") as directory:
        ticks, done = Ticks(Path(directory)), threading.Event()
        thread = threading.Thread(target=_follow, args=(ticks, tick, done), daemon=True)
        thread.start()
        try:
            yield ticks
        finally:
            done.set()
            thread.join()


def _follow(ticks: Ticks, tick: Tick, done: threading.Event) -> None:
    while not done.wait(_SECONDS):
        tick(ticks.total())
