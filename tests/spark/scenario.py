"""The deployment that is killed: a first one of old code, then a migrating one with new input."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tally import AMOUNTS, CENTS, Expected, batch

from statemigrate import BackfillOptions

FIRST = [batch("first", range(120)), batch("second", range(100, 160))]
LATER = [
    batch("third", range(0, 170, 5)),
    batch("fourth", range(0, 180, 7)),
    batch("fifth", range(3)),
]
# A chunk takes ten keys a partition: the backfill is far from done when the input is.
OPTIONS: dict[str, Any] = {
    "snapshot_every": 2,
    "backfill": BackfillOptions(initial_rows=10, maximum_rows=10),
}


def before() -> Expected:
    made = Expected()
    for rows in FIRST:
        made.process(rows, CENTS)
    return made


def after() -> Expected:
    made = before()
    made.output.clear()
    for rows in LATER:
        made.process(rows, AMOUNTS)
    made.drain(AMOUNTS)
    return made


def rows_in_sink(root: Path) -> Counter[Any]:
    """The rows of the migrating deployment by key and batch, as an upserting sink has them."""
    found: Counter[Any] = Counter()
    for path in (root / "sink").glob("[0-9]*.json"):
        found.update(tuple(row) for row in json.loads(path.read_text()))
    return found
