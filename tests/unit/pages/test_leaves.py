"""Families that are too large for their page: in leaves, against a dictionary."""

from __future__ import annotations

import struct
import zlib
from itertools import repeat
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.page_outside import OutsideValues
from test_page_format import FAMILIES, PLACE, held, without_empty

from statemigrate.errors import PageError
from statemigrate.families import Span
from statemigrate.pages.columns import NEVER, PageId, read, written
from statemigrate.pages.page import Page
from statemigrate.pages.page_leaves import PREFIX, Directory, Splitting

SMALL = Splitting(page=200, leaf=80)
FEW = Splitting(page=300, leaf=160)
"""Leaves of some entries, of which some are joined."""
FAMILY = "notes"
LEAVES = PREFIX + FAMILY
keys = st.integers(0, 60).map(lambda n: b"%02d" % n)
entries = st.tuples(
    st.binary(max_size=12) | st.binary(max_size=40), st.sampled_from([NEVER, NEVER, 5, 10])
)
sizes = st.integers(0, 12) | st.integers(0, 40)
bounds = st.one_of(st.none(), keys)
spans = st.one_of(st.just(Span()), st.builds(Span, bounds, bounds, st.booleans()))


def opened(page: Page, family: str = FAMILY) -> Any:
    return page.section(family, FAMILIES[family])


def leaves_of(data: bytes | None) -> dict[str, Any]:
    """By family that is in leaves, what its directory says."""
    directories = {
        extent.name: Directory(extent, section)
        for extent, section in ([] if data is None else read(data)[1])
        if extent.in_leaves
    }
    return {name: [each.leaf(at) for at in range(len(each))] for name, each in directories.items()}


def stored(page: Page) -> bytes | None:
    page.write_outside()
    return page.written()


def filled(count: int, outside: OutsideValues, size: int = 30) -> bytes:
    page = Page(PLACE, None, outside, SMALL)
    for number in range(count):
        opened(page).put(b"%02d" % number, bytes([number]) * size)
    data = stored(page)
    assert data is not None
    return data


