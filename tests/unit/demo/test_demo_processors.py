"""Both processors tell downstream the same, whatever the format of their state."""

from decimal import Decimal

import pytest
from pyspark.sql import Row

from statemigrate.demo.jobs import after, before
from statemigrate.demo.paths import example_migrations
from statemigrate.deployment import SETTINGS
from statemigrate.scripts import ScriptFolder


class Handle:
    """State of one key in memory."""

    def __init__(self):
        self.values = {}

    def getValueState(self, name, schema, ttl=None):
        return Variable(self.values, name)


class Variable:
    def __init__(self, values, name):
        self.values, self.name = values, name

    def get(self):
        return self.values.get(self.name)

    def exists(self):
        return self.name in self.values

    def update(self, value):
        self.values[self.name] = value

    def clear(self):
        self.values.pop(self.name, None)


OPENED = Row(kind="auction", seller=5, name="lot-1", category="maps")
BATCHES = [
    [Row(kind="bid", price=350), OPENED],
    [Row(kind="bid", price=1_005), Row(kind="bid", price=20)],
]


def run(module, key, batches):
    handle = Handle()
    processor = module.AuctionHouse()
    processor.init(handle)
    rows = [
        row for batch in batches for row in processor.handleInputRows((key,), iter(batch), None)
    ]
    return [tuple(row) for row in rows], handle.values


@pytest.mark.parametrize("module", [before, after])
def test_an_auction_is_summed_up_in_cents(module):
    rows, _ = run(module, "auction-1", BATCHES)
    assert rows == [
        ("auction-1", 5, "lot-1", "maps", None, 1, 350, 350),
        ("auction-1", 5, "lot-1", "maps", None, 3, 1_375, 1_005),
    ]


@pytest.mark.parametrize("module", [before, after])
def test_a_bid_may_come_before_its_auction(module):
    rows, _ = run(module, "auction-1", [[Row(kind="bid", price=350)], [OPENED]])
    assert rows[0] == ("auction-1", None, None, None, None, 1, 350, 350)
    assert rows[1] == ("auction-1", 5, "lot-1", "maps", None, 1, 350, 350)


@pytest.mark.parametrize("module", [before, after])
def test_an_auction_without_bids_has_no_highest(module):
    rows, _ = run(module, "auction-1", [[OPENED]])
    assert rows == [("auction-1", 5, "lot-1", "maps", None, 0, 0, None)]


@pytest.mark.parametrize("module", [before, after])
def test_a_person_is_passed_on(module):
    rows, values = run(module, "person-2", [[Row(kind="person", name="Ada", city="Fez")]])
    assert rows == [("person-2", None, "Ada", None, "Fez", None, None, None)]
    assert values == {"persons": ("Ada", "Fez")}


def test_the_migration_takes_the_old_state_to_exactly_the_new_one():
    _, old = run(before, "auction-1", BATCHES)
    _, new = run(after, "auction-1", BATCHES)
    lineage = ScriptFolder(example_migrations()).lineage("auctions")
    path = lineage.path(lineage.oldest, lineage.head)
    names = ("seller", "name", "category", "bids", "total", "highest")
    migrated = path.apply(dict(zip(names, old["auctions"], strict=True)))
    assert list(new) == [f"auctions@{lineage.head}"]
    assert new[f"auctions@{lineage.head}"] == (
        5,
        ("lot-1", "maps"),
        (3, Decimal("13.75"), Decimal("10.05")),
    )
    assert migrated == {
        "seller": 5,
        "item": {"name": "lot-1", "category": "maps"},
        "price": {"bids": 3, "total": Decimal("13.75"), "highest": Decimal("10.05")},
    }


def test_only_the_new_processor_has_migrations():
    assert not hasattr(before.AuctionHouse, SETTINGS)
    assert getattr(after.AuctionHouse, SETTINGS).migrations == example_migrations()
