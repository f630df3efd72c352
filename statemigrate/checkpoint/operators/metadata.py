"""What Spark notes of a stateful operator: ``state/<operator>/_metadata``.

Version 1 is one file, ``metadata``. Version 2, of ``transformWithState`` and newer joins, is a file
for each batch that changed something, ``v2/<batch>``, and names the files that hold the schemas of
the operator's stores **by absolute path**: a checkpoint that was copied or moved goes on pointing
into the place where it was written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlparse

from statemigrate.checkpoint.logs import batches_in, names_in
from statemigrate.checkpoint.operators.shapes import OperatorShape, PrefixScan, StoreShape
from statemigrate.errors import CheckpointError, UnsupportedError
from statemigrate.files import Files, check_shape, parse_json

LARGEST = 16 * 1024 * 1024
"""Bytes that such a file may have; Spark's have some hundred for a state variable."""
_MOST = 10_000
_SCHEMA = re.compile(r"(?P<root>.*)/(?P<below>state/[0-9]+/_stateSchema/[^/]+/[^/]+)")


@dataclass(frozen=True)
class OperatorFile:
    """A file of version 2: its ``path`` below the checkpoint, and its content."""

    path: str
    data: bytes

    @property
    def batch(self) -> int:
        """The batch in which it was written, the first of a run of the query."""
        return int(self.path.rpartition("/")[2])

    @property
    def operator_name(self) -> str:
        """Spark's name of the operator."""
        return _name(self.path, self.data)

    @property
    def roots(self) -> set[str]:
        """The checkpoints that it says its schema files are in, as URIs or paths."""
        return {schema_uri_parts(self.path, each)[0] for each in _schema_paths(self._document)}

    @property
    def schemas(self) -> tuple[str, ...]:
        """The schema files, below the checkpoint."""
        return tuple(schema_uri_parts(self.path, each)[1] for each in _schema_paths(self._document))

    @property
    def variables(self) -> frozenset[str] | None:
        """The names of the operator's state variables; None where it does not tell."""
        try:
            properties = parse_json(self._document["operatorPropertiesJson"])
            return frozenset(str(each["stateName"]) for each in properties["stateVariables"])
        except (ValueError, KeyError, TypeError):
            # Other operators have none; who reads the state itself says what is wrong.
            return None

    def declared_variables(self) -> frozenset[str]:
        """The names of the variables. Raises `CheckpointError` where it does not tell them."""
        if (found := self.variables) is None:
            raise _unknown(self.path, "no operatorPropertiesJson with stateVariables")
        return found

    def rooted_at(self, root: str) -> OperatorFile:
        """The same with every schema file in the checkpoint ``root``."""
        document = self._document
        for store in document["stateStoreInfo"]:
            paths = store.get("stateSchemaFilePaths", [])
            store["stateSchemaFilePaths"] = [
                f"{root}/{schema_uri_parts(self.path, p)[1]}" for p in paths
            ]
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
        return OperatorFile(self.path, f"v2\n{text}".encode())

    @property
    def _document(self) -> Any:
        version, _, text = self.data.partition(b"\n")
        try:
            document = parse_json(text)
            _schema_paths(document)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _unknown(self.path, f"{text[:60]!r}") from error
        if version != b"v2":
            raise _unknown(self.path, f"{version[:60]!r}")
        return document


def operator_files(
    files: Files, operator: int | None = None, until: int | None = None
) -> list[OperatorFile]:
    """The files of version 2 of all operators or of one, up to a batch, by operator and batch.

    Raises `CheckpointError` for one too large.
    """
    operators = batches_in(names_in(files, "state")) if operator is None else [operator]
    return [
        found
        for each in operators
        for batch in operator_runs(files, each)
        if (until is None or batch <= until)
        and (found := operator_file(files, each, batch)) is not None
    ]


def operator_runs(files: Files, operator: int) -> list[int]:
    """The batches, in order, for which an operator has a file of version 2."""
    directory = f"state/{operator}/_metadata/v2"
    batches = batches_in(names_in(files, directory))
    if len(batches) > _MOST:
        raise _unknown(directory, f"{len(batches)} files")
    return sorted(batches)


def operator_file(files: Files, operator: int, batch: int) -> OperatorFile | None:
    """An operator's file of version 2; None where it is gone.

    A running query removes those that newer ones have replaced.
    """
    path = f"state/{operator}/_metadata/v2/{batch}"
    with suppress(FileNotFoundError):
        return OperatorFile(path, _content(files, path))
    return None


def operator_names(files: Files) -> dict[int, str]:
    """Spark's names of the query's stateful operators, by number; none of a query without state.

    Raises `CheckpointError` for metadata that are not understood.
    """
    found = {}
    for operator in batches_in(names_in(files, "state")):
        directory = f"state/{operator}/_metadata"
        newest = [f"{directory}/v2/{each}" for each in operator_runs(files, operator)[-1:]]
        has_first = "metadata" in names_in(files, directory)
        for path in newest or ([f"{directory}/metadata"] if has_first else []):
            found[operator] = _name(path, _content(files, path))
    return found


