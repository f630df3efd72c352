"""The difference of two checkpoints is found some partitions at a time, wherever their keys are."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.formats import Struct
from statemigrate.state import table_changes
from statemigrate.state.table_changes import StoreAt, changes_between
from statemigrate.state.table_columns import TableColumns
from statemigrate.state.table_stores import StorePart, StoreRows

KEY = Struct("k STRING").struct_type().jsonValue()
VALUE = Struct("n BIGINT, x DOUBLE").struct_type().jsonValue()
COLUMNS = TableColumns(KEY, None, VALUE, False, 7)
Held = dict[str, tuple[int | None, float]]


@dataclass(frozen=True)
class KeptRows:
    """The rows of a family, each key's where a hash puts it, or where ``anywhere`` says."""

    held: Held
    partitions: int
    anywhere: int | None = None

    def batches(self, partition: int) -> Iterator[pa.RecordBatch]:
        """One batch, if the partition has any row."""
        found = {k: v for k, v in self.held.items() if self._at(k) == partition}
        if found:
            keys = pa.StructArray.from_arrays([pa.array(found, pa.string())], ["k"])
            values = [{"n": n, "x": x} for n, x in found.values()]
            kind = pa.struct([("n", pa.int64()), ("x", pa.float64())])
            number = pa.array([partition] * len(found), pa.int32())
            arrays = [keys, pa.array(values, kind), number]
            yield pa.RecordBatch.from_arrays(arrays, ["key", "value", "partition_id"])

    def _at(self, key: str) -> int:
        if self.anywhere is not None:
            return (zlib.crc32(key.encode()) >> self.anywhere) % self.partitions
        return zlib.crc32(key.encode()) % self.partitions


def side(place: str, *rows: KeptRows) -> StoreAt:
    parts = tuple(StorePart(cast(Any, each), f"r{n}") for n, each in enumerate(rows))
    return StoreAt(place, "sums", StoreRows(parts, VALUE), COLUMNS)


def found_between(old: StoreAt, new: StoreAt) -> list[tuple[Any, ...]]:
    table = pa.concat_tables(changes_between(old, new))
    rows = table.to_pylist()
    return sorted(repr((r["_change"], r["k"], r["n"], r["x"], r["_before"])) for r in rows)


def expected(old: Held, new: Held) -> list[str]:
    found = []
    for key in old.keys() | new.keys():
        before, after = old.get(key), new.get(key)
        if repr(before) != repr(after):
            change = "added" if before is None else "removed" if after is None else "changed"
            was = None if before is None else dict(zip("nx", before, strict=True))
            found.append(repr((change, key, *(after or (None, None)), was)))
    return sorted(found)


_HELD = st.dictionaries(
    st.text("abcdef", max_size=3),
    st.tuples(st.none() | st.integers(0, 3), st.sampled_from([0.0, -0.0, 1.5, float("nan")])),
    max_size=25,
)


@given(_HELD, _HELD, st.integers(1, 6), st.integers(1, 6), st.none() | st.integers(1, 9))
def test_every_key_that_differs_is_found_in_whichever_partitions(
    old: Held, new: Held, before: int, after: int, anywhere: int | None
) -> None:
    one, other = side("a", KeptRows(old, before)), side("b", KeptRows(new, after, anywhere))
    assert found_between(one, other) == expected(old, new)


def test_values_of_several_revisions_are_one_table() -> None:
    old = {f"k{n}": (n, 0.5) for n in range(40)}
    first, second = ({k: v for k, v in old.items() if (v[0] % 2) == odd} for odd in (0, 1))
    whole = side("a", KeptRows(old, 4))
    assert found_between(whole, side("b", KeptRows(first, 2), KeptRows(second, 6))) == []


@pytest.mark.parametrize(("before", "after", "most"), [(8, 8, 8), (8, 4, 4), (6, 9, 3)])
def test_only_partitions_whose_keys_may_be_the_same_are_in_memory_together(
    monkeypatch: pytest.MonkeyPatch, before: int, after: int, most: int
) -> None:
    held = {f"k{n}": (n, 0.5) for n in range(4_000)}
    sizes = []
    table = table_changes._compared

    def compared(columns: Any, old: Any, new: Any) -> Any:
        sizes.append(max(len(old), len(new)))
        return table(columns, old, new)

    monkeypatch.setattr(table_changes, "_compared", compared)
    one, other = (
        side("a", KeptRows(held, before)),
        side("b", KeptRows(held | {"k1": (0, 0.0)}, after)),
    )
    assert len(found_between(one, other)) == 1
    assert max(sizes) < 1.3 * len(held) / most
    assert sizes[-1] == 0, "no key waits for another one"
