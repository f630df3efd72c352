"""A life that forks a checkpoint."""

from __future__ import annotations

from pathlib import Path

from statemigrate.rewrite.fork import fork


def forking(root: str) -> int:
    return fork(Path(root, "old"), Path(root, "new")).batch
