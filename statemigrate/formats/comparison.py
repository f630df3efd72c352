"""How one format differs from another, field by field, and whether Avro alone could bridge it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from statemigrate.formats.format import Format
from statemigrate.formats.schema.nodes import Node
from statemigrate.formats.schema.resolution import changes_between
from statemigrate.formats.schema.verdict import FieldChange, Verdict, worst
from statemigrate.formats.words import words

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
