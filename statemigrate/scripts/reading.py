"""Turns a loaded script into a Migration, or says which part is missing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from statemigrate.errors import LineageError, ScriptError
from statemigrate.formats import Format
from statemigrate.formats.schema.places import places
from statemigrate.migration import (
    ExampleValue,
    Migration,
    TimeToLive,
    Transform,
    check_revision,
    check_store_name,
)
from statemigrate.scripts.loading import Script

_ABSENT = object()


def store_of(script: Script) -> str:
    """Return the name of the script's store, its place in the store's branch checked.

    Raises ScriptError if the script does not say where it belongs, or cannot be there.
    """
    _check_present(script, "store", "revision", "down_revision")
    try:
        store = check_store_name(script.get("store"))
        check_revision(script.get("revision"), str(script.path))
    except LineageError as cause:
        raise _error(
            script,
            cause.summary,
            expected=cause.expected,
            found=cause.found,
            next_action=cause.next_action or "choose another name",
        ) from cause
    _check_branch(script, store)
    return store


def read(script: Script) -> Migration:
    """Return what the script says.

    Raises ScriptError for a part that is missing, left as it was generated, or of the wrong type.
    """
    return Migration(
        store=store_of(script),
        revision=script.get("revision"),
        down_revision=script.get("down_revision"),
        message=script.message,
        checksum=script.checksum,
        path=str(script.path),
        questions=script.questions,
        old=_old(script),
        new=_new(script),
        upgrade=_upgrade(script),
        downgrade=_downgrade(script),
        time_to_live=_time_to_live(script),
        examples=_examples(script),
        drops=_drops(script),
    )


def faults_in(script: Script) -> Iterator[ScriptError]:
    """All that `read` would refuse, an error for each part of the script."""
    for part in (store_of, _old, _new, _upgrade, _downgrade, _time_to_live, _examples, _drops):
        try:
            part(script)
        except ScriptError as fault:
            yield fault


def _check_present(script: Script, *names: str) -> None:
    missing = [f"`{name}`" for name in names if script.get(name, _ABSENT) is _ABSENT]
    if missing:
        raise _error(
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


def _check_branch(script: Script, store: str) -> None:
    down, labels = script.get("down_revision"), script.get("branch_labels")
    if down is not None and not isinstance(down, str):
        raise _error(
            script,
            "`down_revision` names more than one revision.",
            expected="one revision or None: a store's scripts form one chain",
            found=repr(down),
            next_action="name only the script this one follows",
        )
    if script.get("depends_on"):
        raise _error(
            script,
            "`depends_on` has no meaning for state.",
            expected="no `depends_on`: each store is migrated on its own",
            found=repr(script.get("depends_on")),
            next_action="remove it",
        )
    expected = (store,) if down is None else None
    if _as_tuple(labels) != (expected or ()):
        raise _error(
            script,
            "`branch_labels` is not what the store's branch needs.",
            expected=f"branch_labels = {expected!r}",
            found=f"branch_labels = {labels!r}",
            next_action="correct `branch_labels`, or `store` if that is wrong",
        )


def _as_tuple(labels: Any) -> tuple[Any, ...]:
    return (labels,) if isinstance(labels, str) else tuple(labels or ())


def _old(script: Script) -> Format | None:
    _check_present(script, "old")
    return None if _is_baseline(script) else _format(script, "old")


def _new(script: Script) -> Format:
    _check_present(script, "new")
    return _format(script, "new")


def _is_baseline(script: Script) -> bool:
    return script.get("old", _ABSENT) is None


def _format(script: Script, name: str) -> Format:
    value = script.get(name)
    if isinstance(value, Format):
        return value
    unfilled = value is ...
    raise _error(
        script,
        f"`{name}` is not filled in yet." if unfilled else f"`{name}` is not a format.",
        expected='Struct("field TYPE, ...") or Avro(schema)',
        found="..." if unfilled else f"{type(value).__name__}: {value!r:.200}",
        next_action=f"write the format in `{name}`",
    )


def _upgrade(script: Script) -> Transform | None:
    if _is_baseline(script):
        return _transform(script, "upgrade")
    _check_present(script, "upgrade")
    upgrade = _transform(script, "upgrade")
    if upgrade is not None and not _only_raises(script, "upgrade"):
        return upgrade
    raise _error(
        script,
        "`upgrade` is not written yet.",
        expected="a function `upgrade(value)` that returns the value in the format `new`",
        found=repr(upgrade) if upgrade is None else "raise NotImplementedError",
        next_action="write `upgrade`; where only the format is recorded, set `old = None` instead",
    )


def _downgrade(script: Script) -> Transform | None:
    # Left as generated it would fail on the first value; without one the start-up check refuses.
    return None if _only_raises(script, "downgrade") else _transform(script, "downgrade")


def _time_to_live(script: Script) -> TimeToLive:
    value: Any = script.get("time_to_live", "keep")
    if value in ("keep", "restart"):
        return value  # type: ignore[no-any-return]
    raise _error(
        script,
        "`time_to_live` is neither of the two words it can be.",
        expected='"keep" (the default): a value that expires is migrated only when it is written; '
        'or "restart": it is migrated like any other, and its time starts again',
        found=repr(value),
        next_action="correct `time_to_live`, or leave it out",
    )


def _examples(script: Script) -> tuple[ExampleValue, ...]:
    values: Any = script.get("examples", ())
    if not isinstance(values, list | tuple):
        raise _not_examples(script, f"{type(values).__name__}: {values!r:.200}")
    return tuple(_example(script, number, value) for number, value in enumerate(values, 1))


def _example(script: Script, number: int, value: Any) -> ExampleValue:
    if isinstance(value, dict):
        return ExampleValue(value)
    is_pair = isinstance(value, tuple) and len(value) == 2
    if not is_pair or not all(isinstance(side, dict) for side in value):
        raise _not_examples(script, f"example {number} is {type(value).__name__}: {value!r:.200}")
    if _is_baseline(script):
        raise _not_examples(script, f"example {number} of a baseline is a pair: {value!r:.200}")
    return ExampleValue(*value)


def _not_examples(script: Script, found: str) -> ScriptError:
    return _error(
        script,
        "`examples` are no values to try.",
        expected="a list of dicts in the format `old`, or of pairs (old value, expected new "
        "value); of a baseline, dicts in the format `new`",
        found=found,
        next_action="correct `examples`, or leave them out",
    )


def _drops(script: Script) -> tuple[str, ...]:
    names: Any = script.get("drops", ())
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise _no_fields(script, f"drops = {names!r:.200}")
    if names and _is_baseline(script):
        raise _no_fields(script, f"drops = {names!r:.200} in a baseline, which transforms nothing")
    formats = [fmt for fmt in (script.get("old"), script.get("new")) if isinstance(fmt, Format)]
    known = {place.path for fmt in formats for place in places(fmt.schema)}
    # A format that is not filled in yet may have the field; it is a fault of its own.
    unknown = [name for name in names if name not in known] if len(formats) == 2 else []
    if unknown:
        raise _no_fields(script, f"{', '.join(map(repr, unknown))}, in neither format")
    return tuple(names)


def _no_fields(script: Script, found: str) -> ScriptError:
    return _error(
        script,
        "`drops` names what is no field.",
        expected='a tuple of fields of `old` or `new`, as in drops = ("note", "items[].price")',
        found=found,
        next_action="correct `drops`, or leave it out",
    )


def _transform(script: Script, name: str) -> Transform | None:
    function: Transform | None = script.get(name)
    if function is None or callable(function):
        return function
    raise _error(
        script,
        f"`{name}` is not a function.",
        expected=f"a function `{name}(value)`",
        found=f"{type(function).__name__}: {function!r:.200}",
        next_action=f"write `{name}` as a function",
    )


def _only_raises(script: Script, name: str) -> bool:
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


def _error(
    script: Script, problem: str, *, expected: object, found: object, next_action: str
) -> ScriptError:
    return ScriptError(
        f"{script.path}: {problem}",
        expected=expected,
        found=found,
        next_action=next_action,
        path=str(script.path),
    )
