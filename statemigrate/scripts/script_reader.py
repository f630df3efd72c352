"""Reading a script: from a loaded module to a `Migration`.

Turns a loaded script into a Migration, or says which part is missing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from typing import Any

from statemigrate.errors import LineageError, ScriptError
from statemigrate.formats import Format
from statemigrate.formats.schema import field_paths
from statemigrate.migration import (
    ExampleValue,
    Merge,
    Migration,
    Rekey,
    TableTransform,
    TimeToLive,
    Transform,
    check_revision,
    check_store_name,
    takes,
)
from statemigrate.scripts.loading import Script

# Single parts of a script, and the error for one that is not what it must be.


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


# The two functions that every migration is about, as a script writes them.


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


# The parts of a script that only a rewrite knows: keys, merging, and tables.


def new_key_in(script: Script) -> Format | None:
    """The format of the new keys; of a baseline, that of the keys there are.

    Raises ScriptError for what is no format, and where nothing says what the new keys are.
    """
    if script.get("new_key", ABSENT) in (ABSENT, None):
        return None
    new_key = format_in(script, "new_key")
    if is_baseline(script) or any(script.get(name) for name in ("rekey", "upgrade_table")):
        return new_key
    raise wrong_part(
        "SM-SCRIPT-017",
        script,
        "`new_key` says what keys are like, and nothing makes them.",
        expected="a function `rekey(key, value)` that gives the new keys",
        found="neither `rekey` nor `upgrade_table`",
        next_action="write `rekey`, or remove `new_key` where keys stay as they are",
    )


def rekey_in(script: Script) -> Rekey | None:
    """What gives the new keys. Raises ScriptError for what cannot, or has no `new_key`."""
    _check(script, "rekey")
    rekey = function_in(script, "rekey", "rekey(key, value)", 2)
    if rekey is None:
        return None
    if script.get("new_key") is None:
        raise wrong_part(
            "SM-SCRIPT-018",
            script,
            "`rekey` gives keys that no format describes.",
            expected='the format of the new keys, as in new_key = Struct("customer STRING")',
            found="no `new_key`",
            next_action="add `new_key`; where it is as before, copy the key's columns",
        )
    if script.get("downgrade") is not None:
        raise wrong_part(
            "SM-SCRIPT-019",
            script,
            "`downgrade` gives values back, and nothing their keys.",
            expected="no `downgrade` together with `rekey`: the way back is the old checkpoint",
            found="both",
            next_action="remove `downgrade`",
        )
    return rekey


def merge_in(script: Script) -> Merge | None:
    """What becomes of two values under one key. Raises ScriptError for what cannot be called."""
    _check(script, "merge")
    return function_in(script, "merge", "merge(first, second)", 2)


def table_in(script: Script) -> TableTransform | None:
    """The form for Arrow tables. Raises ScriptError for what cannot be called."""
    _check(script, "upgrade_table")
    return function_in(script, "upgrade_table", "upgrade_table(table)", 1)


def _check(script: Script, name: str) -> None:
    if is_baseline(script) and script.get(name) is not None:
        raise wrong_part(
            "SM-SCRIPT-020",
            script,
            f"a baseline has `{name}`, which could never run.",
            expected="a format in `old`, or no function",
            found=f"old = None and `{name}`",
            next_action=f"fill in `old`, or remove `{name}`",
        )
    if only_raises(script, name):
        raise wrong_part(
            "SM-SCRIPT-021",
            script,
            f"`{name}` is not written yet.",
            expected=f"a function `{name}` that does its work",
            found="raise NotImplementedError",
            next_action=f"write `{name}`, or remove it where it is not needed",
        )


# The values that a script gives to be tried.


def examples_in(script: Script) -> tuple[ExampleValue, ...]:
    """The examples of a script. Raises ScriptError for what is none."""
    values: Any = script.get("examples", ())
    if not isinstance(values, list | tuple):
        raise _not_examples(script, f"{type(values).__name__}: {values!r:.200}")
    return tuple(_example(script, number, value) for number, value in enumerate(values, 1))


def _example(script: Script, number: int, value: Any) -> ExampleValue:
    if isinstance(value, dict):
        return ExampleValue(value)
    parts = value if isinstance(value, tuple) else ()
    is_pair = len(parts) == 2 and all(isinstance(each, dict) for each in parts)
    is_keyed = len(parts) == 3 and _is_keyed(*parts)
    if not is_pair and not is_keyed:
        raise _not_examples(script, f"example {number} is {type(value).__name__}: {value!r:.200}")
    if is_baseline(script):
        raise _not_examples(script, f"example {number} of a baseline is a pair: {value!r:.200}")
    return ExampleValue(*parts)


def _is_keyed(value: Any, expected: Any, key: Any) -> bool:
    return isinstance(value, dict) and isinstance(expected, dict | None) and isinstance(key, dict)


def _not_examples(script: Script, found: str) -> ScriptError:
    return wrong_part(
        "SM-SCRIPT-011",
        script,
        "`examples` are no values to try.",
        expected="a list of dicts in the format `old`, of pairs (old value, expected new value), "
        "or of triples with the key; of a baseline, dicts in the format `new`",
        found=found,
        next_action="correct `examples`, or leave them out",
    )


def store_of(script: Script) -> str:
    """Return the name of the script's store, its place in the store's branch checked.

    Raises ScriptError if the script does not say where it belongs, or cannot be there.
    """
    check_present(script, "store", "revision", "down_revision")
    try:
        store = check_store_name(script.get("store"))
        check_revision(script.get("revision"), str(script.path))
    except LineageError as cause:
        raise wrong_part(
            cause.code,
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
        text_checksum=script.text_checksum,
        path=str(script.path),
        questions=script.questions,
        old=_old(script),
        new=_new(script),
        upgrade=upgrade_in(script),
        downgrade=downgrade_in(script),
        time_to_live=_time_to_live(script),
        examples=examples_in(script),
        drops=_drops(script),
        new_key=new_key_in(script),
        rekey=rekey_in(script),
        merge=merge_in(script),
        upgrade_table=table_in(script),
        change=script.get("change"),
        lossless=_lossless(script),
        replaces=_replaces(script),
    )


def faults_in(script: Script) -> Iterator[ScriptError]:
    """All that `read` would refuse, an error for each part of the script."""
    for part in _PARTS:
        try:
            part(script)
        except ScriptError as fault:
            yield fault


def _check_branch(script: Script, store: str) -> None:
    down, labels = script.get("down_revision"), script.get("branch_labels")
    if down is not None and not isinstance(down, str):
        raise wrong_part(
            "SM-SCRIPT-022",
            script,
            "`down_revision` names more than one revision.",
            expected="one revision or None: a store's scripts form one chain",
            found=repr(down),
            next_action="name only the script this one follows",
        )
    if script.get("depends_on"):
        raise wrong_part(
            "SM-SCRIPT-023",
            script,
            "`depends_on` has no meaning for state.",
            expected="no `depends_on`: each store is migrated on its own",
            found=repr(script.get("depends_on")),
            next_action="remove it",
        )
    expected = (store,) if down is None else None
    if _as_tuple(labels) != (expected or ()):
        raise wrong_part(
            "SM-SCRIPT-024",
            script,
            "`branch_labels` is not what the store's branch needs.",
            expected=f"branch_labels = {expected!r}",
            found=f"branch_labels = {labels!r}",
            next_action="correct `branch_labels`, or `store` if that is wrong",
        )


def _as_tuple(labels: Any) -> tuple[Any, ...]:
    return (labels,) if isinstance(labels, str) else tuple(labels or ())


def _old(script: Script) -> Format | None:
    check_present(script, "old")
    return None if is_baseline(script) else format_in(script, "old")


def _new(script: Script) -> Format:
    check_present(script, "new")
    return format_in(script, "new")


def _time_to_live(script: Script) -> TimeToLive:
    value: Any = script.get("time_to_live", "keep")
    if value in ("keep", "restart"):
        return value  # type: ignore[no-any-return]
    raise wrong_part(
        "SM-SCRIPT-025",
        script,
        "`time_to_live` is neither of the two words it can be.",
        expected='"keep" (the default): a value that expires is migrated only when it is written; '
        'or "restart": it is migrated like any other, and its time starts again',
        found=repr(value),
        next_action="correct `time_to_live`, or leave it out",
    )


def _lossless(script: Script) -> bool | None:
    """Whether the script claims that its functions undo each other; None if it says nothing."""
    value: Any = script.get("lossless")
    has_both = all(
        script.get(name) is not None and not only_raises(script, name)
        for name in ("upgrade", "downgrade")
    )
    if value is None or value is False or (value is True and has_both):
        return value
    raise wrong_part(
        "SM-SCRIPT-034",
        script,
        "`lossless` claims a way back, and there is none."
        if value is True
        else "`lossless` is neither True nor False.",
        expected="True with both `upgrade` and `downgrade`, False, or no `lossless`",
        found="lossless = True without both functions"
        if value is True
        else f"lossless = {value!r:.200}",
        next_action="write the missing function, or remove `lossless`",
    )


def _drops(script: Script) -> tuple[str, ...]:
    names: Any = script.get("drops", ())
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise _no_fields(script, f"drops = {names!r:.200}")
    if names and is_baseline(script):
        raise _no_fields(script, f"drops = {names!r:.200} in a baseline, which transforms nothing")
    formats = [fmt for fmt in (script.get("old"), script.get("new")) if isinstance(fmt, Format)]
    known = field_paths(*(fmt.schema for fmt in formats))
    # A format that is not filled in yet may have the field; it is a fault of its own.
    unknown = [name for name in names if name not in known] if len(formats) == 2 else []
    if unknown:
        raise _no_fields(script, f"{', '.join(map(repr, unknown))}, in neither format")
    return tuple(names)


def _replaces(script: Script) -> Mapping[str, str]:
    """The scripts that were squashed into this one."""
    written: Any = script.get("replaces", {})
    is_sound = isinstance(written, dict) and all(
        isinstance(each, str) for pair in written.items() for each in pair
    )
    if is_sound and (not written or script.get("revision") in written):
        return dict(written)
    raise wrong_part(
        "SM-SCRIPT-038",
        script,
        "`replaces` does not say which scripts were squashed into this one.",
        expected="a dict of revisions and checksums, this script's revision among them, as "
        "`statemigrate new STORE --squash REVISION` writes it",
        found=f"{written!r:.200}",
        next_action="restore `replaces`, or remove it if no scripts were squashed",
    )


def _no_fields(script: Script, found: str) -> ScriptError:
    return wrong_part(
        "SM-SCRIPT-026",
        script,
        "`drops` names what is no field.",
        expected='a tuple of fields of `old` or `new`, as in drops = ("note", "items[].price")',
        found=found,
        next_action="correct `drops`, or leave it out",
    )


_PARTS = (
    store_of,
    _old,
    _new,
    upgrade_in,
    downgrade_in,
    _time_to_live,
    examples_in,
    _drops,
    _lossless,
    _replaces,
    new_key_in,
    rekey_in,
    merge_in,
    table_in,
)
