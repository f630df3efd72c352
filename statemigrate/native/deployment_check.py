"""What a start-up check saw of a checkpoint, and whether the query still runs on that.

What deployments on a checkpoint left there about themselves: families, and applied scripts.

A small JSON file in the checkpoint, which Spark passes over. It holds what Spark's own metadata
cannot tell: the checksum each script had when it was deployed, and families that code without
statemigrate no longer declared, so that Spark forgot them while their values are still there.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args
from uuid import uuid4

from statemigrate.checkpoint import CheckpointDirectory, Fence, claim, this_driver
from statemigrate.checkpoint.logs import batches_in, names_in
from statemigrate.deployment import Call, is_family_of, recorded_call, revision_in
from statemigrate.errors import (
    CheckpointInUseError,
    CorruptFileError,
    StartupError,
    UnsupportedError,
)
from statemigrate.event_log import Facts, Note, StoreRevision
from statemigrate.files import (
    Files,
    LocalFiles,
    PathOrFiles,
    Remembered,
    files_to_read,
    local_path,
    open_files,
    parse_json,
)
from statemigrate.migration import BASE
from statemigrate.native.listing import begun_schemas, read_listing

if TYPE_CHECKING:
    from statemigrate.files import ServedFiles


RECORD = "statemigrate/deployed.json"
"""The file, below the checkpoint."""
_FORMAT = 1


@dataclass(frozen=True)
class StoreRecord:
    """One store: the names of its live families, and by revision the checksum of its script.

    ``batch`` is the last one that was committed when the record was made, -1 before the first;
    ``deployment`` names the start-up check that it was made with. ``begun`` are the schema files of
    killed batches that were there by then: nothing of what those wrote is in the state. ``call`` is
    the one that declared the operator, None where an older release made the record.
    """

    families: tuple[str, ...] = ()
    batch: int = -1
    applied: Mapping[str, str] = field(default_factory=dict)
    deployment: str = ""
    begun: tuple[str, ...] = ()
    call: Call | None = None

    @property
    def target(self) -> str | None:
        """The family that the deployment writes to; None where it left no note of it."""
        return self.families[0] if self.families else None


def read_record(checkpoint: PathOrFiles) -> dict[str, StoreRecord]:
    """The record by store; empty where there is none. Raises `CorruptFileError`."""
    files = files_to_read(checkpoint)
    try:
        data = files.get(RECORD)
    except FileNotFoundError:
        return {}
    return _parsed(data, f"{files.location}/{RECORD}")


def call_of(checkpoint: PathOrFiles) -> Call | None:
    """The call that declares the operators of a query, None where no start has recorded it."""
    return recorded_call(each.call for each in read_record(checkpoint).values())


def write_record(checkpoint: PathOrFiles, record: Mapping[str, StoreRecord]) -> None:
    """Replace the record; a reader sees the old one or the new one.

    Only where a query is known to run: the folder is made below a checkpoint, and nowhere else.
    """
    open_files(checkpoint).replace(RECORD, record_document(record))


def record_document(record: Mapping[str, StoreRecord]) -> bytes:
    """The file that says ``record``."""
    document = {
        "format": _FORMAT,
        "stores": {
            store: {
                "families": list(each.families),
                "batch": each.batch,
                "applied": dict(each.applied),
                "deployment": each.deployment,
                "begun": list(each.begun),
                **({} if each.call is None else {"call": each.call}),
            }
            for store, each in record.items()
        },
    }
    return json.dumps(document, indent=2).encode()


def _parsed(data: bytes, path: str) -> dict[str, StoreRecord]:
    try:
        document: Any = parse_json(data)
        return {
            str(store): StoreRecord(
                tuple(map(str, each["families"])),
                int(each["batch"]),
                {str(revision): str(checksum) for revision, checksum in each["applied"].items()},
                str(each.get("deployment", "")),
                tuple(map(str, each.get("begun", ()))),
                next((call for call in get_args(Call) if call == each.get("call")), None),
            )
            for store, each in {_FORMAT: document["stores"]}[document["format"]].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(
            "SM-CHECKPOINT-028",
            f"{path} is not a record of deployments",
            expected=f"JSON of format {_FORMAT} with stores, their families and applied scripts",
            found=str(error),
            next_action="restore the file from a copy of the checkpoint; without it the scripts "
            "that were applied cannot be compared",
            path=path,
        ) from error


# What a start-up check saw, and whether that is what the query runs on (rule 14).
#
# A check is good for the query and the batch it was made at. Spark calls a processor's ``init``
# once on the driver when a run plans its first batch, and then in every task. On the driver the
# checkpoint directory is looked at again; in a task, what Spark says of the query it belongs to.


QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""What Spark tells its tasks: the id of the query, and of the batch."""
_log = logging.getLogger("statemigrate.native")
_AGAIN = {
    "stateful": "call stateful again with a new processor, right before the query starts",
    "migrated": "make the processor again, with migrated(..., checkpoint=...), right before the "
    "query starts",
    "paged": "call paged again, right before the query starts",
}


