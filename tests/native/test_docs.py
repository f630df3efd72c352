"""The page that takes a plain Spark query through a change does what it says, step by step."""

from decimal import Decimal

import pytest
from support.pages import DOCS, Page, Reader

pytestmark = [pytest.mark.spark, pytest.mark.long]

PAGE = Page(DOCS / "spark-state.md")


def total(auction, *days):
    return sum((Decimal(f"{auction + day}.25") for day in days), Decimal(0))


def days_of(auction):
    days = ((1, 100), (2, 10), (3, 5), (4, 20), (5, 3))
    return [day for day, auctions in days if auction < auctions]


def test_the_page_takes_a_plain_query_through_the_day_and_back(spark, pipeline, tmp_path):
    reader = Reader(tmp_path / "reader", tmp_path / "saved", activated=True)
    checked, _, dry, adopted, touched, watched, backfilled, _, back, _ = reader.follow(PAGE)
    assert "2 scripts" in checked
    assert "All 100 values migrate." in dry
    assert "Made room for the backfill source" in adopted
    assert "90 left to migrate" in touched
    assert "90" in watched
    assert "0 left to migrate" in backfilled
    assert "80 left to migrate" in back
    pipeline.checkpoint_directory = reader.folder / "checkpoint"
    assert pipeline.variables() == {"totals"}
    assert pipeline.state("totals") == {
        n: {"name": f"lot {n}", "total": int(total(n, *days_of(n)) * 100)} for n in range(100)
    }
    outputs = spark.read.json(str(reader.folder / "totals")).collect()
    seen = {row.auction: row.total for row in outputs if row.auction >= 20}
    assert seen == {n: str(int(total(n, 1) * 100)) for n in range(20, 100)}
