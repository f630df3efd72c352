"""A processor that carries out commands, and tells what it read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructField, StructType

from statemigrate.deployment import Kind
from statemigrate.formats import Value
from support.histories.commands import Command
from support.histories.values import FORMATS, Note, shown, value

KEY = StructType([StructField("key", LongType())])
USER_KEY = StructType([StructField("user", LongType())])
ROWS = StructType([StructField("key", LongType()), StructField("commands", StringType())])
OUTPUT = StructType([StructField("key", LongType()), StructField("read", StringType())])


class Obedient(StatefulProcessor):
    """Its rows are the commands of a key; its stores are at one revision."""

    def __init__(self, kinds: Mapping[str, Kind], revision: str) -> None:
        self._kinds = kinds
        self._revision = revision

    def init(self, handle: Any) -> None:
        schema = FORMATS[self._revision].struct_type()
        self._names = schema.fieldNames()
        self._states = {}
        for store, kind in self._kinds.items():
            if kind == "value":
                self._states[store] = handle.getValueState(store, schema)
            elif kind == "list":
                self._states[store] = handle.getListState(store, schema)
            else:
                self._states[store] = handle.getMapState(store, USER_KEY, schema)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        read = []
        for row in rows:
            for store, verb, seeds, user in json.loads(row.commands):
                if store not in self._kinds:
                    # Input from before this deployment, for a store that its code does not have.
                    continue
                found = self._obey(Command(store, verb, tuple(seeds), user))
                if verb == "read":
                    read.append(found)
        yield Row(key=key[0], read=json.dumps(read))

    def close(self) -> None:
        pass

    def _obey(self, command: Command) -> str | None:
        state, kind = self._states[command.store], self._kinds[command.store]
        rows = [self._row(value(self._revision, Note(seed))) for seed in command.seeds]
        if command.verb in ("clear", "delete") and (kind != "map" or command.verb == "clear"):
            return state.clear()
        if command.verb == "bump":
            return self._bump(state, kind, command)
        if kind == "value":
            return state.update(rows[0]) if rows else self._shown(state.get())
        if kind == "list":
            return self._list(state, command, rows)
        key = (command.user_key,)
        if command.verb == "delete":
            return state.removeKey(key)
        return state.updateValue(key, rows[0]) if rows else self._shown(state.getValue(key))

    def _bump(self, state: Any, kind: Kind, command: Command) -> None:
        if kind == "list":
            found = list(state.get())
            if found:
                state.put([self._bumped(found[0]), *found[1:]])
        elif kind == "map":
            key = (command.user_key,)
            value = state.getValue(key)
            if value is not None:
                state.updateValue(key, self._bumped(value))
        else:
            value = state.get()
            if value is not None:
                state.update(self._bumped(value))

    def _bumped(self, found: Any) -> tuple[Any, ...]:
        at = self._names.index("bumps")
        return (*found[:at], found[at] + 1, *found[at + 1 :])

    def _list(self, state: Any, command: Command, rows: list[Any]) -> str | None:
        if command.verb == "put":
            return state.put(rows)
        if command.verb == "append":
            return state.appendList(rows)
        found = [self._plain(each) for each in state.get()]
        return shown(found) if found else None

    def _row(self, plain: Value) -> tuple[Any, ...]:
        inner = plain["inner"]
        return tuple((plain | {"inner": None if inner is None else Row(**inner)}).values())

    def _plain(self, found: Any) -> Value:
        plain = dict(zip(self._names, found, strict=True))
        inner = plain["inner"]
        return plain | {"inner": None if inner is None else inner.asDict()}

    def _shown(self, found: Any) -> str | None:
        return None if found is None else shown(self._plain(found))
