"""What a verb is called with: arguments that it needs, and those that exclude each other."""

from __future__ import annotations

from typing import Any

from statemigrate.errors import StatemigrateError


def required(verb: str, given: Any, what: str = "a checkpoint") -> Any:
    """What is ``given``. Raises `StatemigrateError` where it is nothing."""
    if given is None:
        raise StatemigrateError(
            "SM-CLI-003",
            f"{verb} is not given {what}",
            expected=what,
            found="none",
            next_action=f"give {what}",
        )
    return given


def require_alone(verb: str, name: str = "checkpoints", **others: Any) -> None:
    """Raise `StatemigrateError` for what ``name`` has no use for."""
    given = [each for each, value in others.items() if value is not None]
    if given:
        raise StatemigrateError(
            "SM-CLI-004",
            f"{verb} is given {name}, which stands in place of {', '.join(given)}",
            expected=f"{name} alone",
            found=f"{name} and {', '.join(given)}",
            next_action=f"leave {name} out, or the others",
        )
