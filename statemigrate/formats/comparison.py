"""How one format differs from another, field by field, and whether Avro alone could bridge it."""

from __future__ import annotations

from dataclasses import dataclass

from statemigrate.formats.format import Format
from statemigrate.formats.resolution import changes_between
from statemigrate.formats.verdict import FieldChange, Verdict, worst


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences between two formats. ``str()`` gives a table for a terminal."""

    old: Format
    new: Format
    verdict: Verdict
    changes: tuple[FieldChange, ...]

    def __str__(self) -> str:
        if not self.changes:
            return f"{self.verdict}: both formats write the same bytes"
        rows = [("field", "old", "new", "verdict", "note")]
        rows += [(c.path, c.old or "-", c.new or "-", c.verdict, c.note) for c in self.changes]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([str(self.verdict), *lines])


def compare(old: Format, new: Format) -> Comparison:
    """Compare two formats.

    READABLE follows the Avro specification, section "Schema Resolution", except that the names of
    records and other types do not matter, as state is never matched by them (inside a union of
    several they do). It promises that a reader of the new schema takes every old value. It does not
    promise that the result is what was meant: Avro takes a renamed field for one that was removed
    and another that was added, and drops the old values without a word. The note says where.
    """
    if old.fingerprint == new.fingerprint:
        return Comparison(old, new, Verdict.IDENTICAL, ())
    changes = tuple(changes_between(old.schema, new.schema, ""))
    return Comparison(old, new, worst(change.verdict for change in changes), changes)
