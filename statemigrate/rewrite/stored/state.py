"""The rows of an operator in the files of its partitions.

What tasks of Spark are given: it says where the files are, and needs nothing of the driver. A
snapshot is read a batch at a time; what has changes beside it is held in memory, a store of one
partition at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from statemigrate.blocks import BYTES_IN_BLOCK
from statemigrate.checkpoint.logs.pinned import is_rocksdb
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.keys import FAMILY, KeyCodec, families_of
from statemigrate.checkpoint.rows.layouts import RowLayout
from statemigrate.checkpoint.rows.values import ValueCodec
from statemigrate.checkpoint.stores.reading import (
    fold_state,
    read_changelog_state,
    read_changes,
    read_hdfs_state,
)
from statemigrate.checkpoint.stores.records import PUT, Changes
from statemigrate.checkpoint.stores.versions import StoreVersion
from statemigrate.files import LocalFiles
from statemigrate.rewrite.plan.pairing.places import Place
from statemigrate.rewrite.rows.arrow.structs import list_array, row_json

_MANY = 50_000
Batch = tuple[pa.StructArray, pa.Array]
"""Keys, and for each a struct, or the list of a list's elements."""


@dataclass(frozen=True)
class StoredStore:
    """A store of one partition: its files, and the numbers of its column families."""

    version: StoreVersion
    families: Mapping[str, int]


@dataclass(frozen=True)
class StoredOperator:
    """An operator's stores by their names, each for every partition from 0.

    ``root`` is the checkpoint's path, ``conf`` what is pinned to its query.
    """

    root: Path
    conf: Mapping[str, str]
    stores: Mapping[str, tuple[StoredStore, ...]]

    @property
    def partitions(self) -> int:
        """How many have files."""
        return len(next(iter(self.stores.values())))

    def rows(self, place: Place, partition: int) -> Iterator[Batch]:
        """The rows of a family in a partition, fields by their labels, a batch at a time.

        Raises `CorruptFileError` for files and rows that are not what Spark writes.
        """
        store = self.stores[place.store.name][partition]
        number = store.families[place.family.name] if place.store.has_families else None
        layout, family = RowLayout.of(self.conf), place.family
        keys = KeyCodec(row_json(family.key), family.encoder, layout, number)
        values = ValueCodec(row_json(family.value), layout, is_list=family.is_list)
        for raw_keys, raw_values in self._raw(store.version, number):
            found, owners = values.decode(raw_values, raw_keys)
            if family.is_list:
                counts = np.bincount(owners, minlength=len(raw_keys))
                found = list_array(counts, found, pa.list_(found.type))
            yield keys.decode(raw_keys), found

    def _raw(self, version: StoreVersion, number: int | None) -> Iterator[tuple[Rows, Rows]]:
        files = LocalFiles(self.root)
        if not is_rocksdb(self.conf):
            yield from _parted(read_hdfs_state(files, version, self.conf))
        elif version.shared and not version.changes:
            prefix = b"" if number is None else number.to_bytes(FAMILY, "little", signed=True)
            yield from _tables(files, version, prefix)
        else:
            for keys, values in _parted(iter([self._together(files, version)])):
                mine = np.ones(len(keys), bool) if number is None else families_of(keys) == number
                yield keys.take(mine), values.take(mine)

    def _together(self, files: LocalFiles, version: StoreVersion) -> tuple[Rows, Rows]:
        if not version.shared:
            return read_changelog_state(files, version, self.conf)
        puts = (
            Changes(np.full(len(keys), PUT, np.uint8), keys, values)
            for keys, values in _tables(files, version, b"")
        )
        changes = chain(puts, read_changes(files, version, self.conf))
        return fold_state(changes, self.conf)


def _tables(files: LocalFiles, version: StoreVersion, prefix: bytes) -> Iterator[tuple[Rows, Rows]]:
    from statemigrate.rewrite.stored.tables import read_tables

    return read_tables(files, version, prefix)


def _parted(found: Iterator[tuple[Rows, Rows]]) -> Iterator[tuple[Rows, Rows]]:
    for keys, values in found:
        start = 0
        while start < len(keys):
            end = _end_of_block(values, start)
            yield keys.slice(start, end), values.slice(start, end)
            start = end


def _end_of_block(values: Rows, start: int) -> int:
    """Where a block of rows ends: so many, or as many bytes as one has room for."""
    full = values.starts[start] + BYTES_IN_BLOCK
    end = int(np.searchsorted(values.starts, full, "left"))
    return min(max(end, start + 1), start + _MANY, len(values))
