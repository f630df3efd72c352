"""One contract for every family: what the dictionary does, RocksDB and a page do too."""

from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings
from support.page_outside import OutsideValues

from statemigrate.deployment import StoredFamily
from statemigrate.embedded.database import Database
from statemigrate.embedded.replaced_values import records
from statemigrate.embedded.rocksdb_families import RocksFamily, RocksListFamily
from statemigrate.errors import PageError, ValueMismatchError
from statemigrate.families import EncodedBlockFamily, MemoryFamily, MemoryListFamily, Span
from statemigrate.formats import Struct
from statemigrate.pages.columns import PageId
from statemigrate.pages.page import Page
from statemigrate.pages.page_families import PageFamily, PageListFamily, fingerprint
from statemigrate.pages.page_leaves import SPLITTING, Splitting

FORMAT = Struct("n BIGINT, s STRING")
# Bytes at which ranges and prefixes go wrong.
raw_keys = st.lists(st.sampled_from([0x00, 0x01, 0x61, 0xFE, 0xFF]), max_size=4).map(bytes)
# Prefix-free, as the key codec makes them: escaped zeros, and an end.
list_keys = raw_keys.map(lambda raw: b"\x01" + raw.replace(b"\x00", b"\x00\xff") + b"\x00\x00")
values = st.builds(
    lambda n, s: {"n": n, "s": s}, st.integers(-5, 5), st.sampled_from(["", "\x00", None])
)
value_lists = st.lists(values, max_size=3)
options = settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])


def spans(keys: st.SearchStrategy[bytes]) -> st.SearchStrategy[Span]:
    bounds = st.one_of(st.none(), keys)
    return st.one_of(
        st.builds(Span, bounds, bounds, st.booleans()),
        st.builds(Span.prefix, keys, reverse=st.booleans()),
    )


