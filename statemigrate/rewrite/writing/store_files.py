"""One store of one partition, written from nothing: the files that a restart reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint.logs.pinned import codec_of, is_rocksdb
from statemigrate.checkpoint.operators.catalogue import DEFAULT, is_internal
from statemigrate.checkpoint.operators.labels import with_labels
from statemigrate.checkpoint.operators.shapes import FamilyShape, StoreShape
from statemigrate.checkpoint.rows.keys import KeyCodec
from statemigrate.checkpoint.rows.layouts import RowLayout
from statemigrate.checkpoint.rows.values import ValueCodec, merged_values
from statemigrate.rewrite.plan.file_ids import id_before
from statemigrate.rewrite.writing.derived import derived_rows, named_as
from statemigrate.rewrite.writing.hdfs_store import HdfsStore
from statemigrate.rewrite.writing.rocksdb_store import RocksDBStore


@dataclass(frozen=True)
class StorePlace:
    """A store of a partition of an operator; ``version`` is that of the state, batch + 1.

    ``unique_id`` is in the names of files of checkpoint format 2.
    """

    operator: int
    partition: int
    store: StoreShape
    version: int
    conf: Mapping[str, str]
    unique_id: str | None = None

    @property
    def unique_ids(self) -> tuple[str, str] | None:
        """The ids of the version before and of this one."""
        return None if self.unique_id is None else (id_before(self.unique_id), self.unique_id)

    @property
    def folder(self) -> str:
        """Below the checkpoint."""
        named = "" if self.store.name == DEFAULT else f"/{self.store.name}"
        return f"state/{self.operator}/{self.partition}{named}"


class StoreFiles:
    """Takes the rows of a store, a batch at a time, and has its files in ``scratch`` at the end."""

    def __init__(self, place: StorePlace, scratch: Path) -> None:
        self._place = place
        self._numbers = family_numbers(place.store)
        internal = [name for name in self._numbers if is_internal(name)]
        merges = any(each.is_list for each in place.store.families)
        folder, codec = scratch / place.folder.replace("/", "-"), codec_of(place.conf)
        self._out: RocksDBStore | HdfsStore = (
            RocksDBStore(
                folder,
                place.version,
                codec,
                self._numbers,
                internal,
                merges=merges,
                unique_ids=place.unique_ids,
            )
            if is_rocksdb(place.conf)
            else HdfsStore(folder, place.version, codec)
        )
        self._codecs = {each.name: self._codecs_of(each) for each in place.store.families}
        self._shapes = {each.name: each for each in place.store.families}

    def put(self, family: str, keys: pa.StructArray, values: pa.Array) -> None:
        """Take rows of a family: for each key a struct, or the list of a list's elements."""
        if self._shapes[family].is_list:
            self._put_lists(family, keys, values)
        else:
            self._put(family, keys, values)
        for name, their_keys, their_values in derived_rows(self._shapes[family], keys, values):
            shape = self._shapes.get(name)
            if shape is not None:
                self._put(name, their_keys, named_as(their_values, shape.value))

    def close(self) -> dict[str, Path | bytes]:
        """End it; return what to put under which name below the checkpoint."""
        found = self._out.close()
        return {f"{self._place.folder}/{name}": content for name, content in found.items()}

    def _put(self, family: str, keys: pa.StructArray, values: pa.Array) -> None:
        key_codec, value_codec = self._codecs[family]
        key_rows = key_codec.encode(keys)
        self._out.put(key_rows, value_codec.encode(values, key_rows))

    def _put_lists(self, family: str, keys: pa.StructArray, values: pa.Array) -> None:
        """Put the first element of each list, merge the others in their order, and count them."""
        key_codec, value_codec = self._codecs[family]
        owners = values.value_parent_indices().to_numpy()  # for each element its list
        key_rows = key_codec.encode(keys).take(owners)
        elements = value_codec.encode(values.flatten(), key_rows)
        assert isinstance(self._out, RocksDBStore), "only RocksDB has lists"  # noqa: S101
        if self._out.is_snapshot:
            delimiter = RowLayout.of(self._place.conf).delimiter
            self._out.put(*merged_values(key_rows, elements, owners, delimiter))
            return
        is_first = np.ones(len(owners), bool)
        is_first[1:] = owners[1:] != owners[:-1]
        self._out.put(key_rows.take(is_first), elements.take(is_first))
        self._out.merge(key_rows.take(~is_first), elements.take(~is_first))

    def _codecs_of(self, family: FamilyShape) -> tuple[KeyCodec, ValueCodec]:
        layout = RowLayout.of(self._place.conf)
        number = self._numbers.get(family.name) if self._place.store.has_families else None
        return (
            KeyCodec(with_labels(family.key), family.encoder, layout, number),
            ValueCodec(with_labels(family.value), layout, is_list=family.is_list),
        )


def family_numbers(store: StoreShape) -> dict[str, int]:
    """The number of each column family of a new store: Spark reads them from the snapshot."""
    if not store.has_families:
        return {}
    names = [DEFAULT, *(each.name for each in store.families if each.name != DEFAULT)]
    return {name: number for number, name in enumerate(names)}
