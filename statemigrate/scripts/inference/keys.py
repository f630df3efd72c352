"""Writes the functions of a script that changes keys, as far as the columns tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from statemigrate.formats import Format
from statemigrate.formats.schema.nodes import Field, type_name
from statemigrate.formats.schema.nullability import without_none
from statemigrate.scripts.inference import questions
from statemigrate.scripts.inference.infer import Transforms, infer_transforms
from statemigrate.scripts.source.layout import Doc, render
from statemigrate.scripts.source.literals import quoted


@dataclass(frozen=True)
class KeyChange:
    """The columns of keys before and after; with ``is_list`` several entries may have one key."""

    old: Format
    new: Format
    is_list: bool = False

    @property
    def changes(self) -> bool:
        """Whether the columns differ."""
        return _columns(self.old) != _columns(self.new)

    @property
    def may_meet(self) -> bool:
        """Whether two old keys may become one new key."""
        return not self.is_list and not _columns(self.old).items() <= _columns(self.new).items()


def infer_rekeying(old: Format, new: Format, keys: KeyChange) -> Transforms:
    """Return `rekey`, `merge` where keys may meet, and `upgrade` where the value changes too.

    Columns go by name. What a new column is, and what two values make, are questions.
    """
    parts = [_rekey(old, keys)]
    if keys.may_meet:
        parts.append(_merge(new))
    if old.fingerprint == new.fingerprint:
        return Transforms("\n\n\n".join(parts), "")
    upgrade = infer_transforms(old, new, back=False)
    return Transforms("\n\n\n".join([upgrade.source, *parts]), upgrade.imports)


def _rekey(old: Format, keys: KeyChange) -> str:
    lines = "\n".join(_entries(old, keys))
    return f"def rekey(key: Value, value: Value) -> Value:\n    return {{\n{lines}\n    }}"


def _entries(old: Format, keys: KeyChange) -> Iterator[str]:
    before, held = _columns(keys.old), _columns(old)
    for field in keys.new.schema.fields:
        name, kind = quoted(field.name), _kind(field)
        source = "key" if field.name in before else "value" if field.name in held else ""
        known = {"key": before, "value": held, "": {}}[source].get(field.name)
        if source != "key" or known != kind:
            yield f"        {render(_asked(field, source, str(known), kind), 8)}"
        yield f"        {name}: {f'{source}[{name}]' if source else 'None'},"


def _asked(field: Field, source: str, known: str, kind: str) -> Doc:
    if not source:
        return questions.new_column(field.name, kind)
    if known != kind:
        return questions.column_changed(field.name, known, kind)
    return questions.column_of_value(field.name)


def _merge(new: Format) -> str:
    if not new.schema.fields:
        return "def merge(first: Value, second: Value) -> Value:\n    return first"
    return (
        f"{render(questions.merged())}\n"
        "def merge(first: Value, second: Value) -> Value:\n"
        '    raise NotImplementedError("return one value in the format `new`")'
    )


def _kind(field: Field) -> str:
    return type_name(without_none(field.type))


def _columns(format: Format) -> dict[str, str]:
    return {field.name: _kind(field) for field in format.schema.fields}
