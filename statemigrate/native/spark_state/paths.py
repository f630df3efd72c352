"""Paths of checkpoints that Spark itself cannot work with."""

from __future__ import annotations

from statemigrate.errors import CheckpointError

_ESCAPED = frozenset(' "<>\\^`{|}%#?[]')
"""What Java's ``URI`` escapes in a path."""


def check_readable(path: str) -> None:
    """Raise `CheckpointError` for a path that Spark's own state readers cannot open.

    They escape the path as a URI, and then look for a directory of the escaped name.
    """
    escaped = sorted(_ESCAPED & set(path))
    if escaped:
        raise CheckpointError(
            "SM-STATE-027",
            f"Spark's state readers cannot open {path}",
            expected="a checkpoint path without characters that a URI escapes",
            found=", ".join(map(repr, escaped)),
            next_action="move the stopped query's checkpoint to a directory of another name, or "
            "migrate by touch, without checkpoint=",
            path=path,
        )


def check_source_path(checkpoint: str) -> None:
    """Raise `CheckpointError` for a path below which no file source can look."""
    found = sorted(set("*?[]{}\\") & set(checkpoint))
    if found:
        raise CheckpointError(
            "SM-BACKFILL-015",
            f"the control source cannot be below {checkpoint}",
            expected="a path without any of * ? [ ] { } and backslash, which Spark's file source "
            "takes as a pattern",
            found=" ".join(found),
            next_action="move the checkpoint of the stopped query to a directory without them",
            path=checkpoint,
        )
