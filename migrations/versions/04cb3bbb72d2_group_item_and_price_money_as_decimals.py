"""Group item and price, money as decimals.

Revision ID: 04cb3bbb72d2
Revises: base
Create Date: 2026-11-21 01:01:32.698664
"""

from decimal import Decimal

from statemigrate.formats import Struct, Value

# Identify the script; `statemigrate new` keeps them right.
revision = "04cb3bbb72d2"
down_revision = None
branch_labels = ("auctions",)
store = "auctions"

# Money was in cents and becomes decimal amounts.
old = Struct("""
    seller BIGINT,
    name STRING,
    category STRING,
    bids BIGINT,
    total BIGINT,
    highest BIGINT
""")
new = Struct("""
    seller BIGINT,
    item STRUCT<name: STRING, category: STRING>,
    price STRUCT<bids: BIGINT, total: DECIMAL(18,2), highest: DECIMAL(18,2)>
""")


def upgrade(value: Value) -> Value:
    return {
        "seller": value["seller"],
        "item": {"name": value["name"], "category": value["category"]},
        "price": {
            "bids": value["bids"],
            "total": to_amount(value["total"]),
            "highest": to_amount(value["highest"]),
        },
    }


def downgrade(value: Value) -> Value:
    # Code written for the new format may leave out a whole group.
    item, price = value["item"] or {}, value["price"] or {}
    return {
        "seller": value["seller"],
        "name": item.get("name"),
        "category": item.get("category"),
        "bids": price.get("bids"),
        "total": to_cents(price.get("total")),
        "highest": to_cents(price.get("highest")),
    }


def to_amount(cents: int | None) -> Decimal | None:
    return None if cents is None else Decimal(cents).scaleb(-2)


def to_cents(amount: Decimal | None) -> int | None:
    return None if amount is None else int(amount.scaleb(2))
