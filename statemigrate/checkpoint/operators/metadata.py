"""What Spark notes of a stateful operator: ``state/<operator>/_metadata``.

Version 1 is one file, ``metadata``. Version 2, of ``transformWithState`` and newer joins, is a file
for each batch that changed something, ``v2/<batch>``, and names the files that hold the schemas of
the operator's stores **by absolute path**: a checkpoint that was copied or moved goes on pointing
into the place where it was written.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlparse

from statemigrate.checkpoint.logs.offsets import batches_in, names_in
from statemigrate.errors import CheckpointError
from statemigrate.files import Files, parse_json

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
    def roots(self) -> set[str]:
        """The checkpoints that it says its schema files are in, as URIs or paths."""
        return {schema_place(self.path, each)[0] for each in _schema_paths(self._document)}

    @property
    def schemas(self) -> tuple[str, ...]:
        """The schema files, below the checkpoint."""
        return tuple(schema_place(self.path, each)[1] for each in _schema_paths(self._document))

    @property
    def variables(self) -> frozenset[str] | None:
        """The names of the operator's state variables; None where it does not tell."""
        try:
            properties = parse_json(self._document["operatorPropertiesJson"])
            return frozenset(str(each["stateName"]) for each in properties["stateVariables"])
        except (ValueError, KeyError, TypeError):
            # Other operators have none; who reads the state itself says what is wrong.
            return None

    def rooted_at(self, root: str) -> OperatorFile:
        """The same with every schema file in the checkpoint ``root``."""
        document = self._document
        for store in document["stateStoreInfo"]:
            paths = store.get("stateSchemaFilePaths", [])
            store["stateSchemaFilePaths"] = [
                f"{root}/{schema_place(self.path, p)[1]}" for p in paths
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


def operator_files(files: Files) -> list[OperatorFile]:
    """The files of version 2 of all operators. Raises `CheckpointError` for one too large."""
    paths = [
        path
        for operator in batches_in(names_in(files, "state"))
        for path in _files(files, f"state/{operator}/_metadata/v2")
    ]
    found = []
    for path in paths:
        # A running query removes those that newer ones have replaced.
        with suppress(FileNotFoundError):
            found.append(OperatorFile(path, _content(files, path)))
    return found


def known_variables(files: Files) -> frozenset[str] | None:
    """The state variables that any batch of the query was planned with; None if not all are told.

    Raises `CheckpointError` for metadata that are not understood.
    """
    # All there are: Spark before 4.0 has noted of none what it is.
    operators = set(batches_in(names_in(files, "state")))
    described = operator_files(files)
    told = {int(each.path.split("/")[1]): each.variables for each in described}
    if operators != set(told) or any(each.variables is None for each in described):
        return None
    return frozenset(name for each in described for name in each.variables or ())


def operator_names(files: Files) -> dict[int, str]:
    """Spark's names of the query's stateful operators, by number; none of a query without state.

    Raises `CheckpointError` for metadata that are not understood.
    """
    found = {}
    for operator in batches_in(names_in(files, "state")):
        directory = f"state/{operator}/_metadata"
        newest = _files(files, f"{directory}/v2")[-1:]
        has_first = "metadata" in names_in(files, directory)
        for path in newest or ([f"{directory}/metadata"] if has_first else []):
            found[operator] = _name(path, _content(files, path))
    return found


def _name(path: str, data: bytes) -> str:
    try:
        return str(parse_json(data.partition(b"\n")[2])["operatorInfo"]["operatorName"])
    except (ValueError, KeyError, TypeError) as error:
        raise _unknown(path, f"{data[:60]!r}") from error


def schema_place(path: str, schema: str) -> tuple[str, str]:
    """The checkpoint that a schema file's URI says it is in, and the file's path below that.

    Raises `CheckpointError`, which names ``path``, for what is no place of a schema file.
    """
    found = _SCHEMA.fullmatch(schema)
    if found is None or {".", ".."} & set(found["below"].split("/")):
        raise _unknown(path, f"the schema file {schema[:200]!r}")
    return found["root"], found["below"]


def is_at(root: str, place: str) -> bool:
    """Whether two URIs or paths are certainly one place."""
    return _place(root) == _place(place)


def is_local(place: str) -> bool:
    """Whether a URI or path is of a local or mounted disk."""
    parsed = urlparse(place)
    return parsed.scheme in ("", "file") and not parsed.netloc


def _place(text: str) -> tuple[str, str]:
    parsed = urlparse(text)
    scheme = "" if parsed.scheme == "file" else f"{parsed.scheme}://{parsed.netloc}"
    return (scheme if parsed.scheme else ""), "/" + parsed.path.strip("/")


def _files(files: Files, directory: str) -> list[str]:
    batches = batches_in(names_in(files, directory))
    if len(batches) > _MOST:
        raise _unknown(directory, f"{len(batches)} files")
    return [f"{directory}/{batch}" for batch in sorted(batches)]


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
