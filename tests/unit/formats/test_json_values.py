"""Plain values as JSON and back."""

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from unit.formats.avro_strategies import schemas_with_values

from statemigrate.errors import FormatError, ValueMismatchError
from statemigrate.formats import Avro, Struct
from statemigrate.formats.avro.reading import read_container, write_container
from statemigrate.formats.json_values import json_text, value_from_json


@settings(max_examples=100, deadline=None)
@given(schemas_with_values())
def test_any_value_comes_back_from_json(pair: Any) -> None:
    schema, values = pair
    format_ = Avro(schema)
    for value in values:
        again = value_from_json(format_, json.loads(json_text(value)))
        assert format_.encode(format_.conform(again)) == format_.encode(value)


def test_values_are_written_as_people_write_them() -> None:
    value = {
        "amount": Decimal("1.20"),
        "day": dt.date(2026, 2, 3),
        "at": dt.datetime(2026, 2, 3, 4, 5, tzinfo=dt.UTC),
        "data": b"\x00\xff",
        "name": "Ä",
        "tags": {"a": [1, None]},
    }
    assert json_text(value) == (
        '{"amount": "1.20", "day": "2026-02-03", "at": "2026-02-03T04:05:00+00:00", '
        '"data": "AP8=", "name": "Ä", "tags": {"a": [1, null]}}'
    )
    format_ = Struct(
        "amount DECIMAL(5,2), day DATE, at TIMESTAMP, data BINARY, name STRING, "
        "tags MAP<STRING, ARRAY<INT>>"
    )
    assert format_.conform(value_from_json(format_, json.loads(json_text(value)))) == value


@pytest.mark.parametrize(
    ("ddl", "document", "field"),
    [
        ("day DATE", {"day": "tomorrow"}, "day"),
        ("amount DECIMAL(5,2)", {"amount": "much"}, "amount"),
        ("data BINARY", {"data": "not base64!"}, "data"),
        ("item STRUCT<at: TIMESTAMP>", {"item": {"at": "noon"}}, "item.at"),
        ("days ARRAY<DATE>", {"days": ["2026-01-01", "x"]}, "days[]"),
        ("n INT", [1], "the value"),
    ],
)
def test_what_is_not_of_its_type_is_named(ddl: str, document: Any, field: str) -> None:
    with pytest.raises(ValueMismatchError) as caught:
        value_from_json(Struct(ddl), document)
    assert caught.value.data["field"] == field


@settings(max_examples=20, deadline=None)
@given(schemas_with_values())
def test_container_files_are_read_by_any_avro_library(pair: Any) -> None:
    schema, values = pair
    stream = io.BytesIO()
    write_container(stream, Avro(schema).avro_schema, values)
    stream.seek(0)
    assert list(fastavro.reader(stream)) == values
    stream.seek(0)
    assert list(read_container(stream, "a.avro")) == values


def test_a_file_that_is_no_container_is_named() -> None:
    with pytest.raises(FormatError, match=r"a\.avro is not an Avro container file"):
        list(read_container(io.BytesIO(b"PAR1 and so on"), "a.avro"))
