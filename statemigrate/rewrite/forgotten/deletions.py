"""Which keys were deleted in some batches, as the changelogs of these batches say.

Spark notes there each deletion that code asks for, and each of a value that expires, whether or
not the key had a value. What it cannot note is a map that is cleared while the code sees no entry
in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint.logs.commits import read_commit
from statemigrate.checkpoint.logs.offsets import batches_in, names_in
from statemigrate.checkpoint.logs.pinned import codec_of, is_avro
from statemigrate.checkpoint.operators.catalogue import used_partitions
from statemigrate.checkpoint.operators.shapes import CheckpointShape, FamilyShape, OperatorShape
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.keys import KeyCodec, families_of
from statemigrate.checkpoint.rows.layouts import RowLayout
from statemigrate.checkpoint.stores.reading import read_changes, snapshot_of
from statemigrate.checkpoint.stores.records import DELETE
from statemigrate.checkpoint.stores.versions import StoreVersion, rocksdb_version, store_folder
from statemigrate.files import Files
from statemigrate.rewrite.rows.arrow.structs import arrow_row, retyped, row_json


@dataclass(frozen=True)
class Deletions:
    """The ``keys`` that were deleted, some of them several times, fields by their labels.

    ``unknown`` are the batches of which no changelog is kept: of some Spark writes none.
    """

    keys: pa.ChunkedArray
    unknown: tuple[int, ...] = ()


def deletions(
    files: Files,
    shape: CheckpointShape,
    operator: OperatorShape,
    families: Sequence[FamilyShape],
    batches: range,
) -> Deletions:
    """The keys that ``batches`` have deleted from any of ``families``, all of one type of key.

    ``shape`` is the checkpoint's as of its newest batch. Raises `CorruptFileError` for a file that
    is not what Spark writes.
    """
    kind = arrow_row(families[0].key) if families else pa.struct([])
    if is_avro(shape.conf):
        # Keys in Avro need every schema there ever was.
        return Deletions(pa.chunked_array([], kind), tuple(batches))
    unknown: set[int] = set()
    kept = set(batches_in(names_in(files, "commits")))
    chunks: list[pa.Array] = []
    for partition in range(used_partitions(operator)):
        codecs = _codecs(files, shape, operator, families, partition)
        if len(codecs) < len(families):
            # Whose keys are whose cannot be told.
            unknown.update(batches)
            continue
        for batch in batches:
            name = _changelog(files, operator, partition, batch) if batch in kept else None
            if name is None:
                unknown.add(batch)
                continue
            for number, raw in _deleted(files, shape, name, batch, codecs):
                chunks.append(retyped(codecs[number].decode(raw), kind))
    return Deletions(pa.chunked_array(chunks, kind), tuple(sorted(unknown)))


def _changelog(files: Files, operator: OperatorShape, partition: int, batch: int) -> str | None:
    ids = (read_commit(files, batch).state_ids or {}).get(operator.number)
    unique = f"_{ids[partition][0]}" if ids else ""
    name = f"{store_folder(operator.number, partition)}/{batch + 1}{unique}.changelog"
    return None if files.find(name) is None else name


def _codecs(
    files: Files,
    shape: CheckpointShape,
    operator: OperatorShape,
    families: Sequence[FamilyShape],
    partition: int,
) -> dict[int, KeyCodec]:
    """What reads keys of the families, by the numbers that these have in a partition."""
    ids = (shape.commits[shape.batch].state_ids or {}).get(operator.number)
    unique = ids[partition][0] if ids else None
    folder = store_folder(operator.number, partition)
    version = rocksdb_version(files, folder, shape.batch + 1, unique, codec_of(shape.conf))
    snapshot = snapshot_of(files, version)
    numbers: Mapping[str, int] = {} if snapshot is None else snapshot.families
    layout = RowLayout.of(shape.conf)
    return {
        numbers[each.name]: KeyCodec(row_json(each.key), each.encoder, layout, numbers[each.name])
        for each in families
        if each.name in numbers
    }


def _deleted(
    files: Files, shape: CheckpointShape, name: str, batch: int, codecs: Mapping[int, KeyCodec]
) -> Iterator[tuple[int, Rows]]:
    folder = name.rpartition("/")[0]
    version = StoreVersion(folder, batch + 1, None, (name,))
    for changes in read_changes(files, version, shape.conf):
        keys = changes.keys.take(np.flatnonzero(changes.kinds == DELETE))
        if not len(keys):
            continue
        found = families_of(keys)
        for number in codecs:
            mine = np.flatnonzero(found == number)
            if mine.size:
                yield number, keys.take(mine)
