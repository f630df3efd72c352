"""Writes the functions of a script that changes keys, as far as columns and code tell them.

What a new column is computed from, and what two values make, may be known from the code of both
versions: `ColumnSource` and `Merging` have that. The rest goes by the names of columns, or is a
question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from statemigrate.formats import Format
from statemigrate.formats.schema import Field, type_name, without_none
from statemigrate.scripts.inference import MARK, Transforms, infer_transforms, library_imports
from statemigrate.scripts.source import (
    Comment,
    Doc,
    LiteralEntry,
    call,
    dict_literal,
    item_of,
    quoted,
    render,
)

Merging = Literal["add", "add unless null", "least", "greatest"]
"""What two values of a field make."""
_FUNCTIONS: Mapping[Merging, tuple[str, str]] = {
    "add unless null": ("_total", "one + other"),
    "least": ("_least", "min(one, other)"),
    "greatest": ("_greatest", "max(one, other)"),
}
"""The function for fields that may be null, and what it makes of two values."""
_MEETING = "what do two values make, whose new keys are the same?"
_MERGE = "def merge(first: Value, second: Value) -> Value:"


@dataclass(frozen=True)
class ColumnSource:
    """What a column of new keys is: Python's ``source`` over the old ``key``, empty if not known.

    ``asked`` is a question about it, empty where there is none. ``column`` is the old column that
    it is, unchanged; empty where it is computed.
    """

    source: str = ""
    asked: str = ""
    column: str = ""


@dataclass(frozen=True)
class KeyChange:
    """The columns of keys before and after; with ``is_list`` several entries may have one key.

    ``sources`` has what is known of new columns, and ``merging`` of fields of the new value, by
    their names. ``asked`` are questions about the change as a whole.
    """

    old: Format
    new: Format
    is_list: bool = False
    sources: Mapping[str, ColumnSource] = field(default_factory=dict)
    merging: Mapping[str, Merging] = field(default_factory=dict)
    asked: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the columns differ, or one is computed from something else."""
        if _columns(self.old) != _columns(self.new):
            return True
        return any(each.column != name for name, each in self.sources.items())

    @property
    def may_meet(self) -> bool:
        """Whether two old keys may become one new key."""
        return not self.is_list and not set(_columns(self.old)) <= set(self._unchanged())

    def _unchanged(self) -> Iterator[str]:
        """The old columns that are in the new keys as they are."""
        before = _columns(self.old)
        for name, kind in _columns(self.new).items():
            known = self.sources.get(name)
            if known is None and before.get(name) == kind:
                yield name
            elif known is not None and known.column:
                yield known.column


def infer_rekeying(old: Format, new: Format, keys: KeyChange) -> Transforms:
    """Return `rekey`, `merge` where keys may meet, and `upgrade` where the value changes too.

    Columns go by what is known of them, else by name. What a new column is, and what two values
    make, is a question where nothing says it.
    """
    parts = [_rekey(old, keys)]
    if keys.may_meet:
        parts += _merge(new, keys.merging)
    if old.fingerprint != new.fingerprint:
        parts.insert(0, infer_transforms(old, new, back=False).source)
    source = "\n\n\n".join(parts)
    return Transforms(source, library_imports(source))


def _rekey(old: Format, keys: KeyChange) -> str:
    lines = "\n".join(_entries(old, keys))
    head = "def rekey(key: Value, value: Value) -> Value:"
    asked = "".join(f"{render(_question(each))}\n" for each in keys.asked)
    body = f"{{\n{lines}\n    }}" if lines else "{}"
    return f"{asked}{head}\n    return {body}"


def _entries(old: Format, keys: KeyChange) -> Iterator[str]:
    for column in keys.new.schema.fields:
        known = keys.sources.get(column.name)
        if known is not None and (known.source or known.asked):
            asked: Doc = _question(known.asked) if known.asked else ""
            source = known.source or "None"
        else:
            asked, source = _by_name(column, old, keys)
        if asked:
            yield f"        {render(asked, 8)}"
        yield f"        {quoted(column.name)}: {source},"


def _by_name(column: Field, old: Format, keys: KeyChange) -> tuple[Doc, str]:
    """The question about a column, and what it is computed from, by the name of the column."""
    name, kind, before = column.name, _kind(column), _columns(keys.old)
    if name in before:
        changed = f"`{name}` was {before[name]} and becomes {kind}: is it the same?"
        return _question(changed) if before[name] != kind else "", f"key[{quoted(name)}]"
    if name in _columns(old):
        return _question(f"is the new key's `{name}` that of the value?"), f"value[{quoted(name)}]"
    return _question(f"what is the `{name}` ({kind}) of an old key?"), "None"


def _merge(new: Format, merging: Mapping[str, Merging]) -> Iterator[str]:
    """The function `merge`, before it those that it calls."""
    names = [each.name for each in new.schema.fields]
    if not names:
        yield f"{_MERGE}\n    return first"
    elif not merging:
        yield (
            f"{render(_question(_MEETING))}\n{_MERGE}\n"
            '    raise NotImplementedError("return one value in the format `new`")'
        )
    else:
        needed = {merging[name] for name in names if name in merging}
        for rule, (function, result) in _FUNCTIONS.items():
            if rule in needed:
                yield (
                    f"def {function}(one: Any, other: Any) -> Any:\n"
                    f"    return other if one is None else one if other is None else {result}"
                )
        entries = [_merged_field(name, merging.get(name)) for name in names]
        yield f"{_MERGE}\n    return {render(dict_literal(entries), 4)}"


def _merged_field(name: str, rule: Merging | None) -> LiteralEntry:
    one, other = item_of("first", name), item_of("second", name)
    if rule is None:
        asked = _question(f"of `{name}`, {_MEETING}")
        return LiteralEntry(name, one, (asked,))
    if rule == "add":
        return LiteralEntry(name, (one, " + ", other))
    return LiteralEntry(name, call(_FUNCTIONS[rule][0], one, other))


def _question(text: str) -> Comment:
    return Comment(f"{MARK.removeprefix('# ')} {text}")


def _kind(field: Field) -> str:
    return type_name(without_none(field.type))


def _columns(format: Format) -> dict[str, str]:
    return {field.name: _kind(field) for field in format.schema.fields}
