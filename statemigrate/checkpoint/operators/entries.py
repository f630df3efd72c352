"""The metadata of a stateful operator, read as a whole and written.

Version 1, ``_metadata/metadata``, has the operator's name, its stores, and their partitions.
Version 2, ``_metadata/v2/<batch>``, also has the schema files of each store, by absolute path, and
properties that only the operator understands, as JSON in a text. A key that is not known is
refused. Format: ``OperatorStateMetadata.scala`` of apache/spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from statemigrate.errors import CheckpointError, UnsupportedError
from statemigrate.files import parse_json
from statemigrate.files.documents.shapes import check_shape

_OPERATOR: dict[str, Any] = {"operatorId": int, "operatorName": str}
_STORE_1: dict[str, Any] = {"storeName": str, "numColsPrefixKey": int, "numPartitions": int}
_STORE_2 = {**_STORE_1, "stateSchemaFilePaths": [str]}
_SHAPES: dict[int, dict[str, Any]] = {
    1: {"operatorInfo": _OPERATOR, "stateStoreInfo": [_STORE_1]},
    2: {
        "operatorInfo": _OPERATOR,
        "stateStoreInfo": [_STORE_2],
        "operatorPropertiesJson": str,
    },
}


_VERSION_2 = 2
_OF_PREVIEWS = "stateSchemaFilePath"


@dataclass(frozen=True)
class StoreEntry:
    """A store of an operator: ``schemas`` are the URIs of its schema files, oldest first.

    ``prefix_columns`` is how many columns of a key are its prefix; version 2 has 0, and says it in
    the schema file.
    """

    name: str
    prefix_columns: int
    partitions: int
    schemas: tuple[str, ...] = ()


@dataclass(frozen=True)
class OperatorEntry:
    """The metadata of operator ``number``; ``properties`` is version 2's JSON text.

    Spark before 4.0 ``noted`` none.
    """

    number: int
    name: str
    stores: tuple[StoreEntry, ...]
    properties: str | None = None
    noted: bool = True

    @property
    def version(self) -> int:
        """The version of the format, by what is to be said."""
        return 1 if self.properties is None else 2

    @property
    def data(self) -> bytes:
        """The file as Spark writes it."""
        document: dict[str, Any] = {
            "operatorInfo": {"operatorId": self.number, "operatorName": self.name},
            "stateStoreInfo": [self._store(each) for each in self.stores],
        }
        if self.properties is not None:
            document["operatorPropertiesJson"] = self.properties
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
        return f"v{self.version}\n{text}".encode()

    def _store(self, store: StoreEntry) -> dict[str, Any]:
        document: dict[str, Any] = {
            "storeName": store.name,
            "numColsPrefixKey": store.prefix_columns,
            "numPartitions": store.partitions,
        }
        if self.version == 2:
            document["stateSchemaFilePaths"] = list(store.schemas)
        return document


def parse_operator(data: bytes, path: str) -> OperatorEntry:
    """Read a metadata file of either version.

    Raises `CheckpointError` for a layout that is not known.
    """
    first, _, text = data.partition(b"\n")
    version = {b"v1": 1, b"v2": 2}.get(first.strip())
    if version is None:
        raise _unknown(path, "v1 or v2 in the first line", repr(first[:60]))
    try:
        document = parse_json(text)
        if version == _VERSION_2 and _is_of_a_preview(document):
            raise _preview(path)
        check_shape(document, _SHAPES[version])
        _check_keys(document, version)
    except ValueError as error:
        raise _unknown(path, f"what version {version} says, as JSON", str(error)) from error
    info = document["operatorInfo"]
    return OperatorEntry(
        info["operatorId"],
        info["operatorName"],
        tuple(map(_store_entry, document["stateStoreInfo"])),
        document.get("operatorPropertiesJson"),
    )


def parse_properties(entry: OperatorEntry, path: str) -> Mapping[str, Any] | None:
    """The properties of version 2. Raises `CheckpointError` where they are no JSON object."""
    if entry.properties is None:
        return None
    try:
        found = parse_json(entry.properties) if entry.properties else {}
        check_shape(found, dict[str, Any]())
    except ValueError as error:
        raise _unknown(path, "operatorPropertiesJson with an object", str(error)) from error
    properties: Mapping[str, Any] = found
    return properties


def _is_of_a_preview(document: Any) -> bool:
    """Whether it has the one path for each store that previews of Spark 4.0 had."""
    stores = document.get("stateStoreInfo") if isinstance(document, dict) else None
    return isinstance(stores, list) and any(
        isinstance(each, dict) and _OF_PREVIEWS in each for each in stores
    )


def _preview(path: str) -> UnsupportedError:
    return UnsupportedError(
        "SM-STATE-005",
        f"{path} was written by a preview of Spark 4.0, whose state no release reads",
        expected="stateSchemaFilePaths, as Spark 4.0.0 and newer write",
        found=_OF_PREVIEWS,
        next_action="start the query anew on a release of Spark, with a new checkpoint",
        path=path,
    )


def _store_entry(document: Mapping[str, Any]) -> StoreEntry:
    return StoreEntry(
        document["storeName"],
        document["numColsPrefixKey"],
        document["numPartitions"],
        tuple(document.get("stateSchemaFilePaths", ())),
    )


def _check_keys(document: dict[str, Any], version: int) -> None:
    shape = _SHAPES[version]
    parts = [(document, shape), (document["operatorInfo"], shape["operatorInfo"])]
    parts += [(each, shape["stateStoreInfo"][0]) for each in document["stateStoreInfo"]]
    for part, known in parts:
        foreign = sorted(set(part) - set(known))
        if foreign:
            raise ValueError(f"{', '.join(foreign)[:200]} beside {', '.join(known)}")


def _unknown(path: str, expected: str, found: str) -> CheckpointError:
    return CheckpointError(
        "SM-CHECKPOINT-012",
        f"{path} does not describe a stateful operator as Spark does",
        expected=expected,
        found=found,
        next_action="look at the file; restore it from a copy of the checkpoint if it was altered",
        path=path,
    )
