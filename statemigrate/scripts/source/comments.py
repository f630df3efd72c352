"""The one writer of comments in generated scripts.

What a comment says has names of fields in it, which come from checkpoints: a line break in one
would make code of what follows.
"""

from __future__ import annotations

from statemigrate.escapes import visible


def comment(text: str, longest: int | None = None) -> str:
    """Return a comment on one line, with escapes for what nobody sees; cut off where it is long."""
    line = f"# {visible(text)}"
    return line if longest is None or len(line) <= longest else f"{line[: longest - 3]}..."
