"""`log`: what was done to a checkpoint, when, by whom and with which code, newest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.commands.following.named import found_or_error
from statemigrate.configuration import NamedCheckpoint
from statemigrate.errors import StatemigrateError
from statemigrate.files import Files
from statemigrate.files.opening import Place, open_files
from statemigrate.logbook.events import STORES, Change, Event, StoreChange, Verb
from statemigrate.logbook.folder import newest_first
from statemigrate.logbook.outcomes import LaterStarts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Outcome = Literal["done", "no batch yet", "no batch", "unknown"]
"""``done`` once a batch of it is committed; ``no batch`` where something else began before one.

``unknown`` where something else began at its batch, of which the log does not say all stores.
"""


@dataclass(frozen=True)
class LogEntry:
    """What an event did to one store; to none in particular where ``store`` is None.

    ``revision`` is what is written since, ``before`` what was until then; ``families`` are all live
    ones. ``batch`` is the first of what was started, or the one whose state a command was about.
    ``code`` is the version of the code, ``by`` the user of the operating system.
    """

    time: str
    verb: Verb
    batch: int
    outcome: Outcome
    store: str | None
    change: Change | None
    before: str | None
    revision: str | None
    families: tuple[str, ...]
    code: str | None
    by: str
    statemigrate: str
    spark: str | None
    details: Mapping[str, str]

    @property
    def took_place(self) -> bool:
        """Whether the state is, or was, what the entry says."""
        return self.outcome == "done"


@dataclass(frozen=True)
class Log:
    """The log of a checkpoint, newest first; what cannot be read of it is in ``damaged``.

    ``batch`` is the last committed one, -1 for none. ``since`` is when the log begins, None where
    there is none, or where older entries were not asked for.
    """

    checkpoint: str
    batch: int
    entries: tuple[LogEntry, ...]
    since: str | None
    damaged: tuple[StatemigrateError, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "checkpoint": self.checkpoint,
            "batch": self.batch,
            "since": self.since,
            "entries": [{**asdict(each), "families": list(each.families)} for each in self.entries],
            "damaged": [each.to_json() for each in self.damaged],
        }


def log(checkpoint: Place, *, limit: int | None = None, spark: SparkSession | None = None) -> Log:
    """What was done to ``checkpoint``, of ``limit`` events at most.

    The query may be running. A start is ``done`` when a batch of it is committed. What a document
    that is damaged said is missing, and the error names it. ``spark`` reaches a remote checkpoint.
    Raises `CheckpointError` for what is not the checkpoint of a query.
    """
    files = open_files(checkpoint, spark)
    directory = CheckpointDirectory(files)
    if directory.query_id() is None:
        directory.require_query()
    return read_log(files, directory.last_commit(), limit)


@dataclass(frozen=True)
class LogOf:
    """The log of a checkpoint that has a name, or why it cannot be read."""

    checkpoint: NamedCheckpoint
    log: Log | None
    error: StatemigrateError | None = None

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "name": self.checkpoint.name,
            "path": self.checkpoint.path,
            "log": None if self.log is None else self.log.to_json(),
            "error": None if self.error is None else self.error.to_json(),
        }


def log_of_all(
    checkpoints: Iterable[NamedCheckpoint],
    *,
    limit: int | None = None,
    spark: SparkSession | None = None,
) -> tuple[LogOf, ...]:
    """The log of every checkpoint, of ``limit`` events each; what is wrong is in its place."""

    def found(named: NamedCheckpoint) -> LogOf:
        read = found_or_error(named, lambda: log(named.path, limit=limit, spark=spark))
        if isinstance(read, StatemigrateError):
            return LogOf(named, None, read)
        return LogOf(named, read)

    return tuple(map(found, checkpoints))


def read_log(files: Files, committed: int, limit: int | None = None) -> Log:
    """The log of the checkpoint whose last committed batch this is."""
    documents = newest_first(files)
    noted = list(islice(documents, limit))
    events = [each.event for each in noted if each.event is not None]
    whole = next(documents, None) is None
    return Log(
        files.location,
        committed,
        tuple(_entries(events, committed, CheckpointDirectory(files).is_embedded)),
        events[-1].time if events and whole else None,
        tuple(each.error for each in noted if each.error is not None),
    )


def _entries(events: list[Event], committed: int, is_embedded: bool) -> Iterator[LogEntry]:
    """Entries newest first; a start that another has followed at the same batch came to nothing."""
    later = LaterStarts(is_embedded)
    for event in events:
        for each in event.stores or (None,):
            store = None if each is None else each.store
            yield _entry(event, each, _outcome(event, committed, later.replaced(event, store)))
        later.add(event)


def _outcome(event: Event, committed: int, replaced: bool | None) -> Outcome:
    if replaced:
        return "no batch"
    if committed < event.batch:
        return "no batch yet"
    return "done" if replaced is False else "unknown"


def _entry(event: Event, store: StoreChange | None, outcome: Outcome) -> LogEntry:
    return LogEntry(
        event.time,
        event.verb,
        event.batch,
        outcome,
        None if store is None else store.store,
        None if store is None else store.change,
        None if store is None else store.before,
        None if store is None else store.revision,
        () if store is None else store.families,
        event.stamp.code,
        event.stamp.by,
        event.stamp.statemigrate,
        event.stamp.spark,
        {name: text for name, text in event.details.items() if name != STORES},
    )
