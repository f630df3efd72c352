"""The durable state of a checkpoint, read beside the engine's own access rules."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from statemigrate.deployment import StoredStore
from statemigrate.embedded.continuation import last_committed
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest
from statemigrate.embedded.mirror import Mirror
from statemigrate.embedded.restore import open_at
from statemigrate.embedded.rocksdb_families import RocksFamily, RocksListFamily
from statemigrate.families import Span
from statemigrate.processor.keys import TupleKeyCodec

Contents = dict[str, dict[Any, Any]]


def manifest_of(checkpoint: Path | str) -> Manifest:
    manifest = last_committed(Layout.of(checkpoint))
    assert manifest is not None
    return manifest


def families(checkpoint: Path | str) -> Contents:
    """Every family's values by key, rebuilt from the durable files alone.

    Checks the invariants on the way: every family in the database is one the manifest knows, its
    count is exact where there is one, and a key is in one family of its store at most.
    """
    manifest = manifest_of(checkpoint)
    mirror = Path(tempfile.mkdtemp(prefix="mirror-"))
    layout = Layout.of(checkpoint).within(mirror)
    Mirror(layout).bring(manifest.partitions)
    found: Contents = {
        family.name: {} for store in manifest.stores.values() for family in store.families
    }
    for number in range(len(manifest.partitions)):
        for name, entries in _partition(layout, manifest, number).items():
            assert not found[name].keys() & entries.keys(), "a key is in two partitions"
            found[name].update(entries)
    shutil.rmtree(mirror)
    for store in manifest.stores.values():
        keys = [key for family in store.families for key in found[family.name]]
        assert len(keys) == len(set(keys)), "a key is in two families"
    return found


def _partition(layout: Layout, manifest: Manifest, number: int) -> Contents:
    state = manifest.partitions[number]
    known = {
        family.name: (store, family)
        for store in manifest.stores.values()
        for family in store.families
    }
    place = Path(tempfile.mkdtemp(prefix="stored-state-"))
    database = open_at(state, layout.partition(number), place / "copy")
    try:
        assert database.families <= known.keys(), "a family is left that the manifest has not"
        contents: Contents = {}
        for name in database.families:
            store, family = known[name]
            entries = _entries(database.column(name), store, family, manifest)
            contents[name] = entries
            counted = state.entries[name]
            records = sum(1 for _ in database.column(name).keys())  # noqa: SIM118 - not a dict
            assert counted in (None, records)
        return contents
    finally:
        database.close()
        # RocksDB removes files of its own in a thread that may still run.
        shutil.rmtree(place, ignore_errors=True)


def _entries(column: Any, store: StoredStore, family: Any, manifest: Manifest) -> dict[Any, Any]:
    from pyspark.sql.types import StructType

    make = RocksListFamily if store.kind == "list" else RocksFamily
    opened = make(
        family.name,
        family.revision,
        family.format,
        column=column,
        write=_refuse,
        write_many=_refuse,
    )
    keys = TupleKeyCodec(StructType.fromJson(manifest.key_schema))
    user_keys = store.user_key and TupleKeyCodec(StructType.fromJson(store.user_key))
    entries: dict[Any, Any] = {}
    for data, value in opened.scan(Span()):
        key, rest = keys.split(data)
        if user_keys:
            key = (*key, *user_keys.decode(rest))
        entries[key[0] if len(key) == 1 else key] = value
    return entries


def _refuse(key: object, before: object, value: object) -> None:
    raise AssertionError("reading wrote")
