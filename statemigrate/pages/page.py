"""A page: the entries of many keys, by family, in one binary value of Spark's state."""

from __future__ import annotations

from statemigrate.errors import PageError
from statemigrate.pages.columns import Extent, Outside, PageId, read, written
from statemigrate.pages.page_leaves import (
    SPLITTING,
    SplitSection,
    Splitting,
    entries_of,
    size_of_leaves,
    split,
)
from statemigrate.pages.section import Section
from statemigrate.quoting import argument

LARGEST = 64 << 20
"""Bytes that a page may have with its leaves: a migration has all of them in memory."""
OpenSection = Section | SplitSection
"""The entries of a family, in the page or in leaves."""


class Page:
    """The sections of one page, each opened when it is asked for.

    ``data`` is what is stored, None for a page without an entry. Its large values and leaves lie
    ``outside``, and ``splitting`` says when there are leaves. Raises `PageError` for what is
    damaged, of a newer format, or of another place than ``page_id``.
    """

    def __init__(
        self,
        page_id: PageId,
        data: bytes | None = None,
        outside: Outside | None = None,
        splitting: Splitting = SPLITTING,
    ) -> None:
        self._page_id = page_id
        self._size = 0 if data is None else len(data)
        self._outside = outside
        self._splitting = splitting
        self._stored: dict[str, tuple[Extent, bytes]] = {}
        self._open: dict[str, OpenSection] = {}
        self._made: dict[str, tuple[Extent, bytes]] = {}
        if data is not None:
            found, sections = read(data)
            if found != page_id:
                raise _misplaced(page_id, found)
            self._stored = {extent.name: (extent, section) for extent, section in sections}

    def section(self, family: str, format_fingerprint: bytes) -> OpenSection:
        """The entries of a family, whose values are in the format of that fingerprint.

        Raises `PageError` where the page has them in another format.
        """
        opened = self._open.get(family)
        if opened is None:
            nothing = Extent(family, format_fingerprint, 0, 0, 0, expires=False), b""
            extent, data = self._stored.get(family, nothing)
            if extent.format != format_fingerprint:
                raise _reformatted(family, format_fingerprint, extent.format)
            if extent.in_leaves:
                opened = SplitSection(self._page_id, extent, data, self._outside, self._splitting)
            else:
                opened = Section(extent, data, self._outside)
            self._open[family] = opened
        return opened

    @property
    def is_changed(self) -> bool:
        """Whether the entries differ from those that are stored."""
        return any(section.is_changed for section in self._open.values())

    @property
    def formats(self) -> dict[str, bytes]:
        """By family that is stored, the fingerprint of the format of its values."""
        return {name: extent.format for name, (extent, _) in self._stored.items()}

    @property
    def size(self) -> int:
        """The bytes of what is stored, with its leaves."""
        return self._size + sum(size_of_leaves(*each) for each in self._stored.values())

    @property
    def families(self) -> frozenset[str]:
        """The families that have an entry in what is stored."""
        return frozenset(self._stored)

    def contains_family(self, family: str) -> bool:
        """Whether there is an entry of a family now; its section is not opened for that."""
        opened = self._open.get(family)
        return family in self._stored if opened is None else bool(opened.count)

    @property
    def counts(self) -> dict[str, int]:
        """By family, how many entries there are now; only families that have one."""
        stored = {name: entries_of(*each) for name, each in self._stored.items()}
        found = stored | {name: section.count for name, section in self._open.items()}
        return {name: count for name, count in found.items() if count}

    def write_outside(self) -> None:
        """Write what was changed of the large values and of leaves, which are not in `written`.

        Where the page has become too large its largest families are put into leaves. Raises
        `PageError` for a value that is larger than one may be.
        """
        if self._outside is None or not self.is_changed:
            return
        for name, section in self._open.items():
            if section.is_changed:
                section.write_outside()
                self._made[name] = section.written()
        sections = self._stored | self._made
        self._made |= split(self._page_id, sections, self._outside, self._splitting)

    def written(self) -> bytes | None:
        """The bytes to store; None for a page without an entry.

        Without leaves they are the same for equal entries. Raises `PageError` for a page that is
        larger than `LARGEST`.
        """
        changed = {
            name: section.written()
            for name, section in self._open.items()
            if section.is_changed and name not in self._made
        }
        every = sorted((self._stored | changed | self._made).items())
        sections = [each for _, each in every if each[0].entries]
        if not sections:
            return None
        data = written(self._page_id, sections)
        size = len(data) + sum(size_of_leaves(*each) for each in sections)
        if size > LARGEST:
            raise _too_large(self._page_id, size, sum(self.counts.values()))
        return data


def _misplaced(expected: PageId, found: PageId) -> PageError:
    if expected.pages != found.pages:
        code = "SM-PAGES-016"
        problem = "a page of state is one of another number of pages"
        numbers = f"{expected.pages} pages", f"{found.pages} pages"
        action = f"pass pages={found.pages}, which the checkpoint was begun with"
    elif expected.keys != found.keys:
        code = "SM-PAGES-017"
        problem = "a page of state has keys of other columns"
        numbers = expected.keys.hex(), found.keys.hex()
        action = "group by the columns that the checkpoint was begun with, in by="
    else:
        code = "SM-PAGES-018"
        problem = "a page of state is in the place of another"
        numbers = f"page {expected.number}", f"page {found.number}"
        action = "restore the checkpoint from a copy; nothing of this batch was written"
    return PageError(code, problem, expected=numbers[0], found=numbers[1], next_action=action)


def _reformatted(family: str, expected: bytes, found: bytes) -> PageError:
    return PageError(
        "SM-PAGES-019",
        f"a page of state has values of {family} in another format",
        expected=f"the format of fingerprint {expected.hex()}",
        found=f"fingerprint {found.hex()}",
        next_action="deploy the code and the scripts that the values were written with; a change "
        "of format needs a migration script of its own",
        family=family,
    )


def _too_large(page_id: PageId, size: int, entries: int) -> PageError:
    return PageError(
        "SM-PAGES-020",
        f"page {page_id.number} of {page_id.pages} would be larger than a page may be",
        expected=f"at most {LARGEST:,} bytes",
        found=f"{size:,} bytes in {entries:,} entries",
        next_action="stop the query and `statemigrate rewrite CHECKPOINT NEW --pages "
        f"{argument(2 * page_id.pages)} --apply`, which makes a checkpoint with more pages, and "
        "so smaller ones; nothing of this batch was written",
        page=page_id.number,
    )