@dataclass(frozen=True)
class ObservedCheckpoint:
    """A checkpoint as a start found it: its query's id, and its last committed batch.

    ``driver`` is the process that looked.
    ``query`` is None and ``batch`` -1 where there was no such thing yet: then nothing was read, and
    every revision may have values. ``deployment`` names this one check among all others. ``lent``
    gives the files to the process next to the driver, where they are on no local disk.
    ``of`` is the function that its user called with ``checkpoint=``.
    """

    checkpoint: str
    query: str | None
    batch: int
    deployment: str = field(default_factory=lambda: uuid4().hex)
    lent: Files | None = None
    driver: str = field(default_factory=this_driver)
    of: Literal["stateful", "migrated", "paged"] = "migrated"

    @classmethod
    def at(
        cls,
        checkpoint: str,
        look: Remembered | None = None,
        *,
        of: Literal["stateful", "migrated", "paged"] = "migrated",
    ) -> ObservedCheckpoint:
        """Look at a checkpoint. Raises `CheckpointError` for a directory that is something else."""
        look = look or Remembered(open_files(checkpoint))
        files = look.now
        path = checkpoint if _has_scheme(checkpoint) else files.location
        directory = CheckpointDirectory(look, path)
        query = directory.query_id()
        if query is None and not directory.is_unused():
            directory.require_query()
        return cls(path, query, directory.last_commit(), lent=_lent(files), of=of)

    @property
    def files(self) -> Files:
        """The checkpoint's files, on the driver and in the process next to it."""
        # Without a scheme too: what is on a default file system elsewhere is lent.
        local = local_path(self.checkpoint)
        return self.lent or (open_files(self.checkpoint) if local is None else LocalFiles(local))

    @property
    def is_something(self) -> bool:
        """Whether there was committed state to look at."""
        return self.batch >= 0

    def compare_at_start(self) -> int:
        """On the driver, when a run plans its first batch: the last committed batch of now.

        Raises `StartupError` where ``checkpoint`` is not where a query runs, and
        `CheckpointInUseError` where another one has just gone on there.
        """
        directory = CheckpointDirectory(self.files, self.checkpoint)
        query = directory.query_id()
        if query is None:
            raise self._elsewhere("no file metadata, so no query runs there")
        if self.query is not None and query != self.query:
            raise self._elsewhere(f"the query {query}; the check saw {self.query}")
        committed, begun = directory.last_commit(), directory.last_begun()
        # Spark writes a batch's offsets before it plans the batch; in a copy nothing has begun.
        if self.is_something and begun != committed + 1:
            if begun > committed + 1 or committed > self.batch:
                raise self._second_query_error(committed, begun)
            raise self._elsewhere(f"batch {committed} committed and {begun} begun, as in a copy")
        return committed

    def begin_epoch(self, name: str, document: bytes) -> Callable[[], None]:
        """Begin an epoch of the driver: another one that runs on the checkpoint is fenced.

        What is returned leaves the ``document`` under its ``name``, in which one start follows the
        other. Both raise `CheckpointInUseError` where another driver has begun. On a store that
        cannot distinguish two of them this is only a warning, since Spark runs there too.
        """
        files = self.files
        try:
            return claim(files, self.driver, leaves={name: document.decode()}).leave
        except UnsupportedError as error:
            _log.warning(
                "a second driver on %s is detected by Spark alone, not by statemigrate: %s [%s]",
                self.checkpoint, error.found, error.code,
            )  # fmt: skip
            return partial(files.replace, name, document)

    def oldest_batch(self) -> int:
        """The first batch whose commit is still there, 0 where none is."""
        return min(batches_in(names_in(self.files, "commits")), default=0)

    def compare_driver(self) -> None:
        """In a task that reaches the checkpoint: that no other driver has begun there since.

        Elsewhere than on a disk that tasks see the driver alone can look. Raises
        `CheckpointInUseError`.
        """
        local = local_path(self.checkpoint)
        if self.lent is None and local is not None:
            _fence(str(local), self.driver).require_newest()

    def compare_in_task(self) -> bool:
        """In a task: whether its batch is the one right after the check.

        Raises `StartupError` for a task of another query, or of a batch that was committed already
        when the check was made.
        """
        query, batch = running()
        if query is None:
            # Tests of a processor run without a query.
            return True
        self.compare_query()
        self.compare_driver()
        if self.is_something and batch is not None and batch <= self.batch:
            raise self.outdated(batch - 1)
        return batch == self.batch + 1

    def compare_query(self) -> None:
        """In a task: raise `StartupError` if it is another query's than the one that was seen."""
        query, _ = running()
        if None not in (query, self.query) and query != self.query:
            raise self._elsewhere(f"the query {self.query}; this task is {query}'s")

    def _second_query_error(self, committed: int, begun: int) -> CheckpointInUseError:
        return CheckpointInUseError(
            "SM-CHECKPOINT-029",
            f"the checkpoint {self.checkpoint} is in use",
            expected="the batch that this query has begun as the last one there, not committed",
            found=f"batch {committed} committed and {begun} begun: another query goes on there",
            next_action="stop one of the two queries; this one has written nothing",
            path=self.checkpoint,
        )

    def outdated(self, committed: int) -> StartupError:
        """The error for a checkpoint that is not at the batch of the check any more."""
        return StartupError(
            "SM-START-016",
            f"the processor was compared with {self.checkpoint} at another batch",
            expected=f"batch {self.batch} as the last that is committed, as when it was compared",
            found=f"batch {committed}" if committed >= 0 else "none",
            next_action=f"{_AGAIN[self.of]}; nothing of this batch was written",
            path=self.checkpoint,
        )

    def _elsewhere(self, found: str) -> StartupError:
        return StartupError(
            "SM-START-017",
            f"checkpoint={self.checkpoint!r} is not the checkpoint of the query that runs",
            expected="the checkpointLocation of this very query",
            found=found,
            next_action=f"correct checkpoint= of {self.of}: it is the path or URI that writeStream "
            "gets as checkpointLocation; nothing of this batch was written",
            path=self.checkpoint,
        )


