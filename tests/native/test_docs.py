"""The page that takes a plain Spark query through a change does what it says, step by step."""

from decimal import Decimal

import pytest
from support.pages import DOCS, Page, Reader

pytestmark = [pytest.mark.spark, pytest.mark.long]

PAGE = Page(DOCS / "spark-state.md")


def total(auction, *days):
    return sum((Decimal(f"{auction + day}.25") for day in days), Decimal(0))


def days_of(auction):
    return [day for day, auctions in ((1, 100), (2, 10), (3, 5), (4, 20)) if auction < auctions]


def test_the_page_takes_a_plain_query_through_the_whole_change(spark, pipeline, tmp_path):
    reader = Reader(tmp_path / "reader", tmp_path / "saved", activated=True)
    _, _, written, adopted, touched, backfilled, _, back = reader.follow(PAGE)
    assert "money as decimals" in written
    assert "adopt" in adopted.lower()
    assert "90 keys are left" in touched
    assert "0 keys are left" in backfilled
    pipeline.checkpoint_directory = reader.folder / "checkpoint"
    older = pipeline.state("totals")
    (newer_name,) = pipeline.variables() - {"totals"}
    newer = pipeline.state(newer_name)
    assert older == {
        n: {"name": f"lot {n}", "total": int(total(n, *days_of(n)) * 100)} for n in range(20)
    }
    assert newer == {
        n: {"item": {"name": f"lot {n}"}, "total": total(n, *days_of(n))} for n in range(20, 100)
    }
    assert "80 keys are left" in back
    outputs = spark.read.json(str(reader.folder / "totals")).collect()
    seen = {row.auction: row.total for row in outputs if row.auction >= 20}
    assert seen == {n: str(int(total(n, 1) * 100)) for n in range(20, 100)}
