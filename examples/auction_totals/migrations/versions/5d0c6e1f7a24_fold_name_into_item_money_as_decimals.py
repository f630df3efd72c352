"""Fold name into item, money as decimals.

Revision ID: 5d0c6e1f7a24
Revises: base
Create Date: 2026-11-21 02:55:00
"""

from decimal import Decimal

from statemigrate.formats import Struct, Value

# Identify the script; `statemigrate new` keeps them right.
revision = "5d0c6e1f7a24"
down_revision = None
branch_labels = ("auctions",)
store = "auctions"

# Totals were in cents.
old = Struct("name STRING, total BIGINT")
new = Struct("item STRUCT<name: STRING>, total DECIMAL(18,2)")


def upgrade(value: Value) -> Value:
    return {"item": {"name": value["name"]}, "total": Decimal(value["total"]).scaleb(-2)}


def downgrade(value: Value) -> Value:
    return {"name": value["item"]["name"], "total": int(value["total"].scaleb(2))}


# `statemigrate check` tries these; other totals are not bids.
examples = [{"name": "lamp", "total": 105}, {"name": "", "total": 0}]
