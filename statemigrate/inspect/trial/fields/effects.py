"""How a value differs from another, field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from statemigrate.formats import Value
from statemigrate.formats.json_values import json_text
from statemigrate.formats.schema.nodes import Node, Record, Union
from statemigrate.inspect.report.dry_run import Effect

_WIDTH = 160
_MOST = 2000
Change = tuple[Effect, str, Any, Any]


def changes(before: Value, after: Value, old: Record, new: Record) -> Iterator[Change]:
    """Each field's effect, its path, and its value before and after.

    ``old`` and ``new`` are the schemas. Records within are compared field by field where both sides
    have one; lists and maps as a whole.
    """
    return _changes(before, after, old, new, "")


def _changes(before: Value, after: Value, old: Record, new: Record, at: str) -> Iterator[Change]:
    types = {each.name: each.type for each in new.fields}
    for field in old.fields:
        path, value = f"{at}{field.name}", before[field.name]
        if field.name not in types:
            yield "removed", path, value, None
            continue
        yield from _common(value, after[field.name], field.type, types[field.name], path)
    kept = {field.name for field in old.fields}
    for name in types:
        if name not in kept:
            yield "added", f"{at}{name}", None, after[name]


def _common(before: Any, after: Any, old: Node, new: Node, path: str) -> Iterator[Change]:
    one, other = record_in(old), record_in(new)
    if one and other and isinstance(before, dict) and isinstance(after, dict):
        yield from _changes(before, after, one, other, f"{path}.")
    else:
        # 1 == 1.0 == True, yet a field that changed its type has changed.
        same = before == after and type(before) is type(after)
        emptied = after is None and before is not None
        yield ("kept" if same else "emptied" if emptied else "changed"), path, before, after


def record_in(node: Node) -> Record | None:
    """The record that a type is, beside null at the most; None where it is none."""
    if isinstance(node, Union):
        records = [branch for branch in node.branches if isinstance(branch, Record)]
        return records[0] if len(records) == 1 else None
    return node if isinstance(node, Record) else None


def shown(value: Any) -> str:
    """A value as text of at most 160 characters."""
    text = json.dumps(value, default=_text, ensure_ascii=False)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 4]} ..."


def shown_key(key: Any) -> str:
    """A key as `statemigrate get` takes it: JSON, a list of its columns; a giant one is cut."""
    text = json_text(key)
    return text if len(text) <= _MOST else f"{text[:_MOST]} ..."


def shown_whole(value: Value) -> str:
    """A whole value as lines of text, some 2,000 characters at the most."""
    text = json.dumps(value, default=_text, ensure_ascii=False, indent=2)
    return text if len(text) <= _MOST else f"{text[:_MOST]}\n..."


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
