"""The handle of a processor whose state is in pages: what has no place there is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from statemigrate.deployment import Declared
from statemigrate.errors import UnsupportedError
from statemigrate.processor.handle import DualAccessHandle


class PagedHandle(DualAccessHandle):
    """PySpark's handle over a page; ``make`` gives the state variable of a declared one."""

    def __init__(self, make: Callable[[Declared], Any]) -> None:
        super().__init__()
        self._make = make

    def variable(self, declared: Declared) -> Any:
        """See `DualAccessHandle.variable`."""
        if declared.ttl is not None:
            raise unsupported(f"time to live (state {declared.store})")
        return self._make(declared)

    def registerTimer(self, expiryTimestampMs: int) -> NoReturn:  # noqa: ARG002
        """Refused: pages have no timers yet."""
        raise unsupported("timers")

    def deleteTimer(self, expiryTimestampMs: int) -> NoReturn:  # noqa: ARG002
        """Refused: pages have no timers yet."""
        raise unsupported("timers")

    def listTimers(self) -> Iterator[int]:
        """Refused: pages have no timers yet."""
        raise unsupported("timers")

    def deleteIfExists(self, stateName: str) -> NoReturn:
        """Refused: it would drop values that were never migrated, without a word."""
        raise UnsupportedError(
            f"deleteIfExists({stateName!r}) is not available on paged state",
            expected="state variables the processor declares",
            found="a variable to drop with all its values",
            next_action="stop declaring the variable: its values stay in their pages, unused",
            store=stateName,
        )


def unsupported(what: str) -> UnsupportedError:
    """The error for what a processor may do on Spark's own state and not on pages."""
    return UnsupportedError(
        f"paged state has no {what} yet",
        expected="state without timers and without time to live",
        found=what,
        next_action="run this processor with transformWithState, or keep the time in the value "
        "and compare it in handleInputRows",
    )
