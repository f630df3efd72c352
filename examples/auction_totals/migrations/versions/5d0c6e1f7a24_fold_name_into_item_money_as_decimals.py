"""Fold name into item, money as decimals.

Revision ID: 5d0c6e1f7a24
Revises: base
Create Date: 2026-11-21 02:55:00
"""

from statemigrate.formats import Struct
from statemigrate.lenses import lens, scale, wrap

# Identify the script; `statemigrate new` keeps them right.
revision = "5d0c6e1f7a24"
down_revision = None
branch_labels = ("auctions",)
store = "auctions"

# Totals were in cents.
old = Struct("name STRING, total BIGINT")
new = Struct("item STRUCT<name: STRING>, total DECIMAL(18,2)")

change = lens(
    wrap("item", "name"),
    scale("total", places=2, type="DECIMAL(18,2)", unfit="fail"),
)

# `statemigrate check` tries these; other totals are not bids.
examples = [{"name": "lamp", "total": 105}, {"name": "", "total": 0}]
