"""What travels to the workers with a paged processor, compared wherever it arrives (rule 14)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from statemigrate.deployment import Declared, DeploymentSettings, StorePlan
from statemigrate.errors import StartupError, UnsupportedError
from statemigrate.event_log import Facts, Note, StoreRevision
from statemigrate.families import Span
from statemigrate.native import (
    ChunkFiles,
    MigrationCounts,
    ObservedCheckpoint,
    begin_run,
    is_planning,
)
from statemigrate.pages.page import OpenSection, Page
from statemigrate.pages.record import (
    GUARD,
    PagesRecord,
    read_pages_record,
    record_document,
    record_name,
)
from statemigrate.processor import DualAccessHandle, never_dropped, no_timers_by_table

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


# The timers of a page's keys: a section of the page, in the order in which they expire.
#
# Spark has one timer a page, at the earliest of them.


FAMILY = "@timers"
"""A name that no store can have."""
FORMAT = b"timers".ljust(16, b"\x00")
"""In place of the fingerprint of a format."""
_TIMESTAMP = 8
_OFFSET = 1 << 63
_LAST = _OFFSET - 1


class PageTimers:
    """The timers in the page that was turned to last, in milliseconds since the epoch."""

    def __init__(self) -> None:
        self._page: Page | None = None
        self._section: OpenSection | None = None
        self._by_key: dict[bytes, set[int]] | None = None

    def turn(self, page: Page) -> None:
        """Go on with another page."""
        self._page, self._section, self._by_key = page, None, None

    def register(self, key: bytes, timestamp: int) -> None:
        """Let a key's timer expire after ``timestamp``."""
        self._opened().put(timer_entry(key, timestamp), b"")
        self._timers_by_key().setdefault(key, set()).add(timestamp)

    def delete(self, key: bytes, timestamp: int) -> None:
        """Remove a key's timer, if there is one."""
        self._opened().delete(timer_entry(key, timestamp))
        self._timers_by_key().get(key, set()).discard(timestamp)

    def of(self, key: bytes) -> list[int]:
        """A key's timers, earliest first."""
        return sorted(self._timers_by_key().get(key, ()))

    def earliest(self) -> int | None:
        """When the first timer of all keys expires."""
        if not self._has_timers():
            return None
        first = self._opened().first()
        return None if first is None else read_timer(first)[0]

    def expired(self, now: int) -> list[tuple[int, bytes]]:
        """The timers up to ``now`` with their keys, earliest first, as Spark takes them."""
        if not self._has_timers():
            return []
        span = Span(upper=None if now == _LAST else timer_entry(b"", now + 1))
        return [read_timer(entry) for entry, _ in self._opened().scan(span)]

    def _has_timers(self) -> bool:
        return self._page is not None and self._page.contains_family(FAMILY)

    def _opened(self) -> OpenSection:
        if self._section is None:
            assert self._page is not None, "no page was turned to"  # noqa: S101
            self._section = self._page.section(FAMILY, FORMAT)
        return self._section

    def _timers_by_key(self) -> dict[bytes, set[int]]:
        if self._by_key is None:
            self._by_key = {}
            for entry, _ in self._opened().scan(Span()):
                timestamp, key = read_timer(entry)
                self._by_key.setdefault(key, set()).add(timestamp)
        return self._by_key


def timer_entry(key: bytes, timestamp: int) -> bytes:
    """The key of a timer's entry, from the grouping key's bytes."""
    # So that moments before 1970 sort before the others.
    return (timestamp + _OFFSET).to_bytes(_TIMESTAMP, "big") + key


def read_timer(entry: bytes) -> tuple[int, bytes]:
    """The moment and the grouping key's bytes, of an entry's key."""
    return int.from_bytes(entry[:_TIMESTAMP], "big") - _OFFSET, entry[_TIMESTAMP:]


# The handle of a processor whose state is in pages: what has no place there is refused by name.


TimeMode = Literal["none", "processingtime", "eventtime"]
"""Spark's time modes, in small letters."""


