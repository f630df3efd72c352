"""Records like those at work, of 3, 20 and 40 fields, for whoever measures: this and the peers.

Only the standard library is loaded, so that a peer's interpreter makes the very same values. A
record has ids of 64 bits, epoch milliseconds, decimals, text, booleans, structs, and the widest one
a list and a map. ``sparse`` records have no value in two of three fields that may be without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

Value = dict[str, Any]
Load = Literal["dense", "sparse", "hot"]
_64_BITS = (1 << 64) - 1
_STARTED = 1_767_225_600_000
"""The first millisecond of 2026."""


@dataclass(frozen=True)
class RecordKind:
    """A kind of record: its type in Spark's words, and the value of the record number so many."""

    fields: int
    ddl: str
    value: Callable[[int], Value]

    @property
    def name(self) -> str:
        """The kind's name in the tables."""
        return f"{self.fields} fields"

    def sparse(self, number: int) -> Value:
        """The record number so many, with nothing in two of three fields that may be null."""
        nullable = [column.split()[0] for column in _columns(self.ddl) if "NOT NULL" not in column]
        value = self.value(number)
        absent = {name for place, name in enumerate(nullable) if (place + number) % 3}
        return {name: None if name in absent else each for name, each in value.items()}


def as_json(value: Any) -> Any:
    """The value as a user of JSON keeps it: a decimal is its text, all else is as it is."""
    if isinstance(value, dict):
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    return str(value) if isinstance(value, Decimal) else value


def keys_of(load: Load, keys: int) -> Iterator[int]:
    """The keys of a batch's rows: each once, a tenth of them, or one key in half of all rows."""
    if load == "sparse":
        return (_id(number, 3) % keys for number in range(keys // 10))
    if load == "hot":
        return (number if number % 2 else 0 for number in range(keys))
    return iter(range(keys))


def _id(number: int, salt: int) -> int:
    """An id of 64 bits, positive or negative, the same in every run."""
    mixed = (number + salt) * 0x9E3779B97F4A7C15 & _64_BITS
    mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9 & _64_BITS
    return (mixed ^ mixed >> 32) - (1 << 63)


def _when(number: int, field: int = 0) -> int:
    return _STARTED + number * 1_009 + field * 86_399_997


def _money(number: int, field: int = 0) -> Decimal:
    return Decimal((number * 7_919 + field * 104_729) % 100_000_000).scaleb(-2)


def _columns(ddl: str) -> list[str]:
    """The columns at the top, each as it is written."""
    columns, depth = [""], 0
    for character in ddl:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            columns.append("")
        else:
            columns[-1] += character
    return columns


_WORDS = ("open", "paid", "packed", "shipped", "delivered", "returned", "größer", "rückläufig")


def _counted(number: int) -> Value:
    return {"n": number % 5_000, "updated": _when(number), "name": f"name {number % 1000}"}


_COUNTED = "n BIGINT, updated BIGINT, name STRING"
_ADDRESS = "STRUCT<street: STRING, city: STRING, zip: STRING, lat: DOUBLE>"
_ORDER = f"""
    order_id BIGINT NOT NULL, customer_id BIGINT NOT NULL, shop_id BIGINT, session STRING,
    created BIGINT NOT NULL, updated BIGINT, shipped BIGINT, status STRING NOT NULL,
    currency STRING, total DECIMAL(12,2) NOT NULL, tax DECIMAL(12,2), discount DECIMAL(12,2),
    items INT NOT NULL, weight DOUBLE, gift BOOLEAN NOT NULL, express BOOLEAN,
    email STRING, note STRING, address {_ADDRESS}, score STRUCT<value: DOUBLE, model: STRING>
"""


def _address(number: int, field: int = 0) -> Value:
    return {
        "street": f"{number % 97 + field} Harbour Street",
        "city": ("Lisboa", "Oslo", "Köln", "Lyon")[number % 4],
        "zip": f"{number % 90_000 + 10_000}",
        "lat": 38.0 + number % 1000 / 1000,
    }


def _order(number: int) -> Value:
    return {
        "order_id": _id(number, 1),
        "customer_id": _id(number, 2),
        "shop_id": number % 400,
        "session": f"{_id(number, 4) & _64_BITS:016x}",
        "created": _when(number),
        "updated": _when(number, 1),
        "shipped": None if number % 3 else _when(number, 2),
        "status": _WORDS[number % len(_WORDS)],
        "currency": "EUR",
        "total": _money(number),
        "tax": _money(number, 1),
        "discount": None if number % 2 else _money(number, 2),
        "items": number % 40,
        "weight": number % 977 / 8,
        "gift": number % 5 == 0,
        "express": number % 2 == 0,
        "email": f"customer.{number}@example.com",
        "note": None if number % 4 else f"leave it with the neighbour at number {number % 80}",
        "address": _address(number),
        "score": {"value": number % 1000 / 1000, "model": "v7"},
    }


_LEG = "STRUCT<hub: BIGINT, left: BIGINT, arrived: BIGINT, cost: DECIMAL(10,2), carrier: STRING>"
_LEGS = ("first", "second", "third", "fourth", "fifth", "last")
_SHIPMENT = f"""
    {_ORDER}, {", ".join(f"{name}_leg {_LEG}" for name in _LEGS)},
    parcel_id BIGINT NOT NULL, batch_id BIGINT, customs BIGINT, insured DECIMAL(18,4),
    duty DECIMAL(18,4), scanned BIGINT NOT NULL, promised BIGINT, signed BOOLEAN, fragile BOOLEAN,
    route STRING, origin STRING, scans ARRAY<BIGINT>, labels MAP<STRING, STRING>, attempts INT
"""


def _leg(number: int, place: int) -> Value:
    return {
        "hub": _id(number, place),
        "left": _when(number, place),
        "arrived": _when(number, place + 1),
        "cost": _money(number, place) % 1_000_000,
        "carrier": ("road", "rail", "sea")[(number + place) % 3],
    }


def _shipment(number: int) -> Value:
    legs = {f"{name}_leg": _leg(number, place) for place, name in enumerate(_LEGS, 10)}
    return {
        **_order(number),
        **legs,
        "parcel_id": _id(number, 20),
        "batch_id": _id(number // 1000, 21),
        "customs": number % 100_000,
        "insured": Decimal(number * 31 % 10_000_000).scaleb(-4),
        "duty": None if number % 5 else Decimal(number % 100_000).scaleb(-4),
        "scanned": _when(number, 3),
        "promised": _when(number, 4),
        "signed": number % 3 == 0,
        "fragile": number % 7 == 0,
        "route": f"LIS-{number % 50:02}-OSL",
        "origin": "web",
        "scans": [_when(number, each) for each in range(number % 6)],
        "labels": {"color": "red", "size": "XL", "shelf": f"{number % 300}"},
        "attempts": number % 4,
    }


KINDS = (
    RecordKind(3, _COUNTED, _counted),
    RecordKind(20, _ORDER, _order),
    RecordKind(40, _SHIPMENT, _shipment),
)
