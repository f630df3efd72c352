"""Group item and price, money as decimals.

Revision ID: 04cb3bbb72d2
Revises: base
Create Date: 2026-11-21 01:01:32.698664
"""

from statemigrate.formats import Struct
from statemigrate.lenses import lens, scale, wrap

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

change = lens(
    wrap("item", "name", "category"),
    wrap("price", "bids", "total", "highest"),
    scale("price.total", places=2, type="DECIMAL(18,2)", unfit="fail"),
    scale("price.highest", places=2, type="DECIMAL(18,2)", unfit="fail"),
)
