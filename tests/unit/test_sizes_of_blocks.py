"""Blocks end with so many entries or so many bytes, whichever comes first, and lose none."""

from itertools import pairwise

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from pyspark.sql import Row
from pyspark.sql.types import StructType
from support.notes import family

from statemigrate import blocks
from statemigrate.blocks import BYTES_IN_BLOCK, arrow_blocks, block_of, in_blocks, size_of
from statemigrate.checkpoint.state import in_parts
from statemigrate.deployment import StoredStore
from statemigrate.embedded.task import OutputRows
from statemigrate.pages.columns import PageId
from statemigrate.pages.packed_rows import BUCKET, PACKED, Unpacking, pack
from statemigrate.pages.page import Page
from statemigrate.pages.page_families import fingerprint
from statemigrate.pages.record import PagesRecord
from statemigrate.pages.visit import key_fingerprint
from statemigrate.processor.keys import TupleKeyCodec
from statemigrate.state.embedded import blocks_of
from statemigrate.state.page_entries import Entries, KeyColumns, StoredPages

LARGE = 200_000
NUMBER = 300
"""Three hundred values of 200 kB are some 60 MB; in a block of 16 MiB there are 84."""
MOST = (16 << 20) + LARGE + 4_096
KEY = StructType().add("key", "string")


