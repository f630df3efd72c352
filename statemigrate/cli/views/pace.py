"""How old a commit is, how fast a store is migrated and how long that takes, in words."""

from __future__ import annotations

import time

from statemigrate.commands.following.status import Status
from statemigrate.commands.following.store_status import StoreStatus
from statemigrate.inspect.report.text import rough

UNKNOWN = "-"


def clock(seconds: float) -> str:
    """The local time of day."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def ago(found: Status) -> str:
    """How long ago the last batch was committed."""
    return UNKNOWN if found.age is None else f"{rough(found.age)} ago"


def committed(found: Status) -> str:
    """When the last batch was committed, and how long ago that is."""
    if found.committed_at is None:
        return "committed at a time that nothing tells"
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.committed_at))
    return f"committed {at}, {ago(found)}"


def rate(store: StoreStatus) -> str:
    """Values a second, as a cell."""
    if store.rate is None:
        return UNKNOWN
    return f"{store.rate:,.1f}" if 0 < store.rate < 10 else f"{store.rate:,.0f}"


def time_left(store: StoreStatus) -> str:
    """How long the rest takes at that rate, as a cell."""
    return UNKNOWN if store.seconds is None or not store.left else rough(store.seconds)


def pace(store: StoreStatus, over: float | None) -> str:
    """The rate and the time left, as the end of a sentence; nothing where no rate is known."""
    if store.rate is None or not (store.left or store.rate):
        return ""
    seen = "" if over is None else f" over {rough(over)}"
    if not store.rate:
        return f"; nothing moved{seen}"
    rest = "" if store.seconds is None or not store.left else f", {rough(store.seconds)} left"
    return f"; {rate(store)} values a second{seen}{rest}"
