"""For scripts: the longer window that a window of state is a part of.

A script that makes hours of ten minutes says so in `rekey`, and what two parts make in `merge`:

    from statemigrate.windows import window_around

    def rekey(key, value):
        return {**key, "window": window_around(key["window"], hours=1)}
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO = timedelta(0)


def window_around(
    window: Mapping[str, Any],
    *,
    days: int = 0,
    hours: int = 0,
    minutes: int = 0,
    seconds: float = 0,
    offset: timedelta = _ZERO,
) -> dict[str, datetime]:
    """The tumbling window of the given length that contains all of ``window``.

    ``window`` is a struct of ``start`` and ``end`` as in scripts, and so is the result. ``offset``
    is the start offset of the new windows, as for ``F.window``. Raises ValueError if no such window
    contains all of ``window``, because its content cannot be divided.
    """
    length = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    if length <= _ZERO:
        raise ValueError(f"a window is longer than nothing, and {length} is given")
    start, end = window["start"], window["end"]
    begin = _BEGIN if start.tzinfo is not None else _BEGIN.replace(tzinfo=None)
    first = start - (start - begin - offset) % length
    if end > first + length:
        raise ValueError(
            f"the window from {start} to {end} does not lie in one of {length} that begins at "
            f"{first}"
        )
    return {"start": first, "end": first + length}
