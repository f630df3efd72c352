"""Balances as decimals, what moved in a struct.

Revision ID: 4575f8f32ea3
Revises: base
Create Date: 2026-11-22 00:33:58
"""

from decimal import Decimal

from statemigrate.formats import Struct, Value

# Identify the script; `statemigrate new` keeps them right.
revision = "4575f8f32ea3"
down_revision = None
branch_labels = ("accounts",)
store = "accounts"

# Amounts were in cents.
old = Struct("cents BIGINT, movements INT, largest BIGINT")
new = Struct("balance DECIMAL(18,2), moved STRUCT<times: INT, largest: DECIMAL(18,2)>")


def upgrade(value: Value) -> Value:
    largest = Decimal(value["largest"]).scaleb(-2)
    return {
        "balance": Decimal(value["cents"]).scaleb(-2),
        "moved": {"times": value["movements"], "largest": largest},
    }


def downgrade(value: Value) -> Value:
    moved = value["moved"]
    return {
        "cents": int(value["balance"].scaleb(2)),
        "movements": moved["times"],
        "largest": int(moved["largest"].scaleb(2)),
    }


# `statemigrate check` tries these; other amounts are nobody's.
examples = [
    {"cents": -105, "movements": 3, "largest": 250},
    {"cents": 0, "movements": 0, "largest": 0},
]
