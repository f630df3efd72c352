"""Pages of state that somebody else wrote, together with the checksum that vouches for them."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.errors import PageError
from statemigrate.families import Span
from statemigrate.pages.columns import PageId
from statemigrate.pages.page import Page
from tests.support.hostile import bounded, fuzzed, refused_or_read

PLACE = PageId(8, 3, b"k" * 16)
FORMAT = b"n" * 16


def vouched(body: bytes) -> bytes:
    return b"SMPG" + struct.pack("<HI", 1, zlib.crc32(body)) + body


def genuine() -> bytes:
    page = Page(PLACE)
    for number in range(4):
        page.section("notes", FORMAT).put(b"key %d" % number, b"value", number % 2)
        page.section("notes@r1", FORMAT).put(b"%d" % number, b"")
    data = page.written()
    assert data is not None
    return data


BODY = genuine()[10:]


def read(data: bytes) -> list[Any]:
    page = Page(PLACE, data)
    return [
        (family, page.section(family, FORMAT).scan(Span()))
        for family in ("notes", "notes@r1")
        if family in page.counts
    ]


@fuzzed
@given(
    flips=st.lists(st.tuples(st.integers(0, len(BODY) - 1), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, len(BODY)),
    end=st.binary(max_size=40),
)
def test_no_page_is_read_in_part_or_takes_more_than_it_may(
    flips: list[tuple[int, int]], cut: int, end: bytes
) -> None:
    body = bytearray(BODY)
    for at, byte in flips:
        body[at] = byte
    with bounded():
        refused = refused_or_read(lambda: read(vouched(bytes(body[:cut]) + end)))
    assert refused is None or isinstance(refused, PageError)


@fuzzed
@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused_by_name(data: bytes) -> None:
    with bounded():
        assert isinstance(refused_or_read(lambda: read(data)), PageError)
        assert isinstance(refused_or_read(lambda: read(vouched(data))), PageError | None)


def body_of(entries: int, keys: int, values: int, section: bytes, flags: int = 0) -> bytes:
    family = struct.pack("<16sBIIIH", FORMAT, flags, entries, keys, values, 5) + b"notes"
    return struct.pack("<II16sH", 8, 3, b"k" * 16, 1) + family + section


TWO = struct.pack("<IIII", 1, 1, 0, 0)


@pytest.mark.parametrize(
    "body",
    [
        body_of(2**32 - 1, 0, 0, b""),
        body_of(0, 2**32 - 1, 2**32 - 1, b""),
        body_of(0, 0, 0, b""),
        body_of(2, 2, 0, TWO + b"ba"),
        body_of(2, 2, 0, TWO + b"aa"),
        body_of(2, 2, 0, struct.pack("<IIII", 1, 2**32 - 1, 0, 0) + b"ab"),
        body_of(2, 2, 0, struct.pack("<IIII", 1, 0, 0, 0) + b"ab"),
        body_of(2, 2, 1, TWO + b"abv"),
        body_of(2, 2, 0, TWO + b"ab", flags=2),
        body_of(2, 2, 0, TWO + b"ab", flags=1),
        struct.pack("<II16sH", 8, 3, b"k" * 16, 2**16 - 1),
        struct.pack("<II16sH", 8, 3, b"k" * 16, 1)
        + struct.pack("<16sBIIIH", FORMAT, 0, 0, 0, 0, 1) + b"\xff",
    ],
    ids=[
        "more entries than bytes", "bytes without entries", "a family without entries",
        "keys out of order", "a key twice", "a key longer than all", "a key shorter",
        "a value too many", "an unknown flag", "moments that are not there",
        "families that are not there", "a name that is no text",
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused(body: bytes) -> None:
    with bounded(), pytest.raises(PageError, match="damaged"):
        read(vouched(body))


def test_families_out_of_order_are_refused() -> None:
    one = body_of(1, 1, 0, b"")[26:]
    section = struct.pack("<II", 1, 0) + b"a"
    twice = struct.pack("<II16sH", 8, 3, b"k" * 16, 2) + one * 2 + section * 2
    with pytest.raises(PageError, match="order of their names"):
        read(vouched(twice))