def of_lists(keys: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Keys, and their beginnings: what ranges of lists are bounded by."""
    return st.one_of(keys, st.builds(lambda key, n: key[:n], keys, st.integers(0, 5)))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    opened = Database(tmp_path_factory.mktemp("contract") / "db")
    yield opened
    opened.close()


def emptied(database: Database, make: Any, **options: Any) -> Any:
    """A RocksDB family with nothing in it."""
    column: Any = database.column("notes")
    for key, _ in list(records(column, Span())):
        column.delete(key)

    def write(key: bytes, before: bytes | None, value: bytes | None) -> None:
        assert column.get(key) == before
        column.delete(key) if value is None else column.put(key, value)

    def write_many(keys: Any, before: Any, values: Any) -> None:
        assert list(map(column.get, keys)) == list(before)
        database.write([("notes", keys, values)])

    return make(
        "notes", "base", FORMAT, column=column, write=write, write_many=write_many, **options
    )


LEAVES = Splitting(page=24, leaf=16)
"""Every few entries are leaves."""


class Rereading:
    """A family in a page that is written and read again before every call.

    With a ``splitting`` its entries may be in leaves.
    """

    def __init__(self, make: Any, splitting: Splitting | None = None) -> None:
        self.data: bytes | None = None
        self.outside = None if splitting is None else OutsideValues()
        self.splitting = splitting or SPLITTING
        self.family = make(StoredFamily("notes", "base", FORMAT))

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            page = Page(PageId(1, 0, b"k" * 16), self.data, self.outside, self.splitting)
            self.family.turn(page)
            try:
                return getattr(self.family, name)(*arguments)
            finally:
                page.write_outside()
                self.data = page.written()

        return call


def in_a_page(make: Any) -> Any:
    """A family in a page with nothing in it."""
    family = make(StoredFamily("notes", "base", FORMAT))
    family.turn(Page(PageId(1, 0, b"k" * 16)))
    return family


def of(make: Any, database: Database) -> Any:
    """An empty family of any kind."""
    if make in (RocksFamily, RocksListFamily):
        return emptied(database, make)
    is_paged = make in (PageFamily, PageListFamily)
    return in_a_page(make) if is_paged else make("notes", "base", FORMAT)


def outcome(call: Any, *arguments: Any) -> Any:
    result = call(*arguments)
    return list(result) if isinstance(result, Iterator) else result


def operations(
    keys: st.SearchStrategy[bytes], written: Any, ranges: Any, *names: str
) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    reads = st.tuples(st.sampled_from(["get", "contains", "delete"]), keys)
    writes = st.tuples(st.sampled_from(names), keys, written)
    scans = st.tuples(st.just("scan"), ranges)
    return st.lists(st.one_of(writes, reads, scans), max_size=25)


def compare(steps: list[tuple[Any, ...]], memory: Any, *others: Any) -> None:
    for name, *arguments in steps:
        expected = outcome(getattr(memory, name), *arguments)
        for other in others:
            assert outcome(getattr(other, name), *arguments) == expected, (name, arguments)
    for other in others:
        assert list(other.scan(Span())) == list(memory.scan(Span()))


@options
@given(steps=operations(raw_keys, values, spans(raw_keys), "put"))
@example(steps=[("put", b"", {"n": 1, "s": ""}), ("get", b""), ("scan", Span.prefix(b""))])
@example(steps=[("put", b"\xff\xff", {"n": 1, "s": ""}), ("scan", Span.prefix(b"\xff"))])
@example(steps=[("put", b"\xff\xff", {"n": 1, "s": ""}), ("scan", Span.prefix(b"\xff\xff\xff"))])
def test_single_values_behave_alike(database: Database, steps: Any) -> None:
    memory = MemoryFamily("notes", "base", FORMAT)
    pages = in_a_page(PageFamily), Rereading(PageFamily), Rereading(PageFamily, LEAVES)
    compare(steps, memory, emptied(database, RocksFamily), *pages)
    for block in (1, 3):
        memory = MemoryFamily("notes", "base", FORMAT)
        compare(steps, memory, emptied(database, RocksFamily, block=block))


@options
@given(steps=operations(list_keys, value_lists, spans(of_lists(list_keys)), "put", "append"))
def test_lists_behave_alike(database: Database, steps: Any) -> None:
    memory = MemoryListFamily("notes", "base", FORMAT)
    pages = (
        in_a_page(PageListFamily),
        Rereading(PageListFamily),
        Rereading(PageListFamily, LEAVES),
    )
    compare(steps, memory, emptied(database, RocksListFamily), *pages)


written_many = st.dictionaries(raw_keys, values, max_size=5)
steps_of_many = st.lists(
    st.one_of(
        st.tuples(st.just("put_many"), written_many),
        st.tuples(st.just("get_many"), st.frozensets(raw_keys, max_size=6)),
        st.tuples(st.sampled_from(["get", "delete"]), raw_keys),
        st.tuples(st.just("put"), raw_keys, values),
    ),
    max_size=20,
)


@options
@given(steps=steps_of_many)
@example(steps=[("get_many", {b"a"}), ("put", b"a", {"n": 1, "s": ""}), ("get_many", {b"a"})])
@example(steps=[("get_many", {b"a", b"b"}), ("delete", b"a"), ("put_many", {b"b": {"n": 1}})])
def test_the_bytes_of_many_keys_are_those_of_each(database: Database, steps: Any) -> None:
    """Whatever is read of many keys before, each write says what it replaces: see `emptied`."""
    memory = MemoryFamily("notes", "base", FORMAT)
    pages = in_a_page(PageFamily), Rereading(PageFamily), Rereading(PageFamily, LEAVES)
    families = [emptied(database, RocksFamily), *pages]
    for name, *arguments in steps:
        if name == "put_many":
            entries = sorted((key, {"s": None, **value}) for key, value in arguments[0].items())
            for key, value in entries:
                memory.put(key, value)
            encoded = [FORMAT.encode(value) for _, value in entries]
            for family in families:
                family.put_many_encoded([key for key, _ in entries], encoded)
        elif name == "get_many":
            keys = sorted(arguments[0])
            held = [memory.entries.get(key) for key in keys]
            expected = [None if each is None else FORMAT.encode(each) for each in held]
            for family in families:
                assert family.get_many_encoded(keys) == expected
        else:
            expected = getattr(memory, name)(*arguments)
            for family in families:
                assert getattr(family, name)(*arguments) == expected
    for family in families:
        assert list(family.scan(Span())) == list(memory.scan(Span()))


@pytest.mark.parametrize("make", [RocksFamily, PageFamily])
def test_a_family_of_bytes_has_blocks_of_them(database: Database, make: Any) -> None:
    """Otherwise nothing would go by columns, and nothing would say so."""
    assert isinstance(of(make, database), EncodedBlockFamily)


@options
@given(
    before=st.dictionaries(raw_keys, values, max_size=6),
    span=spans(raw_keys),
    later=st.dictionaries(raw_keys, st.one_of(st.none(), values), max_size=6),
    started=st.booleans(),
)
@pytest.mark.parametrize("make", [MemoryFamily, RocksFamily, PageFamily])
def test_a_scan_does_not_see_later_writes(
    database: Database, make: Any, before: Any, span: Span, later: Any, started: bool
) -> None:
    family = of(make, database)
    for key, value in before.items():
        family.put(key, value)
    running = family.scan(span)
    found = [entry for entry in [next(running, None)] if entry] if started else []
    for key, value in later.items():
        family.delete(key) if value is None else family.put(key, value)
    expected = sorted(
        ((key, value) for key, value in before.items() if span.contains(key)),
        key=lambda entry: entry[0],
        reverse=span.reverse,
    )
    assert found + list(running) == expected


@options
@given(
    held=st.dictionaries(list_keys, st.lists(values, min_size=1, max_size=3), max_size=5),
    cursor=list_keys,
)
@pytest.mark.parametrize("make", [RocksListFamily, PageListFamily])
def test_a_range_behind_a_key_leaves_out_its_list_and_nothing_else(
    database: Database, make: Any, held: Any, cursor: bytes
) -> None:
    """The backfill's range: the least key greater than its cursor, and all above."""
    family = of(make, database)
    for key, value in held.items():
        family.put(key, value)
    found = dict(family.scan(Span(lower=cursor + b"\x00")))
    assert found == {key: value for key, value in held.items() if key > cursor}


@options
@given(prefix=raw_keys, key=raw_keys)
def test_a_prefix_span_holds_exactly_the_keys_that_begin_with_it(prefix: bytes, key: bytes) -> None:
    assert Span.prefix(prefix).contains(key) is key.startswith(prefix)


@options
@given(
    held=st.dictionaries(list_keys, st.lists(values, min_size=1, max_size=3), max_size=5),
    gone=st.lists(list_keys, max_size=4),
)
def test_a_source_counts_its_records_exactly(database: Database, held: Any, gone: Any) -> None:
    family = emptied(database, RocksListFamily)
    for key, value in held.items():
        family.put(key, value)
    family.entries = sum(map(len, held.values()))
    for key in [*gone, *held]:
        if family.contains(key):
            assert not family.is_drained()
            family.delete(key)
        left = sum(1 for _ in family.scan(Span()))
        assert (family.entries == 0) is (left == 0) is family.is_drained()


@pytest.mark.parametrize(
    "make",
    [
        *(MemoryFamily, MemoryListFamily, RocksFamily),
        *(RocksListFamily, PageFamily, PageListFamily),
    ],
)
def test_a_value_that_does_not_fit_is_refused_before_anything_is_written(
    database: Database, make: Any
) -> None:
    family = of(make, database)
    good, bad = {"n": 1, "s": "x"}, {"n": "one", "s": "x"}
    is_list = make in (MemoryListFamily, RocksListFamily, PageListFamily)
    family.put(b"k", [good] if is_list else good)
    for call in (family.put, getattr(family, "append", family.put)):
        with pytest.raises(ValueMismatchError):
            call(b"k", [good, bad] if is_list else bad)
    with pytest.raises(ValueMismatchError):
        family.conform([good, bad] if is_list else bad)
    assert list(family.scan(Span())) == [(b"k", [good] if is_list else good)]


@pytest.mark.parametrize("make", [MemoryFamily, RocksFamily, PageFamily])
def test_what_is_read_is_the_callers_own(database: Database, make: Any) -> None:
    family = of(make, database)
    value = {"n": 1, "s": "x"}
    family.put(b"k", value)
    value["n"] = 2
    family.get(b"k")["n"] = 3
    next(family.scan(Span()))[1]["n"] = 4
    assert family.get(b"k") == {"n": 1, "s": "x"}


@pytest.mark.parametrize("data", [b"\x05", b"\x05\x00\x00\x00ab"], ids=["length", "element"])
def test_a_list_that_is_cut_off_in_a_page_is_damaged(data: bytes) -> None:
    page = Page(PageId(1, 0, b"k" * 16))
    page.section("notes", fingerprint(FORMAT)).put(b"k", data)
    family = PageListFamily(StoredFamily("notes", "base", FORMAT))
    family.turn(page)
    with pytest.raises(PageError, match="damaged"):
        family.get(b"k")
