"""Whether a new checkpoint lies apart from what it is made from, however both are named."""

from __future__ import annotations

from statemigrate.errors import RewriteError
from statemigrate.files import Files
from statemigrate.files.nesting import check_reachable, is_below, is_same


def check_apart(old: Files, new: Files, what: str = "the old checkpoint") -> None:
    """Raise `RewriteError` where one of both is the other one, or lies within it.

    ``what`` says what ``old`` is. Links, ``..`` and second names of a directory are seen through.
    Raises `CheckpointError` for a link that points to nothing.
    """
    check_reachable(old)
    check_reachable(new)
    if is_same(old, new):
        problem, found = f"{new.location} is {what}", f"the same directory as {old.location}"
    elif is_below(new, old):
        problem, found = f"{new.location} is within {what}", f"a place below {old.location}"
    elif is_below(old, new):
        problem, found = f"{what} is within {new.location}", f"{old.location}, which lies below it"
    else:
        return
    raise RewriteError(
        "SM-REWRITE-057",
        problem,
        expected=f"a place outside of {what}, which is only read",
        found=found,
        next_action="name another directory",
        path=new.location,
    )
