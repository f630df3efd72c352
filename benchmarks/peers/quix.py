"""The peer's side, run by the peer's own interpreter: ``python quix.py WHAT NUMBER ROUNDS [LOAD]``.

Quix Streams' RocksDB store by its public classes, one partition in one process, without a changelog
topic. ``counting`` gets and sets the state of each key once a round, all in one transaction.
``migrating`` is the loop that a user writes by hand: every value is read, changed, written and the
old one deleted, eagerly, a transaction each 10,000. A line of JSON for each round.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import orjson
from quixstreams.state.rocksdb.partition import RocksDBStorePartition

from benchmarks.records import KINDS, Load, as_json, keys_of, least

_A_TRANSACTION = 10_000
logging.disable(logging.CRITICAL)


def counting(number: int, rounds: int) -> None:
    """A count, a sum and the last name of each key."""
    keys = [f"key-{each}".encode() for each in range(number)]
    with tempfile.TemporaryDirectory(prefix="statemigrate-peers-") as folder:
        partition = RocksDBStorePartition(f"{folder}/state")
        for each in range(rounds):
            timed(lambda each=each: count(partition, keys, each))
        partition.close()


def count(partition: Any, keys: list[bytes], amount: int) -> None:
    transaction = partition.begin()
    for key in keys:
        state = transaction.as_state(key)
        totals = state.get("totals") or {"n": 0, "total": 0, "name": None}
        name = f"name {len(key)}"
        state.set("totals", {"n": totals["n"] + 1, "total": totals["total"] + amount, "name": name})
    transaction.prepare()
    transaction.flush()


def records(number: int, rounds: int, load: Load = "dense") -> None:
    """A record like those at work, for each kind so many rounds: read, another one written.

    The first round has a row of each key; ``load`` says which keys the later ones have rows of.
    """
    every = [_named(each) for each in range(number)]
    loaded = [_named(each) for each in keys_of(load, number)]
    for kind in KINDS:
        made = [as_json(kind.value(each)) for each in range(1000)]
        with tempfile.TemporaryDirectory(prefix="statemigrate-peers-") as folder:
            partition = RocksDBStorePartition(f"{folder}/state")
            for each in range(rounds):
                timed(partial(keep, partition, loaded if each else every, made))
            partition.close()


def _named(number: int) -> bytes:
    return f"key-{number}".encode()


def keep(partition: Any, keys: list[bytes], made: list[Any]) -> None:
    transaction = partition.begin()
    for key in keys:
        state = transaction.as_state(key)
        state.get("record")
        state.set("record", made[int(key[4:]) % 1000])
    transaction.prepare()
    transaction.flush()


def codec(number: int, rounds: int) -> None:
    """Microseconds of a processor to write and to read a record of each kind, the least."""
    for kind in KINDS:
        made = [as_json(kind.value(each)) for each in range(number)]
        written = [orjson.dumps(each) for each in made]
        print(
            json.dumps(
                {
                    "encode": least(orjson.dumps, made, rounds),
                    "decode": least(orjson.loads, written, rounds),
                }
            ),
            flush=True,
        )


def migrating(
    number: int,
    rounds: int,
    made: Callable[[int], Any] | None = None,
    changed: Callable[[Any], Any] | None = None,
) -> None:
    """Records, as JSON, from one name in the state to another: those of ``benchmarks.states``."""
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="statemigrate-peers-") as folder:
            partition = RocksDBStorePartition(f"{folder}/state")
            fill(partition, number, made or item)
            timed(lambda partition=partition: migrate(partition, changed or changed_item))
            assert sum(1 for _ in partition.iter_items(b"", b"\xff")) == number
            partition.close()


def migrating_orders(number: int, rounds: int) -> None:
    """The same of records with 20 fields."""
    migrating(number, rounds, order, changed_order)


def item(number: int) -> Any:
    return {"name": f"item {number}", "amount": number * 7, "tags": ["a", "bc", "def"]}


def changed_item(value: Any) -> Any:
    units, cents = divmod(value["amount"], 100)
    price = {"units": units, "cents": cents}
    return {"title": value["name"], "price": price, "tags": value["tags"]}


def order(number: int) -> Any:
    return as_json(KINDS[1].value(number))


def changed_order(value: Any) -> Any:
    """What `benchmarks.lenses.order_by_hand` makes of an order; decimals are text here."""
    updated = value["updated"]
    return {
        "order_id": value["order_id"],
        "customer_id": value["customer_id"],
        "shop_id": value["shop_id"],
        "visit": value["session"],
        "created": value["created"],
        "updated": None if updated is None else str(Decimal(updated).scaleb(-3)),
        "shipped": value["shipped"],
        "status": value["status"],
        "currency": value["currency"],
        "total": value["total"],
        "tax": value["tax"],
        "discount": value["discount"],
        "items": value["items"],
        "weight": value["weight"],
        "gift": value["gift"],
        "express": value["express"],
        "address": value["address"],
        "score": value["score"],
        "contact": {"email": value["email"]},
        "seen": None,
    }


def fill(partition: Any, number: int, made: Callable[[int], Any]) -> None:
    for start in range(0, number, _A_TRANSACTION):
        transaction = partition.begin()
        for each in range(start, min(start + _A_TRANSACTION, number)):
            transaction.as_state(b"%09d" % each).set("item", made(each))
        transaction.prepare()
        transaction.flush()


def migrate(partition: Any, changed: Callable[[Any], Any]) -> None:
    transaction = partition.begin()
    for done, (stored, data) in enumerate(partition.iter_items(b"", b"\xff"), 1):
        prefix = stored.partition(b"|")[0]
        transaction.set("item-2", changed(orjson.loads(data)), prefix)
        transaction.delete("item", prefix)
        if done % _A_TRANSACTION == 0:
            transaction.prepare()
            transaction.flush()
            transaction = partition.begin()
    transaction.prepare()
    transaction.flush()


def timed(action: Callable[[], None]) -> None:
    """Print the seconds that passed, and those of processors."""
    began, processor = time.perf_counter(), time.process_time()
    action()
    passed = time.perf_counter() - began
    figures = {"seconds": passed, "processor": time.process_time() - processor}
    print(json.dumps(figures), flush=True)


_WHAT = {
    "counting": counting,
    "records": records,
    "codec": codec,
    "migrating": migrating,
    "migrating-orders": migrating_orders,
}
if __name__ == "__main__":
    _WHAT[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