@lru_cache(maxsize=64)
def _fence(checkpoint: str, driver: str) -> Fence:
    """One a worker, for tasks of many batches: what was looked at is not looked at again."""
    return Fence(LocalFiles(Path(checkpoint)), driver)


def _lent(files: Files) -> ServedFiles | None:
    if isinstance(files, LocalFiles):
        return None
    # A server, which local files are not to wait for.
    from statemigrate.files import served

    return served(files)


def running() -> tuple[str | None, int | None]:
    """The query and the batch that this task is of; None outside of one."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return None, None
    query, batch = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
    return query, None if batch is None else int(batch)


def _has_scheme(path: str) -> bool:
    return re.match("[A-Za-z][A-Za-z0-9+.-]+:", path) is not None


# Comparing the check with the query, wherever Spark brings the code to (rule 14).
#
# Spark brings it to a Python process next to the driver when a run plans its first batch, which
# calls ``init`` to learn the variables, and to every task. Of an error that is raised in that
# ``init`` Spark says only that the process crashed, and of one that is raised while the code is
# read it says everything: so that is where the comparison is.


Records = Mapping[str, StoreRecord]
Families = Callable[[str], tuple[str, ...]]
"""The variables of a store that a deployment knows, whether they exist or not."""
_PLANNING = "pyspark.sql.streaming.transform_with_state_driver_worker"


def is_planning() -> bool:
    """Whether this is the process next to the driver in which Spark calls ``init`` to plan."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PLANNING in sys.modules or getattr(main, "name", None) == _PLANNING


