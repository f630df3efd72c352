"""What lies outside of pages comes to each page, read no further than it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from support.page_outside import OutsideValues

from statemigrate.pages.columns import PageId
from statemigrate.pages.page import Page
from statemigrate.pages.page_leaves import Splitting
from statemigrate.state.page_entries import PAGES, _with_large

KEYS, FORMAT = b"k" * 16, b"n" * 16
SMALL = Splitting(page=200, leaf=80)
Outside = dict[tuple[str, bytes], bytes]


def page_of(number: int, entries: int) -> tuple[bytes, Outside]:
    outside = OutsideValues()
    page = Page(PageId(9, number, KEYS), None, outside, SMALL)
    for each in range(entries):
        page.section("notes", FORMAT).put(b"%03d" % each, b"%d" % number * 20)
    page.write_outside()
    data = page.written()
    assert data is not None
    return data, outside.values


STORED = {number: page_of(number, 30 if number % 2 else 2) for number in (4, 1, 0, 3, 7)}


def stored(numbers: list[int]) -> pa.RecordBatch:
    pages = [{"page": STORED[number][0]} for number in numbers]
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([{"number": number} for number in numbers]),
            "value": pa.array(pages),
            "partition_id": pa.array([2] * len(numbers), pa.int32()),
        }
    )


def outside(numbers: list[int], asked: list[int] | None = None) -> Iterator[pa.RecordBatch]:
    """What lies outside of pages, a batch for every two values."""
    rows = [
        (number, {"family": family, "key": key}, {"value": value})
        for number in numbers
        for (family, key), value in STORED[number][1].items()
    ]
    for first in range(0, len(rows), 2):
        some = rows[first : first + 2]
        if asked is not None:
            asked += [number for number, _, _ in some]
        yield pa.RecordBatch.from_pydict(
            {
                "key": [{"number": number} for number, _, _ in some],
                "user_key": [key for _, key, _ in some],
                "value": [value for _, _, value in some],
            }
        )


def found(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, bytes, Any, int]]:
    for batch in batches:
        yield from zip(*(batch.column(name).to_pylist() for name in PAGES), strict=True)


def listed(number: int) -> Any:
    """What is outside of a page, as a command reads it."""
    values = STORED[number][1]
    return [{"family": f, "key": k, "value": v} for (f, k), v in values.items()] or None


@pytest.mark.parametrize("step", [1, 2, 5])
@pytest.mark.parametrize(
    "order", [[4, 1, 0, 3, 7], [7, 3, 1], [1], []], ids=["same", "other", "one", "none"]
)
def test_each_page_comes_with_its_own_in_whatever_order_both_are_read(
    order: list[int], step: int
) -> None:
    numbers = [4, 1, 0, 3, 7]
    batches = [stored(numbers[first : first + step]) for first in range(0, len(numbers), step)]
    rows = list(found(_with_large(iter(batches), outside(order))))
    assert [number for number, *_ in rows] == numbers
    for number, data, large, partition in rows:
        assert (data, partition) == (STORED[number][0], 2)
        assert large == (listed(number) if number in order else None)


def test_no_more_is_read_than_the_pages_so_far_have_outside() -> None:
    asked: list[int] = []
    rows = found(_with_large(iter([stored([n]) for n in (4, 1, 3, 7)]), outside([1, 3, 7], asked)))
    assert (next(rows)[0], asked) == (4, [])
    assert next(rows)[0] == 1
    assert set(asked) <= {1, 3}
    assert 7 not in asked
    assert [number for number, *_ in rows] == [3, 7]


def test_where_no_page_has_anything_outside_it_is_not_read() -> None:
    asked: list[int] = []
    rows = list(found(_with_large(iter([stored([4, 0])]), outside([1, 3], asked))))
    assert [(number, large) for number, _, large, _ in rows] == [(4, None), (0, None)]
    assert asked == []