class PagedHandle(DualAccessHandle):
    """PySpark's handle over a page; ``make`` gives the state variable of a declared one.

    Without ``timers`` there are none, as in Spark's time mode of that name, and where a processor
    gets its state ``by_table``; and values expire in processing time alone.
    """

    def __init__(
        self,
        make: Callable[[Declared], Any],
        time_mode: TimeMode,
        timers: PageTimers | None = None,
        *,
        by_table: bool = False,
    ) -> None:
        super().__init__()
        self._by_table = by_table
        self._make = make
        self._time_mode = time_mode
        self._timers = timers

    def variable(self, declared: Declared) -> Any:
        """See `DualAccessHandle.variable`."""
        # To Spark, no milliseconds are no time to live.
        if declared.ttl:
            _check_life(declared.store, declared.ttl, self._time_mode)
        return self._make(declared)

    def registerTimer(self, expiryTimestampMs: int) -> None:
        """Have ``handleExpiredTimer`` called for the key once that time is over."""
        self._timed().register(self.key.data, int(expiryTimestampMs))

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        """Forget one of the timers of the key."""
        self._timed().delete(self.key.data, int(expiryTimestampMs))

    def listTimers(self) -> Iterator[int]:
        """The timers of the key, earliest first."""
        return iter(self._timed().of(self.key.data))

    def _timed(self) -> PageTimers:
        if self._by_table:
            raise no_timers_by_table("a call of a timer's method on the handle")
        if self._timers is None:
            raise _no_timers()
        return self._timers

    def deleteIfExists(self, stateName: str) -> NoReturn:
        """Refused: it would drop values that were never migrated, without a word."""
        raise never_dropped(stateName, "paged state", "their pages")


_REWRITES = (
    "Spark fixes it with the first batch, so that a checkpoint with batches is rewritten first: "
    "`statemigrate plan CHECKPOINT --code MODULE:FUNCTION` has the steps"
)
"""How a paged query comes to another time mode."""


def _check_life(store: str, life: int, time_mode: TimeMode) -> None:
    if life < 0:
        raise StartupError(
            "SM-PAGES-006",
            f"the values of state {store} would expire before they are written",
            expected="ttlDurationMs of a positive number of milliseconds",
            found=str(life),
            next_action="correct ttlDurationMs in init, or leave it out",
            store=store,
        )
    if time_mode != "processingtime":
        raise UnsupportedError(
            "SM-PAGES-007",
            f"a time to live counts in processing time (state {store})",
            expected='timeMode="ProcessingTime", as in transformWithState',
            found=f"a time to live in the time mode {time_mode}",
            next_action=f"pass timeMode to paged; {_REWRITES}; or declare the variable without "
            "ttlDurationMs",
            store=store,
        )


def _no_timers() -> UnsupportedError:
    return UnsupportedError(
        "SM-PAGES-008",
        "a query without a time mode has no timers",
        expected='timeMode="ProcessingTime" or timeMode="EventTime"',
        found='timeMode="None"',
        next_action=f"pass timeMode to paged; {_REWRITES}",
    )


@dataclass(frozen=True)
class PagedDeployment:
    """A processor's deployment on pages.

    ``key`` is the type of the grouping key, whose columns are at ``key_columns`` in the stream, and
    ``record`` is written to the checkpoint when the query starts, and ``note`` to the log.
    ``before`` names the deployment whose record was there at the check, None where there was none;
    ``operator`` is the name that `paged` was given for it, empty if none.
    """

    key: StructType
    key_columns: tuple[int, ...]
    output: StructType
    plans: Mapping[str, StorePlan]
    settings: DeploymentSettings
    observed: ObservedCheckpoint
    record: PagesRecord
    note: Note
    before: str | None = None
    time_mode: TimeMode = "none"
    counts: MigrationCounts | None = None
    operator: str = ""

    @property
    def pages(self) -> int:
        """How many pages the query has."""
        return self.record.pages

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, tuple(getattr(self, each.name) for each in fields(self))


