"""Packs: the changelogs that a batch wrote in all partitions, as one file of the checkpoint.

An object store takes as long for ten bytes as for a hundred thousand, and asks a price for each
request; changelogs are small and many. Where each one lies in its pack, the manifest says.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from statemigrate.embedded.storage.confined import confined
from statemigrate.embedded.storage.durable import FileReference, unwritable
from statemigrate.embedded.versions.manifest import Pack

_BLOCK = 1 << 20


def write_pack(path: Path, changelogs: Iterable[tuple[Path, FileReference]]) -> dict[str, Pack]:
    """Write one file with all of these, each in a directory; where each is, by its name."""
    packs = {}
    with unwritable(path.parent):
        confined(path).parent.mkdir()
        with confined(path).open("xb") as target:
            for directory, file in changelogs:
                packs[file.name] = Pack(path.name, target.tell())
                with confined(file.within(directory)).open() as source:
                    shutil.copyfileobj(source, target)
    return packs


def take(pack: Path, offset: int, file: FileReference, target: Path) -> None:
    """Make a changelog of a pack a file of its own, whatever it holds there."""
    with pack.open("rb") as source, confined(target).open("xb") as made:
        source.seek(offset)
        left = file.size
        # Not all at once: a changelog may be larger than memory.
        while left and (block := source.read(min(left, _BLOCK))):
            made.write(block)
            left -= len(block)
