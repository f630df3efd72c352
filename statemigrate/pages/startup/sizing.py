"""How many pages: whether those that a query starts with are too few or too many."""

from __future__ import annotations

import logging

from statemigrate.errors import StartupError
from statemigrate.pages.startup.held import Held

_log = logging.getLogger("statemigrate.pages")
_LARGE = 256 << 10
"""Bytes of an average page above which reading and writing it whole costs more than it spares."""
_WANTED = 16 << 10
"""Bytes of a page that is well filled: some hundred entries."""
_FEW = 4
"""Entries of an average page below which a page spares little."""
_SOME = 64
"""Pages from which on there are too many of them, however few entries there are yet."""


def tell_of_size(held: Held, number: int, path: str) -> None:
    """Warn in the log of pages that are too large or too small, with the figures."""
    if not held.pages:
        return
    average, entries = held.size / held.pages, held.entries / held.pages
    if average > _LARGE:
        _log.warning(
            "%s has too few pages: they are %d KiB on average and %d KiB at most, and each is read "
            "and written whole when one of its keys is touched; with %d pages in place of %d they "
            "would be %d KiB",
            *(path, average / 1024, held.largest / 1024),
            *(-(-held.size // _WANTED), number, _WANTED / 1024),
        )
    elif number >= _SOME and entries < _FEW:
        _log.warning(
            "%s has many pages for what is in them: %.1f entries on average in %d of %d pages, so "
            "that a page is hardly cheaper than its entries by themselves; take the number of "
            "keys that there will be divided by 250",
            *(path, entries, held.pages, number),
        )


def unsaid(path: str) -> StartupError:
    """The error for a new checkpoint whose number of pages nobody said."""
    return StartupError(
        "SM-PAGES-034",
        f"the checkpoint {path} is new, so that the number of its pages has to be said",
        expected="pages=, a whole number",
        found="no number, and no checkpoint that has one",
        next_action="take the number of keys that there will be divided by 250, but not more than "
        "a tenth of the keys of a batch: `statemigrate status CHECKPOINT` counts those of a query "
        "that is there; after the first start the number may be left out",
        path=path,
    )
