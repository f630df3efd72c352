"""Spark's state variables in memory, as a ``transformWithState`` processor meets them.

A variable tells keys apart by their bytes, keeps rows as tuples, and drops what has expired. What a
batch did is committed whole or not at all, and Spark forgets a variable that nobody declares.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from statemigrate.processor.handle import struct_of
from statemigrate.processor.keys import TupleKeyCodec

Cell = tuple[Any, int | None]
"""A row, and when it expires."""


class SparkVariables:
    """A handle of Spark's for one partition; ``key`` is the grouping key's bytes, ``now`` its time.

    ``committed`` has by variable and key what the last batch left.
    """

    def __init__(self) -> None:
        self.committed: dict[str, dict[bytes, Any]] = {}
        self.timers: dict[bytes, set[int]] = {}
        self.key = b""
        self.now = 0
        self.begin()

    def begin(self) -> None:
        """A batch starts from what is committed."""
        self.held = copy.deepcopy(self.committed)
        self.batch_timers = copy.deepcopy(self.timers)
        self.declared: set[str] = set()

    def commit(self) -> None:
        """What is not declared is gone."""
        kept = {name: held for name, held in self.held.items() if name in self.declared}
        self.committed = {name: _without_empty(held) for name, held in kept.items()}
        self.timers = {key: at for key, at in self.batch_timers.items() if at}

    def getValueState(self, name: str, schema: Any, ttl: int | None = None) -> Any:
        return ValueVariable(self, name, schema, ttl)

    def getListState(self, name: str, schema: Any, ttl: int | None = None) -> Any:
        return ListVariable(self, name, schema, ttl)

    def getMapState(self, name: str, keys: Any, schema: Any, ttl: int | None = None) -> Any:
        return MapVariable(self, name, keys, schema, ttl)

    def deleteIfExists(self, name: str) -> None:
        assert not _without_empty(self.held.get(name, {})), f"{name} is dropped with values in it"
        self.held.pop(name, None)

    def registerTimer(self, moment: int) -> None:
        self.batch_timers.setdefault(self.key, set()).add(moment)

    def deleteTimer(self, moment: int) -> None:
        self.batch_timers.get(self.key, set()).discard(moment)

    def listTimers(self) -> Iterator[int]:
        return iter(sorted(self.batch_timers.get(self.key, ())))


def _without_empty(held: dict[bytes, Any]) -> dict[bytes, Any]:
    return {key: cells for key, cells in held.items() if cells}


class _Variable:
    def __init__(self, spark: SparkVariables, name: str, schema: Any, ttl: int | None) -> None:
        assert name not in spark.declared, f"{name} is declared twice"
        spark.declared.add(name)
        self._held = spark.held.setdefault(name, {})
        self._spark = spark
        self._width = len(struct_of(schema).fields)
        self._ttl = ttl or None

    def _cell(self, row: Any) -> Cell:
        assert isinstance(row, tuple), row
        assert len(row) == self._width, row
        until = None if self._ttl is None else self._spark.now + self._ttl
        return copy.deepcopy(tuple(row)), until

    def _is_alive(self, cell: Cell) -> bool:
        return cell[1] is None or cell[1] > self._spark.now

    def clear(self) -> None:
        self._held.pop(self._spark.key, None)


class ValueVariable(_Variable):
    def exists(self) -> bool:
        return self.get() is not None

    def get(self) -> Any:
        cell = self._held.get(self._spark.key)
        return None if cell is None or not self._is_alive(cell) else copy.deepcopy(cell[0])

    def update(self, row: Any) -> None:
        self._held[self._spark.key] = self._cell(row)


class ListVariable(_Variable):
    def exists(self) -> bool:
        return any(True for _ in self.get())

    def get(self) -> Iterator[Any]:
        cells = self._held.get(self._spark.key, [])
        return iter([copy.deepcopy(each[0]) for each in cells if self._is_alive(each)])

    def put(self, rows: list[Any]) -> None:
        assert rows, "Spark takes no empty list"
        self._held[self._spark.key] = [self._cell(row) for row in rows]

    def appendValue(self, row: Any) -> None:
        self.appendList([row])

    def appendList(self, rows: list[Any]) -> None:
        self._held.setdefault(self._spark.key, []).extend(self._cell(row) for row in rows)


class MapVariable(_Variable):
    def __init__(
        self, spark: SparkVariables, name: str, keys: Any, schema: Any, ttl: int | None
    ) -> None:
        super().__init__(spark, name, schema, ttl)
        self._keys = TupleKeyCodec(struct_of(keys))

    def _map(self) -> dict[bytes, Cell]:
        return self._held.setdefault(self._spark.key, {})

    def exists(self) -> bool:
        return any(True for _ in self.iterator())

    def getValue(self, key: Any) -> Any:
        cell = self._map().get(self._keys.encode(key))
        return None if cell is None or not self._is_alive(cell) else copy.deepcopy(cell[0])

    def containsKey(self, key: Any) -> bool:
        return self.getValue(key) is not None

    def updateValue(self, key: Any, row: Any) -> None:
        self._map()[self._keys.encode(key)] = self._cell(row)

    def removeKey(self, key: Any) -> None:
        self._map().pop(self._keys.encode(key), None)

    def iterator(self) -> Iterator[Any]:
        cells = list(self._map().items())
        return iter(
            [(self._keys.decode(k), copy.deepcopy(c[0])) for k, c in cells if self._is_alive(c)]
        )

    def keys(self) -> Iterator[Any]:
        return (key for key, _ in self.iterator())

    def values(self) -> Iterator[Any]:
        return (value for _, value in self.iterator())
