"""The example of a batch processor goes on with the state of its twin, and back."""

import importlib.util
import json
import random
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from statemigrate import open_state

pytestmark = [pytest.mark.spark, pytest.mark.long]

EXAMPLE = Path(__file__).parents[2] / "examples" / "customers_by_table"
ITEMS = ["lamp", "größer", None, ""]


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield load
    sys.modules.pop("orders", None)


def load(name):
    # Under a name that is not importable, so that Spark's workers are sent the processor's code.
    spec = importlib.util.spec_from_file_location(f"customers_{name}", EXAMPLE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def orders(seed):
    """A file's orders: a customer's rows have one item, as their order within it is not fixed."""
    chance = random.Random(seed)
    found = []
    for customer in chance.sample(range(3_000), 2_000):
        item = chance.choice(ITEMS)
        for _ in range(chance.randint(1, 3)):
            found.append((customer, item, Decimal(chance.randrange(10_000)).scaleb(-2)))
    return found


def test_both_queries_count_the_same_on_one_checkpoint(spark, example, tmp_path):
    del spark
    (tmp_path / "orders").mkdir()
    customers = {}
    for batch, name in enumerate(["by_key", "by_table", "by_table", "by_key"]):
        written = orders(batch)
        lines = [{"customer": c, "item": i, "amount": str(a)} for c, i, a in written]
        (tmp_path / "orders" / f"{batch}.json").write_text("\n".join(map(json.dumps, lines)))
        module = example(name)
        module.run(module.Customers(), str(tmp_path))
        for customer, item, amount in written:
            before = customers.get(customer, {"orders": 0, "spent": 0})
            spent = before["spent"] + amount
            customers[customer] = {"orders": before["orders"] + 1, "spent": spent, "last": item}
        with open_state(tmp_path / "checkpoint", migrations=None) as state:
            rows = state["customers"].to_arrow().to_pylist()
        fields = ("orders", "spent", "last")
        found = {row["customer"]: {name: row[name] for name in fields} for row in rows}
        assert found == customers, name
