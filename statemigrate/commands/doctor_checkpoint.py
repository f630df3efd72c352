"""Checks of a checkpoint: its file system, rights, how long batches are kept, who has it.

Only the rights are tried by writing: files of a name of their own, which are removed again.
"""

from __future__ import annotations

import math
import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint import CheckpointDirectory, newest_holder
from statemigrate.commands.examination import Examined, Verdict
from statemigrate.errors import CheckpointInUseError, StatemigrateError
from statemigrate.files import (
    ALLOW_RACES,
    Files,
    LocalFiles,
    open_files,
    races_allowed,
    whole_number,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statemigrate.native import ChunkFiles


_SLOW = 2.0
"""Seconds for one request, from which on batches are slow by it: each makes several."""
_RECENT = 100
"""The number of batches from which the time between two is measured."""
_MANY = 1_000
"""Chunk files whose batches are committed, from which on Spark's listing is felt."""
_RETAINED = "spark.sql.streaming.minBatchesToRetain"
_MAINTENANCE = "spark.sql.streaming.stateStore.maintenanceInterval"
_STATE_FILE = re.compile(r"([0-9]+)(_[^.]*)?\.(delta|snapshot|zip|changelog)")


def examined_checkpoint(
    checkpoint: str, *, write: bool, operator: int | str | None, session: SparkSession | None
) -> Iterator[Examined]:
    """All of it; what can only be looked at where something before is in order is left out."""
    began = time.monotonic()
    try:
        files = open_files(checkpoint, session)
        exists = files.find() is not None
    except StatemigrateError as error:
        yield Examined.failed("file system", error)
        return
    yield _file_system(files, time.monotonic() - began)
    directory = CheckpointDirectory(files)
    what = _what(directory, exists=exists)
    yield what
    if write:
        yield _rights(files, exists=exists)
    if what.verdict != "ok":
        return
    is_embedded = directory.is_embedded
    yield _retention(checkpoint, directory, operator, session, is_embedded=is_embedded)
    if not is_embedded:
        yield from _maintenance(files)
        yield from _chunks(checkpoint, files)
    yield _holder(directory, is_embedded=is_embedded, write=write)


def _file_system(files: Files, seconds: float) -> Examined:
    connector = "local disk"
    if not isinstance(files, LocalFiles):
        from statemigrate.files import HadoopFiles

        connector = files.connector if isinstance(files, HadoopFiles) else type(files).__name__
    data = {"location": files.location, "connector": connector, "seconds": seconds}
    found = f"{files.location}: {connector}, answered in {_time(seconds)}"
    return Examined("file system", "ok", found, None, data)


def _what(directory: CheckpointDirectory, *, exists: bool) -> Examined:
    subject = "checkpoint"
    if not exists:
        return Examined(
            subject,
            "warning",
            "nothing is there",
            "of a query that was never started that is right; else correct the path: it is the "
            "query's checkpointLocation",
        )
    try:
        query = directory.query_id()
        committed, begun = directory.last_commit(), directory.last_begun()
    except StatemigrateError as error:
        return Examined.failed(subject, error)
    if query is None:
        return Examined(
            subject,
            "warning",
            f"no query has been started there: {', '.join(sorted(directory.entries() or ())[:8])}",
            "name the query's checkpointLocation, unless it is still to be started",
        )
    engine = "embedded" if directory.is_embedded else "native" if directory.has("state") else None
    data = {"query": query, "engine": engine, "committed": committed, "begun": begun}
    if engine is None and committed >= 0:
        return Examined(
            subject,
            "warning",
            f"query {query}, batch {committed}: it keeps no state",
            "name the checkpoint of a stateful query; this one has nothing to migrate",
            data,
        )
    keeper = {"embedded": "the embedded engine's state", "native": "Spark's own state"}
    text = f"query {query}, {keeper.get(engine or '', 'no state yet')}, "
    text += f"batch {committed} committed" if committed >= 0 else "no batch committed"
    return Examined(subject, "ok", text, None, data)


class _RightsError(Exception):
    """A step of the trial did not do what every query relies on."""

    def __init__(self, found: str, next_action: str, verdict: Verdict = "problem") -> None:
        super().__init__(found)
        self.next_action = next_action
        self.verdict = verdict


def _rights(files: Files, *, exists: bool) -> Examined:
    trial = _Trial(*_tried_in(files, exists=exists))
    subject, found = "rights", None
    try:
        trial.run()
    except StatemigrateError as error:
        found = Examined.failed(subject, error, step=trial.step)
    except OSError as error:
        advice = "give this user the right to it, or run this as the user of the query"
        found = Examined(subject, "problem", f"{trial.step}: {error}", advice)
    except _RightsError as error:
        found = Examined(subject, error.verdict, str(error), error.next_action)
    try:
        trial.clean_up()
    except (StatemigrateError, OSError) as error:
        return Examined(
            subject,
            "problem",
            f"what was made cannot be deleted: {error}",
            f"delete {', '.join(trial.paths)}; commands and clean-ups need the right to delete",
        )
    if found is not None:
        return found
    slowest = max(trial.seconds, key=lambda step: trial.seconds[step])
    text = ", ".join(f"{step} {_time(seconds)}" for step, seconds in trial.seconds.items())
    data = {"in": trial.files.location, "seconds": trial.seconds}
    if trial.seconds[slowest] > _SLOW:
        advice = "look at the network, or take a bucket in the same region: each batch waits for it"
        return Examined(subject, "warning", f"all, and slowly: {text}", advice, data)
    return Examined(subject, "ok", text, None, data)


def _tried_in(files: Files, *, exists: bool) -> tuple[Files, str]:
    """Where it is tried: in the checkpoint's own folder, or else above what is not there yet."""
    if exists:
        return files, "statemigrate/" if files.find("statemigrate") is not None else ""
    if isinstance(files, LocalFiles):
        above = next(each for each in files.root.parents if each.is_dir())
        return LocalFiles(above), ""
    place, _, _ = files.location.rstrip("/").rpartition("/")
    # Of a bucket there is nothing above.
    return (files if place.endswith("/") else open_files(place)), ""


@dataclass
class _Trial:
    """Making, making once and deleting files of a name that nobody else has."""

    files: Files
    prefix: str

    def __post_init__(self) -> None:
        own = f"{self.prefix}statemigrate-doctor-{uuid.uuid4().hex}"
        self.names = (f"{own}-put", f"{own}-once")
        self.step = "put"
        self.seconds: dict[str, float] = {}

    @property
    def paths(self) -> list[str]:
        return [f"{self.files.location}/{name}" for name in self.names]

    def run(self) -> None:
        put, once = self.names
        content = uuid.uuid4().hex.encode()
        with self._timed("put"):
            self.files.put(put, content)
        with self._timed("get"):
            read = self.files.get(put)
        if read != content:
            raise _RightsError("what was put is read back as something else", "tell its operators")
        with self._timed("conditional put"):
            self.files.create(once, content)
        self._check_once(once, content)
        with self._timed("list"):
            entries = self.files.list(self.prefix.rstrip("/"))
        names = {each.name for each in entries}
        with self._timed("delete"):
            self.files.delete(self.names)
        if not {put, once} <= names:
            raise _RightsError(
                "a listing does not have what was just put",
                "no state is lost by it; commands may see a batch late",
                "warning",
            )

    def _check_once(self, name: str, content: bytes) -> None:
        self.step = "conditional put"
        try:
            self.files.create(name, content[::-1] + b"2")
        except FileExistsError:
            return
        if races_allowed():
            raise _RightsError(
                f"a file is made a second time, as {ALLOW_RACES} allows: of two drivers on one "
                "checkpoint neither gets an error",
                f"update the connector and take {ALLOW_RACES} away; until then see that two never "
                "start at a time",
                "warning",
            )
        raise _RightsError(
            "a file that is there was made a second time: two drivers on one checkpoint would "
            "write over each other's state",
            "take a store or connector with conditional writes: S3A since Hadoop 3.4.2",
        )

    def clean_up(self) -> None:
        left = [name for name in self.names if self.files.find(name) is not None]
        if left:
            self.files.delete(left)

    def _timed(self, step: str) -> _Timed:
        self.step = step
        return _Timed(self.seconds, step)


@dataclass
class _Timed:
    seconds: dict[str, float]
    step: str
    began: float = 0.0

    def __enter__(self) -> None:
        self.began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.seconds[self.step] = time.monotonic() - self.began


@dataclass(frozen=True)
class _Batches:
    """The committed batches that Spark's log still has; ``interval`` is the time between two."""

    oldest: int
    newest: int
    retained: int
    interval: float | None
    age: float

    @classmethod
    def of(cls, files: Files) -> _Batches | None:
        found = sorted(
            (number, each.modified)
            for each in files.list("commits")
            if (number := whole_number(each.base_name)) is not None
        )
        if not found:
            return None
        recent = found[-_RECENT:]
        spent = recent[-1][1] - recent[0][1]
        interval = spent / (len(recent) - 1) if len(recent) > 2 else None
        return cls(found[0][0], found[-1][0], len(found), interval, time.time() - found[-1][1])

    @property
    def is_going_on(self) -> bool:
        return self.interval is not None and self.age < max(10 * self.interval, 60.0)


def _retention(
    checkpoint: str,
    directory: CheckpointDirectory,
    operator: int | str | None,
    session: SparkSession | None,
    *,
    is_embedded: bool,
) -> Examined:
    subject = "retention"
    batches = _Batches.of(directory.files)
    if batches is None:
        return Examined(subject, "ok", "no batch is committed yet")
    if not is_embedded and session is None:
        return Examined(
            subject,
            "warning",
            f"{batches.retained} batches are kept; how long a look takes was not "
            "tried without Spark",
            "correct what is above, or pass spark=",
        )
    from statemigrate.commands.status import status
    from statemigrate.state import Project

    began = time.monotonic()
    try:
        status(checkpoint, Project(None, operator=operator, spark=session))
    except StatemigrateError as error:
        return Examined.failed(subject, error)
    look = time.monotonic() - began
    kept = _retained_batches(directory.files, batches, is_embedded=is_embedded)
    data = {"look": look, "kept": kept, "apart": batches.interval, "running": batches.is_going_on}
    text = f"a look at all keys takes {_time(look)}"
    if batches.interval is None or not batches.interval or batches.oldest == 0:
        return Examined(subject, "ok", f"{text}; all {kept} batches so far are kept", None, data)
    window = (kept - 1) * batches.interval
    text += f"; {kept} batches are kept, one in {_time(batches.interval)}: {_time(window)} together"
    if 2 * look <= window:
        return Examined(subject, "ok", text, None, {**data, "window": window})
    wanted = math.ceil(4 * look / batches.interval) + 2
    setting = f"EmbeddedOptions(retain={wanted})" if is_embedded else f"{_RETAINED}={wanted}"
    verdict: Verdict = "problem" if look > window and batches.is_going_on else "warning"
    return Examined(
        subject,
        verdict,
        text,
        f"start the query with {setting}, or with longer triggers; a stopped query can be read "
        "whatever it keeps",
        {**data, "window": window},
    )


def _retained_batches(files: Files, batches: _Batches, *, is_embedded: bool) -> int:
    if not is_embedded:
        return batches.retained
    from statemigrate.embedded import Layout, retained_versions

    return len(retained_versions(Layout.over(files)))


def _maintenance(files: Files) -> Iterator[Examined]:
    """Whether old versions of state are removed, by the first partition of each operator."""
    batches = _Batches.of(files)
    operators = [each.base_name for each in files.list("state") if each.kind == "folder"]
    found: dict[str, int] = {}
    for operator in operators:
        names = {each.base_name for each in files.list(f"state/{operator}/0", recursive=True)}
        matches = [match for name in names if (match := _STATE_FILE.fullmatch(name))]
        found[operator] = len({int(match[1]) for match in matches})
    if batches is None or not found:
        return
    most = max(found.values())
    data = {"versions": found, "kept": batches.retained}
    text = f"{most:,} versions of state in a partition, {batches.retained:,} batches kept"
    # Spark waits until there are a third more than it keeps, and keeps what a snapshot needs.
    if most <= 3 * batches.retained + 20:
        yield Examined("maintenance", "ok", text, None, data)
        return
    yield Examined(
        "maintenance",
        "warning",
        f"{text}: old ones are not removed",
        f"Spark removes them in the background of a running query, every {_MAINTENANCE} (60 "
        "seconds unless set): runs that are shorter never come to it, and executors log why it "
        "fails",
        data,
    )


def _chunks(checkpoint: str, files: Files) -> Iterator[Examined]:
    """Of each backfill source: operators on pages have their own."""
    from statemigrate.native import ChunkFiles, paged_in

    paged = paged_in(files)
    has_own = not paged or ChunkFiles(checkpoint).is_made()
    if has_own:
        yield _chunks_of(ChunkFiles(checkpoint), "chunk files")
    for operator in paged:
        subject = f"chunk files of {operator}" if operator else "chunk files"
        if not operator and has_own:
            subject = "chunk files of pages"
        yield _chunks_of(ChunkFiles(checkpoint, operator), subject)


def _chunks_of(chunks: ChunkFiles, subject: str) -> Examined:
    try:
        if not chunks.is_made():
            return Examined(subject, "ok", "none: the query has no backfill source")
        # The log first: what is taken meanwhile counts as waiting.
        log = chunks.log()
        written, uncut, plan = chunks.written(), len(chunks.uncut()), chunks.plan()
    except StatemigrateError as error:
        return Examined.failed(subject, error)
    committed = sum(log.is_committed(name) for name in written)
    waiting = len(written - log.taken.keys())
    data = {"committed": committed, "waiting": waiting, "uncut": uncut, "planned": plan is not None}
    text = f"{waiting:,} wait, {committed:,} are committed"
    if uncut:
        text += f", keys in {uncut:,} files are still to be cut"
    if committed > _MANY:
        return Examined(
            subject,
            "warning",
            f"{text}: Spark lists all of them in every batch",
            "start the query again with this release, which removes them",
            data,
        )
    return Examined(subject, "ok", text, None, data)


def _holder(directory: CheckpointDirectory, *, is_embedded: bool, write: bool) -> Examined:
    subject, files = "holder", directory.files
    try:
        epoch, begun_by = newest_holder(files)
    except StatemigrateError as error:
        return Examined.failed(subject, error)
    began = f"; epoch {epoch} was begun by {begun_by}" if begun_by else ""
    if not is_embedded:
        committed, begun = directory.last_commit(), directory.last_begun()
        at = directory.committed_at(committed)
        ago = "" if at is None else f", {_time(max(0.0, time.time() - at))} ago"
        text = f"Spark keeps no lock: batch {committed} was committed last{ago}"
        if begun > committed:
            text += f", and batch {begun} is being processed, or was killed"
        found: dict[str, Any] = {"committed": committed, "begun": begun, "committed_at": at}
        found |= {"epoch": epoch, "begun_by": begun_by}
        return Examined(subject, "ok", f"{text}{began}", None, found)
    from statemigrate.embedded import Layout, lock_holder, require_stopped

    layout = Layout.over(files)
    try:
        holder = lock_holder(layout)
        if layout.remote is not None and write:
            require_stopped(layout)
    except CheckpointInUseError as error:
        holder = str(error.found)
    except StatemigrateError as error:
        return Examined.failed(subject, error)
    data = {"epoch": epoch, "begun_by": begun_by, "held_by": holder}
    if holder is None:
        unknown = layout.remote is not None and not write
        text = "whether a query runs was not asked" if unknown else "nobody"
        return Examined(subject, "ok", f"{text}{began}", None, data)
    return Examined(
        subject,
        "ok",
        f"{holder}{began}; what needs a stopped query is refused meanwhile",
        None,
        data,
    )


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"
