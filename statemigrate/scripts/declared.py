"""A script that declares its change by lenses: its functions, as if they were written.

From here on nobody needs to know that they are not.
"""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

from statemigrate.errors import FormatError, ScriptError
from statemigrate.formats import Format
from statemigrate.lenses import Change, Lens, LensChain

_DERIVED = ("upgrade", "downgrade", "upgrade_table")
_OF_KEYS = ("new_key", "rekey", "merge")


def declare(path: Path, source: str, module: ModuleType) -> None:
    """Give a script with a ``change`` what is derived from it.

    ``new`` is derived where it is not written. Of a script that changes keys, too, only the way up
    of a value is derived. Raises ScriptError with ``path`` and ``line``.
    """
    written = getattr(module, "change", None)
    if written is None:
        return
    line = _line(source)
    chain = _chain(path, line, written)
    old, new = getattr(module, "old", None), getattr(module, "new", None)
    _check_alone(path, line, module)
    if not isinstance(old, Format):
        raise _wrong(
            "SM-LENS-009",
            path,
            line,
            "`change` has no format that it changes.",
            expected='a format in `old`, as in old = Struct("name STRING")',
            found=f"old = {old!r:.80}",
            next_action="fill in `old`, or remove `change` where only a format is recorded",
        )
    try:
        change = Change.of(chain, old, new if isinstance(new, Format) else None)
    except (ScriptError, FormatError) as cause:
        raise cause.but(
            summary=f"{path}, line {line}: {cause.summary}", path=str(path), line=line
        ) from cause
    _assign(module, change)


def _assign(module: ModuleType, change: Change) -> None:
    has_keys = any(getattr(module, name, None) for name in _OF_KEYS)
    found = {
        "change": change,
        "new": change.new,
        "upgrade": change.upgrade,
        "downgrade": None if has_keys else change.downgrade,
        "upgrade_table": None if has_keys else change.upgrade_table,
        "drops": (*getattr(module, "drops", ()), *change.drops),
    }
    for name, value in found.items():
        setattr(module, name, value)


def _chain(path: Path, line: int | None, written: object) -> LensChain:
    if isinstance(written, LensChain):
        return written
    if isinstance(written, Lens):
        return LensChain((written,))
    raise _wrong(
        "SM-LENS-008",
        path,
        line,
        "`change` is not made of lenses.",
        expected='change = lens(rename("name", "title"), ...)',
        found=f"{type(written).__name__}: {written!r:.80}",
        next_action="correct `change`, or write `upgrade` and `downgrade` in its place",
    )


def _check_alone(path: Path, line: int | None, module: ModuleType) -> None:
    functions = [name for name in _DERIVED if getattr(module, name, None) is not None]
    if functions:
        raise _wrong(
            "SM-LENS-010",
            path,
            line,
            f"`change` gives `{functions[0]}`, and the script has one of its own.",
            expected="lenses or functions: `function` is a lens that calls one",
            found=f"`change` and `{'` and `'.join(functions)}`",
            next_action=f"remove `{functions[0]}`, or `change`",
        )


def _wrong(
    code: str,
    path: Path,
    line: int | None,
    problem: str,
    *,
    expected: str,
    found: str,
    next_action: str,
) -> ScriptError:
    return ScriptError(
        code,
        f"{path}, line {line}: {problem}",
        expected=expected,
        found=found,
        next_action=next_action,
        path=str(path),
        line=line,
    )


def _line(source: str) -> int | None:
    """Where the script assigns ``change``."""
    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(each, ast.Name) and each.id == "change" for each in targets):
            return node.lineno
    return None
