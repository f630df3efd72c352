"""Stores whose values tell how often they were migrated, and carry corner cases of every type.

A value is known to the model as a `Note`: the seed its fields are made from, and how often it was
carried up and down. No transform is idempotent.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

from statemigrate.deployment import Kind
from statemigrate.formats import Struct, Value
from statemigrate.migration import Lineage, Migration

REVISIONS = ("base", "r1", "r2")
_NAMES = {"base": "text", "r1": "label", "r2": "title"}
_CORNERS = (
    "flag BOOLEAN, tiny TINYINT, small SMALLINT, whole INT, big BIGINT, real FLOAT, wide DOUBLE, "
    "amount DECIMAL(38,18), day DATE, moment TIMESTAMP, local TIMESTAMP_NTZ, raw BINARY, "
    "items ARRAY<STRING>, named MAP<STRING, BIGINT>, inner STRUCT<x: INT, y: ARRAY<DOUBLE>>"
)
FORMATS = {
    revision: Struct(f"{name} STRING, ups INT, downs INT, bumps INT, {_CORNERS}")
    for revision, name in _NAMES.items()
}
STORES: Mapping[str, Kind] = {"notes": "value", "lists": "list", "maps": "map", "more": "value"}


class Note(NamedTuple):
    """A value as the model knows it."""

    seed: int
    ups: int = 0
    downs: int = 0
    bumps: int = 0
    """How often a processor read it and wrote it again."""

    def carried(self, source: str, target: str) -> Note:
        """What it is at another revision."""
        steps = REVISIONS.index(target) - REVISIONS.index(source)
        ups, downs = self.ups + max(steps, 0), self.downs + max(-steps, 0)
        return Note(self.seed, ups, downs, self.bumps)

    def bumped(self) -> Note:
        """What it is once it was read and written again."""
        return self._replace(bumps=self.bumps + 1)


_CASES: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("flag", (True, False)),
    ("tiny", (-128, 0, 127)),
    ("small", (-(1 << 15), 0, (1 << 15) - 1)),
    ("whole", (-(1 << 31), -1, 0, (1 << 31) - 1)),
    ("big", (-(1 << 63), -1, 0, (1 << 63) - 1)),
    ("real", (0.0, -0.0, 1.5, math.inf, -math.inf, math.nan)),
    ("wide", (0.0, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan)),
    ("amount", tuple(map(Decimal, ("0", "-1e-18", "99999999999999999999.999999999999999999")))),
    ("day", (dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31))),
    ("moment", (dt.datetime(1970, 1, 1), dt.datetime(2026, 11, 1, 1, 30, 0, 1))),
    ("local", (dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30, 23, 59, 59, 999999))),
    ("raw", (b"", b"\x00", bytes(range(256)), b"\xff" * 2000)),
    ("items", ([], [None], ["", "a" * 300, None, "\x00"])),
    ("named", ({}, {"": 0}, {"a": None, "\U0001f600": -1})),
    ("inner", ({"x": None, "y": []}, {"x": 7, "y": [0.5, None]})),
)
_TEXTS = ("", "plain", "\x00\x01", "\u00e9\u4e2d\U0001f600", "x" * 1000, None)


def value(revision: str, note: Note) -> Value:
    """The value of a note at a revision."""
    random = Random(note.seed)
    fields = {name: random.choice((*cases, None)) for name, cases in _CASES}
    return {
        _NAMES[revision]: random.choice(_TEXTS),
        "ups": note.ups,
        "downs": note.downs,
        "bumps": note.bumps,
        # Most values are small, and one in four has every corner case.
        **(fields if note.seed % 4 == 0 else {**dict.fromkeys(fields), "big": note.seed}),
    }


def shown(found: Any) -> str:
    """A value as text, the same for equal values: NaN equals NaN, -0.0 is not 0.0."""
    if isinstance(found, dict):
        return "{" + ",".join(f"{key!r}:{shown(found[key])}" for key in sorted(found)) + "}"
    if isinstance(found, (list, tuple)):
        return "[" + ",".join(map(shown, found)) + "]"
    if isinstance(found, (bytes, bytearray)):
        return bytes(found).hex()
    if isinstance(found, dt.datetime):
        # A processor meets local time, which is UTC in a nursery; what is stored is aware.
        return found.replace(tzinfo=None).isoformat()
    if isinstance(found, Decimal):
        return format(found.normalize(), "f")
    return repr(found)


@cache
def shown_note(revision: str, note: Note) -> str:
    """A note's value at a revision, as text."""
    return shown(value(revision, note))


def _carry(source: str, target: str, field: str) -> Any:
    def carry(old: Value) -> Value:
        text = old.pop(_NAMES[source])
        return {_NAMES[target]: text, **old, field: old[field] + 1}

    return carry


@cache
def lineage(store: str) -> Lineage:
    """The scripts of a store."""
    migrations = [
        Migration(
            target,
            None if source == REVISIONS[0] else source,
            store,
            FORMATS[source],
            FORMATS[target],
            _carry(source, target, "ups"),
            _carry(target, source, "downs"),
            checksum=target * 32,
            path=f"versions/{target}.py",
        )
        for source, target in pairwise(REVISIONS)
    ]
    return Lineage.build(store, migrations)
