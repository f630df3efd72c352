"""Which column families RocksDB has: those of variables that Spark does not list any more, too.

A variable that no code declares leaves Spark's metadata at once, and after some hundred batches
each trace of it. In the database it stays, values included, and is there again as soon as code
declares it. Only dropping it (``deleteIfExists``) takes it out.
"""

from __future__ import annotations

from statemigrate.checkpoint.logs.entries import codec_of, read_commit, read_entry
from statemigrate.checkpoint.stores.files import rocksdb_version, store_folder
from statemigrate.checkpoint.stores.reading import snapshot_of
from statemigrate.files import Files


def column_families(files: Files, batch: int, operator: int) -> frozenset[str] | None:
    """The names of the column families of an operator, as of a committed batch.

    None where the files do not say: Spark writes a snapshot when a family is made, and one from
    before it had families has none. Every task makes all of them, so the first partition tells.
    Raises `CheckpointError` for files that are missing, or are not what Spark writes.
    """
    ids = read_commit(files, batch).state_ids
    unique = None if not ids else ids[operator][0][0]
    codec = codec_of(read_entry(files, batch).conf)
    version = rocksdb_version(files, store_folder(operator, 0), batch + 1, unique, codec)
    snapshot = snapshot_of(files, version)
    return frozenset(snapshot.families) if snapshot is not None and snapshot.families else None
