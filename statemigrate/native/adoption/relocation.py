"""A checkpoint that was moved: what Spark noted in it still names the place where it was written.

Spark starts a query only if it finds the schemas of the state where the operators' metadata say, by
absolute path. In a copy whose original is gone it fails; beside its original it would read that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from statemigrate.checkpoint.operators.metadata import OperatorFile, is_at, operator_files
from statemigrate.errors import CheckpointError
from statemigrate.files import Files
from statemigrate.native.adoption.offsets import checksum_of
from statemigrate.native.spark_state.view import uri_of

KEPT = "statemigrate/adoption/moved"
"""Where the metadata are kept as they were, below the checkpoint."""


@dataclass(frozen=True)
class Relocation:
    """The operators' metadata that name another place, as they are now."""

    checkpoint: Files
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
            kept = f"{KEPT}/{digest}/{file.path}"
            self.checkpoint.replace(kept, file.data, like=file.path)
            yield f"copied {file.path} to {KEPT}/{digest}"
            # A file without a checksum is read, and one with a wrong one is not.
            self.checkpoint.delete([checksum_of(file.path)])
            yield f"removed the checksum file of {file.path}"
            mine = file.rooted_at(uri_of(self.checkpoint)).data
            self.checkpoint.replace(file.path, mine)
            yield f"replaced {file.path}"


def plan_relocation(checkpoint: Files) -> Relocation:
    """What names another place than this one; of no file where nothing was moved.

    Raises `CheckpointError` where the schemas were left behind.
    """
    mine = uri_of(checkpoint)
    moved = tuple(
        file
        for file in operator_files(checkpoint)
        if not all(is_at(each, mine) for each in file.roots)
    )
    for file in moved:
        _check_schemas(checkpoint, file)
    return Relocation(checkpoint, moved)


def _check_schemas(checkpoint: Files, file: OperatorFile) -> None:
    missing = [name for name in file.schemas if checkpoint.find(name) is None]
    if missing:
        raise CheckpointError(
            "SM-CHECKPOINT-027",
            f"{checkpoint.location} was moved without all of its files",
            expected=f"{missing[0]}, which {file.path} names",
            found="no such file",
            next_action="copy the whole checkpoint, its folder state included",
            path=checkpoint.location,
        )
