"""Timestamps in Python's forms: aware, naive local time, and microseconds since 1970.

Python's own conversions end where a step of theirs would leave the years 1 to 9999: a naive
``datetime(9999, 12, 31, 23)`` in New York is already in the year 10000 in UTC. Such a moment is
held as an aware ``datetime`` with another offset than UTC's, which is the same moment.
"""

from __future__ import annotations

import calendar
import time
from datetime import UTC, datetime, timedelta, timezone

MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT = 4e9
"""Seconds from 1970, some 127 years, within which a float has room for microseconds."""
LOCAL_EPOCH = datetime(1970, 1, 1)  # a clock on the wall, in no zone
EPOCH_DAY = LOCAL_EPOCH.toordinal()  # a day has no zone
# As far as an offset may go, in whole minutes.
_FAR_EAST = timezone(timedelta(hours=23, minutes=59))
_FAR_WEST = timezone(-timedelta(hours=23, minutes=59))
BEYOND_UTC = (_FAR_EAST, _FAR_WEST)
"""The offsets of moments that UTC has no year for."""


def utc_of(moment: datetime) -> datetime:
    """The same moment in UTC; a naive one is local time, ``fold`` telling the repeated hour's two.

    A moment for which UTC has no year is returned with another offset. Raises OverflowError for one
    a day beyond the years 1 to 9999.
    """
    try:
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
        # Not by `astimezone`, which leaves the hour that clocks skip by the other side of it.
        seconds = moment.timestamp()
    except (OverflowError, ValueError):
        return aware_of(microseconds_of(moment))
    exact = -_EXACT < seconds < _EXACT
    return datetime.fromtimestamp(seconds, UTC) if exact else aware_of(microseconds_of(moment))


def local_of(moment: datetime) -> datetime:
    """An aware moment as naive local time, with ``fold`` in the hour that clocks run through twice.

    Where local time has no year for it, the moment itself.
    """
    seconds = moment.timestamp()
    return datetime.fromtimestamp(seconds) if -_EXACT < seconds < _EXACT else _far_local(moment)


def microseconds_of(moment: datetime) -> int:
    """Microseconds since 1970 of an aware moment, or of a naive one in local time."""
    if moment.tzinfo is None:
        return _naive_microseconds(moment)
    return (moment - EPOCH) // MICROSECOND


def aware_of(microseconds: int) -> datetime:
    """The moment in UTC, or where UTC has no year for it, with another offset."""
    since = timedelta(microseconds=microseconds)
    try:
        return EPOCH + since
    except OverflowError:
        zone = _FAR_WEST if microseconds > 0 else _FAR_EAST
        offset = zone.utcoffset(None)
        return (LOCAL_EPOCH + (since + offset)).replace(tzinfo=zone)


def _naive_microseconds(moment: datetime) -> int:
    try:
        seconds = round(moment.timestamp() - moment.microsecond / 1_000_000)
    except (OverflowError, ValueError):
        # `localtime` knows years that `datetime` does not.
        wall = calendar.timegm(moment.timetuple())
        seconds = wall - time.localtime(wall - time.localtime(wall).tm_gmtoff).tm_gmtoff
    return seconds * 1_000_000 + moment.microsecond


def _far_local(moment: datetime) -> datetime:
    microseconds = microseconds_of(moment)
    offset = timedelta(seconds=time.localtime(microseconds // 1_000_000).tm_gmtoff)
    try:
        local = LOCAL_EPOCH + (timedelta(microseconds=microseconds) + offset)
    except OverflowError:
        return moment
    return local if _naive_microseconds(local) == microseconds else local.replace(fold=1)
