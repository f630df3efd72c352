"""An aggregation with millions of keys, from the checkpoint of a small one, without Spark.

``python -m benchmarks.large_state SMALL NEW 10000000`` writes it with the package's own writers, of
which the tests of rewriting hold that Spark reads what they write. ``SMALL`` is a checkpoint that
`benchmarks.state_tables.make` made. Only its newest batch is then in ``NEW``.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statemigrate.checkpoint.logs.entries import codec_of
from statemigrate.checkpoint.operators.shapes import row_json
from statemigrate.checkpoint.rows.keys import KeyCodec
from statemigrate.checkpoint.rows.values import ValueCodec
from statemigrate.checkpoint.state import CommittedState
from statemigrate.checkpoint.stores.provider import row_layout
from statemigrate.files import LocalFiles
from statemigrate.rewrite.rocksdb_writing import RocksDBStore

_AT_ONCE = 500_000


def grow(small: Path, new: Path, keys: int) -> None:
    """Write ``new``, a checkpoint as ``small`` with so many keys."""
    shutil.copytree(small, new)
    state = CommittedState(LocalFiles(small))
    (family,) = state.families
    key_type, value_type = (each.type for each in next(family.rows(0)))
    layout = row_layout(family.conf)
    key_codec = KeyCodec(row_json(family.family.key), family.family.encoder, layout, None)
    value_codec = ValueCodec(row_json(family.family.value), layout)
    with tempfile.TemporaryDirectory(dir=new.parent) as folder:
        codec, version = codec_of(family.conf), state.batch + 1
        numbers = range(len(family.parts))
        stores = [RocksDBStore(Path(folder, str(each)), version, codec, {}) for each in numbers]
        for first in range(0, keys, _AT_ONCE):
            ids = np.arange(first, min(first + _AT_ONCE, keys))
            texts = pc.binary_join_element_wise("customer-", pa.array(ids).cast(pa.string()), "")
            columns = [pa.array(each) for each in (np.ones_like(ids), ids % 1000, ids % 1000)]
            made = pa.StructArray.from_arrays([texts], fields=list(key_type))
            values = pa.StructArray.from_arrays(columns, fields=list(value_type))
            places = family.partitions_of(made)
            for number, store in enumerate(stores):
                chosen = pa.array(places == number)
                encoded = key_codec.encode(made.filter(chosen))
                store.put(encoded, value_codec.encode(values.filter(chosen), encoded))
        for number, store in enumerate(stores):
            _replace(new / "state" / "0" / str(number), store.close())


def _replace(folder: Path, files: dict[str, Path | bytes]) -> None:
    for each in list(folder.rglob("*")):
        if each.is_file() and "_metadata" not in each.parts:
            each.unlink()
    for name, data in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(data, bytes):
            target.write_bytes(data)
        else:
            shutil.move(data, target)


if __name__ == "__main__":
    grow(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
