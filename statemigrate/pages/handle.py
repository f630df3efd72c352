"""The handle of a processor whose state is in pages: what has no place there is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from statemigrate.deployment import Declared
from statemigrate.errors import UnsupportedError
from statemigrate.pages.timers import PageTimers
from statemigrate.processor.handle import DualAccessHandle, never_dropped


class PagedHandle(DualAccessHandle):
    """PySpark's handle over a page; ``make`` gives the state variable of a declared one.

    Without ``timers`` there are none, as in Spark's time mode of that name.
    """

    def __init__(self, make: Callable[[Declared], Any], timers: PageTimers | None = None) -> None:
        super().__init__()
        self._make = make
        self._timers = timers

    def variable(self, declared: Declared) -> Any:
        """See `DualAccessHandle.variable`."""
        if declared.ttl is not None:
            raise _no_time_to_live(declared.store)
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


def _no_time_to_live(store: str) -> UnsupportedError:
    return UnsupportedError(
        f"paged state has no time to live yet (state {store})",
        expected="state variables without ttlDurationMs",
        found="a time to live",
        next_action="run this processor with transformWithState; or keep the time in the value "
        "and compare it in handleInputRows, or clear the state in handleExpiredTimer",
        store=store,
    )


def _no_timers() -> UnsupportedError:
    return UnsupportedError(
        "a query without a time mode has no timers",
        expected='timeMode="ProcessingTime"',
        found='timeMode="None"',
        next_action="pass timeMode to paged, with a new checkpoint: Spark fixes it with the first "
        "batch",
    )
