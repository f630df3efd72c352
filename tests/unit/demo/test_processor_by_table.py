"""The demonstration's processor by tables leaves what the one that is called key by key leaves."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from statemigrate.demo.jobs.after import AUCTION, AuctionHouse
from statemigrate.demo.jobs.by_table import AuctionHouseByTable
from statemigrate.demo.stage import COLUMNS
from statemigrate.formats import Struct
from statemigrate.formats.arrow_values import plain_array, plain_rows
from statemigrate.formats.avro.column_types import arrow_type
from statemigrate.processor.rows import TupleCodec

FORMATS = {"auctions": Struct(AUCTION), "persons": Struct("name STRING, city STRING")}
EVENTS = pa.schema(
    [
        ("event", pa.int64()),
        *((name, pa.string()) for name in ("kind", "entity", "name", "city", "category")),
        *((name, pa.int64()) for name in ("seller", "bidder", "price")),
    ]
)


class Variable:
    """A value state of one key."""

    def __init__(self, name: str, values: dict[Any, Any], key: list[str]) -> None:
        self._codec = TupleCodec(FORMATS[name].struct_type())
        self._values = values
        self._key = key

    def get(self) -> Any:
        value = self._values.get(self._key[0])
        return None if value is None else self._codec.to_tuple(value)

    def update(self, row: Any) -> None:
        self._values[self._key[0]] = self._codec.to_value(row)


def by_key(events: list[dict[str, Any]], state: dict[str, dict[str, Any]]) -> list[Any]:
    key: list[str] = [""]
    processor = AuctionHouse.__new__(AuctionHouse)
    processor.auctions = Variable("auctions", state["auctions"], key)
    processor.persons = Variable("persons", state["persons"], key)
    made: list[Any] = []
    for entity in sorted({each["entity"] for each in events}):
        key[0] = entity
        rows = [Row(**each) for each in events if each["entity"] == entity]
        made += processor.handleInputRows((entity,), iter(rows), None)
    return [tuple(each) for each in made]


def by_table(events: list[dict[str, Any]], state: dict[str, dict[str, Any]]) -> list[Any]:
    entities = sorted({each["entity"] for each in events})
    ordered = sorted(events, key=lambda each: each["entity"])
    keys = pa.table({"entity": pa.array(entities, pa.string())})
    given = keys
    for name, fmt in FORMATS.items():
        values = [state[name].get(each) for each in entities]
        given = given.append_column(name, plain_array(values, arrow_type(fmt.schema)))
    rows = pa.Table.from_pylist(ordered, EVENTS)
    processor = AuctionHouseByTable.__new__(AuctionHouseByTable)
    new, output = processor.handleBatch(keys, rows, given, None)
    assert new.column_names == ["entity", *FORMATS]
    for each in plain_rows(new):
        for name in FORMATS:
            if each[name] is not None:
                state[name][each["entity"]] = each[name]
    assert output.column_names == list(COLUMNS)
    return [tuple(each.values()) for each in output.to_pylist()]


def batches(chance: random.Random) -> Any:
    number = 0
    for _ in range(6):
        events = []
        for _ in range(chance.randrange(1, 40)):
            number += 1
            kind = chance.choice(["person", "auction", "bid", "bid", "bid"])
            of = "person" if kind == "person" else "auction"
            row: dict[str, Any] = dict.fromkeys(EVENTS.names)
            row |= {"event": number, "kind": kind, "entity": f"{of}-{chance.randrange(9)}"}
            if kind == "bid":
                row |= {"bidder": 1, "price": chance.randrange(1, 10**9)}
            else:
                row |= {"name": f"n{number}", "city": "Essen", "category": "maps"}
                row["seller"] = number
            events.append(row)
        yield events


def test_the_same_rows_and_state_come_of_both() -> None:
    sides: list[dict[str, dict[str, Any]]] = [{"auctions": {}, "persons": {}} for _ in range(2)]
    for seed in range(40):
        for events in batches(random.Random(seed)):
            assert by_table(events, sides[1]) == by_key(events, sides[0])
            assert sides[1] == sides[0]
    assert len(sides[0]["auctions"]) == len(sides[0]["persons"]) == 9
