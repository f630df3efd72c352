"""Whether tasks can read an operator's state from its files, and where those are."""

from __future__ import annotations

from statemigrate.checkpoint.logs.pinned import codec_of, is_avro, is_rocksdb
from statemigrate.checkpoint.operators.catalogue import VARIABLES, kind_of, used_partitions
from statemigrate.checkpoint.operators.shapes import CheckpointShape, OperatorShape, StoreShape
from statemigrate.checkpoint.stores.reading import snapshot_of
from statemigrate.checkpoint.stores.versions import hdfs_version, rocksdb_version, store_folder
from statemigrate.files import Files, local_path
from statemigrate.rewrite.stored.state import StoredOperator, StoredStore


def stored_operator(
    files: Files, shape: CheckpointShape, operator: OperatorShape
) -> StoredOperator | None:
    """Where the operator's rows are; None where only Spark's reader gets at them.

    Those are rows on a file system that only the driver reaches, rows in Avro, which need all
    schemas there ever were, and variables of ``transformWithState``, of which RocksDB merges lists.
    Raises `CorruptFileError` where a file is missing or is not what Spark writes.
    """
    root = local_path(files.location)
    if (
        root is None
        or kind_of(operator.name) is VARIABLES
        or (is_rocksdb(shape.conf) and is_avro(shape.conf))
    ):
        return None
    stores: dict[str, tuple[StoredStore, ...]] = {}
    for place, store in enumerate(operator.stores):
        found = [
            _stored(files, shape, operator, place, partition)
            for partition in range(used_partitions(operator))
        ]
        if not all(_is_readable(store, each) for each in found):
            return None
        stores[store.name] = tuple(found)
    return StoredOperator(root, dict(shape.conf), stores)


def _stored(
    files: Files, shape: CheckpointShape, operator: OperatorShape, place: int, partition: int
) -> StoredStore:
    folder = store_folder(operator.number, partition, operator.stores[place].name)
    if not is_rocksdb(shape.conf):
        return StoredStore(hdfs_version(files, folder, shape.batch + 1), {})
    ids = shape.commits[shape.batch].state_ids
    unique = None if not ids else ids[operator.number][partition][place]
    version = rocksdb_version(files, folder, shape.batch + 1, unique, codec_of(shape.conf))
    told = snapshot_of(files, version)
    return StoredStore(version, {} if told is None else dict(told.families))


def _is_readable(store: StoreShape, found: StoredStore) -> bool:
    if not store.has_families:
        return True
    has_numbers = all(family.name in found.families for family in store.families)
    has_lists = any(family.is_list for family in store.families)
    return has_numbers and not (has_lists and found.version.shared)
