"""The processor both engines run: a count, a sum and the last name of each key."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.records import RecordKind
from statemigrate import BatchProcessor, Struct
from statemigrate.formats.arrow_values import plain_array
from statemigrate.formats.avro.column_types import arrow_type

STATE = "n BIGINT, total BIGINT, name STRING"
RENAMED = "n BIGINT, amount BIGINT, name STRING"
OUTPUT = "key STRING, n BIGINT, total BIGINT"
OUTPUT_NAMES = ["key", "n", "total"]


class Totals(StatefulProcessor):
    """One get and one update a key."""

    schema = STATE

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.totals = handle.getValueState("totals", self.schema)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        n, total, name = self.totals.get() or (0, 0, None)
        for row in rows:
            n, total, name = n + 1, total + row["amount"], row["name"]
        self.totals.update((n, total, name))
        yield Row(key=key[0], n=n, total=total)

    def close(self) -> None:
        pass


class TotalTables(BatchProcessor):
    """The same as `Totals`, by tables."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        handle.getValueState("totals", STATE)

    def handleBatch(self, keys: Any, rows: Any, state: Any, timerValues: Any) -> tuple[Any, Any]:
        wanted = [([], "count_all"), ("amount", "sum"), ("name", "last")]
        added = self.aggregate(keys, rows, wanted)
        before = state["totals"]
        n = pc.add(pc.fill_null(pc.struct_field(before, "n"), 0), added["count_all"])
        total = pc.add(pc.fill_null(pc.struct_field(before, "total"), 0), added["amount_sum"])
        names = ["n", "total", "name"]
        new = pc.make_struct(n, total, added["name_last"], field_names=names)
        return keys.append_column("totals", new), pa.table([keys["key"], n, total], OUTPUT_NAMES)


class Records(StatefulProcessor):
    """One get and one update of a record like those at work for each key."""

    def __init__(self, kind: RecordKind) -> None:
        self._kind = kind

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("totals", self._kind.ddl)
        self._records = _as_tuples(self._kind)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        found, count, amount = self._state.get(), 0, 0
        for row in rows:
            amount = row["amount"]
            count += amount >= 0
        self._state.update(self._records[(int(key[0][4:]) + amount) % 1000])
        yield Row(key=key[0], n=count, total=0 if found is None else len(found))

    def close(self) -> None:
        pass


class RecordTables(BatchProcessor):
    """The same as `Records`, by tables."""

    def __init__(self, kind: RecordKind) -> None:
        self._kind = kind

    def init(self, handle: StatefulProcessorHandle) -> None:
        handle.getValueState("totals", self._kind.ddl)
        self._records = _as_array(self._kind)

    def handleBatch(self, keys: Any, rows: Any, state: Any, timerValues: Any) -> tuple[Any, Any]:
        added = self.aggregate(keys, rows, [("amount", "count"), ("amount", "max")])
        numbers = pc.utf8_slice_codeunits(added["key"], 4).cast(pa.int64())
        places = np.mod(pc.add(numbers, added["amount_max"]).to_numpy(), 1000)
        new = keys.append_column("totals", self._records.take(pa.array(places)))
        found = pc.is_valid(state["totals"]).cast(pa.int64())
        columns = [added["key"], added["amount_count"], pc.multiply(found, self._kind.fields)]
        return new, pa.table(columns, OUTPUT_NAMES)


# Made once: what is measured is keeping records, not making them.


@cache
def _as_tuples(kind: RecordKind) -> list[tuple[Any, ...]]:
    return [tuple(kind.value(number).values()) for number in range(1000)]


@cache
def _as_array(kind: RecordKind) -> Any:
    values = [kind.value(number) for number in range(1000)]
    return plain_array(values, arrow_type(Struct(kind.ddl).schema))


class RenamedTotals(Totals):
    """The same with another name for a field."""

    schema = RENAMED
