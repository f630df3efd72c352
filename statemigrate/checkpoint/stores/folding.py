"""What is left of changes, one after the other: each key once, with its value.

A delete, or a new value, ends what was before; what is merged comes after it. Keys are compared and
gathered by Arrow and numpy, without a loop over rows. What is left of a partition is in memory at
once, as it is in Spark's HDFS-backed provider; changes are folded as they come, so that what later
ones replace is not, however large the files unpack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from statemigrate.checkpoint.logs import MERGE_OPERATOR, pinned
from statemigrate.checkpoint.rows import Rows, joined, numpy_array, within
from statemigrate.checkpoint.stores.changelog import DELETE, MERGE, PUT, ChangelogRecords

Indices = npt.NDArray[np.int64]
WAITING = 4 << 20
"""Bytes of changes that wait to be folded, or as many as twice what was left of those before."""

_EACH = 128
"""Bytes of the numbers by which a change is found and compared, whatever it has."""


def fold(changes: Iterable[ChangelogRecords], *, separator: bytes = b"") -> tuple[Rows, Rows]:
    """The keys that are there after all ``changes``, in no order, and the value of each.

    Values that were merged stand after each other with ``separator`` between, as RocksDB's own
    operator of the pinned version has them.
    """
    parts: list[ChangelogRecords] = []
    waiting, most = 0, WAITING
    for each in changes:
        parts.append(each)
        waiting += _size(each)
        if waiting > most:
            # Folding again costs as much as what is left: each time there is twice as much before.
            keys, values = _folded(parts, separator)
            parts = [ChangelogRecords(np.full(len(keys), PUT, np.uint8), keys, values)]
            waiting, most = 0, max(WAITING, 2 * _size(parts[0]))
    return _folded(parts, separator)


def _size(changes: ChangelogRecords) -> int:
    """The bytes that changes take in memory, with those that folding takes for each."""
    held = (changes.keys.offsets, changes.values.offsets)
    return int(sum(offsets[-1] - offsets[0] for offsets in held)) + _EACH * len(changes)


def _folded(parts: list[ChangelogRecords], separator: bytes) -> tuple[Rows, Rows]:
    if not parts:
        return Rows.from_list([]), Rows.from_list([])
    whole = ChangelogRecords(
        np.concatenate([each.kinds for each in parts]),
        Rows.concat([each.keys for each in parts]),
        Rows.concat([each.values for each in parts]),
    )
    return _left(whole, separator)


def _left(changes: ChangelogRecords, separator: bytes) -> tuple[Rows, Rows]:
    identities = changes.keys.to_arrow().dictionary_encode()
    key_of = numpy_array(identities.indices).astype(np.int64)
    order = np.arange(len(changes))
    # The last record of each key that does not merge: what is before it counts no more.
    floor = np.full(len(identities.dictionary), -1, np.int64)
    is_merge = changes.kinds == MERGE
    floor[key_of[~is_merge]] = order[~is_merge]
    kept = (order >= floor[key_of]) & (changes.kinds != DELETE)
    chosen = order[kept]
    chosen = chosen[np.argsort(key_of[chosen], kind="stable")]
    keys, starts = _first_of_each(key_of[chosen])
    values = _join_runs(changes.values.take(chosen), starts, separator)
    return changes.keys.take(chosen[starts]), values if len(keys) else Rows.from_list([])


def _first_of_each(sorted_keys: Indices) -> tuple[Indices, Indices]:
    found, starts = np.unique(sorted_keys, return_index=True)
    return found, starts


def _join_runs(values: Rows, starts: Indices, separator: bytes) -> Rows:
    """The values from each of ``starts`` up to the next, in one."""
    if len(starts) == len(values):
        return values
    if not separator:
        return Rows(values.data, values.offsets[np.append(starts, len(values))])
    joined_values = joined(values, separator)
    ends = joined_values.offsets[np.append(starts[1:], len(joined_values))] - len(separator)
    return _cut(joined_values, joined_values.offsets[starts], ends)


def _cut(rows: Rows, starts: Indices, ends: Indices) -> Rows:
    return within(rows.data, starts, ends - starts)


def fold_state(changes: Iterator[ChangelogRecords], conf: Mapping[str, str]) -> tuple[Rows, Rows]:
    """What is left of all ``changes`` of a version."""
    return fold(changes, separator=b"," if pinned(conf, MERGE_OPERATOR) == "1" else b"")


def among(keys: Rows, wanted: Rows) -> Indices:
    """The places of those keys that are wanted."""
    mask = pc.is_in(keys.to_arrow(), value_set=wanted.to_arrow())
    return np.flatnonzero(numpy_array(mask)).astype(np.int64)
