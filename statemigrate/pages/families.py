"""The family protocol on a page: a family is one of its sections.

A family goes from page to page, so that the variables made in ``init`` last as long as the task.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from statemigrate.deployment import Kind, StoredFamily
from statemigrate.families import Span
from statemigrate.formats import Format, Value
from statemigrate.pages.page.layout import damaged
from statemigrate.pages.page.page import Page
from statemigrate.pages.page.section import Section

FINGERPRINT = 16
"""The bytes of a fingerprint that a page keeps."""
_LENGTH = struct.Struct("<I")


class PageFamily:
    """Values of one revision in the page that was turned to last."""

    def __init__(self, family: StoredFamily) -> None:
        self.name = family.name
        self.revision = family.revision
        self.format = family.format
        self._fingerprint = fingerprint(family.format)
        self._encode: Callable[[Any], bytes] = family.format.encode
        self._decode: Callable[[bytes], Any] = family.format.decode
        self._page: Page | None = None
        self._section: Section | None = None

    def turn(self, page: Page) -> None:
        """Go on with another page; its section is opened when something is asked of it."""
        self._page, self._section = page, None

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
        (self._section or self._opened()).put(key, self._encode(value))

    def delete(self, key: bytes) -> None:
        """See `statemigrate.families.Family.delete`."""
        (self._section or self._opened()).delete(key)

    def scan(self, span: Span) -> Iterator[tuple[bytes, Any]]:
        """See `statemigrate.families.Family.scan`."""
        entries = (self._section or self._opened()).scan(span)
        return ((key, self._decode(data)) for key, data in entries)

    def is_drained(self) -> bool:
        """See `statemigrate.families.Family.is_drained`: of this page, which was read whole."""
        if self._section is not None:
            return not self._section.count
        # Before the first page nothing was seen, and not seen is never empty.
        return self._page is not None and not self._page.holds(self.name)

    def _opened(self) -> Section:
        assert self._page is not None, "no page was turned to"  # noqa: S101
        self._section = self._page.section(self.name, self._fingerprint)
        return self._section


class PageListFamily(PageFamily):
    """Lists of one revision: an element behind the other, each with its length."""

    def __init__(self, family: StoredFamily) -> None:
        super().__init__(family)
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
        more = self._encode(list(values))
        if more:
            section = self._section or self._opened()
            section.put(key, (section.get(key) or b"") + more)

    def _encode_list(self, values: list[Value]) -> bytes:
        parts: list[bytes] = []
        for value in values:
            data = self.format.encode(value)
            parts += (_LENGTH.pack(len(data)), data)
        return b"".join(parts)

    def _decode_list(self, data: bytes) -> list[Value]:
        return self.format.decode_many(list(_elements(data)))


def _elements(data: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        if len(data) - position < _LENGTH.size:
            raise damaged("a list that ends within the length of an element")
        start = position + _LENGTH.size
        position = start + _LENGTH.unpack_from(data, position)[0]
        if position > len(data):
            raise damaged("a list that ends within an element")
        yield data[start:position]


def family_class(kind: Kind) -> type[PageFamily]:
    """The family of a kind of store."""
    return PageListFamily if kind == "list" else PageFamily


def fingerprint(fmt: Format) -> bytes:
    """What a page keeps of a format's fingerprint."""
    return bytes.fromhex(fmt.fingerprint)[:FINGERPRINT]
