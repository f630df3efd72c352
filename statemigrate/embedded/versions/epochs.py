"""Beginning an epoch in a checkpoint of the embedded engine, also of before there were epochs."""

from __future__ import annotations

from functools import partial

from statemigrate.checkpoint import epochs
from statemigrate.checkpoint.epochs import Epoch
from statemigrate.embedded.storage.layout import VERSIONS, Layout
from statemigrate.files.documents.sealed import sealed

_FORMAT = 2
BARRIER = 10**18
"""A version that no query reaches. Releases without epochs take its file for state that is further
than Spark's logs, and so refuse a checkpoint whose newer manifests they do not see."""


def claim(layout: Layout) -> Epoch:
    """As `epochs.claim`; the first one shuts releases without epochs out."""
    return epochs.claim(layout.files, first=partial(_raise_barrier, layout))


def _raise_barrier(layout: Layout) -> None:
    says = "written by a release with epochs; older ones cannot go on from here"
    document = {"format": _FORMAT, "version": BARRIER, "says": says}
    try:
        layout.files.create(f"{VERSIONS}/{BARRIER}.json", sealed(document))
    except FileExistsError:
        # Also of one who was killed before its epoch.
        return
