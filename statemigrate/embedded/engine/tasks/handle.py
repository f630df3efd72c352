"""The embedded engine's handle: what it has no place for is refused, never ignored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from statemigrate.access import DualAccess
from statemigrate.deployment import Declared
from statemigrate.errors import UnsupportedError
from statemigrate.processor.variables.dual import GroupingKey
from statemigrate.processor.variables.handle import DualAccessHandle, never_dropped
from statemigrate.processor.variables.straight import straight_variable


class EmbeddedHandle(DualAccessHandle):
    """PySpark's handle over the embedded engine.

    ``make`` gives the state variable of a declared one. Timers and time to live are refused:
    silently ignoring either would change what the processor computes.
    """

    def __init__(self, make: Callable[[Declared], Any]) -> None:
        super().__init__()
        self._make = make

    @classmethod
    def over(cls, open_access: Callable[[Declared], DualAccess[Any]]) -> EmbeddedHandle:
        """The handle that opens each variable through its store's dual access."""
        key = GroupingKey()
        handle = cls(lambda declared: straight_variable(declared, open_access(declared), key))
        handle.key = key
        return handle

    def variable(self, declared: Declared) -> Any:
        """See `DualAccessHandle.variable`."""
        if declared.ttl is not None:
            raise _unsupported(f"time to live (state {declared.store})")
        return self._make(declared)

    def registerTimer(self, expiryTimestampMs: int) -> NoReturn:  # noqa: ARG002
        """Refused: the embedded engine has no timers."""
        raise _unsupported("timers")

    def deleteTimer(self, expiryTimestampMs: int) -> NoReturn:  # noqa: ARG002
        """Refused: the embedded engine has no timers."""
        raise _unsupported("timers")

    def listTimers(self) -> Iterator[int]:
        """Refused: the embedded engine has no timers."""
        raise _unsupported("timers")

    def deleteIfExists(self, stateName: str) -> NoReturn:
        """Refused: it would drop values that were never migrated, without a word."""
        raise never_dropped(stateName, "the embedded engine", "the checkpoint")


def _unsupported(what: str) -> UnsupportedError:
    return UnsupportedError(
        "SM-EMBEDDED-009",
        f"the embedded engine has no {what}",
        expected="state without timers and without time to live",
        found=what,
        next_action="run this processor with transformWithState on Spark's own state store, or "
        "keep the time in the value and compare it in handleInputRows",
    )
