"""State to measure on: one partition, a record with a name, an amount and a list."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from statemigrate.deployment import StoredFamily
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition, PartitionPaths
from statemigrate.formats import Avro, Value
from statemigrate.migration import Lineage, Migration

OLD = Avro(
    {
        "type": "record",
        "name": "Item",
        "fields": [
            {"name": "name", "type": "string"},
            {"name": "amount", "type": "long"},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ],
    }
)
NEW = Avro(
    {
        "type": "record",
        "name": "Item",
        "fields": [
            {"name": "title", "type": "string"},
            {
                "name": "price",
                "type": {
                    "type": "record",
                    "name": "Price",
                    "fields": [
                        {"name": "units", "type": "long"},
                        {"name": "cents", "type": "int"},
                    ],
                },
            },
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ],
    }
)


def upgrade(value: Value) -> Value:
    """Restructure an item: units and cents apart, the name a title."""
    units, cents = divmod(value["amount"], 100)
    price = {"units": units, "cents": cents}
    return {"title": value["name"], "price": price, "tags": value["tags"]}


def old_item(number: int) -> Value:
    """The ``number``th item in the old format."""
    return {"name": f"item {number}", "amount": number * 7, "tags": ["a", "bc", "def"]}


def key_of(number: int) -> bytes:
    """The ``number``th key; keys compare as their numbers."""
    return b"\x01" + number.to_bytes(8, "big")


LINEAGE = Lineage.build(
    "items", [Migration("0001", None, "items", OLD, NEW, upgrade, None, "", "", "")]
)
OLD_FAMILY = StoredFamily("items", LINEAGE.oldest, OLD)
NEW_FAMILY = StoredFamily("items@0001", "0001", NEW)


@contextmanager
def place() -> Iterator[PartitionPaths]:
    """A partition's directories, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as folder:
        yield PartitionPaths(0, Path(folder) / "durable", Path(folder) / "working")


def filled(
    at: PartitionPaths,
    family: StoredFamily,
    count: int,
    value: Callable[[int], Value] | None = None,
) -> PartitionState:
    """Commit ``count`` values in ``family`` as version 0, with a snapshot: items by default."""
    partition = Partition(at, PartitionState(), 0)
    written = partition.target(family, "value")
    if value is None:
        value = old_item if family is OLD_FAMILY else lambda number: upgrade(old_item(number))
    for number in range(count):
        written.put(key_of(number), value(number))
    return partition.commit(snapshot=True)
