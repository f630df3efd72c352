"""Balances as decimals, what moved in a struct.

Revision ID: 4575f8f32ea3
Revises: base
Create Date: 2026-11-22 00:33:58
"""

from statemigrate.formats import Struct
from statemigrate.lenses import lens, rename, scale, wrap

# Identify the script; `statemigrate new` keeps them right.
revision = "4575f8f32ea3"
down_revision = None
branch_labels = ("accounts",)
store = "accounts"

# Amounts were in cents.
old = Struct("cents BIGINT, movements INT, largest BIGINT")
new = Struct("balance DECIMAL(18,2), moved STRUCT<times: INT, largest: DECIMAL(18,2)>")

change = lens(
    rename("cents", "balance"),
    scale("balance", places=2, type="DECIMAL(18,2)", unfit="fail"),
    rename("movements", "times"),
    scale("largest", places=2, type="DECIMAL(18,2)", unfit="fail"),
    wrap("moved", "times", "largest"),
)

# `statemigrate check` tries these; other amounts are nobody's.
examples = [
    {"cents": -105, "movements": 3, "largest": 250},
    {"cents": 0, "movements": 0, "largest": 0},
]
