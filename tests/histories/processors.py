"""The code of a life: one processor that does what its rows say, written for any revisions."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from typing import Any

import pandas as pd
from corners import shown, user_keys_of, values_of
from formats import STORES, ddl, made, taken
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor


class PlannedKill(Exception):  # noqa: N818 - no error
    """What a history has planned, where it has planned it."""


class Doer(StatefulProcessor):
    """Sets, adds, removes and tells what each key holds before and after.

    ``kill`` is (file, key, process id or 0): before that key's last operation in that file this
    raises `PlannedKill`, or ends Spark's process.
    """

    types: Mapping[str, str] = {}
    user_key = "string"
    revisions: Mapping[str, int] = {}
    kill: tuple[int, int, int] | None = None

    def init(self, handle: Any) -> None:
        columns = user_keys_of(self.user_key)[0]
        self.held = {}
        for store, data_type in self.types.items():
            schema = ddl(data_type, self.revisions[store])
            if STORES[store] == "value":
                self.held[store] = handle.getValueState(store, schema)
            elif STORES[store] == "list":
                self.held[store] = handle.getListState(store, schema)
            else:
                self.held[store] = handle.getMapState(store, columns, schema)

    def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Any:
        events = sorted((row.file, row.seq, row.id, row.ops) for row in rows)
        if not events:
            # Control rows that reached the code of a user: nothing may come of them.
            raise AssertionError(f"called for {key} without rows")
        assert all(event[3] is not None for event in events), "a row that is not the stream's"
        ops = [op for event in events for op in json.loads(event[3])]
        is_blind = any(op[0] == "blind" for op in ops)
        before = "" if is_blind else self.seen()
        for op in ops[:-1]:
            self.do(*op)
        if self.kill and any((event[0], event[2]) == self.kill[:2] for event in events):
            self.die(self.kill[2])
        self.do(*ops[-1])
        files = sorted({event[0] for event in events})
        seen = "blind" if is_blind else f"{before} -> {self.seen()}"
        yield Row(id=events[0][2], files=json.dumps(files), seen=seen)

    def die(self, process: int) -> None:
        if process:
            os.kill(process, signal.SIGKILL)
        raise PlannedKill("a planned kill")

    def do(self, name: str, *given: Any) -> None:
        if name == "set":
            self.held["profile"].update(self.row("profile", given[0]))
        elif name == "append":
            self.held["events"].appendList([self.row("events", each) for each in given[0]])
        elif name == "put":
            self.held["events"].put([self.row("events", each) for each in given[0]])
        elif name == "enter":
            row = self.row("totals", given[1])
            self.held["totals"].updateValue(self.own_key(given[0]), row)
        elif name == "remove":
            self.held["totals"].removeKey(self.own_key(given[0]))
        elif name == "clear":
            self.held[given[0]].clear()

    def row(self, store: str, case: int) -> tuple[Any, ...]:
        return made(self.revisions[store], values_of(self.types[store])[case])

    def own_key(self, case: int) -> tuple[Any, ...]:
        return user_keys_of(self.user_key)[1][case]

    def seen(self) -> str:
        return str({store: self.seen_in(store) for store in self.types})

    def seen_in(self, store: str) -> str:
        held, revision = self.held[store], self.revisions[store]
        if STORES[store] == "value":
            row = held.get()
            return "nothing" if row is None else shown(taken(revision, row))
        if STORES[store] == "list":
            return shown([taken(revision, row) for row in held.get()])
        entries = [(tuple(u), taken(revision, row)) for u, row in held.iterator()]
        return str(sorted(f"{shown(u)}: {shown(v)}" for u, v in entries))

    def close(self) -> None:
        pass


class DoerInPandas(Doer):
    """The same over DataFrames."""

    def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Any:
        make = Row("file", "seq", "id", "ops")
        held = []
        for frame in rows:
            columns = (frame["file"], frame["seq"], frame["id"], frame["ops"])
            held += [
                make(int(f), int(s), int(i), ops) for f, s, i, ops in zip(*columns, strict=True)
            ]
        for row in super().handleInputRows(key, iter(held), timer_values):
            yield pd.DataFrame([row.asDict()])