@dataclass(frozen=True)
class RunOnPages:
    """See `Run`: a run of a deployment on pages."""

    deployment: PagedDeployment
    _read: list[PagesRecord | None] = field(default_factory=list, init=False, repr=False)

    @property
    def name(self) -> str:
        """See `Run`."""
        return record_name(self.deployment.operator)

    def is_own(self, committed: int) -> bool:
        """See `Run`: batches of this very deployment wrote to nothing that it does not read."""
        return committed > self.deployment.observed.batch and self._has_begun

    def document(self, committed: int) -> bytes:
        """See `Run`. Raises `StartupError` for a second operator of this name."""
        left = self._left
        if left is not None and not self._has_begun and left.deployment != self.deployment.before:
            raise self._second()
        record = self.deployment.record
        # It is looked up only where it counts, which batch may be gone back to.
        is_same = left is None or left.describes() == record.describes()
        oldest = 0 if is_same else self.deployment.observed.oldest_batch()
        return record_document(record.after(left, committed, oldest))

    def log_start(self, committed: int) -> None:
        """See `Run`; makes the place of the backfill's chunks, too."""
        files, stores = self.deployment.observed.files, self._left.stores if self._left else {}
        facts = {store: StoreRevision.of_stored(each) for store, each in stores.items()}
        self.deployment.note.start(files, committed + 1, Facts(facts, committed, committed + 1))
        ChunkFiles(files, self.deployment.operator).create()

    @property
    def _left(self) -> PagesRecord | None:
        """The record of the last start, read once."""
        # Python 3.11 locks a cached property for all starts of a process while it reads files.
        if not self._read:
            self._read.append(read_pages_record(self.deployment.observed.files, self.name))
        return self._read[0]

    @property
    def _has_begun(self) -> bool:
        left, observed = self._left, self.deployment.observed
        return left is not None and left.deployment == observed.deployment

    def _second(self) -> StartupError:
        """Its record would replace another's, and no later start could tell the two apart."""
        operator = self.deployment.operator
        checkpoint = self.deployment.observed.checkpoint
        decorator = f"`paged(operator={operator!r})`" if operator else "`paged`"
        return StartupError(
            "SM-PAGES-005",
            f"another {decorator} has begun with the checkpoint {checkpoint} "
            "since this one was called",
            expected="one `paged` with this operator= in a query, and one without any",
            found="a second of the same query, or a start of other code",
            next_action="give each `paged` of the query a name of its own, operator='...', which "
            "it keeps for good; where there is only one, call it again right before the query "
            "starts; nothing of this batch was written",
            path=checkpoint,
            operator=operator,
        )


def _arrived(*values: Any) -> PagedDeployment:
    deployment = PagedDeployment(*values)
    if is_planning():
        begin_run(deployment.observed, RunOnPages(deployment))
    return deployment


# What keeps operators with names from each other's pages: a state variable without a value.
#
# Its type is another one for each name. Spark refuses a variable whose type has changed, before a
# batch: names that were exchanged in the code would have each operator lose its own pages.


_BITS = 32
"""Of a hash of the name, each the type of a field."""


def declare(handle: Any, operator: str) -> None:
    """Have Spark refuse another name for an operator; nothing of one without a name."""
    if operator:
        handle.getValueState(GUARD, guard_type(operator))


def guard_type(operator: str) -> StructType:
    """A type that no other name has, of types that neither of Spark's encodings takes for another.

    Spark compares those of rows by their places, and those of Avro by names, so these are the same
    for all; the first one is there for who reads what Spark says when it refuses.
    """
    from pyspark.sql.types import BooleanType, LongType, StructField, StructType

    digest = int.from_bytes(hashlib.sha256(operator.encode()).digest()[: _BITS // 8])
    bits = [
        StructField(f"bit_{number}", LongType() if digest >> number & 1 else BooleanType())
        for number in range(_BITS)
    ]
    return StructType([StructField(f"operator_{operator}", BooleanType()), *bits])
