"""Histories of whole queries of the embedded engine on Spark; see `soak.native`."""

from pathlib import Path

from soak.native import NativeSoak


def engine(folder: Path) -> NativeSoak:
    """See `soak.runner`."""
    return NativeSoak(folder, "embedded")
