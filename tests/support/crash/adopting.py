"""Lives that adopt a checkpoint, or undo an adoption."""

from __future__ import annotations

from statemigrate.native.adoption import adopt, undo_adoption


def adopting(root: str) -> str:
    return adopt(root, apply=True, wait=0).state


def undoing(root: str) -> str:
    return undo_adoption(root, apply=True, wait=0).state
