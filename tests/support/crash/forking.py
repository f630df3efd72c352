"""A life that forks a checkpoint."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from statemigrate.checkpoint.damage import partition_hashes, require_state
from statemigrate.files.open import open_files
from statemigrate.rewrite.fork import fork, fork_with_state


def forking(root: str) -> int:
    return fork(Path(root, "old"), Path(root, "new")).batch


def forking_with_state(root: str) -> int:
    """As a repair does, with the state of another checkpoint, which is read back."""
    old, computed, new = (open_files(Path(root, each)) for each in ("old", "computed", "new"))
    batch = fork_batch(root)
    hashes = partition_hashes(computed, batch)

    check = partial(require_state, new, batch, hashes)
    return fork_with_state(old, computed, new, batch, check).batch


def fork_batch(root: str) -> int:
    """The newest batch of the old checkpoint."""
    return max(int(each.name) for each in Path(root, "old", "commits").glob("[0-9]*"))
