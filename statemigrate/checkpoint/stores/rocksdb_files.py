"""Snapshots of Spark's RocksDB provider: ``<version>.zip``.

The zip has RocksDB's small files and ``metadata``: a line ``v1``, and JSON that says which SST
files and logs, in ``SSTs/`` and ``logs/`` beside it, belong to them, how many keys there are, and
the numbers of the column families. A snapshot with nothing but ``metadata`` is of an empty store,
for which Spark makes a new database. Format: ``RocksDBFileManager.scala`` of apache/spark.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from statemigrate.checkpoint.stores.records import corrupt
from statemigrate.files import parse_json
from statemigrate.files.documents.shapes import Maybe, Table, check_shape

_LARGEST = 64 << 20
"""Bytes of ``metadata``; an SST file takes about 150."""
_WHEN = (1980, 1, 1, 0, 0, 0)
_FILE = {"localFileName": str, "sizeBytes": int}
_SHAPE = {
    "sstFiles": [{**_FILE, "dfsSstFileName": str}],
    "logFiles": Maybe([{**_FILE, "dfsLogFileName": str}], missing=True),
    "numKeys": range(-1, 2**63),
    "numInternalKeys": Maybe(int, missing=True),
    "columnFamilyMapping": Maybe(Table(int), missing=True),
    "columnFamilyTypeMap": Maybe(Table(bool), missing=True),
    "maxColumnFamilyId": Maybe(int, missing=True),
}
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]*")


@dataclass(frozen=True)
class SharedFile:
    """A file that snapshots share: its ``name`` below the store, and the one RocksDB knows."""

    name: str
    local_name: str
    size: int


@dataclass(frozen=True)
class Snapshot:
    """What ``metadata`` says. ``families`` has the number of each column family.

    ``keys`` is -1 where Spark did not count.
    """

    shared: tuple[SharedFile, ...] = ()
    keys: int = 0
    internal_keys: int = 0
    families: Mapping[str, int] = field(default_factory=dict)
    internal: frozenset[str] = frozenset()


def read_snapshot(source: BinaryIO, path: str) -> Snapshot:
    """What a zip says of itself; ``path`` is for messages. Raises `CorruptFileError`."""
    try:
        with zipfile.ZipFile(source) as archive, archive.open("metadata") as file:
            data = file.read(_LARGEST + 1)
        return _parsed(data)
    except (ValueError, KeyError, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise corrupt(path, error) from error
    except zipfile.BadZipFile as error:
        raise corrupt(path, error) from error


def empty_snapshot(families: Mapping[str, int], internal: Collection[str] = ()) -> bytes:
    """The zip of a store with these column families and no key; none of a store without them.

    ``internal`` are those that only Spark itself looks at, whose keys it counts apart.
    """
    return written_snapshot(Snapshot(families=families, internal=frozenset(internal)), {})


def written_snapshot(snapshot: Snapshot, small: Mapping[str, bytes]) -> bytes:
    """The zip that says ``snapshot``, with RocksDB's ``small`` files by their names."""
    document = {
        "sstFiles": [
            {
                "localFileName": each.local_name,
                "dfsSstFileName": each.name.removeprefix("SSTs/"),
                "sizeBytes": each.size,
            }
            for each in snapshot.shared
        ],
        "numKeys": snapshot.keys,
        "numInternalKeys": snapshot.internal_keys,
        "columnFamilyMapping": dict(snapshot.families),
        "columnFamilyTypeMap": {name: name in snapshot.internal for name in snapshot.families},
        "maxColumnFamilyId": max(snapshot.families.values(), default=0),
    }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        # The same state makes the same file, whenever it is made.
        for name, data in {**small, "metadata": f"v1\n{text}".encode()}.items():
            archive.writestr(zipfile.ZipInfo(name, _WHEN), data)
    return made.getvalue()


def _parsed(data: bytes) -> Snapshot:
    version, _, text = data.partition(b"\n")
    if len(data) > _LARGEST or version.strip() != b"v1":
        raise ValueError(f"metadata of {len(data):,} bytes, version {version[:20]!r}")
    document = parse_json(text)
    check_shape(document, _SHAPE)
    if not set(document) <= set(_SHAPE):
        raise ValueError(f"{', '.join(sorted(set(document) - set(_SHAPE)))[:200]} in metadata")
    return Snapshot(
        tuple(_shared(document)),
        document["numKeys"],
        document.get("numInternalKeys") or 0,
        document.get("columnFamilyMapping") or {},
        frozenset(n for n, own in (document.get("columnFamilyTypeMap") or {}).items() if own),
    )


def _shared(document: Mapping[str, Any]) -> list[SharedFile]:
    ssts = [("SSTs", each, "dfsSstFileName") for each in document["sstFiles"]]
    logs = [("logs", each, "dfsLogFileName") for each in document.get("logFiles") or ()]
    found = [
        SharedFile(f"{folder}/{each[name]}", each["localFileName"], each["sizeBytes"])
        for folder, each, name in ssts + logs
    ]
    for each in found:
        for name in (each.name.partition("/")[2], each.local_name):
            if not _NAME.fullmatch(name):
                raise ValueError(f"a file called {name[:100]!r}")
    return found
