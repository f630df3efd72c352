"""The timers of a page's keys: a section of the page, in the order in which they expire.

Spark has one timer a page, at the earliest of them.
"""

from __future__ import annotations

from statemigrate.families import Span
from statemigrate.pages.page.page import Page
from statemigrate.pages.page.section import Section

FAMILY = "@timers"
"""A name that no store can have."""
FORMAT = b"timers".ljust(16, b"\x00")
"""In place of the fingerprint of a format."""
_MOMENT = 8
_OFFSET = 1 << 63
_LAST = _OFFSET - 1


class PageTimers:
    """The timers in the page that was turned to last, in milliseconds since the epoch."""

    def __init__(self) -> None:
        self._page: Page | None = None
        self._section: Section | None = None
        self._by_key: dict[bytes, set[int]] | None = None

    def turn(self, page: Page) -> None:
        """Go on with another page."""
        self._page, self._section, self._by_key = page, None, None

    def register(self, key: bytes, moment: int) -> None:
        """Let a key's timer expire after ``moment``."""
        self._opened().put(timer_entry(key, moment), b"")
        self._moments().setdefault(key, set()).add(moment)

    def delete(self, key: bytes, moment: int) -> None:
        """Remove a key's timer, if there is one."""
        self._opened().delete(timer_entry(key, moment))
        self._moments().get(key, set()).discard(moment)

    def of(self, key: bytes) -> list[int]:
        """A key's timers, earliest first."""
        return sorted(self._moments().get(key, ()))

    def earliest(self) -> int | None:
        """When the first timer of all keys expires."""
        if not self._holds_any():
            return None
        first = self._opened().first()
        return None if first is None else read_timer(first)[0]

    def expired(self, now: int) -> list[tuple[int, bytes]]:
        """The timers up to ``now`` with their keys, earliest first, as Spark takes them."""
        if not self._holds_any():
            return []
        span = Span(upper=None if now == _LAST else timer_entry(b"", now + 1))
        return [read_timer(entry) for entry, _ in self._opened().scan(span)]

    def _holds_any(self) -> bool:
        return self._page is not None and self._page.holds(FAMILY)

    def _opened(self) -> Section:
        if self._section is None:
            assert self._page is not None, "no page was turned to"  # noqa: S101
            self._section = self._page.section(FAMILY, FORMAT)
        return self._section

    def _moments(self) -> dict[bytes, set[int]]:
        if self._by_key is None:
            self._by_key = {}
            for entry, _ in self._opened().scan(Span()):
                moment, key = read_timer(entry)
                self._by_key.setdefault(key, set()).add(moment)
        return self._by_key


def timer_entry(key: bytes, moment: int) -> bytes:
    """The key of a timer's entry, from the grouping key's bytes."""
    # So that moments before 1970 sort before the others.
    return (moment + _OFFSET).to_bytes(_MOMENT, "big") + key


def read_timer(entry: bytes) -> tuple[int, bytes]:
    """The moment and the grouping key's bytes, of an entry's key."""
    return int.from_bytes(entry[:_MOMENT], "big") - _OFFSET, entry[_MOMENT:]
