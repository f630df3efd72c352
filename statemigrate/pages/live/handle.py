"""The handle of a processor whose state is in pages: what has no place there is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NoReturn

from statemigrate.deployment import Declared
from statemigrate.errors import StartupError, UnsupportedError
from statemigrate.pages.live.timers import PageTimers
from statemigrate.processor.variables.handle import DualAccessHandle, never_dropped

TimeMode = Literal["none", "processingtime", "eventtime"]
"""Spark's time modes, in small letters."""


class PagedHandle(DualAccessHandle):
    """PySpark's handle over a page; ``make`` gives the state variable of a declared one.

    Without ``timers`` there are none, as in Spark's time mode of that name; and values expire in
    processing time alone.
    """

    def __init__(
        self,
        make: Callable[[Declared], Any],
        time_mode: TimeMode,
        timers: PageTimers | None = None,
    ) -> None:
        super().__init__()
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
        if self._timers is None:
            raise _no_timers()
        return self._timers

    def deleteIfExists(self, stateName: str) -> NoReturn:
        """Refused: it would drop values that were never migrated, without a word."""
        raise never_dropped(stateName, "paged state", "their pages")


_REWRITES = (
    "Spark fixes it with the first batch, so that for a checkpoint with batches the query is "
    "stopped and `statemigrate rewrite` run three times: with --no-pages; with --code for a "
    "transformWithState of that timeMode; and with --pages"
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
