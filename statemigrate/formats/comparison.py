"""How one format differs from another, field by field, and whether Avro alone could bridge it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from statemigrate.formats.format import Format
from statemigrate.formats.schema import (
    Array,
    Decimals,
    Enum,
    FieldChange,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    Verdict,
    accepts_none,
    changes_between,
    type_name,
    without_none,
    worst,
)

# What types are called in what people read: in DDL for a Struct, in Avro's words for an Avro.


_DDL = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "bytes": "BINARY",
    "null": "VOID",
    "date": "DATE",
    "time-micros": "TIME",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
}


def ddl_name(node: Node) -> str:
    """Return a field's type as Spark's DDL has it."""
    text = _ddl(without_none(node))
    return text if accepts_none(node) else f"{text} NOT NULL"


def words(kind: str, node: Node) -> str:
    """Return what a type of a format of this kind is called."""
    return ddl_name(node) if kind == "struct" else type_name(node)


def _ddl(node: Node) -> str:  # noqa: PLR0911  # one return for each kind of node
    match node:
        case Primitive(narrow=str(narrow)):
            return narrow.upper()
        case Primitive(decimals=Decimals() as decimals) | Fixed(decimals=Decimals() as decimals):
            return str(decimals).upper()
        case Primitive():
            return _DDL.get(node.logical or node.type, type_name(node).upper())
        case Fixed():
            return "BINARY"
        case Enum():
            return "STRING"
        case Array():
            return f"ARRAY<{_ddl(without_none(node.items))}>"
        case Map():
            return f"MAP<{_ddl(without_none(node.keys))}, {_ddl(without_none(node.values))}>"
        case Record():
            fields = (f"{field.name}: {ddl_name(field.type)}" for field in node.fields)
            return f"STRUCT<{', '.join(fields)}>"
        case Union():
            return " | ".join(_ddl(branch) for branch in node.branches)


_WIDTH = 76
"""So that lines fit 80 columns also where an error sets them in."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences between two formats. ``str()`` gives lines for a terminal."""

    old: Format
    new: Format
    verdict: Verdict
    changes: tuple[FieldChange, ...]

    def __str__(self) -> str:
        if not self.changes:
            return f"{self.verdict}: both formats write the same bytes"
        return "\n".join([str(self.verdict), *(_paragraph(change) for change in self.changes)])


def _paragraph(change: FieldChange) -> str:
    """A change in a sentence of lines that fit a screen; ``!`` where it needs a transform."""
    mark = "!" if change.verdict == Verdict.TRANSFORM else " "
    types = change.old if change.old == change.new else f"{change.old} to {change.new}"
    if change.old is None or change.new is None:
        types = f"{change.new}, added" if change.old is None else f"{change.old}, removed"
    text = f"{mark} {change.path}: {types}{f'; {change.note}' if change.note else ''}"
    return textwrap.fill(text, _WIDTH, subsequent_indent="    ", break_on_hyphens=False)


def compare(old: Format, new: Format) -> Comparison:
    """Compare two formats.

    READABLE follows the Avro specification, section "Schema Resolution", except that the names of
    records and other types do not matter, as state is never matched by them (inside a union of
    several they do). It promises that a reader of the new schema takes every old value. It does not
    promise that the result is what was meant: Avro takes a renamed field for one that was removed
    and another that was added, and drops the old values without a word. What is taken for a rename
    here, or for a move into a struct or out of it, is what `new --autogenerate` takes for one.
    """
    if old.fingerprint == new.fingerprint:
        return Comparison(old, new, Verdict.IDENTICAL, ())
    changes = tuple(
        FieldChange(
            each.path,
            _named(old, each.old),
            _named(new, each.new),
            each.verdict,
            each.note,
            each.source,
        )
        for each in changes_between(old.schema, new.schema, "")
    )
    return Comparison(old, new, worst(change.verdict for change in changes), changes)


def differences(expected: Format, found: Format, *, nullable: bool = False) -> list[str]:
    """A text for each field in which the format that is found is not the one expected.

    With ``nullable`` a field that may be null and need not counts only where nothing else differs.
    """
    changes = compare(expected, found).changes
    if nullable:
        of_types = [e for e in changes if e.source or _bare(e.old) != _bare(e.new)]
        changes = tuple(of_types) or changes
    return [_difference(each) for each in changes]


def _bare(type_name: str | None) -> str | None:
    return None if type_name is None else type_name.removesuffix(" NOT NULL")


def _difference(change: FieldChange) -> str:
    path, expected, found = change.path, change.old, change.new
    if change.source is not None and change.source != path:
        return f"{path}: found {found}, expected {change.source} {expected}"
    if expected is None:
        return f"{path}: found {found}, expected no such field"
    if found is None:
        return f"{path}: missing, expected {expected}"
    if found == expected:
        return f"{path}: {found}, {change.note}"
    return f"{path}: found {found}, expected {expected}"


def _named(format: Format, side: Node | str | None) -> str | None:
    return side if side is None or isinstance(side, str) else words(format.kind, side)
