"""The entries of a page that did not migrate, marked in the page itself.

A mark is written in the batch that tried the entry, with the deployment that did: so that it is
told of once, and its neighbours' visits do not try it again. Every start tries it anew.
"""

from __future__ import annotations

from collections.abc import Callable

from statemigrate.families import Span
from statemigrate.pages.page.page import Page
from statemigrate.pages.page.section import Section

MARKS = "@quarantine"
"""The section's name, which no store can have."""
MARKS_FORMAT = b"quarantine".ljust(16, b"\x00")
"""In place of the fingerprint of a format."""
_END_OF_NAME = b"\x00"


class PageQuarantine:
    """The marks in the page that was turned to last; new ones have the name of ``deployment``."""

    def __init__(self, deployment: str) -> None:
        self._deployment = deployment.encode()
        self._page: Page | None = None

    def turn(self, page: Page) -> None:
        """Go on with another page."""
        self._page = page

    @property
    def has_marks(self) -> bool:
        """Whether any entry of the page is marked."""
        return self._page is not None and self._page.holds(MARKS)

    def is_marked(self, family: str, key: bytes) -> bool:
        """Whether this deployment has tried the entry already."""
        return self.has_marks and self._opened().get(_mark(family, key)) == self._deployment

    def mark(self, family: str, key: bytes) -> None:
        """Note that the entry was tried and does not migrate."""
        self._opened().put(_mark(family, key), self._deployment)

    def keep(self, is_left: Callable[[str, bytes], bool]) -> None:
        """Remove the marks of all but those entries of which ``is_left`` says so."""
        if not self.has_marks:
            return
        section = self._opened()
        for mark, _ in section.scan(Span()):
            family, _, key = mark.partition(_END_OF_NAME)
            if not is_left(family.decode(), key):
                section.delete(mark)

    def _opened(self) -> Section:
        assert self._page is not None, "no page was turned to"  # noqa: S101
        return self._page.section(MARKS, MARKS_FORMAT)


def _mark(family: str, key: bytes) -> bytes:
    return family.encode() + _END_OF_NAME + key
