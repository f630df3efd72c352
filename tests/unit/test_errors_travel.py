"""Errors on their way to another process, and errors said again with more in them."""

import datetime as dt
import json
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.errors import (
    CorruptFileError,
    FormatError,
    StatemigrateError,
    TransformError,
    ValueMismatchError,
)
from statemigrate.typed_json import typed, untyped

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=st.just(dt.UTC)),
    st.timedeltas(),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ),
    max_leaves=6,
)


def arrived(error: StatemigrateError) -> StatemigrateError:
    return StatemigrateError.from_json(json.loads(json.dumps(error.to_json())))


@given(VALUES)
def test_data_arrives_with_its_types(value):
    again = untyped(json.loads(json.dumps(typed(value))))
    assert (again, repr(again)) == (value, repr(value))


def test_both_times_of_a_repeated_hour_arrive():
    moments = [dt.datetime(2025, 11, 2, 1, 30, fold=fold) for fold in (0, 1)]
    assert [each.fold for each in untyped(typed(moments))] == [0, 1]


def test_what_has_no_plain_type_arrives_as_its_text():
    zone = ZoneInfo("Europe/Berlin")
    assert untyped(typed({"at": zone})) == {"at": repr(zone)}


@pytest.mark.parametrize(
    "document",
    [{}, {"type": "tuple"}, {"type": "code", "value": "1"}, {"type": "decimal", "value": "x"}],
)
def test_a_document_of_no_known_type_is_refused(document):
    with pytest.raises(ValueError, match="no value of a known type"):
        untyped(document)


def test_an_error_arrives_as_it_was():
    failed = TransformError(
        "SM-TRANSFORM-007",
        "Store 'a': it raised",
        expected=Decimal(1),
        next_action="try again",
        store="a",
        source="base",
    ).at(("ada", dt.date(2024, 2, 29), Decimal("1.50"), None))
    found = arrived(failed)
    assert type(found) is TransformError
    assert str(found) == str(failed)
    assert found.data == failed.data
    assert (found.expected, found.found, found.next_action) == ("1", None, "try again")


@pytest.mark.parametrize("name", ["Path", "values_hidden", "Exception", "NoSuchError"])
def test_an_error_of_a_kind_from_elsewhere_is_a_plain_one(name):
    document = {**FormatError("SM-FORMAT-003", "wrong", path="here").to_json(), "type": name}
    found = StatemigrateError.from_json(document)
    assert type(found) is StatemigrateError
    assert (found.summary, found.data) == ("wrong", {"path": "here"})


def test_an_error_said_again_keeps_what_is_not_said_anew():
    cause = KeyError("x")
    first = ValueMismatchError(
        "SM-VALUE-007", "no", expected=1, found=2, next_action="mend it", field="a", row=3
    )
    first.__cause__ = cause
    again = first.but(summary="line 7: no", row=7, line=7)
    assert type(again) is ValueMismatchError
    assert str(again) == ("line 7: no [SM-VALUE-007]\n  expected: 1\n  found: 2\n  next: mend it")
    assert again.data == {"field": "a", "row": 7, "line": 7}
    assert again.__cause__ is cause
    assert first.data == {"field": "a", "row": 3}


def test_a_part_can_be_taken_away():
    error = CorruptFileError(
        "SM-CHECKPOINT-002", "gone", expected="a file", next_action="restore it", path="p"
    )
    assert str(error.but(expected=None, next_action=None)) == "gone [SM-CHECKPOINT-002]"
    assert error.but(expected=None).data == {"path": "p"}
