"""Histories of queries with their state in pages; see `soak.native`."""

from pathlib import Path

from soak.native import NativeSoak


def engine(folder: Path) -> NativeSoak:
    """See `soak.runner`."""
    return NativeSoak(folder, "paged")
