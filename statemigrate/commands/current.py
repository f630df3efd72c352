"""`current`: which revision each store of a checkpoint is at, and since when, by which code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.commands.deployed_revisions import scripted_revision
from statemigrate.commands.fleet import found_or_error, look_at_each
from statemigrate.configuration import NamedCheckpoint
from statemigrate.deployment import StoredStore
from statemigrate.errors import StatemigrateError
from statemigrate.event_log import (
    OPERATOR,
    STORES,
    Change,
    Event,
    LaterStarts,
    StoreChange,
    Verb,
    newest_first,
)
from statemigrate.files import Files, PathOrFiles, files_to_read
from statemigrate.migration import Lineage
from statemigrate.native import looks_again
from statemigrate.state import Project, Scripts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statemigrate.native import Spark


# `log`: what was done to a checkpoint, when, by whom and with which code, newest first.


Outcome = Literal["done", "no batch yet", "no batch", "unknown"]
"""``done`` once a batch of it is committed; ``no batch`` where something else began before one.

``unknown`` where something else began at its batch, and the log does not name all its stores.
"""


@dataclass(frozen=True)
class LogEntry:
    """The result of an event for one store, or for none if ``store`` is None.

    ``revision`` is the one written since, ``before`` the one until then; ``families`` are all live
    ones. ``batch`` is the first batch of a start, or the one whose state a command used. ``code``
    is the version of the code, ``by`` the user of the operating system. ``operator``
    names the operator on pages, None where it has no name and for any other.
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
    operator: str | None = None

    @property
    def took_place(self) -> bool:
        """Whether the state is, or was, as the entry records."""
        return self.outcome == "done"


@dataclass(frozen=True)
class Log:
    """The log of a checkpoint, newest first; ``damaged`` has its unreadable parts.

    ``batch`` is the last committed one, -1 for none. ``since`` is when the log begins, None if
    there is none, or if older entries were not requested.
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


def log(
    checkpoint: PathOrFiles, *, limit: int | None = None, spark: SparkSession | None = None
) -> Log:
    """What was done to ``checkpoint``, of ``limit`` events at most.

    The query may be running. A start is ``done`` when a batch of it is committed. Where a
    document is damaged, its part is missing and the error names it. ``spark`` reaches a remote
    checkpoint.
    Raises `CheckpointError` for what is not the checkpoint of a query.
    """
    files = files_to_read(checkpoint, spark)
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
        {name: text for name, text in event.details.items() if name not in (STORES, OPERATOR)},
        event.operator or None,
    )


@dataclass(frozen=True)
class CurrentStore:
    """The revision of a store, according to the committed state.

    ``message`` is its script's, None without one. ``is_head`` is whether it is the newest; None for
    a store without scripts. ``is_current`` is whether it is known to be the head, or the requested
    revision; true for a store without scripts. ``older`` are the revisions of the other live
    families, whose values are still to migrate. ``since``, ``code`` and ``by`` are from the log:
    when the store came to that revision, and the code that writes it now; None if the log does not
    have them. ``noted`` is its revision in the log, which differs after a release that keeps no
    log.
    """

    store: str
    revision: str
    message: str | None
    is_head: bool | None
    is_current: bool
    older: tuple[str, ...]
    since: str | None
    code: str | None
    by: str | None
    noted: str | None

    @property
    def differs(self) -> bool:
        """Whether the log has another revision than the state, which is the one that counts."""
        return self.noted is not None and self.noted != self.revision


@dataclass(frozen=True)
class Current:
    """The stores of a checkpoint as of its last committed ``batch``, and the ``log``.

    ``operator`` is the name of the operator on pages that they are of, None where that has no name,
    and for any other.
    """

    checkpoint: str
    engine: str
    batch: int
    stores: tuple[CurrentStore, ...]
    log: Log
    operator: str | None = None

    @property
    def is_current(self) -> bool:
        """Whether every store is known to be at its head, or at the requested revision."""
        return all(each.is_current for each in self.stores)

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines; for the log, its beginning and its damage."""
        return {
            "checkpoint": self.checkpoint,
            "engine": self.engine,
            "batch": self.batch,
            "operator": self.operator,
            "is_current": self.is_current,
            "stores": [
                {**asdict(each), "older": list(each.older), "differs": each.differs}
                for each in self.stores
            ],
            "log_since": self.log.since,
            "log_damaged": [each.to_json() for each in self.log.damaged],
        }


@dataclass(frozen=True)
class CurrentOf:
    """The result for a named checkpoint, or the reason why there is none."""

    checkpoint: NamedCheckpoint
    current: Current | None
    error: StatemigrateError | None = None

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "name": self.checkpoint.name,
            "path": self.checkpoint.path,
            "current": None if self.current is None else self.current.to_json(),
            "error": None if self.error is None else self.error.to_json(),
        }


@looks_again
def current(checkpoint: str | Path, project: Project) -> Current:
    """The revision of each store and what the log has of it, as `statemigrate.current` says."""
    scripts = Scripts.of(project)
    with scripts.opened(checkpoint) as state:
        noted = read_log(files_to_read(state.checkpoint), state.batch)
        made = tuple(
            _store(name, stored, scripts, noted, state.operator or None)
            for name, stored in scripts.reported_stores(state).items()
        )
        return Current(
            state.checkpoint, state.engine, state.batch, made, noted, state.operator or None
        )


def current_of_all(
    checkpoints: Iterable[NamedCheckpoint],
    *,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> tuple[CurrentOf, ...]:
    """`current` of every checkpoint; for an unreadable one, its error."""
    return current_of_each(checkpoints, Project(migrations, targets or {}, stores or {}, spark))


def current_of_each(
    checkpoints: Iterable[NamedCheckpoint], project: Project
) -> tuple[CurrentOf, ...]:
    """`current` of every checkpoint, as `current_of_all` says."""
    return tuple(CurrentOf(*each) for each in look_at_each(checkpoints, current, project))


def _store(
    store: str, stored: StoredStore, scripts: Scripts, noted: Log, operator: str | None
) -> CurrentStore:
    revision, lineage = stored.target.revision, scripts.lineages.get(store)
    scripted = None if lineage is None else scripted_revision(lineage, revision)
    store_events = [
        each
        for each in noted.entries
        if each.store == store
        and each.operator in (None, operator)
        and (each.took_place or (each.outcome == "unknown" and each.revision == revision))
    ]
    last = store_events[0] if store_events else None
    is_its = last is not None and last.revision == revision
    started = (
        next((each for each in store_events if each.verb == "start"), None) if is_its else None
    )
    return CurrentStore(
        store,
        revision,
        _message(lineage, revision),
        None if lineage is None else scripted == lineage.head,
        not scripts.is_broken(store)
        if lineage is None
        else scripted == lineage.resolve(scripts.targets.get(store, "head")),
        tuple(each.revision for each in stored.others),
        _since(store_events, revision) if is_its else None,
        None if started is None else started.code,
        None if started is None else started.by,
        None if last is None else last.revision,
    )


def _since(store_events: list[LogEntry], revision: str) -> str:
    """When the store came to the revision that it has been at since."""
    since = store_events[0].time
    for each in store_events:
        if each.revision != revision:
            break
        since = each.time
    return since


def _message(lineage: Lineage | None, revision: str) -> str | None:
    if lineage is None or revision not in lineage:
        return None
    applied = lineage.applied(revision)
    return applied[-1].message if applied else None
