"""A checkpoint that was moved: what Spark noted in it still names the place where it was written.

Spark starts a query only if it finds the schemas of the state where the operators' metadata say, by
absolute path. In a copy whose original is gone it fails; beside its original it would read that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from statemigrate.checkpoint.operators import OperatorFile, is_at, operator_files
from statemigrate.errors import CheckpointError
from statemigrate.files import ConfinedPath
from statemigrate.native.adoption.backup import write_file
from statemigrate.native.spark_state.reader import file_system

KEPT = "statemigrate/adoption/moved"
"""Where the metadata are kept as they were, below the checkpoint."""


@dataclass(frozen=True)
class Relocation:
    """The operators' metadata that name another place, as they are now."""

    checkpoint: Path
    files: tuple[OperatorFile, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, below the checkpoint."""
        return tuple(each.path for each in self.files)

    @property
    def roots(self) -> tuple[str, ...]:
        """The places that they name."""
        return tuple(sorted({root for each in self.files for root in each.roots}))

    def steps(self) -> Iterator[str]:
        """Rewrite them one by one; after a crash the next run does what is left."""
        for file in self.files:
            digest = hashlib.sha256(file.data).hexdigest()[:16]
            root = ConfinedPath(self.checkpoint)
            path = root / file.path
            write_file(root / f"{KEPT}/{digest}/{file.path}", file.data, like=path)
            yield f"copied {file.path} to {KEPT}/{digest}"
            # A file without a checksum is read, and one with a wrong one is not.
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            yield f"removed the checksum file of {file.path}"
            write_file(path, file.rooted_at(f"file:{self.checkpoint}").data)
            yield f"replaced {file.path}"


def plan_relocation(checkpoint: Path) -> Relocation:
    """What names another place than this one; of no file where nothing was moved.

    Raises `CheckpointError` where the schemas were left behind.
    """
    system, root = file_system(str(checkpoint))
    mine = f"file:{checkpoint}"
    moved = tuple(
        file
        for file in operator_files(system, root)
        if not all(is_at(each, mine) for each in file.roots)
    )
    for file in moved:
        _check_schemas(checkpoint, file)
    return Relocation(checkpoint, moved)


def _check_schemas(checkpoint: Path, file: OperatorFile) -> None:
    root = ConfinedPath(checkpoint)
    missing = [name for name in file.schemas if not (root / name).is_file()]
    if missing:
        raise CheckpointError(
            f"{checkpoint} was moved without all of its files",
            expected=f"{missing[0]}, which {file.path} names",
            found="no such file",
            next_action="copy the whole checkpoint, its folder state included",
            path=str(checkpoint),
        )
