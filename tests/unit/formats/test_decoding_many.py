"""Many values read at once, against reading them one by one."""

from collections.abc import Callable
from typing import Any

import pytest
from avro_strategies import schemas_with_values
from hypothesis import given, settings
from hypothesis import strategies as st

from statemigrate.errors import FormatError
from statemigrate.formats import Avro


def outcome(read: Callable[[Any], Any], data: Any) -> Any:
    """What is read, or which bytes are said to be the wrong ones."""
    try:
        return read(data)
    except FormatError as error:
        return error.found[error.found.rindex(" (in ") :]


@settings(max_examples=70, deadline=None)
@given(schemas_with_values(), st.integers(1, 40))
def test_many_values_are_read_at_once_as_one_by_one(pair: Any, times: int) -> None:
    schema, values = pair
    format_ = Avro(schema)
    many = [format_.encode(value) for value in values * times]
    assert format_.decode_many(many) == values * times
    found = format_.decode_many(many[: len(values)] * 2)
    first, again = found[: len(values)], found[len(values) :]
    assert all(one is not other for one, other in zip(first, again, strict=True))


@settings(max_examples=70, deadline=None)
@given(schemas_with_values(), st.integers(5, 300), st.data())
def test_one_damaged_value_among_many_is_the_one_that_is_named(
    pair: Any, count: int, data: st.DataObject
) -> None:
    schema, values = pair
    format_ = Avro(schema)
    many = [format_.encode(values[place % len(values)]) for place in range(count)]
    place = data.draw(st.integers(0, count - 1))
    one = many[place]
    # As long as the value, or not: bytes that a neighbour would make up for are found too.
    many[place] = data.draw(st.binary(max_size=len(one) + 4))
    assert repr(outcome(format_.decode_many, many)) == repr(
        outcome(lambda each: [format_.decode(data) for data in each], many)
    )


def test_a_byte_too_many_and_one_too_few_do_not_make_up_for_each_other() -> None:
    format_ = Avro(
        {"type": "record", "name": "r", "fields": [{"name": "f", "type": "bytes"}]},
    )
    whole = [format_.encode({"f": bytes([n] * 3)}) for n in range(8)]
    shifted = [*whole[:3], whole[3] + whole[4][:1], whole[4][1:], *whole[5:]]
    assert b"".join(shifted) == b"".join(whole)
    with pytest.raises(FormatError, match="1 bytes more than the value"):
        format_.decode_many(shifted)


def test_values_too_large_to_be_put_together_are_read_one_by_one() -> None:
    format_ = Avro({"type": "record", "name": "r", "fields": [{"name": "f", "type": "bytes"}]})
    values = [{"f": bytes([n]) * 400_000} for n in range(6)]
    assert format_.decode_many([format_.encode(value) for value in values]) == values
    assert format_.decode_many([]) == []
