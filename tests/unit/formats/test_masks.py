"""Which columns the names in a mask are, and those that are none."""

import logging

import pytest

from statemigrate.errors import CheckpointError
from statemigrate.formats.masking import Mask, NamedColumn, SharedMask, columns_in

ADDRESS = {"type": "struct", "fields": [{"name": "Email", "type": "string"}]}
VALUE = {
    "type": "struct",
    "fields": [
        {"name": "max", "type": "long"},
        {"name": "to", "type": {"type": "array", "elementType": ADDRESS}},
        {"name": "by", "type": {"type": "map", "keyType": ADDRESS, "valueType": "long"}},
    ],
}
MAX, TO, BY = VALUE["fields"]


@pytest.mark.parametrize(
    ("names", "covered"),
    [
        (["MAX"], [MAX]),
        (["email"], [TO, BY]),
        (["orders.max"], [MAX]),
        (["Aggregation-0.max"], [MAX]),
        (["others.max"], []),
        (["orders.to.email"], [TO]),
        (["orders.to"], [TO]),
        (["orders.email"], []),
        ([], []),
    ],
)
def test_a_name_is_that_of_a_field_at_any_depth_or_of_one_in_a_store(names, covered):
    mask = Mask.of(names).at("orders", "aggregation-0")
    assert [each for each in VALUE["fields"] if mask.covers(each)] == covered


def test_all_fields_are_known_by_their_names_and_by_their_places():
    assert [each.path for each in columns_in(VALUE, "orders")] == [
        "orders.max",
        "orders.to",
        "orders.to.Email",
        "orders.by",
        "orders.by.Email",
    ]
    for names in (["max"], ["EMAIL", "orders.TO.email"], ["orders.by.Email"], []):
        Mask.of(names).require_columns(columns_in(VALUE, "orders"))


@pytest.mark.parametrize("name", ["e-mail", "others.max", "orders.email", "to.email", ""])
def test_a_name_of_no_column_is_refused_with_those_that_there_are(name):
    with pytest.raises(CheckpointError) as raised:
        Mask.of(["max", name]).require_columns(columns_in(VALUE, "orders"))
    assert (raised.value.code, raised.value.data["column"]) == ("SM-PREVIEW-030", name)
    assert raised.value.found == "Email, by, max, to"


def test_no_more_columns_are_looked_at_than_it_takes():
    def columns():
        yield NamedColumn("max", "orders.max")
        raise AssertionError

    Mask.of(["max"]).require_columns(columns())


def test_what_several_checkpoints_mask_need_not_be_in_each(caplog):
    names = SharedMask(["max", "card", "iban"])
    with caplog.at_level(logging.WARNING, "statemigrate.formats"):
        Mask.of(names).require_columns(columns_in(VALUE, "orders"))
    (record,) = caplog.records
    assert "card, iban" in record.getMessage()


def test_a_name_that_begins_with_a_store_s_name_in_the_project_is_the_engine_s():
    found = Mask.of(["Spending.Max", "other.max", "spending"], {"spending": "aggregation-0"})
    assert found.names == {"aggregation-0.max", "other.max", "spending"}
    assert found.hides("max", ["aggregation-0"])
    assert not found.hides("max", ["aggregation-1"])
