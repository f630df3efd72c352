"""The two functions that every migration is about, as a script writes them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from inspect import signature
from typing import Any

from statemigrate.migration import Transform
from statemigrate.migration.signatures import takes
from statemigrate.scripts.loading import Script
from statemigrate.scripts.reading.parts import check_present, is_baseline, wrong_part

_INSTEAD = ("rekey", "merge", "upgrade_table")


def upgrade_in(script: Script) -> Transform | None:
    """The way up; None in a baseline, and where other functions say what becomes of values."""
    is_needed = not (is_baseline(script) or any(map(script.get, _INSTEAD)))
    if is_needed:
        check_present(script, "upgrade")
    upgrade = _transform(script, "upgrade")
    is_open = only_raises(script, "upgrade") and not is_baseline(script)
    if not is_open and (upgrade is not None or not is_needed):
        return upgrade
    raise wrong_part(
        "SM-SCRIPT-012",
        script,
        "`upgrade` is not written yet.",
        expected="a function `upgrade(value)` that returns the value in the format `new`",
        found=repr(upgrade) if upgrade is None else "raise NotImplementedError",
        next_action="write `upgrade`; where only the format is recorded, set `old = None` instead",
    )


def downgrade_in(script: Script) -> Transform | None:
    """The way back, if there is one."""
    # Left as generated it would fail on the first value; without one the start-up check refuses.
    return None if only_raises(script, "downgrade") else _transform(script, "downgrade")


def function_in(script: Script, name: str, form: str, *counts: int) -> Callable[..., Any] | None:
    """What the script has under a name, which must take one of these numbers of arguments.

    ``form`` is how it is written. Raises ScriptError.
    """
    function: Callable[..., Any] | None = script.get(name)
    if function is None:
        return None
    if not callable(function):
        raise wrong_part(
            "SM-SCRIPT-013",
            script,
            f"`{name}` is not a function.",
            expected=f"a function `{form}`",
            found=f"{type(function).__name__}: {function!r:.200}",
            next_action=f"write `{name}` as a function",
        )
    if not any(takes(function, count) for count in counts):
        raise wrong_part(
            "SM-SCRIPT-014",
            script,
            f"`{name}` cannot be called as it will be.",
            expected=f"a function `{form}`",
            found=f"{name}{signature(function)}",
            next_action=f"correct the parameters of `{name}`",
        )
    return function


def _transform(script: Script, name: str) -> Transform | None:
    return function_in(script, name, f"{name}(value)` or `{name}(value, key)", 1, 2)


def only_raises(script: Script, name: str) -> bool:
    """Whether a function was left as it was generated."""
    for node in ast.parse(script.source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            body = node.body[1:] if ast.get_docstring(node) else node.body
            return len(body) == 1 and _raises_not_implemented(body[0])
    return False


def _raises_not_implemented(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Raise):
        return False
    raised = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
