"""The names of families: the oldest has its store's own, the others a revision behind an at sign.

So that plain state, from before the first migration, fits in as it is.
"""

from __future__ import annotations

from statemigrate.migration import Lineage

_SIGN = "@"


def family_name(lineage: Lineage, revision: str) -> str:
    """The family of a revision, known or not."""
    return lineage.store if revision == lineage.oldest else f"{lineage.store}{_SIGN}{revision}"


def is_family_of(store: str, name: str) -> bool:
    """Whether a family's name is one that `family_name` gives to a revision of ``store``."""
    # A store of plain code, which has no revisions, may have the sign in its own name.
    return name == store or name.startswith(f"{store}{_SIGN}")


def store_of(name: str) -> str:
    """The store of a family of this name."""
    return name.partition(_SIGN)[0]


def revision_in(name: str) -> str | None:
    """The revision that a family's name tells of; None for the oldest, whichever that is."""
    return name.partition(_SIGN)[2] or None
