"""What a page's visit asks of Spark's state server: the same as PySpark, with less to be read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from support.state_server import StateServer, client_of, java_row, other_row

from statemigrate.errors import StorageError
from statemigrate.pages.value import (
    LargeValues,
    PageValue,
    PromptLargeValues,
    PromptPageValue,
    large_values,
    page_value,
)

VISITS = [(1, b"one"), (2, b"two"), (1, b"one again"), (2, None), (2, b"")]
EDGES = [bytes(range(256)), b"", b"\x00", b"bytearray\nX\x05\x00\x00\x00", b"\xff" * 100_000]


def visit(client, value, number, page):
    client.set_implicit_key((number,))
    before = value.get()
    value.put(page)
    return before


def visits(make, **refuses):
    server = StateServer(**refuses)
    with client_of(server) as client:
        value = make(StatefulProcessorHandle(client))
        found = [visit(client, value, *each) for each in VISITS]
        client.remove_implicit_key()
    return server, found


def test_the_same_is_asked_in_the_same_order_as_by_pyspark():
    (theirs, their_pages), (ours, our_pages) = visits(PageValue), visits(page_value)
    assert our_pages == their_pages == [None, None, b"one", b"two", None]
    assert ours.asked == theirs.asked
    assert ours.pages == theirs.pages
    assert sorted(ours.pages.values()) == [b"", b"one again"]


@given(st.lists(st.binary(max_size=300) | st.sampled_from(EDGES), min_size=1, max_size=5))
def test_every_page_is_read_as_it_was_written(pages):
    with client_of(server := StateServer()) as client:
        value = page_value(StatefulProcessorHandle(client))
        before = [None, *pages[:-1]]
        assert [visit(client, value, 7, page) for page in pages] == before
        assert list(server.pages.values()) == pages[-1:]


def test_rows_that_java_writes_in_another_way_are_left_to_pyspark():
    rows = iter([java_row, other_row, java_row, java_row, other_row, other_row])

    def row(page):
        return next(rows)(page)

    server = StateServer(writes_row=row)
    with client_of(server) as client:
        value = page_value(StatefulProcessorHandle(client))
        pages = [bytes([each]) * each * 50 for each in range(7)]
        assert [visit(client, value, 1, page) for page in pages] == [None, *pages[:-1]]


@pytest.mark.parametrize("request_of_a_visit", ["key", "get", "update", "clear"])
def test_a_refusal_is_raised_where_it_is_asked(request_of_a_visit):
    with pytest.raises((StorageError, PySparkRuntimeError), match="the store is closed"):
        visits(page_value, refuses=request_of_a_visit)


def test_another_client_than_the_known_one_is_asked_as_pyspark_asks():
    class Other:
        def __init__(self, client):
            self.client = client

        def getValueState(self, *args):
            return StatefulProcessorHandle(self.client).getValueState(*args)

    with client_of(StateServer()) as client:
        value = page_value(Other(client))
        assert not isinstance(value, PromptPageValue)
        assert [visit(client, value, *each) for each in VISITS[:3]] == [None, None, b"one"]


LARGE = [
    (1, "notes", b"a", b"one"),
    (2, "notes", b"a", b"two"),
    (1, "@leaves/notes", b"a", b"a leaf"),
    (1, "notes", b"a", None),
    (1, "notes", b"a", b""),
    (1, "notes", b"b", b"other"),
    (1, "notes", b"a", b"again"),
    (1, "@leaves/notes", b"a", None),
]


def of_large(make, steps, **refuses):
    """What was asked of the server, and the values before each step."""
    server, found = StateServer(**refuses), []
    with client_of(server) as client:
        values = make(StatefulProcessorHandle(client))
        for number, family, key, value in steps:
            client.set_implicit_key((number,))
            found.append(values.get(family, key))
            if value is None:
                values.delete(family, key)
            else:
                values.put(family, key, value)
    return server, found


def test_the_same_is_asked_for_large_values_as_by_pyspark():
    (theirs, their_values), (ours, our_values) = (
        of_large(make, LARGE) for make in (LargeValues, large_values)
    )
    assert our_values == their_values
    assert our_values == [None, None, None, b"one", None, None, b"", b"a leaf"]
    assert ours.asked == theirs.asked
    assert ours.large == theirs.large
    assert sorted(ours.large.values()) == [b"again", b"other", b"two"]


@given(st.lists(st.binary(max_size=300) | st.sampled_from(EDGES), min_size=1, max_size=5))
def test_every_large_value_is_read_as_it_was_written(values):
    steps = [(1, "notes", b"a", value) for value in values]
    assert of_large(large_values, steps)[1] == [None, *values[:-1]]


@pytest.mark.parametrize("request_for_a_value", ["getValue", "updateValue", "removeKey"])
def test_a_refusal_of_a_large_value_is_raised_where_it_is_asked(request_for_a_value):
    with pytest.raises((StorageError, PySparkRuntimeError), match="the store is closed"):
        of_large(large_values, LARGE, refuses=request_for_a_value)


def test_large_values_of_another_client_are_asked_for_as_pyspark_asks():
    class Other:
        def __init__(self, client):
            self.client = client

        def getMapState(self, *args):
            return StatefulProcessorHandle(self.client).getMapState(*args)

    made = []

    def make(handle):
        made.append(large_values(Other(handle._statefulProcessorApiClient)))
        return made[0]

    assert of_large(make, LARGE[:4])[1] == [None, None, None, b"one"]
    assert not isinstance(made[0], PromptLargeValues)
