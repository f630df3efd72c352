"""Five formats a store: one field in ever other clothes, and a stamp that says which.

A transform refuses a value whose stamp is not its own revision's, so that no value goes a step
twice, or one that was not meant for it, without an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from statemigrate.scripts import ScriptFolder

STORES = {"profile": "value", "events": "list", "totals": "map"}
_PREFIXES = {"profile": "aaaa1111", "events": "bbbb2222", "totals": "cccc3333"}
LAST = 4
_DDL = (
    "v {t}, stamp INT",
    "body STRUCT<v: {t}, note: STRING>, stamp INT",
    "items ARRAY<STRUCT<v: {t}>>, stamp INT",
    "pairs MAP<STRING, STRUCT<v: {t}>>, stamp INT, kept BIGINT",
    "stamp INT, v {t}, n DECIMAL(10,2)",
)
_MAKE = (
    '{"v": v, "stamp": 0}',
    '{"body": {"v": v, "note": "é"}, "stamp": 1}',
    '{"items": [{"v": v}], "stamp": 2}',
    '{"pairs": {"": {"v": v}}, "stamp": 3, "kept": -1}',
    '{"stamp": 4, "v": v, "n": Decimal("-7.25")}',
)
_TAKE = (
    'value["v"]',
    'value["body"]["v"]',
    'value["items"][0]["v"]',
    'value["pairs"][""]["v"]',
    'value["v"]',
)
_SCRIPT = '''"""Step {step} of {store}."""
from decimal import Decimal
from statemigrate.formats import Struct

revision = {revision!r}
down_revision = {down!r}
branch_labels = {labels!r}
store = {store!r}
old = Struct("{old}")
new = Struct("{new}")


def upgrade(value):
    assert value["stamp"] == {step} - 1, value
    v = {take_old}
    return {new_made}
'''
_DOWNGRADE = """

def downgrade(value):
    assert value["stamp"] == {step}, value
    v = {take_new}
    return {old_made}
"""


def ddl(data_type: str, revision: int) -> str:
    """The format of a store whose one field has that type."""
    return _DDL[revision].format(t=data_type)


def revision_id(store: str, revision: int) -> str:
    """The name of the script's revision, or base."""
    return "base" if revision == 0 else f"{_PREFIXES[store]}{revision:04}"


def family(store: str, revision: int) -> str:
    """The variable that holds values of that revision."""
    return store if revision == 0 else f"{store}@{revision_id(store, revision)}"


def write_scripts(
    directory: Path,
    types: Mapping[str, str],
    steps: Mapping[str, int],
    one_way: Mapping[str, list[int]],
    edited: list[str],
) -> Path:
    """A folder with so many scripts a store; the first script of the ``edited`` differs."""
    folder = ScriptFolder.create(directory)
    for store, count in steps.items():
        for step in range(1, count + 1):
            text = _script(store, types[store], step, step not in one_way.get(store, []))
            if step == 1 and store in edited:
                text = text.replace("    v = ", "    v = None or ", 1)
            (folder.versions / f"{store}_{step}.py").write_text(text)
    return folder.directory


def _script(store: str, data_type: str, step: int, reversible: bool) -> str:
    parts = {
        "store": store,
        "step": step,
        "revision": revision_id(store, step),
        "down": None if step == 1 else revision_id(store, step - 1),
        "labels": (store,) if step == 1 else None,
        "old": ddl(data_type, step - 1),
        "new": ddl(data_type, step),
        "take_old": _TAKE[step - 1],
        "new_made": _MAKE[step],
        "take_new": _TAKE[step],
        "old_made": _MAKE[step - 1],
    }
    return (_SCRIPT + (_DOWNGRADE if reversible else "")).format(**parts)


def made(revision: int, v: Any) -> tuple[Any, ...]:
    """The row of a value, as code for that revision writes it."""
    from decimal import Decimal

    return (
        (v, 0),
        ((v, "é"), 1),
        ([(v,)], 2),
        ({"": (v,)}, 3, -1),
        (4, v, Decimal("-7.25")),
    )[revision]


def taken(revision: int, row: Any) -> Any:
    """The field of a row that code for that revision reads. Fails for a row of another one."""
    stamp = row[0] if revision == 4 else row[1]
    assert stamp == revision, f"a row of {stamp} in code for {revision}: {row!r}"
    if revision in (0, 4):
        return row[0 if revision == 0 else 1]
    return (lambda: row[0][0], lambda: row[0][0][0], lambda: dict(row[0])[""][0])[revision - 1]()
