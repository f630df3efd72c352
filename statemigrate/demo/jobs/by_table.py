"""The processor of the second deployment on pages, which takes many keys at once.

It does what `statemigrate.demo.jobs.after` does: it gets the rows and the state of all touched keys
of a page as tables, and computes by columns.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from statemigrate.demo.jobs.after import AUCTION
from statemigrate.demo.paths import example_migrations
from statemigrate.demo.stage import COLUMNS
from statemigrate.native import migrated
from statemigrate.processor import BatchProcessor

_MONEY = pa.decimal128(18, 2)
_CENT = pa.scalar(Decimal("0.01"))
_AUCTION_COLUMNS = ("seller", "name", "category")


@migrated(migrations=example_migrations())
class AuctionHouseByTable(BatchProcessor):
    """Keeps each person, and each auction with the number, sum and maximum of its bids."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open both stores."""
        handle.getValueState("auctions", AUCTION)
        handle.getValueState("persons", "name STRING, city STRING")

    def handleBatch(self, keys: Any, rows: Any, state: Any, timerValues: Any) -> tuple[Any, Any]:  # noqa: ARG002
        """Take in the keys' events; a bid may come before its auction's own row."""
        new = self.aggregate(
            keys,
            _by_kind(rows),
            [(f"auction_{name}", "last") for name in _AUCTION_COLUMNS]
            + [
                ("price", "count"),
                ("price", "sum"),
                ("price", "max"),
                ("name", "last"),
                ("city", "last"),
            ],
        )
        auctions, persons = (state[name].combine_chunks() for name in ("auctions", "persons"))
        is_person = pc.starts_with(keys["entity"].combine_chunks(), "p")
        seller, item, price = _after(auctions, new)
        left = {
            "auctions": _structs(auctions.type, [seller, item, price], is_person),
            "persons": _structs(
                persons.type, [new["name_last"], new["city_last"]], pc.invert(is_person)
            ),
        }
        made = keys
        for name, values in left.items():
            made = made.append_column(name, values)
        bids, total, highest = price.flatten()
        columns = [
            keys["entity"],
            _where(pc.invert(is_person), seller),
            pc.if_else(is_person, new["name_last"], item.field("name")),
            _where(pc.invert(is_person), item.field("category")),
            _where(is_person, new["city_last"]),
            *(
                _where(pc.invert(is_person), each)
                for each in (bids, _cents(total), _cents(highest))
            ),
        ]
        return made, pa.table(columns, names=list(COLUMNS))


def _by_kind(rows: Any) -> Any:
    """The rows, the columns of an auction under names of their own."""
    is_auction = pc.equal(rows["kind"], "auction")
    for name in _AUCTION_COLUMNS:
        rows = rows.append_column(f"auction_{name}", _where(is_auction, rows[name]))
    return rows


def _after(auctions: Any, new: Any) -> tuple[Any, Any, Any]:
    """The seller, the item and the money of each auction after its events."""
    seller, item, price = auctions.flatten()
    own = [new[f"auction_{name}_last"].combine_chunks() for name in _AUCTION_COLUMNS]
    name, category = (
        pc.coalesce(after, before) for after, before in zip(own[1:], item.flatten(), strict=True)
    )
    bids, total, highest = price.flatten()
    counted, summed, largest = (
        new[f"price_{each}"].combine_chunks() for each in ("count", "sum", "max")
    )
    nothing = pa.scalar(Decimal(0), _MONEY)
    money = [
        pc.add(pc.coalesce(bids, pa.scalar(0, pa.int64())), counted),
        pc.add(pc.coalesce(total, nothing), pc.coalesce(_money(summed), nothing)).cast(_MONEY),
        pc.max_element_wise(highest, _money(largest)).cast(_MONEY),
    ]
    return (
        pc.coalesce(own[0], seller),
        pa.StructArray.from_arrays([name, category], fields=list(item.type)),
        pa.StructArray.from_arrays(money, fields=list(price.type)),
    )


def _structs(kind: Any, columns: list[Any], is_null: Any) -> Any:
    arrays = [
        each.combine_chunks() if isinstance(each, pa.ChunkedArray) else each for each in columns
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=is_null)


def _where(condition: Any, values: Any) -> Any:
    return pc.if_else(condition, values, pa.scalar(None, values.type))


def _money(cents: Any) -> Any:
    return pc.multiply(cents.cast(pa.decimal128(19, 0)), _CENT).cast(_MONEY)


def _cents(money: Any) -> Any:
    return pc.multiply(money, pa.scalar(Decimal(100))).cast(pa.int64())