class Run(Protocol):
    """A deployment whose run is about to plan its first batch."""

    @property
    def name(self) -> str:
        """The file of its record."""

    def is_own(self, committed: int) -> bool:
        """Whether all batches since its check, up to this one, were its own."""

    def document(self, committed: int) -> bytes:
        """What it leaves in the checkpoint, after the batch that was ``committed`` last."""

    def log_start(self, committed: int) -> None:
        """Record its start in the log."""


def begin_run(observed: ObservedCheckpoint, run: Run) -> None:
    """Before a run plans its first batch: compare, begin an epoch, leave the record.

    First the log has the start, so that nothing is done where the log cannot be written.

    Raises `StartupError` where the check is not good for the query that runs there by now, and
    `CheckpointInUseError` where another driver begins at the same moment.
    """
    committed = observed.compare_at_start()
    if committed != observed.batch and not run.is_own(committed):
        raise observed.outdated(committed)
    leave = observed.begin_epoch(run.name, run.document(committed))
    run.log_start(committed)
    leave()


@dataclass
class RunOnVariables:
    """A `Run` on Spark's own state, with a record of each store.

    ``families`` gives a store's variables, and ``logged`` is what the log gets, if anything.
    """

    observed: ObservedCheckpoint
    records: Records
    families: Families
    logged: Note | None = None
    name: str = field(default=RECORD, init=False)
    _read: Records | None = field(default=None, init=False, repr=False)

    def is_own(self, committed: int) -> bool:
        """See `Run`.

        Then what it reads is still all there is: it writes to nothing else. Another one would have
        left its own record; code that leaves none declares other variables, or none but those read
        here.
        """
        observed = self.observed
        if not observed.is_something:
            return True
        if committed < observed.batch:
            return False
        record, listing = self._left, read_listing(observed.files, committed)
        for store, own_record in self.records.items():
            noted = record.get(store)
            listed = {name for name in listing.variables if is_family_of(store, name)}
            rerun = any(listing.may_have(name) for name in self.families(store))
            if noted is None or noted.deployment != observed.deployment or rerun:
                return False
            batches = range(observed.batch + 1, committed + 1)
            if listing.passed_over(batches, noted.begun).keys() & listed:
                return False
            if listed != set(own_record.families):
                return False
        return True

    def document(self, committed: int) -> bytes:
        """See `Run`."""
        begun = begun_schemas(self.observed.files, committed)
        own = {
            store: replace(each, begun=tuple(sorted(begun.union(self._begun(store)))))
            for store, each in self.records.items()
        }
        return record_document({**self._left, **own})

    def log_start(self, committed: int) -> None:
        """See `Run`."""
        if self.logged is None:
            return
        # Families are dropped by the batch right after the check, and by none later.
        is_next = committed == self.observed.batch
        note = self.logged if is_next else replace(self.logged, dropped={})
        note.start(self.observed.files, committed + 1, self._facts(note, committed))

    @property
    def _left(self) -> Records:
        """The record of the last start, read once."""
        # Python 3.11 locks a cached property for all starts of a process while it reads files.
        if self._read is None:
            self._read = read_record(self.observed.files)
        return self._read

    def _facts(self, note: Note, committed: int) -> Facts:
        """What the last start has left of itself, whichever release that was of."""
        found = {}
        for store, each in self._left.items():
            if each.target is not None and store in note.stores:
                oldest = next(iter(note.stores[store].order), BASE)
                revision = revision_in(each.target) or oldest
                found[store] = StoreRevision(revision, each.families, note.stores[store].order)
        since = max((self._left[store].batch + 1 for store in found), default=committed)
        return Facts(found, min(since, committed + 1))

    def _begun(self, store: str) -> tuple[str, ...]:
        """What an earlier start of this very deployment found begun; its check is before that."""
        noted = self._left.get(store)
        if noted is None or noted.deployment != self.observed.deployment:
            return ()
        return noted.begun


def is_next_batch(observed: ObservedCheckpoint, handle: Any) -> bool:
    """Whether this is the batch right after the check, so that drained families may be dropped.

    Raises `StartupError` where the check is not good for this task.
    """
    if _plans(handle):
        return CheckpointDirectory(observed.files).last_commit() == observed.batch
    return observed.compare_in_task()


def _plans(handle: Any) -> bool:
    from pyspark import TaskContext
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

    # Spark's in-memory tester has a handle of its own kind, and no query.
    return type(handle) is StatefulProcessorHandle and TaskContext.get() is None
