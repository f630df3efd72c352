"""Pages against plain dictionaries: what is written is read, and equal entries are equal bytes."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given
from support.page_outside import OutsideValues

from statemigrate.errors import PageError
from statemigrate.families import Span
from statemigrate.pages import columns as outside
from statemigrate.pages import page as pages
from statemigrate.pages import section as sections
from statemigrate.pages.columns import NEVER, PageId
from statemigrate.pages.page import Page

PLACE = PageId(8, 3, b"k" * 16)
FAMILIES = {"notes": b"n" * 16, "notes@r1": b"m" * 16, "ü": b"u" * 16}
keys = st.lists(st.sampled_from([0x00, 0x61, 0xFF]), max_size=3).map(bytes)
moments = st.sampled_from([NEVER, NEVER, 1, 2**62, -1])
values = st.tuples(st.binary(max_size=3), moments)
contents = st.dictionaries(
    st.sampled_from(sorted(FAMILIES)), st.dictionaries(keys, values, max_size=8), max_size=3
)
changes = st.lists(
    st.tuples(st.sampled_from(sorted(FAMILIES)), keys, st.one_of(st.none(), values)), max_size=12
)
bounds = st.one_of(st.none(), keys)
spans = st.builds(Span, bounds, bounds, st.booleans())
Contents = dict[str, dict[bytes, tuple[bytes, int]]]


def section(page: Page, family: str) -> Any:
    return page.section(family, FAMILIES[family])


def filled(
    content: Contents, *, reverse: bool = False, beside: OutsideValues | None = None
) -> Page:
    page = Page(PLACE, None, beside)
    for family in sorted(content, reverse=reverse):
        for key in sorted(content[family], reverse=reverse):
            section(page, family).put(key, *content[family][key])
    return page


def held(page: Page) -> Contents:
    found = {}
    for family in page.counts:
        opened = section(page, family)
        entries = opened.scan(Span())
        found[family] = {key: (value, opened.expiry(key)) for key, value in entries}
    return found


def without_empty(content: Contents) -> Contents:
    return {family: entries for family, entries in content.items() if entries}


def stored(content: Contents) -> bytes:
    data = filled(content).written()
    assert data is not None
    return data


@given(content=contents)
def test_what_is_written_is_read_whatever_the_order_of_writing(content: Contents) -> None:
    data = filled(content).written()
    assert data == filled(content, reverse=True).written()
    assert (data is None) is (not without_empty(content))
    page = Page(PLACE, data)
    assert page.counts == {family: len(each) for family, each in content.items() if each}
    assert held(page) == without_empty(content)
    assert not page.is_changed
    assert page.written() == data


@given(contents, changes, st.one_of(st.none(), spans), st.sampled_from([1, 3, 64]))
@example({}, [("notes", b"", (b"", 1)), ("notes", b"", None)], Span(), 64)
def test_changes_are_what_a_dictionary_does(
    content: Contents, steps: Any, span: Span | None, entries_a_search: int
) -> None:
    # Some keys are looked for in the bytes, before all are sliced out; or none.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sections, "_ENTRIES_A_SEARCH", entries_a_search)
        check_changes(content, steps, span)


def check_changes(
    content: Contents, steps: Any, span: Span | None, beside: OutsideValues | None = None
) -> None:
    begun = filled(content, beside=beside)
    begun.write_outside()
    before = begun.written()
    model = {family: dict(content.get(family, {})) for family in FAMILIES}
    page = Page(PLACE, before, beside)
    for family, key, entry in steps:
        opened = section(page, family)
        if entry is None:
            opened.delete(key)
            model[family].pop(key, None)
        else:
            opened.put(key, *entry)
            model[family][key] = entry
        assert opened.contains(key) is (entry is not None)
        assert (opened.get(key), opened.expiry(key)) == (entry or (None, NEVER))
        assert opened.count == len(model[family])
        assert opened.first() == min(model[family], default=None)
        if span is not None:
            expected = [(k, v) for k, (v, _) in sorted(model[family].items()) if span.contains(k)]
            assert opened.scan(span) == (expected[::-1] if span.reverse else expected)
    after = page.written()
    page.write_outside()
    assert after == filled(model, beside=beside).written()
    assert page.is_changed is (after != before)
    assert held(Page(PLACE, after, beside)) == without_empty(model)


@given(contents, contents, st.booleans(), st.booleans(), st.booleans(), st.sampled_from([1, 64]))
@example({"notes": {b"a": (b"v", NEVER)}}, {"notes": {b"b": (b"w", 1)}}, False, False, False, 1)
def test_many_entries_at_once_are_as_one_after_the_other(
    content: Contents,
    wanted: Contents,
    large: bool,
    has_outside: bool,
    asks: bool,
    entries_a_search: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sections, "_ENTRIES_A_SEARCH", entries_a_search)
        check_many(content, wanted, OutsideValues() if has_outside else None, large, asks)


def check_many(
    content: Contents,
    wanted: Contents,
    values_outside: OutsideValues | None,
    large: bool,
    asks: bool,
) -> None:
    if large:
        content = {
            family: {
                key: (value * (outside.LARGEST_INSIDE + 1), at) for key, (value, at) in some.items()
            }
            for family, some in content.items()
        }
    page = filled(content, beside=values_outside)
    page.write_outside()
    before = page.written()
    together, singly = (Page(PLACE, before, values_outside) for _ in range(2))
    for family in FAMILIES:
        some, other = section(together, family), section(singly, family)
        there = sorted(content.get(family, {}))
        some.delete_many(there)
        for key in there:
            other.delete(key)
        assert some.count == 0
        # To ask is to look for the keys, which nobody else does.
        if asks:
            assert (some.first(), some.scan(Span())) == (None, [])
        new = list(wanted.get(family, {}))
        values = [wanted[family][key][0] for key in new]
        some.put_many(new, values, 5)
        for key, value in zip(new, values, strict=True):
            other.put(key, value, 5)
        assert some.count == other.count
        if asks:
            assert some.scan(Span()) == other.scan(Span()) == sorted(zip(new, values, strict=True))
            assert some.first() == other.first()
    assert together.is_changed is singly.is_changed
    assert together.written() == singly.written()
    together.write_outside()
    assert held(Page(PLACE, together.written(), values_outside)) == held(singly)


_FEW = st.lists(st.sampled_from([b"", b"a", b"b", b"aa"]), max_size=5)


@given(
    st.dictionaries(st.sampled_from([b"", b"a", b"b"]), st.sampled_from([b"x", b"y"])),
    st.sampled_from([NEVER, 7]),
    st.lists(st.tuples(_FEW, st.sampled_from([b"x", b"y", None]), st.sampled_from([NEVER, 5]))),
    st.sampled_from([1, 64]),
    st.booleans(),
)
@example({b"a": b"x"}, NEVER, [([b"a", b"a"], b"y", NEVER)], 1, False)
@example({b"a": b"x"}, NEVER, [([b"a"], b"y", NEVER), ([b"a"], b"x", NEVER)], 1, False)
@example({b"a": b"x"}, NEVER, [([b"a"], None, NEVER), ([b"a"], b"y", NEVER)], 1, False)
@example({b"a": b"x"}, NEVER, [([b"a"], b"x", 5)], 1, False)
@example({b"a": b"x"}, 7, [([b"a"], b"x", NEVER)], 1, False)
@example({b"a": b"x", b"b": b"y"}, NEVER, [([b"b", b"a"], b"y", NEVER)], 1, False)
@example({b"a": b"x"}, NEVER, [([b"a"], b"x", NEVER), ([b"a"], b"y", NEVER)], 1, True)
def test_entries_that_are_replaced_together_are_as_one_after_the_other(
    content: dict[bytes, bytes], expiry: int, steps: Any, entries_a_search: int, has_outside: bool
) -> None:
    entries = {key: (value, expiry) for key, value in content.items()}
    beside = OutsideValues() if has_outside else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outside, "LARGEST_INSIDE", 0)
        patch.setattr(sections, "_ENTRIES_A_SEARCH", entries_a_search)
        page = filled({"notes": entries}, beside=beside)
        page.write_outside()
        together, singly = (Page(PLACE, page.written(), beside) for _ in range(2))
        some, other = section(together, "notes"), section(singly, "notes")
        for number, (few, value, moment) in enumerate(steps):
            assert some.get_many(few) == list(map(other.get, few))
            if value is None:
                some.delete_many(few)
            else:
                # The last of a key's values counts, and one of them is what is there already.
                written = [b"x" if (at + number) % 2 else value for at in range(len(few))]
                some.put_many(few, written, moment)
            for at, key in enumerate(few):
                if value is None:
                    other.delete(key)
                else:
                    other.put(key, written[at], moment)
            assert some.get_many(few) == list(map(other.get, few))
            assert some.count == other.count
            assert some.is_changed is other.is_changed
        assert together.written() == singly.written()


@given(contents, changes, st.sampled_from([1, 64]))
def test_large_values_lie_outside_of_the_page_and_no_others_do(
    content: Contents, steps: Any, entries_a_search: int
) -> None:
    beside = OutsideValues()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outside, "LARGEST_INSIDE", 1)
        patch.setattr(sections, "_ENTRIES_A_SEARCH", entries_a_search)
        check_changes(content, steps, Span(), beside)
    last = {family: dict(entries) for family, entries in content.items()}
    for family, key, entry in steps:
        last.setdefault(family, {})[key] = entry
    assert beside.values == {
        (family, key): entry[0]
        for family, entries in last.items()
        for key, entry in entries.items()
        if entry is not None and len(entry[0]) > 1
    }


LONG = {"notes": {b"a": (b"x" * (outside.LARGEST_INSIDE + 1), 0), b"b": (b"short", 0)}}


def test_the_bytes_of_a_page_with_a_value_outside_stay_what_they_are() -> None:
    beside = OutsideValues()
    page = filled(LONG, beside=beside)
    page.write_outside()
    data, value = page.written(), LONG["notes"][b"a"][0]
    body = (
        struct.pack("<II16sH", 8, 3, b"k" * 16, 1)
        + struct.pack("<16sBIIIH", b"n" * 16, 2, 2, 2, 13, 5) + b"notes"
        + struct.pack("<IIII", 1, 1, 8 | 1 << 31, 5) + b"ab"
        + struct.pack("<II", len(value), zlib.crc32(value)) + b"short"
    )  # fmt: skip
    assert data == b"SMPG" + struct.pack("<HI", 1, zlib.crc32(body)) + body
    assert beside.values == {("notes", b"a"): value}


def test_a_large_value_that_is_not_there_as_it_was_is_never_empty() -> None:
    beside = OutsideValues()
    page = filled(LONG, beside=beside)
    page.write_outside()
    data = page.written()
    assert section(Page(PLACE, data), "notes").get(b"b") == b"short"
    with pytest.raises(PageError, match="not read from here"):
        section(Page(PLACE, data), "notes").get(b"a")
    beside.values["notes", b"a"] = b"x"
    with pytest.raises(PageError, match="not there as it was written") as raised:
        section(Page(PLACE, data, beside), "notes").get(b"a")
    assert (raised.value.expected, raised.value.found) == (
        "65,537 bytes with their checksum",
        "1 other bytes",
    )
    beside.values.clear()
    with pytest.raises(PageError, match="not there as it was written"):
        section(Page(PLACE, data, beside), "notes").scan(Span())


def test_a_value_that_is_larger_than_one_may_be_is_refused_with_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outside, "LARGEST_OUTSIDE", outside.LARGEST_INSIDE)
    with pytest.raises(PageError, match="larger than one may be") as raised:
        filled(LONG, beside=OutsideValues()).write_outside()
    assert "65,537 bytes under the key 61" in str(raised.value.found)


def test_a_section_nobody_asked_for_is_copied_as_it_is() -> None:
    data = stored({"notes": {b"a": (b"1", 0)}, "notes@r1": {b"b": (b"2", 5)}})
    page = Page(PLACE, data)
    section(page, "notes@r1").delete(b"b")
    assert page.written() == stored({"notes": {b"a": (b"1", 0)}})
    assert page.is_changed


def test_the_bytes_of_version_1_stay_what_they_are() -> None:
    data = stored({"notes": {b"ab": (b"xyz", 0), b"c": (b"", 7)}})
    body = (
        struct.pack("<II16sH", 8, 3, b"k" * 16, 1)
        + struct.pack("<16sBIIIH", b"n" * 16, 1, 2, 3, 3, 5) + b"notes"
        + struct.pack("<IIIIqq", 2, 1, 3, 0, 0, 7) + b"abc" + b"xyz"
    )  # fmt: skip
    assert data == b"SMPG" + struct.pack("<HI", 1, zlib.crc32(body)) + body


DATA = stored({"notes": {b"ab": (b"xyz", 0)}})


@pytest.mark.parametrize("at", range(len(DATA)))
def test_any_byte_that_is_another_is_noticed(at: int) -> None:
    altered = DATA[:at] + bytes([DATA[at] ^ 0x10]) + DATA[at + 1 :]
    with pytest.raises(PageError, match=r"damaged|does not know"):
        Page(PLACE, altered)


@pytest.mark.parametrize("length", range(len(DATA)))
def test_a_page_that_is_cut_off_is_damaged(length: int) -> None:
    with pytest.raises(PageError, match="damaged"):
        Page(PLACE, DATA[:length])


def test_a_newer_version_is_refused_by_its_number() -> None:
    with pytest.raises(PageError, match="does not know") as raised:
        Page(PLACE, DATA[:4] + b"\x03\x00" + DATA[6:])
    assert raised.value.found == "version 3"
    assert "a later one" in str(raised.value.next_action)


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        (PageId(9, 3, b"k" * 16), "another number of pages"),
        (PageId(8, 4, b"k" * 16), "in the place of another"),
        (PageId(8, 3, b"o" * 16), "keys of other columns"),
    ],
    ids=["pages", "number", "keys"],
)
def test_a_page_of_another_place_is_refused(place: PageId, problem: str) -> None:
    with pytest.raises(PageError, match=problem) as raised:
        Page(place, DATA)
    assert raised.value.expected != raised.value.found


def test_values_of_another_format_are_refused_and_stay() -> None:
    page = Page(PLACE, DATA)
    with pytest.raises(PageError, match="values of notes in another format"):
        page.section("notes", b"z" * 16)
    assert page.written() == DATA


def test_a_page_that_grows_too_large_is_refused_with_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pages, "LARGEST", 200)
    page = Page(PLACE, DATA)
    section(page, "notes").put(b"long", b"x" * 200)
    with pytest.raises(PageError, match="page 3 of 8 would be larger") as raised:
        page.written()
    assert "in 2 entries" in str(raised.value.found)
    assert "more pages" in str(raised.value.next_action)
