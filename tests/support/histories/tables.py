"""Any processor as a batch processor: its variables are what the tables of a batch have."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from statemigrate import BatchProcessor
from statemigrate.formats.arrow_values import plain_array, plain_values
from statemigrate.processor.handle import struct_of
from statemigrate.processor.rows import TupleCodec


class ByTables(BatchProcessor):
    """Calls a processor for each key of a batch, with variables in memory."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor

    def init(self, handle: Any) -> None:
        self._variables: dict[str, Any] = {}
        self._processor.init(_Handle(handle, self._variables))

    def handleBatch(self, keys: Any, rows: Any, state: Any, timerValues: Any) -> Any:
        by_key = groupby(
            rows.to_pylist(), lambda row: tuple(row[name] for name in keys.schema.names)
        )
        before = {name: plain_values(state[name].combine_chunks()) for name in self._variables}
        after: dict[str, list[Any]] = {name: [] for name in self._variables}
        made = []
        for place, (key, own) in enumerate(by_key):
            for name, variable in self._variables.items():
                variable.load(before[name][place])
            made += self._processor.handleInputRows(
                key, iter([Row(**row) for row in own]), timerValues
            )
            for name, variable in self._variables.items():
                after[name].append(variable.stored())
        arrays = [plain_array(after[name], state.schema.field(name).type) for name in after]
        new = pa.Table.from_arrays([*keys.columns, *arrays], names=[*keys.schema.names, *after])
        return new, pa.Table.from_pylist([row.asDict() for row in made]) if made else None

    def close(self) -> None:
        self._processor.close()


class _Handle:
    def __init__(self, handle: Any, variables: dict[str, Any]) -> None:
        self._handle = handle
        self._variables = variables

    def getValueState(self, name: str, schema: Any) -> Any:
        self._handle.getValueState(name, schema)
        return self._variables.setdefault(name, _Value(TupleCodec(struct_of(schema))))

    def getListState(self, name: str, schema: Any) -> Any:
        self._handle.getListState(name, schema)
        return self._variables.setdefault(name, _List(TupleCodec(struct_of(schema))))

    def getMapState(self, name: str, user_key: Any, schema: Any) -> Any:
        self._handle.getMapState(name, user_key, schema)
        codecs = TupleCodec(struct_of(user_key)), TupleCodec(struct_of(schema))
        return self._variables.setdefault(name, _Map(*codecs))


class _Value:
    def __init__(self, rows: TupleCodec) -> None:
        self._rows = rows
        self._value: Any = None

    def load(self, value: Any) -> None:
        self._value = value

    def stored(self) -> Any:
        return self._value

    def get(self) -> Any:
        return None if self._value is None else self._rows.to_tuple(self._value)

    def update(self, row: Any) -> None:
        self._value = self._rows.to_value(row)

    def clear(self) -> None:
        self._value = None


class _List:
    def __init__(self, rows: TupleCodec) -> None:
        self._rows = rows
        self._values: list[Any] = []

    def load(self, values: Any) -> None:
        self._values = values or []

    def stored(self) -> Any:
        return self._values or None

    def get(self) -> Iterator[Any]:
        return map(self._rows.to_tuple, self._values)

    def put(self, rows: list[Any]) -> None:
        self._values = list(map(self._rows.to_value, rows))

    def appendList(self, rows: list[Any]) -> None:
        self._values = [*self._values, *map(self._rows.to_value, rows)]

    def clear(self) -> None:
        self._values = []


class _Map:
    def __init__(self, keys: TupleCodec, rows: TupleCodec) -> None:
        self._keys, self._rows = keys, rows
        self._entries: dict[Any, Any] = {}

    def load(self, entries: Any) -> None:
        pairs = ((self._keys.to_tuple(each["key"]), each["value"]) for each in entries or [])
        self._entries = dict(pairs)

    def stored(self) -> Any:
        return [
            {"key": self._keys.to_value(key), "value": value}
            for key, value in self._entries.items()
        ]

    def getValue(self, key: Any) -> Any:
        value = self._entries.get(tuple(key))
        return None if value is None else self._rows.to_tuple(value)

    def updateValue(self, key: Any, row: Any) -> None:
        self._entries[tuple(key)] = self._rows.to_value(row)

    def iterator(self) -> Iterator[Any]:
        return ((key, self._rows.to_tuple(value)) for key, value in self._entries.items())

    def removeKey(self, key: Any) -> None:
        self._entries.pop(tuple(key), None)

    def clear(self) -> None:
        self._entries = {}
