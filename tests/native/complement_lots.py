"""Lots in two formats, neither of which has all that the other has, and a twin that has it all."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

ROWS = "key STRING, field STRING, text STRING"
OUTPUT = "key STRING, shown STRING"
REVISION = "aaaa11112222"
SCRIPT = f"""
from statemigrate.formats import Struct
from statemigrate.lenses import add, drop, lens, rename

revision = "{REVISION}"
down_revision = None
branch_labels = ("lots",)
store = "lots"
old = Struct("name STRING, note STRING")
change = lens(rename("name", "title"), drop("note"), add("seen", "STRING"))
"""
OLD, NEW = {"title": "name", "note": "note"}, {"title": "title", "seen": "seen"}
"""By field of the twin, the fields of the two formats."""


class Lots(StatefulProcessor):
    """Writes a field of its format, deletes a lot, and shows lots that are asked for."""

    fields: ClassVar[Mapping[str, str]] = OLD

    def init(self, handle: Any) -> None:
        self.names = list(self.fields.values())
        ddl = ", ".join(f"{name} STRING" for name in self.names)
        self.lots = handle.getValueState("lots", ddl)

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:
        for row in rows:
            found = self.lots.get()
            lot = dict(zip(self.names, found or [None] * len(self.names), strict=True))
            if row.field == "show":
                shown = None if found is None else json.dumps(lot, sort_keys=True)
                yield Row(key=key[0], shown=shown)
            elif row.field == "delete":
                self.lots.clear()
            elif row.field in self.fields:
                lot[self.fields[row.field]] = row.text
                self.lots.update(tuple(lot[name] for name in self.names))

    def close(self) -> None:
        pass


class NewLots(Lots):
    fields = NEW


class Twin:
    """Lots that never went anywhere."""

    def __init__(self, seed: int, keys: int) -> None:
        self.keys = [f"k{number}" for number in range(keys)]
        self.lots: dict[str, dict[str, str | None]] = {}
        self._rng = random.Random(seed)
        self._count = 0

    def rows(self, fields: Mapping[str, str], count: int) -> list[tuple[str, str, str | None]]:
        """So many writes and deletions, which the twin has done."""
        made: list[tuple[str, str, str | None]] = []
        for _ in range(count):
            self._count += 1
            key = self._rng.choice(self.keys)
            field = self._rng.choice([*fields, *fields, *fields, "delete"])
            text = None if field == "delete" else self._rng.choice([None, f"{field} {self._count}"])
            made.append((key, field, text))
        # Rows of one key come in no order, so that a batch has one of each.
        made = list({key: (key, field, text) for key, field, text in made}.values())
        for key, field, text in made:
            if field == "delete":
                self.lots.pop(key, None)
            else:
                lot = self.lots.setdefault(key, dict.fromkeys(("title", "note", "seen")))
                lot[field] = text
        return made

    def asking(self) -> list[tuple[str, str, None]]:
        """A row for each key that has it shown."""
        return [(key, "show", None) for key in self.keys]

    def shown(self, fields: Mapping[str, str]) -> dict[str, str | None]:
        """What is shown of each key in a format."""
        return {
            key: json.dumps({own: lot[name] for name, own in fields.items()}, sort_keys=True)
            if (lot := self.lots.get(key))
            else None
            for key in self.keys
        }
