"""The parts of a script that only a rewrite knows: keys, merging, and tables."""

from __future__ import annotations

from statemigrate.formats import Format
from statemigrate.migration import Merge, Rekey, TableTransform
from statemigrate.scripts.loading import Script
from statemigrate.scripts.reading.functions import function_in, only_raises
from statemigrate.scripts.reading.parts import ABSENT, format_in, is_baseline, wrong_part


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
            "`rekey` gives keys of which nothing is said.",
            expected='the format of the new keys, as in new_key = Struct("customer STRING")',
            found="no `new_key`",
            next_action="add `new_key`; where it is as before, copy the key's columns",
        )
    if script.get("downgrade") is not None:
        raise wrong_part(
            "SM-SCRIPT-019",
            script,
            "`downgrade` gives values back, and nothing their keys.",
            expected="no `downgrade` beside `rekey`: the way back is the old checkpoint",
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
