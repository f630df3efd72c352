"""The family protocol on a page: a family is one of its sections.

A family goes from page to page, so that the variables made in ``init`` last as long as the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from statemigrate.deployment import Kind, StoredFamily
from statemigrate.families import Span
from statemigrate.formats import Format, Value
from statemigrate.pages.page.columns import NEVER, is_over
from statemigrate.pages.page.elements import (
    Element,
    elements_of,
    joined,
    last_to_expire,
    without_first_expired,
)
from statemigrate.pages.page.page import Page
from statemigrate.pages.page.section import Section

FINGERPRINT = 16
"""The bytes of a fingerprint that a page keeps."""


class PageFamily:
    """Values of one revision in the page that was turned to last.

    What is written lives for ``life`` milliseconds, None for ever. What has expired by the time of
    the visit is gone from the page as soon as the family is asked for anything.
    """

    def __init__(self, family: StoredFamily, life: int | None = None) -> None:
        self.name = family.name
        self.revision = family.revision
        self.format = family.format
        self._fingerprint = fingerprint(family.format)
        self._encode: Callable[[Any], bytes] = family.format.encode
        self._decode: Callable[[bytes], Any] = family.format.decode
        self._page: Page | None = None
        self._section: Section | None = None
        self._life = life
        self._now = self._expiry = NEVER

    def turn(self, page: Page, now: int = 0) -> None:
        """Go on with another page; its section is opened when something is asked of it.

        ``now`` is the time of the batch, in milliseconds since the epoch.
        """
        self._page, self._section, self._now = page, None, now
        self._expiry = NEVER if self._life is None else now + self._life

    def get(self, key: bytes) -> Any:
        """See `statemigrate.families.Family.get`."""
        data = (self._section or self._opened()).get(key)
        return None if data is None else self._decode(data)

    def contains(self, key: bytes) -> bool:
        """See `statemigrate.families.Family.contains`."""
        return (self._section or self._opened()).contains(key)

    def conform(self, value: Any) -> Any:
        """See `statemigrate.families.Family.conform`."""
        return self.format.conform(value)

    def put(self, key: bytes, value: Any) -> None:
        """See `statemigrate.families.Family.put`."""
        (self._section or self._opened()).put(key, self._encode(value), self._expiry)

    def adopt(self, key: bytes, value: Any, source: PageFamily) -> None:
        """Write a value that was migrated, for as long as it had left in ``source``."""
        expiry = source.expiry(key)
        (self._section or self._opened()).put(key, self._encode(value), expiry)

    def expiry(self, key: bytes) -> int:
        """When the entry under ``key`` expires; see `Section.expiry`."""
        return (self._section or self._opened()).expiry(key)

    def delete(self, key: bytes) -> None:
        """See `statemigrate.families.Family.delete`."""
        (self._section or self._opened()).delete(key)

    def scan(self, span: Span) -> Iterator[tuple[bytes, Any]]:
        """See `statemigrate.families.Family.scan`."""
        entries = (self._section or self._opened()).scan(span)
        return ((key, self._decode(data)) for key, data in entries)

    def scan_but(
        self, passed_over: Callable[[bytes], bool] | None = None
    ) -> Iterator[tuple[bytes, Any]]:
        """All entries but those under keys that are ``passed_over``, which are not decoded."""
        entries = (self._section or self._opened()).scan(Span())
        return (
            (key, self._decode(data))
            for key, data in entries
            if passed_over is None or not passed_over(key)
        )

    def is_drained(self) -> bool:
        """See `statemigrate.families.Family.is_drained`: of this page, which was read whole."""
        if self._section is not None:
            return not self._section.count
        # Before the first page nothing was seen, and not seen is never empty.
        return self._page is not None and not self._page.holds(self.name)

    def drop_expired(self) -> None:
        """Remove what has expired, also if nothing was asked of the family."""
        if self._section is None and self._page is not None and self._page.holds(self.name):
            self._opened()

    def _opened(self) -> Section:
        assert self._page is not None, "no page was turned to"  # noqa: S101
        self._section = self._page.section(self.name, self._fingerprint)
        self._section.drop_expired(self._now)
        return self._section


class PageListFamily(PageFamily):
    """Lists of one revision, whose elements expire one by one."""

    def __init__(self, family: StoredFamily, life: int | None = None) -> None:
        super().__init__(family, life)
        self._encode = self._encode_list
        self._decode = self._decode_list

    def conform(self, values: list[Value]) -> list[Value]:
        """See `statemigrate.families.Family.conform`."""
        return [self.format.conform(value) for value in values]

    def put(self, key: bytes, values: list[Value]) -> None:
        """See `statemigrate.families.Family.put`; an empty list is no entry."""
        if values:
            super().put(key, values)
        else:
            self.delete(key)

    def append(self, key: bytes, values: Iterable[Value]) -> None:
        """See `statemigrate.families.ListFamily.append`."""
        more = self._encode_list(list(values))
        if not more:
            return
        section = self._section or self._opened()
        there = section.get(key) or b""
        expiry = self._expiry
        if there:
            there = without_first_expired(there, self._now)
            expiry = last_to_expire((expiry, section.expiry(key))) if there else expiry
        section.put(key, there + more, expiry)

    def adopt(self, key: bytes, values: list[Value], source: PageFamily) -> None:
        """See `PageFamily.adopt`: every element goes on for as long as it had left."""
        assert isinstance(source, PageListFamily), source.name  # noqa: S101
        moments = [moment for _, moment in source.alive(key)]
        encoded = [self.format.encode(value) for value in values]
        data = joined(zip(encoded, moments, strict=True))
        (self._section or self._opened()).put(key, data, last_to_expire(moments))

    def alive(self, key: bytes) -> list[Element]:
        """The elements under ``key`` that have not expired."""
        return self._alive((self._section or self._opened()).get(key) or b"")

    def _alive(self, data: bytes) -> list[Element]:
        return [each for each in elements_of(data) if not is_over(each[1], self._now)]

    def _encode_list(self, values: list[Value]) -> bytes:
        return joined((self.format.encode(value), self._expiry) for value in values)

    def _decode_list(self, data: bytes) -> list[Value]:
        return self.format.decode_many([element for element, _ in self._alive(data)])


def family_class(kind: Kind) -> type[PageFamily]:
    """The family of a kind of store."""
    return PageListFamily if kind == "list" else PageFamily


def fingerprint(fmt: Format) -> bytes:
    """What a page keeps of a format's fingerprint."""
    return bytes.fromhex(fmt.fingerprint)[:FINGERPRINT]
