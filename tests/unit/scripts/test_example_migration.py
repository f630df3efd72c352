from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.formats import Struct
from statemigrate.migration import BASE
from statemigrate.scripts import ScriptFolder

ROOT = Path(__file__).parents[3]
LINEAGE = ScriptFolder(ROOT / "migrations").lineage("auctions")
OLD, NEW = LINEAGE.formats
UP = LINEAGE.path(BASE, LINEAGE.head)
DOWN = LINEAGE.path(LINEAGE.head, BASE)

longs = st.none() | st.integers(-(2**63), 2**63 - 1)
cents = st.none() | st.integers(-(10**18) + 1, 10**18 - 1)
texts = st.none() | st.text()
values = st.fixed_dictionaries(
    {
        "seller": longs,
        "name": texts,
        "category": texts,
        "bids": longs,
        "total": cents,
        "highest": cents,
    }
)


def test_the_example_groups_fields_and_turns_cents_into_amounts():
    value = {
        "seller": 7,
        "name": "lamp",
        "category": "home",
        "bids": 3,
        "total": 123456,
        "highest": -5,
    }
    assert UP.apply(value) == {
        "seller": 7,
        "item": {"name": "lamp", "category": "home"},
        "price": {"bids": 3, "total": Decimal("1234.56"), "highest": Decimal("-0.05")},
    }


@given(values)
def test_the_examples_downgrade_undoes_its_upgrade(value):
    assert DOWN.apply(UP.apply(dict(value))) == value


@given(values)
def test_the_examples_values_survive_both_formats(value):
    old = OLD.decode(OLD.encode(value))
    new = NEW.decode(NEW.encode(UP.apply(old)))
    assert OLD.decode(OLD.encode(DOWN.apply(new))) == value


@pytest.mark.parametrize("price", [None, {"bids": None, "total": None, "highest": None}])
@pytest.mark.parametrize("item", [None, {"name": None, "category": None}])
def test_the_examples_downgrade_takes_groups_that_were_left_out(item, price):
    value = {"seller": 1, "item": item, "price": price}
    OLD.validate(DOWN.apply(value))


def test_the_examples_formats_are_those_of_the_demo():
    assert (
        Struct(
            "seller BIGINT, name STRING, category STRING, bids BIGINT, total BIGINT, highest BIGINT"
        )
        == OLD
    )
    assert (
        Struct(
            "seller BIGINT, item STRUCT<name: STRING, category: STRING>, "
            "price STRUCT<bids: BIGINT, total: DECIMAL(18,2), highest: DECIMAL(18,2)>"
        )
        == NEW
    )


def test_the_example_folder_has_the_template_that_init_writes():
    for name in ("script.py.mako", "README.md"):
        written = ROOT / "statemigrate" / "scripts" / "template" / name
        assert (ROOT / "migrations" / name).read_text() == written.read_text()
