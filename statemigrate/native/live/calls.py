"""Around a processor's calls: dual access in ``init``, and the end of each key's visit.

Spark calls the same methods as always. Nothing of this is in the way where a query has nothing to
migrate and no control source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from statemigrate.errors import StartupError
from statemigrate.native.live.control import Arrived
from statemigrate.native.live.deployed import DEPLOYED, Deployed, Undeployable
from statemigrate.native.live.handle import NativeHandle
from statemigrate.native.live.work import Stopwatch
from statemigrate.native.seen.comparing import is_next_batch
from statemigrate.processor.variables.handle import DualAccessHandle


def begin(processor: Any, handle: Any, init: Callable[[Any, Any], None]) -> None:
    """What a marked processor's ``init`` does: the user's ``init`` with the engine's handle."""
    if isinstance(handle, DualAccessHandle):
        init(processor, handle)
        return
    deployed = _deployed(processor)
    retires = deployed.seen is None or is_next_batch(deployed.seen, handle)
    native = NativeHandle(handle, deployed, retires=retires)
    init(processor, native)
    _surround(processor, native)


def _deployed(processor: Any) -> Deployed:
    found: Deployed | Undeployable | None = vars(processor).get(DEPLOYED)
    if isinstance(found, Undeployable):
        raise found.error
    if found is None:
        name = type(processor).__qualname__
        raise StartupError(
            "SM-START-015",
            f"{name} was not prepared for Spark's own state",
            expected="@migrated on the class that is instantiated",
            found=f"{name}, a subclass of a class that has it, or one made without __init__",
            next_action=f"put @migrated on {name}, or pass migrated({name}(...), ...)",
        )
    return found


def _surround(processor: Any, handle: NativeHandle) -> None:
    # On the instance, which lives as long as the task: the class stays as the user wrote it.
    calls = _Calls(processor, handle)
    put_on(processor, "handleInputRows", calls.handle_input_rows)
    if handle.is_dual:
        put_on(processor, "handleExpiredTimer", calls.handle_expired_timer)
        put_on(processor, "handleInitialState", calls.handle_initial_state)
        put_on(processor, "close", calls.close)


def put_on(processor: Any, name: str, value: Any) -> None:
    """Set an attribute of a processor, which may be a frozen dataclass."""
    object.__setattr__(processor, name, value)


class _Calls:
    """The processor's methods, each within a visit of its key."""

    def __init__(self, processor: Any, handle: NativeHandle) -> None:
        self._processor = processor
        self._handle = handle
        self._stopwatch = Stopwatch()
        self._input_rows = processor.handleInputRows
        self._expired_timer = processor.handleExpiredTimer
        self._initial_state = processor.handleInitialState
        self._close = processor.close

    def handle_input_rows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Call the user's method unless there are only control rows; migrate if there are any."""
        arrived = Arrived(rows)
        if not self._handle.is_dual:
            if arrived.is_for_user and not arrived.is_marked:
                # All rows of a task are alike: from now on nothing is in the way.
                put_on(self._processor, "handleInputRows", self._input_rows)
            if arrived.is_for_user:
                yield from self._input_rows(key, arrived.rows, timerValues)
            return
        self._stopwatch.begin()
        self._handle.visit(key)
        if arrived.is_for_user:
            yield from self._input_rows(key, arrived.rows, timerValues)
        if arrived.asks_for_migration():
            self._handle.migrate()
        self._handle.leave()
        self._stopwatch.end(asked=not arrived.is_for_user)

    def handle_expired_timer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        """Call the user's method."""
        self._handle.visit(key)
        yield from self._expired_timer(key, timerValues, expiredTimerInfo)
        self._handle.leave()

    def handle_initial_state(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """Call the user's method."""
        self._handle.visit(key)
        self._initial_state(key, initialState, timerValues)
        self._handle.leave()

    def close(self) -> None:
        """Call the user's method, and tell what was migrated."""
        self._close()
        self._handle.report(self._stopwatch.work)
