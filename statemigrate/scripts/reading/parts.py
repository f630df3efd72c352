"""Single parts of a script, and the error for one that is not what it must be."""

from __future__ import annotations

from statemigrate.errors import ScriptError
from statemigrate.formats import Format
from statemigrate.scripts.loading import Script

ABSENT = object()
"""What a script says of a part that it does not have."""


def wrong_part(
    code: str, script: Script, problem: str, *, expected: object, found: object, next_action: str
) -> ScriptError:
    """The error for a part of the script."""
    return ScriptError(
        code,
        f"{script.path}: {problem}",
        expected=expected,
        found=found,
        next_action=next_action,
        path=str(script.path),
    )


def check_present(script: Script, *names: str) -> None:
    """Raise ScriptError unless the script has all of these parts."""
    missing = [f"`{name}`" for name in names if script.get(name, ABSENT) is ABSENT]
    if missing:
        raise wrong_part(
            "SM-SCRIPT-015",
            script,
            f"{', '.join(missing)} missing.",
            expected="`revision`, `down_revision`, `store`, `old`, `new` and `upgrade`",
            found=f"no {' and no '.join(missing)}",
            next_action=f"add {' and '.join(missing)} to the script"
            + (_is_no_script(script) if len(missing) == 3 else ""),
        )


def _is_no_script(script: Script) -> str:
    folder = script.path.parent.parent
    return f"; a module for scripts to import goes into {folder}, or is named with an underscore"


def is_baseline(script: Script) -> bool:
    """Whether the script only records a format."""
    return script.get("old", ABSENT) is None


def format_in(script: Script, name: str) -> Format:
    """The format under a name. Raises ScriptError for what is none."""
    value = script.get(name)
    if isinstance(value, Format):
        return value
    unfilled = value is ...
    raise wrong_part(
        "SM-SCRIPT-016",
        script,
        f"`{name}` is not filled in yet." if unfilled else f"`{name}` is not a format.",
        expected='Struct("field TYPE, ...") or Avro(schema)',
        found="..." if unfilled else f"{type(value).__name__}: {value!r:.200}",
        next_action=f"write the format in `{name}`",
    )
