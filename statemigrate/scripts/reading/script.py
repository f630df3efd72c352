"""Turns a loaded script into a Migration, or says which part is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from statemigrate.errors import LineageError, ScriptError
from statemigrate.formats import Format
from statemigrate.formats.schema.places import places
from statemigrate.migration import (
    Migration,
    TimeToLive,
    check_revision,
    check_store_name,
)
from statemigrate.scripts.loading import Script
from statemigrate.scripts.reading.examples import examples_in
from statemigrate.scripts.reading.functions import downgrade_in, upgrade_in
from statemigrate.scripts.reading.parts import check_present, format_in, is_baseline, wrong_part
from statemigrate.scripts.reading.rewriting import merge_in, new_key_in, rekey_in, table_in


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


def _drops(script: Script) -> tuple[str, ...]:
    names: Any = script.get("drops", ())
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise _no_fields(script, f"drops = {names!r:.200}")
    if names and is_baseline(script):
        raise _no_fields(script, f"drops = {names!r:.200} in a baseline, which transforms nothing")
    formats = [fmt for fmt in (script.get("old"), script.get("new")) if isinstance(fmt, Format)]
    known = {place.path for fmt in formats for place in places(fmt.schema)}
    # A format that is not filled in yet may have the field; it is a fault of its own.
    unknown = [name for name in names if name not in known] if len(formats) == 2 else []
    if unknown:
        raise _no_fields(script, f"{', '.join(map(repr, unknown))}, in neither format")
    return tuple(names)


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
    new_key_in,
    rekey_in,
    merge_in,
    table_in,
)