class Visits(RuleBasedStateMachine):
    """Visits of a page, each of which reads it, asks, changes and writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.outside = OutsideValues()
        self.data: bytes | None = None
        self.model: dict[str, dict[bytes, tuple[bytes, int]]] = {name: {} for name in FAMILIES}
        self.now = 0
        self.visit()

    @initialize(size=sizes, family=st.sampled_from([*FAMILIES]))
    def begin(self, size: int, family: str) -> None:
        self.fill(family, b"10", b"60", size)

    def visit(self) -> None:
        self.page = Page(PLACE, self.data, self.outside, FEW)

    def section(self, family: str) -> Any:
        section = opened(self.page, family)
        section.drop_expired(self.now)
        return section

    @rule(family=st.sampled_from([*FAMILIES]), key=keys, entry=entries)
    def put(self, family: str, key: bytes, entry: tuple[bytes, int]) -> None:
        value, expiry = entry
        expiry = expiry and self.now + expiry
        self.section(family).put(key, value, expiry)
        self.model[family][key] = value, expiry

    @rule(
        family=st.sampled_from([*FAMILIES]),
        first=keys,
        last=keys,
        size=sizes,
    )
    def fill(self, family: str, first: bytes, last: bytes, size: int) -> None:
        some = [b"%02d" % number for number in range(int(first), int(last))]
        self.put_many(family, some, [bytes(size)] * len(some))

    def put_many(self, family: str, some: list[bytes], values: list[bytes]) -> None:
        self.section(family).put_many(some, values)
        self.model[family].update(zip(some, zip(values, repeat(NEVER)), strict=False))

    @rule(old=st.sampled_from([*FAMILIES]), new=st.sampled_from([*FAMILIES]))
    def move(self, old: str, new: str) -> None:
        """As a migration moves what a page has of a family."""
        entries = self.section(old).scan(Span())
        some = [key for key, _ in entries]
        self.put_many(new, some, [value for _, value in entries])
        if old != new:
            self.section(old).delete_many(some)
            self.model[old].clear()

    @rule(family=st.sampled_from([*FAMILIES]), first=keys, last=keys)
    def clear(self, family: str, first: bytes, last: bytes) -> None:
        self.delete(family, {b"%02d" % number for number in range(int(first), int(last))})

    @rule(family=st.sampled_from([*FAMILIES]), some=st.sets(keys))
    def delete(self, family: str, some: set[bytes]) -> None:
        self.section(family).delete_many(list(some))
        for key in some:
            self.model[family].pop(key, None)

    @rule(family=st.sampled_from([*FAMILIES]), key=keys)
    def look(self, family: str, key: bytes) -> None:
        section, entry = self.section(family), self.model[family].get(key)
        assert section.contains(key) is (entry is not None)
        # Those of leaves that were not read may have expired.
        assert section.count >= len(self.model[family])
        assert (section.get(key), section.expiry(key)) == (entry or (None, NEVER))

    @rule(family=st.sampled_from([*FAMILIES]), span=spans)
    def scan(self, family: str, span: Span) -> None:
        everything = sorted(self.model[family].items())
        expected = [(key, value) for key, (value, _) in everything if span.contains(key)]
        section = self.section(family)
        assert section.scan(span) == (expected[::-1] if span.reverse else expected)
        if span == Span():
            assert section.count == len(expected)

    @rule(family=st.sampled_from([*FAMILIES]))
    def first(self, family: str) -> None:
        assert self.section(family).first() == min(self.model[family], default=None)

    @rule(passed=st.integers(0, 6))
    def write(self, passed: int) -> None:
        self.data = stored(self.page)
        self.check_outside()
        self.now += passed
        self.model = {
            family: {k: e for k, e in some.items() if not 0 < e[1] <= self.now}
            for family, some in self.model.items()
        }
        self.visit()

    def check_outside(self) -> None:
        """Leaves are those of directories, none too large, and nothing else lies outside."""
        numbers = set()
        for family, leaves in leaves_of(self.data).items():
            assert len(leaves) > 1 or not any(leaf.size < FEW.leaf for leaf in leaves)
            for leaf in leaves:
                place = PREFIX + family, struct.pack(">I", leaf.number)
                numbers.add(place)
                ((extent, _),) = read(self.outside.values[place])[1]
                assert extent.size <= 2 * FEW.leaf
        assert set(self.outside.values) == numbers
        extents = [] if self.data is None else [extent for extent, _ in read(self.data)[1]]
        whole = [extent.size for extent in extents if not extent.in_leaves]
        if sum(extent.size for extent in extents) > FEW.page:
            assert all(size <= 2 * FEW.leaf for size in whole)

    @invariant()
    def every_entry_is_there(self) -> None:
        whole = Page(PLACE, self.data, self.outside, FEW)
        alive = {
            family: {k: e for k, e in some.items() if not 0 < e[1] <= self.now}
            for family, some in held(whole).items()
        }
        if not self.page.is_changed:
            assert without_empty(alive) == without_empty(self.model)


TestVisits = Visits.TestCase
TestVisits.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)


def test_a_visit_reads_and_writes_the_leaf_of_its_key_alone() -> None:
    outside = OutsideValues()
    data = filled(40, outside)
    before = dict(outside.values)
    asked: list[bytes] = []
    get = outside.get
    outside.get = lambda family, key: (asked.append(key), get(family, key))[1]  # type: ignore[method-assign]
    page = Page(PLACE, data, outside, SMALL)
    opened(page).drop_expired(100)
    opened(page).put(b"20", b"another value")
    after = stored(page)
    assert len(asked) == 1
    assert len(leaves_of(data)[FAMILY]) > 10
    changed = {place for place in before if outside.values.get(place) != before[place]}
    assert changed == {(LEAVES, *asked)}
    assert opened(Page(PLACE, after, outside, SMALL)).get(b"20") == b"another value"


def test_a_page_without_leaves_is_split_when_it_is_next_written() -> None:
    whole = Page(PLACE)
    for number in range(40):
        opened(whole).put(b"%02d" % number, bytes(30))
    data, outside = whole.written(), OutsideValues()
    assert not leaves_of(data)
    page = Page(PLACE, data, outside, SMALL)
    assert stored(page) == data
    opened(page).delete(b"07")
    after = stored(page)
    assert leaves_of(after)
    assert list(held(Page(PLACE, after, outside))[FAMILY]) == [
        b"%02d" % n for n in range(40) if n != 7
    ]


def test_a_family_that_shrinks_comes_back_into_its_page() -> None:
    outside = OutsideValues()
    page = Page(PLACE, filled(40, outside), outside, SMALL)
    for number in range(1, 40):
        opened(page).delete(b"%02d" % number)
    data = stored(page)
    assert not leaves_of(data)
    assert not outside.values
    assert held(Page(PLACE, data)) == {FAMILY: {b"00": (bytes(30), NEVER)}}
    page = Page(PLACE, data, outside, SMALL)
    opened(page).delete(b"00")
    assert stored(page) is None


def test_leaves_whose_entries_have_all_expired_go_without_being_asked_for() -> None:
    outside = OutsideValues()
    page = Page(PLACE, None, outside, SMALL)
    for number in range(40):
        opened(page).put(b"%02d" % number, bytes(30), 10 if number < 20 else 50)
    page = Page(PLACE, stored(page), outside, SMALL)
    opened(page).drop_expired(10)
    assert opened(page).get(b"39") == bytes(30)
    data = stored(page)
    assert page.counts[FAMILY] == sum(leaf.entries for leaf in leaves_of(data)[FAMILY])
    found = opened(Page(PLACE, data, outside, SMALL)).scan(Span())
    # The leaf that has some of both is not read.
    assert {key for key, _ in found} - {b"%02d" % n for n in range(16, 40)} == set()


def test_a_value_outside_goes_with_the_leaf_that_tells_of_it() -> None:
    outside = OutsideValues()
    data = filled(40, outside)
    page, large = Page(PLACE, data, outside, SMALL), bytes(70_000)
    opened(page).put(b"20", large)
    data = stored(page)
    assert outside.values[FAMILY, b"20"] == large
    page = Page(PLACE, data, outside, SMALL)
    assert opened(page).get(b"20") == large
    opened(page).delete(b"20")
    stored(page)
    assert (FAMILY, b"20") not in outside.values


def missing(outside: OutsideValues, place: Any) -> None:
    del outside.values[place]


def another(outside: OutsideValues, place: Any) -> None:
    outside.values[place] = outside.values[LEAVES, struct.pack(">I", 1)]


def altered(outside: OutsideValues, place: Any) -> None:
    data = bytearray(outside.values[place])
    data[-1] ^= 1
    outside.values[place] = bytes(data)


@pytest.mark.parametrize("spoil", [missing, another, altered])
def test_a_leaf_that_is_not_there_as_it_was_is_never_empty(spoil: Any) -> None:
    outside = OutsideValues()
    data = filled(40, outside)
    spoil(outside, (LEAVES, struct.pack(">I", 0)))
    section = opened(Page(PLACE, data, outside, SMALL))
    for ask in (lambda: section.get(b"00"), lambda: section.scan(Span()), section.first):
        with pytest.raises(PageError) as raised:
            ask()
        assert raised.value.code == "SM-PAGES-014"
    assert section.get(b"39") == bytes([39]) * 30
    with pytest.raises(PageError) as raised:
        opened(Page(PLACE, data)).get(b"00")
    assert raised.value.code == "SM-PAGES-015"


@pytest.mark.parametrize(
    ("place", "family", "kind"),
    [
        (PageId(8, 4, b"k" * 16), FAMILY, b"n" * 16),
        (PLACE, "notes@r1", b"n" * 16),
        (PLACE, FAMILY, b"m" * 16),
    ],
)
def test_a_leaf_of_another_page_or_family_is_refused(
    place: PageId, family: str, kind: bytes
) -> None:
    outside = OutsideValues()
    data = filled(40, outside)
    place_of_first = LEAVES, struct.pack(">I", 0)
    ((extent, section),) = read(outside.values[place_of_first])[1]
    leaf = written(place, [(extent._replace(name=family, format=kind), section)])
    outside.values[place_of_first] = leaf
    wrong = with_leaf(data, len(leaf), zlib.crc32(leaf))
    with pytest.raises(PageError, match="another page or family") as raised:
        opened(Page(PLACE, wrong, outside, SMALL)).get(b"00")
    assert raised.value.code == "SM-PAGES-012"


def with_leaf(data: bytes, size: int, checksum: int) -> bytes:
    """The page with another size and checksum of its first leaf."""
    ((extent, section),) = read(data)[1]
    at = len(section) - extent.value_bytes
    parts = bytearray(section)
    struct.pack_into("<II", parts, at + 8, size, checksum)
    return written(PLACE, [(extent, bytes(parts))])


def directory(*values: bytes) -> bytes:
    """The bytes of a page whose directory has these values."""
    names = [b"%02d" % number for number in range(len(values))]
    sizes = struct.pack(f"<{2 * len(values)}I", *map(len, [*names, *values]))
    section = sizes + b"".join([*names, *values])
    ((extent, _),) = read(filled(40, OutsideValues()))[1]
    numbers = len(values), 2 * len(values), sum(map(len, values))
    made = extent._replace(entries=numbers[0], key_bytes=numbers[1], value_bytes=numbers[2])
    return written(PLACE, [(made, section)])


LEAF = struct.pack("<IIIIq", 0, 3, 100, 7, NEVER)


@pytest.mark.parametrize(
    "values", [(LEAF, LEAF), (LEAF, b"short"), (struct.pack("<IIIIq", 0, 0, 100, 7, NEVER),)]
)
def test_a_directory_that_no_release_has_written_is_damaged(values: tuple[bytes, ...]) -> None:
    page = Page(PLACE, directory(*values))
    for ask in (lambda: page.counts, lambda: opened(page)):
        with pytest.raises(PageError) as raised:
            ask()
        assert raised.value.code == "SM-PAGES-012"


@given(st.integers(0, 255))
def test_flags_that_no_release_has_written_are_refused(flags: int) -> None:
    data = bytearray(filled(40, OutsideValues()))
    data[10 + 26 + 16] = flags
    data[6:10] = struct.pack("<I", zlib.crc32(data[10:]))
    if flags in (0, 4):
        assert Page(PLACE, bytes(data)).counts == {FAMILY: 40 if flags else 20}
        return
    with pytest.raises(PageError) as raised:
        opened(Page(PLACE, bytes(data)))
    assert raised.value.code == "SM-PAGES-012"


def test_the_bytes_of_a_page_with_leaves_stay_what_they_are() -> None:
    outside = OutsideValues()
    data = filled(12, outside, 20)
    entries = [(b"%02d" % number, bytes([number]) * 20) for number in range(12)]
    pieces = [entries[:2], entries[2:4], entries[4:7], entries[7:9], entries[9:]]
    described = []
    for number, piece in enumerate(pieces):
        many = len(piece)
        sizes = struct.pack(f"<{2 * many}I", *[2] * many, *[20] * many)
        body = (
            struct.pack("<II16sH", 8, 3, b"k" * 16, 1)
            + struct.pack("<16sBIIIH", b"n" * 16, 0, many, 2 * many, 20 * many, 5) + b"notes"
            + sizes + b"".join(key for key, _ in piece) + b"".join(value for _, value in piece)
        )  # fmt: skip
        leaf = b"SMPG" + struct.pack("<HI", 1, zlib.crc32(body)) + body
        assert outside.values[LEAVES, struct.pack(">I", number)] == leaf
        described.append(struct.pack("<IIIIq", number, many, len(leaf), zlib.crc32(leaf), NEVER))
    count = len(pieces)
    body = (
        struct.pack("<II16sH", 8, 3, b"k" * 16, 1)
        + struct.pack("<16sBIIIH", b"n" * 16, 4, count, 2 * count, 24 * count, 5) + b"notes"
        + struct.pack(f"<{2 * count}I", *[2] * count, *[24] * count)
        + b"".join(piece[0][0] for piece in pieces) + b"".join(described)
    )  # fmt: skip
    assert data == b"SMPG" + struct.pack("<HI", 2, zlib.crc32(body)) + body


def test_keys_before_the_first_leaf_are_found_before_and_after_they_are_written() -> None:
    outside = OutsideValues()
    page = Page(PLACE, None, outside, SMALL)
    for number in range(10, 40):
        opened(page).put(b"%02d" % number, bytes(30))
    page = Page(PLACE, stored(page), outside, SMALL)
    for _ in range(2):
        opened(page).put(b"03", b"early")
        assert opened(page).scan(Span(None, b"05")) == [(b"03", b"early")]
        assert opened(page).scan(Span(b"01", b"10", reverse=True)) == [(b"03", b"early")]
        page = Page(PLACE, stored(page), outside, SMALL)


ROOMY = Splitting(page=2_000, leaf=1_000)


@given(st.permutations(range(8)), st.sampled_from([1, 2, 3]))
def test_leaves_that_become_small_are_joined_with_their_neighbours(
    order: list[int], at_once: int
) -> None:
    outside = OutsideValues()
    page = Page(PLACE, None, outside, ROOMY)
    model = {b"%03d" % number: b"%03d" % number * 10 for number in range(200)}
    for key, value in model.items():
        opened(page).put(key, value)
    data = stored(page)
    parts = [leaf.entries for leaf in leaves_of(data)[FAMILY]]
    assert len(parts) == 9
    bounds = [sum(parts[:number]) for number in range(9)]
    for first in range(0, len(order), at_once):
        page = Page(PLACE, data, outside, ROOMY)
        for number in order[first : first + at_once]:
            for key in [b"%03d" % each for each in range(bounds[number], bounds[number + 1])][2:]:
                opened(page).delete(key)
                del model[key]
        data = stored(page)
        leaves = leaves_of(data)[FAMILY]
        assert {struct.pack(">I", leaf.number) for leaf in leaves} == {k for _, k in outside.values}
        assert held(Page(PLACE, data, outside)) == {
            FAMILY: {key: (value, NEVER) for key, value in model.items()}
        }
    assert len(leaves) <= 3
    assert all(leaf.size <= 1_200 for leaf in leaves)


def test_every_key_is_in_its_leaf_however_often_the_directory_was_asked() -> None:
    outside = OutsideValues()
    page = Page(PLACE, None, outside, SMALL)
    for number in range(0, 200, 2):
        opened(page).put(b"%03d" % number, b"%03d" % number * 10)
    ((extent, section),) = read(stored(page) or b"")[1]
    directory = Directory(extent, section)
    firsts = [directory.columns.key(place) for place in range(len(directory))]
    assert len(directory) > 3 * 16
    for _ in range(2):
        for key in [b"%03d" % number for number in range(200)]:
            place = directory.index_of(key)
            assert firsts[place] <= key
            assert place + 1 == len(firsts) or key < firsts[place + 1]
    assert directory.index_of(b"") == 0
