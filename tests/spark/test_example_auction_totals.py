"""The README's own example: before, after, and every value in between."""

import importlib.util
import json
from decimal import Decimal
from pathlib import Path

import pytest

from statemigrate import open_state

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).parents[2] / "examples" / "auction_totals"
BIDS = [
    {"auction": auction, "name": f"item {auction}", "price": f"{auction + bid}.25"}
    for auction in range(30)
    for bid in range(3)
]


def test_the_example_migrates_every_total(spark, tmp_path):
    first, second = BIDS[:], [bid for bid in BIDS if bid["auction"] < 10]
    feed(tmp_path, "first", first)
    run("before", tmp_path)
    assert state(tmp_path, None) == {
        auction: {"name": f"item {auction}", "total": int(total * 100)}
        for auction, total in totals(first).items()
    }

    feed(tmp_path, "second", second)
    run("after", tmp_path)
    expected = totals(first + second)
    assert state(tmp_path, EXAMPLE / "migrations") == {
        auction: {"item": {"name": f"item {auction}"}, "total": total}
        for auction, total in expected.items()
    }
    rows = spark.read.parquet(str(tmp_path / "totals")).orderBy("batch").collect()
    assert {row.auction: row.total for row in rows} == expected


def feed(folder: Path, name: str, bids: list[dict]) -> None:
    (folder / "bids").mkdir(exist_ok=True)
    lines = "\n".join(json.dumps(bid) for bid in bids)
    (folder / "bids" / f"{name}.json").write_text(lines)


def run(name: str, folder: Path) -> None:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    query = module.start(str(folder))
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def state(folder: Path, migrations: Path | None) -> dict[int, dict]:
    with open_state(folder / "checkpoint", migrations=migrations) as state:
        return {key[0]: value for key, value in state["auctions"].entries()}


def totals(bids: list[dict]) -> dict[int, Decimal]:
    sums: dict[int, Decimal] = {}
    for bid in bids:
        sums[bid["auction"]] = sums.get(bid["auction"], Decimal(0)) + Decimal(bid["price"])
    return sums
