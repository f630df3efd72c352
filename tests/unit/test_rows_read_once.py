"""Rows of a state that several comparisons look at."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pyarrow as pa
import pytest

from statemigrate.preview import RowsReadOnce

ROWS = pa.record_batch({"k": pa.array(range(100), pa.int64())})


@dataclass
class Table:
    """A state at a batch, which counts how often its rows are read."""

    batch: int
    place: str = "run"
    name: str = "totals"
    parts: int = 2
    schema: pa.Schema = field(default=ROWS.schema)
    reads: int = 0

    @property
    def side(self):
        return SimpleNamespace(place=self.place)

    def batches(self):
        self.reads += 1
        for _ in range(self.parts):
            yield ROWS


def read(rows, table):
    return pa.Table.from_batches(rows.stream(table).batches, table.schema).num_rows


def test_a_state_is_read_once_and_its_rows_are_given_again():
    rows, table = RowsReadOnce(), Table(3)
    assert [read(rows, table) for _ in range(3)] == [200, 200, 200]
    assert table.reads == 1


@pytest.mark.parametrize("other", [Table(4), Table(3, place="other"), Table(3, name="means")])
def test_another_batch_place_or_store_is_another_state(other):
    rows, table = RowsReadOnce(), Table(3, parts=1)
    other.reads = 0
    assert (read(rows, table), read(rows, other)) == (100, 200)
    assert (table.reads, other.reads) == (1, 1)


def test_no_more_bytes_are_remembered_than_allowed():
    rows = RowsReadOnce(3 * ROWS.nbytes)
    first, second, large = Table(1), Table(2), Table(3, parts=4)
    for each in (first, second, second, first, large, large, first):
        assert read(rows, each) == each.parts * 100
    # Each of the first two makes room for the other one, and a larger one finds none.
    assert (first.reads, second.reads, large.reads) == (2, 1, 2)


def test_the_state_that_was_read_longest_ago_is_forgotten_first():
    rows = RowsReadOnce(2 * ROWS.nbytes)
    tables = [Table(number, parts=1) for number in range(3)]
    for place in (0, 1, 0, 2, 0, 1):
        read(rows, tables[place])
    assert [each.reads for each in tables] == [1, 2, 1]


def test_rows_that_were_not_read_to_their_end_are_read_again():
    rows, table = RowsReadOnce(), Table(3)
    next(iter(rows.stream(table).batches))
    assert read(rows, table) == 200
    assert table.reads == 2