@given(sizes=st.lists(st.integers(0, 30), max_size=40), most=st.integers(1, 10))
@settings(deadline=None)
def test_every_entry_is_in_one_block_in_order(sizes, most):
    entries = [b"x" * size for size in sizes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BYTES_IN_BLOCK", 50)
        found = list(in_blocks(iter(entries), most, len))
    assert [each for block in found for each in block] == entries
    assert all(found)
    for block in found:
        assert len(block) <= most
        assert sum(map(len, block[:-1])) < 50
    for one, other in pairwise(found):
        assert len(one) == most or sum(map(len, one)) >= 50, (one, other)


def test_the_end_is_told_where_it_is_known():
    assert block_of(iter("abc"), 2) == (["a", "b"], False)
    assert block_of(iter("ab"), 2) == (["a", "b"], False)
    assert block_of(iter("a"), 2) == (["a"], True)
    large = "x" * BYTES_IN_BLOCK
    assert block_of(iter([large]), 2) == ([large], False)


@pytest.mark.parametrize(
    ("value", "least"),
    [("x" * 9, 9), (b"x" * 9, 9), ({"a": {"b": ["x" * 9]}}, 9), (Row(a="x" * 9), 9), (None, 1)],
)
def test_text_and_bytes_count_wherever_they_are(value, least):
    assert least <= size_of(value) <= least + 50


@given(sizes=st.lists(st.integers(0, 40), max_size=30))
@settings(deadline=None)
def test_an_arrow_batch_is_cut_into_slices_of_so_many_bytes(sizes):
    batch = pa.RecordBatch.from_pydict({"a": pa.array([b"x" * n for n in sizes], pa.binary())})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BYTES_IN_BLOCK", 100)
        found = list(arrow_blocks(batch, 7))
    assert [row for each in found for row in each.to_pylist()] == batch.to_pylist()
    assert all(each.num_rows == 1 or each.nbytes <= 100 for each in found)
    assert all(0 < each.num_rows <= 7 for each in found)


def test_rows_on_their_way_to_a_page_are_packed_within_a_block():
    texts = [chr(97 + n % 26) * LARGE for n in range(NUMBER)]
    keys = [f"k{n}" for n in range(NUMBER)]
    columns = [pa.array(keys), pa.array(texts), pa.array([0] * NUMBER, pa.int32())]
    batch = pa.RecordBatch.from_arrays(columns, ["key", "text", BUCKET])
    found = list(pack(iter([batch])))
    assert len(found) > 2
    assert max(each.nbytes for each in found) <= MOST
    assert found[0].schema.names == [part.split()[0] for part in PACKED.split(", ")]
    unpacking = Unpacking((0,), TupleKeyCodec(KEY), ["key", "text"])
    packed = [row.values() for each in found for row in each.to_pylist()]
    rows = {row.key: row.text for _, group in unpacking.by_key(packed) for row in group}
    assert rows == dict(zip(keys, texts, strict=True))


@pytest.mark.parametrize("by_key", [1, NUMBER])
def test_output_rows_are_in_arrow_batches_within_a_block(by_key):
    output, found = OutputRows(StructType().add("text", "string")), []
    for start in range(0, NUMBER, by_key):
        output.add([("x" * LARGE,)] * min(by_key, NUMBER - start))
        if len(output.rows) >= output.enough:
            found += output.flush_if_full()
    found += output.flush()
    assert sum(each.num_rows for each in found) == NUMBER
    assert max(each.nbytes for each in found) <= MOST


def test_small_output_rows_are_in_batches_of_ten_thousand():
    output, found = OutputRows(StructType().add("n", "long")), []
    for n in range(25_000):
        output.add([(n,)])
        if len(output.rows) >= output.enough:
            found += output.flush_if_full()
    found += output.flush()
    assert [each.num_rows // 1_000 for each in found] == [10, 10, 5]
    assert [n for each in found for n in each.column(0).to_pylist()] == list(range(25_000))


def test_exported_entries_are_in_blocks_of_bytes():
    entries = (((f"k{n}",), {"text": "x" * LARGE}) for n in range(NUMBER))
    found = list(blocks_of(entries, lambda block: b"".join(key[0].encode() for key, _ in block)))
    assert sum(count for count, _ in found) == NUMBER
    assert max(count for count, _ in found) * LARGE <= MOST
    assert b"".join(data for _, data in found) == b"".join(b"k%d" % n for n in range(NUMBER))


class Aside:
    """Large values beside a page, as Spark's map has them."""

    def __init__(self):
        self.values = {}

    def get(self, name, key):
        return self.values.get((name, key))

    def put(self, name, key, value):
        self.values[name, key] = value

    def delete(self, name, key):
        del self.values[name, key]


def test_the_large_values_of_a_page_are_read_in_blocks_of_bytes():
    notes, keys, aside = family("notes", "base"), TupleKeyCodec(KEY), Aside()
    place = PageId(1, 0, key_fingerprint(KEY))
    page = Page(place, None, aside)
    section = page.section(notes.name, fingerprint(notes.format))
    for n in range(NUMBER):
        value = notes.format.encode({"text": "x" * LARGE, "ups": n, "downs": 0})
        section.put(keys.encode((f"k{n:03}",)), value)
    page.write_outside()
    record = PagesRecord(1, KEY.jsonValue(), {"notes": StoredStore("value", (notes,), {}, None)})
    large = [{"family": f, "key": k, "value": v} for (f, k), v in aside.values.items()]
    assert len(large) == NUMBER
    columns = [[0], [page.written()], [large], [0]]
    rows = pa.RecordBatch.from_arrays(
        list(map(pa.array, columns)), ["number", "page", "large", "partition_id"]
    )
    entries = Entries(StoredPages(record, "/c"), notes, KeyColumns(KEY), is_list=False)
    found = list(entries([rows]))
    assert max(each.nbytes for each in found) <= MOST
    numbers = [
        notes.format.decode(row["value"]["payload"])["ups"]
        for each in found
        for row in each.to_pylist()
    ]
    assert numbers == list(range(NUMBER))


def test_stored_rows_are_read_in_blocks_of_bytes():
    from statemigrate.checkpoint.rows.buffers import Rows

    keys = Rows.from_list([b"%03d" % n for n in range(NUMBER)])
    values = Rows.from_list([bytes([n % 256]) * LARGE for n in range(NUMBER)])
    found = list(in_parts(iter([(keys, values)])))
    assert len(found) > 2
    assert max(int(part.lengths.sum()) for _, part in found) <= MOST
    assert [key for part, _ in found for key in part.to_list()] == keys.to_list()
    assert [row[:1] for _, part in found for row in part.to_list()] == [
        bytes([n % 256]) for n in range(NUMBER)
    ]
