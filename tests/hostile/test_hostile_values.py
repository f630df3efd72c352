"""Values of state that somebody else wrote, by both codecs of a format nobody chose."""

from unittest.mock import patch

import statemigrate_codec
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.errors import FormatError
from statemigrate.formats import Struct
from statemigrate.formats.arrow_values import plain_values
from tests.support.codec_twins import Twins
from tests.support.columnar_formats import columnar_values, shown
from tests.support.hostile import bounded, fuzzed
from tests.support.struct_values import structs

WRONG = [b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xff" * 10, b"\x80" * 12 + b"\x00", b"\x01"]
"""A great number, a number of no 64 bits, a zero of too many bytes, a length below zero."""


@st.composite
def damaged(draw, whole):
    """Bytes cut, longer, or with others in them; or any bytes."""
    if draw(st.integers(0, 5)) == 0:
        return draw(st.binary(max_size=60))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(whole)))
        put = draw(st.binary(max_size=4) | st.sampled_from(WRONG))
        whole = whole[:at] + put + whole[at + draw(st.integers(0, 4)) :]
    return whole


@fuzzed
@given(structs(), st.data())
def test_both_codecs_read_or_refuse_them_in_the_same_words(pair, data):
    ddl, values = pair
    twins = Twins(lambda: Struct(ddl))
    whole = twins.pure.encode(data.draw(values))
    for _ in range(3):
        found = data.draw(damaged(whole))
        with bounded():
            twins.read_alike(found)


@fuzzed
@given(columnar_values() | columnar_values(lists=True), st.data())
def test_compiled_columns_hold_what_is_read_one_by_one_or_are_left_to_that(pair, data):
    fmt, values = pair
    stored = [fmt.encode(value) for value in values]
    for _ in range(3):
        place = data.draw(st.integers(0, len(stored) - 1))
        some = [*stored[:place], data.draw(damaged(stored[place])), *stored[place + 1 :]]
        with patch("statemigrate.formats.avro.compiled_columns.loaded") as loaded, bounded():
            loaded.return_value = statemigrate_codec
            array = fmt.decode_columns(some)
        try:
            plain = fmt.decode_many(some)
        except FormatError:
            assert array is None
            continue
        if array is not None:
            assert shown(plain_values(array)) == shown(plain)
