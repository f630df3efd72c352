"""Values made up from a schema: of the format, the edges among them, and not too many."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from avro_strategies import schemas_with_values
from hypothesis import given

from statemigrate.formats import Avro, Struct
from statemigrate.formats.examples import MOST, made_up_values, samples


@given(schemas_with_values())
def test_every_one_is_a_value_of_its_format_and_no_two_are_alike(drawn: Any) -> None:
    fmt = Avro(drawn[0])
    values = made_up_values(fmt)
    written = [fmt.encode(value) for value in values]
    assert 1 <= len(set(written)) == len(values) <= MOST
    assert [fmt.encode(value) for value in made_up_values(fmt)] == written


@given(schemas_with_values())
def test_nothing_that_is_made_up_is_left_out_for_not_fitting(drawn: Any) -> None:
    fmt = Avro(drawn[0])
    for value in samples(fmt.schema, MOST):
        fmt.encode(value)


EDGES = {
    "TINYINT": [0, -1, -128, 127, None],
    "BIGINT": [-(2**63), 2**63 - 1, None],
    "BIGINT NOT NULL": [-(2**63), 2**63 - 1],
    "STRING": ["", "größer 値 \U0001f600", None],
    "VARCHAR(2)": ["", "gr", None],
    "DECIMAL(38,38)": [Decimal(f"-0.{'9' * 38}"), Decimal(f"0.{'0' * 37}1"), None],
    "DATE": [date.min, date.max, None],
    "TIMESTAMP": [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), None],
    "TIMESTAMP_NTZ": [datetime.min, datetime.max, None],
    "ARRAY<INT>": [[], [None], None],
    "MAP<STRING, INT>": [{}, {"": None, "größer 値 \U0001f600": None}, {"text": 7}, None],
    "MAP<BIGINT, INT>": [{}, {0: None, -1: None}, {7: 7}, None],
    "STRUCT<a: INT>": [{"a": None}, {"a": 2**31 - 1}, None],
    "BOOLEAN": [True, False, None],
    "BINARY": [b"", b"\xff\x00", None],
    "VOID": [None],
}


@pytest.mark.parametrize(("kind", "edges"), EDGES.items(), ids=EDGES)
def test_the_edges_of_each_type_are_there(kind: str, edges: list[Any]) -> None:
    found = [value["x"] for value in made_up_values(Struct(f"x {kind}"))]
    assert [edge for edge in edges if edge not in found] == []


def test_edges_come_one_by_one_beside_ordinary_values_and_together() -> None:
    values = made_up_values(Struct("a INT, b STRING"))
    assert values[0] == {"a": 7, "b": "text"}
    assert {"a": None, "b": None} in values
    assert {"a": None, "b": "text"} in values
    assert {"a": 7, "b": None} in values
    assert {"a": 2**31 - 1, "b": " 'quoted\" \n"} in values or {"a": 0, "b": ""} in values


def test_a_deep_schema_makes_no_more_than_a_shallow_one() -> None:
    inner = "INT"
    for number in range(9):
        inner = f"STRUCT<a{number}: ARRAY<{inner}>, b{number}: MAP<STRING, {inner}>>"
    values = made_up_values(Struct(f"x {inner}"))
    assert 2 <= len(values) <= MOST
    assert max(len(json.dumps(value)) for value in values) < 1_000_000