def _name(path: str, data: bytes) -> str:
    try:
        return str(parse_json(data.partition(b"\n")[2])["operatorInfo"]["operatorName"])
    except (ValueError, KeyError, TypeError) as error:
        raise _unknown(path, f"{data[:60]!r}") from error


def schema_uri_parts(path: str, schema: str) -> tuple[str, str]:
    """The checkpoint that a schema file's URI says it is in, and the file's path below that.

    Raises `CheckpointError`, which names ``path``, for what is no place of a schema file.
    """
    found = _SCHEMA.fullmatch(schema)
    if found is None or {".", ".."} & set(found["below"].split("/")):
        raise _unknown(path, f"the schema file {schema[:200]!r}")
    return found["root"], found["below"]


def is_at(root: str, place: str) -> bool:
    """Whether two URIs or paths are certainly one place."""
    return _authority_and_path(root) == _authority_and_path(place)


def is_local(place: str) -> bool:
    """Whether a URI or path is of a local or mounted disk."""
    parsed = urlparse(place)
    return parsed.scheme in ("", "file") and not parsed.netloc


def _authority_and_path(text: str) -> tuple[str, str]:
    parsed = urlparse(text)
    scheme = "" if parsed.scheme == "file" else f"{parsed.scheme}://{parsed.netloc}"
    return (scheme if parsed.scheme else ""), "/" + parsed.path.strip("/")


def _content(files: Files, path: str) -> bytes:
    return files.get(path, most=LARGEST)


def _schema_paths(document: Any) -> list[str]:
    stores = document["stateStoreInfo"]
    return [str(path) for store in stores for path in store.get("stateSchemaFilePaths", [])]


def _unknown(path: str, found: str) -> CheckpointError:
    return CheckpointError(
        "SM-CHECKPOINT-012",
        f"{path} does not describe a stateful operator as Spark does",
        expected="version v2 and JSON that names schema files in state/<operator>/_stateSchema, "
        "in as many and as large files as Spark writes",
        found=found,
        next_action="look at the file; restore it from a copy of the checkpoint if it was altered",
        path=path,
    )


# The metadata of a stateful operator, read as a whole and written.
#
# Version 1, ``_metadata/metadata``, has the operator's name, its stores, and their partitions.
# Version 2, ``_metadata/v2/<batch>``, also has the schema files of each store, by absolute path,
# and properties that only the operator understands, as JSON in a text. A key that is not known is
# refused. Format: ``OperatorStateMetadata.scala`` of apache/spark.


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
    the schema file. ``reruns`` are schema files that the metadata do not name, below the
    checkpoint: of code that ran a batch again which other code had begun.
    """

    name: str
    prefix_columns: int
    partitions: int
    schemas: tuple[str, ...] = ()
    reruns: tuple[str, ...] = ()


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
        """The version of the format, by what is found."""
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
        raise _entries_unknown(path, "v1 or v2 in the first line", repr(first[:60]))
    try:
        document = parse_json(text)
        if version == _VERSION_2 and _is_of_a_preview(document):
            raise _preview(path)
        check_shape(document, _SHAPES[version])
        _check_keys(document, version)
    except ValueError as error:
        raise _entries_unknown(path, f"what version {version} says, as JSON", str(error)) from error
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
        raise _entries_unknown(path, "operatorPropertiesJson with an object", str(error)) from error
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
        next_action="start the query again on a release of Spark, with a new checkpoint",
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


def _entries_unknown(path: str, expected: str, found: str) -> CheckpointError:
    return CheckpointError(
        "SM-CHECKPOINT-012",
        f"{path} does not describe a stateful operator as Spark does",
        expected=expected,
        found=found,
        next_action="look at the file; restore it from a copy of the checkpoint if it was altered",
        path=path,
    )


# The metadata of an operator, as Spark would note them, from its shape.


FIRST_METADATA = "state/{}/_metadata/metadata"
"""Where those of version 1 are, by the operator's number."""


def entry_of(operator: OperatorShape, schemas: Mapping[str, str] | None = None) -> OperatorEntry:
    """The entry of ``operator``; for one of version 2 by store the URI of its schema file."""
    schemas = schemas or {}
    stores = tuple(
        StoreEntry(
            each.name,
            0 if schemas else _prefix(each),
            each.partitions,
            (schemas[each.name],) if schemas else (),
        )
        for each in operator.stores
    )
    text = None if not schemas else _json(operator.properties) if operator.properties else ""
    return OperatorEntry(operator.number, operator.name, stores, text)


def _json(properties: object) -> str:
    return json.dumps(properties, separators=(",", ":"), ensure_ascii=False)


def _prefix(store: StoreShape) -> int:
    encoder = store.families[0].encoder
    return encoder.columns if isinstance(encoder, PrefixScan) else 0
