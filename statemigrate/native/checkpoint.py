"""A query's checkpoint as Spark's own readers see it: state variables after the last batch.

Only public data sources are used: ``state-metadata`` and ``statestore``. Files are looked at
through ``pyarrow.fs``, so that a checkpoint may be on any file system it knows.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statemigrate.deployment import Kind
from statemigrate.errors import CheckpointError, StartupError
from statemigrate.files import whole_number
from statemigrate.formats.shape import shape_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

_KINDS: dict[str, Kind] = {"ValueState": "value", "ListState": "list", "MapState": "map"}
_VALUES = {"value": "value", "list": "list_element", "map": "user_map_value"}
_OPERATOR = "transformWithState"
_ESCAPED = frozenset(' "<>\\^`{|}%#?[]')
"""What Java's ``URI`` escapes in a path."""
_FUNCTION = "applyInPandasWithState"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The setting that names the state store, and the store that state variables need."""


@dataclass(frozen=True)
class Variable:
    """A state variable of ``transformWithState``: its name, its kind, whether values expire."""

    name: str
    kind: Kind
    expires: bool


class SparkCheckpoint:
    """The state of a query, read as of its last committed batch.

    ``path`` is the query's checkpoint directory; ``spark`` the session to read with, the active one
    unless given. With ``batch``, one that is still kept, that one is read instead. Raises
    `CheckpointError` for what is not such a checkpoint.
    """

    def __init__(
        self, path: str, spark: SparkSession | None = None, *, batch: int | None = None
    ) -> None:
        check_readable(path)
        self.path = path
        self._spark = spark or active_session(path)
        # Spark 4.1 looks for an endpoint here that only its query manager makes, when first asked.
        self._spark.streams  # noqa: B018
        self._batch = batch

    def last_batch(self) -> int | None:
        """The id of the last committed batch, None if nothing was committed yet."""
        from pyarrow import fs

        system, root = file_system(self.path)
        commits = fs.FileSelector(f"{root}/commits", allow_not_found=True)
        numbers = (whole_number(each.base_name) for each in system.get_file_info(commits))
        return max((number for number in numbers if number is not None), default=None)

    def variables(self, batch: int | None = None) -> dict[str, Variable]:
        """The state variables by name, as of the last batch or of an earlier one still kept."""
        found = self._operator(batch).get("stateVariables", [])
        return {
            each["stateName"]: Variable(
                each["stateName"], _KINDS[each["stateVariableType"]], each["ttlEnabled"]
            )
            for each in found
            if each["stateVariableType"] in _KINDS
        }

    def first_batch(self) -> int:
        """The id of the oldest batch whose metadata Spark still keeps."""
        return min(int(row.minBatchId) for row in self._metadata())

    def frame(self, variable: str) -> DataFrame:
        """A variable's entries: ``key``, the columns of its kind, ``partition_id``."""
        return (
            self._at(self._spark.read.format("statestore"))
            .option("stateVarName", variable)
            .load(self.path)
        )

    def entries(self, variable: Variable) -> DataFrame:
        """A variable's entries, whatever its kind: ``key``, ``value``, ``partition_id``.

        Of a map also ``user_key``. A list has a row an element, in the list's order.
        """
        value = _VALUES[variable.kind] + (".value" if variable.expires else "")
        user_key = ["user_map_key AS user_key"] if variable.kind == "map" else []
        frame = self.frame(variable.name)
        return frame.selectExpr("key", *user_key, f"{value} AS value", "partition_id")

    def envelopes(self) -> DataFrame | None:
        """The ``key``, ``value`` and ``partition_id`` of ``applyInPandasWithState`` state.

        ``value`` has the fields of the envelope. None for state of any other operator, and for
        state without an envelope. Keys that have only a timeout are left out.
        """
        mine = {row.operatorId for row in self._metadata() if row.operatorName == _FUNCTION}
        if len(mine) != 1:
            return None
        reader = self._at(self._spark.read.format("statestore"))
        kept = reader.option("operatorId", mine.pop()).load(self.path)
        held: Any = kept.schema["value"].dataType
        if "revision" not in held["groupState"].dataType.fieldNames():
            return None
        kept = kept.where("value.groupState IS NOT NULL")
        return kept.selectExpr("key", "value.groupState AS value", "partition_id")

    def is_empty(self, variable: str) -> bool:
        """Whether no key has a value in the variable."""
        return self.frame(variable).isEmpty()

    def value_schema(self, variable: Variable) -> StructType:
        """The type of a variable's values; of a list, of its elements."""
        schema: Any = self.frame(variable.name).schema[_VALUES[variable.kind]].dataType
        return schema["value"].dataType if variable.expires else schema  # type: ignore[no-any-return]

    def user_key(self, variable: Variable, declared: StructType | None) -> dict[str, Any] | None:
        """The type of a map's own key; as ``declared`` where that holds the same."""
        if variable.kind != "map":
            return None
        stored: Any = self.frame(variable.name).schema["user_map_key"].dataType
        # Nullability and metadata do not change what a key is.
        same = declared is not None and shape_of(declared) == shape_of(stored)
        return (declared if same and declared is not None else stored).jsonValue()

    def check_provider(self) -> None:
        """Raise `StartupError` unless the session keeps state in RocksDB, as Spark needs here."""
        provider = self._spark.conf.get(PROVIDER, "") or ""
        if "RocksDB" not in provider:
            raise StartupError(
                "transformWithState needs the RocksDB state store provider",
                expected=f"{PROVIDER} = {ROCKSDB}",
                found=provider or "Spark's default, which keeps state in files",
                next_action=f"set {PROVIDER} before the query starts; a checkpoint that was "
                "written by another provider cannot change it",
            )

    def grouping_key(self) -> StructType:
        """The type of the grouping key; without a field where no state is declared."""
        from pyspark.sql.types import StructType

        envelopes = self.envelopes()
        if envelopes is not None:
            return envelopes.schema["key"].dataType  # type: ignore[return-value]
        variable = next(iter(self.variables()), None)
        return StructType() if variable is None else self.key_schema(variable)

    def key_schema(self, variable: str) -> StructType:
        """The type of the grouping key."""
        return self.frame(variable).schema["key"].dataType  # type: ignore[return-value]

    def _metadata(self, batch: int | None = None) -> list[Any]:
        reader = self._at(self._spark.read.format("state-metadata"), batch)
        return reader.load(self.path).collect()

    def _at(self, reader: DataFrameReader, batch: int | None = None) -> DataFrameReader:
        chosen = self._batch if batch is None else batch
        return reader if chosen is None else reader.option("batchId", chosen)

    def _operator(self, batch: int | None) -> dict[str, Any]:
        rows = self._metadata(batch)
        names = sorted({row.operatorName for row in rows})
        mine = {row.operatorId: row for row in rows if row.operatorName.startswith(_OPERATOR)}
        if len(mine) != 1:
            raise CheckpointError(
                f"the state in {self.path} is not that of one transformWithState",
                expected="exactly one stateful operator transformWithState",
                found=", ".join(names) or "no stateful operator",
                next_action="check the path; a query with several needs each in a query of its own",
                path=self.path,
            )
        (row,) = mine.values()
        document: dict[str, Any] = json.loads(row.operatorProperties)
        return document


def check_readable(path: str) -> None:
    """Raise `CheckpointError` for a path that Spark's own state readers cannot open.

    They escape the path as a URI, and then look for a directory of the escaped name.
    """
    escaped = sorted(_ESCAPED & set(path))
    if escaped:
        raise CheckpointError(
            f"Spark's state readers cannot open {path}",
            expected="a checkpoint path without characters that a URI escapes",
            found=", ".join(map(repr, escaped)),
            next_action="move the stopped query's checkpoint to a directory of another name, or "
            "migrate by touch, without checkpoint=",
            path=path,
        )


def file_system(path: str) -> tuple[Any, str]:
    """The file system of a checkpoint, a path or URI, and the path within it.

    On a local one no link below the checkpoint is followed; see `ConfinedFiles`.
    """
    from pathlib import Path

    import pyarrow as pa
    from pyarrow import fs

    text = path if "://" in path or path.startswith("file:") else str(Path(path).absolute())
    try:
        system, root = fs.FileSystem.from_uri(text)
    except (pa.ArrowException, OSError) as error:
        raise CheckpointError(
            f"{path} cannot be opened",
            expected="a local path, or a URI of a file system that pyarrow knows",
            found=str(error),
            next_action="check the path, and that the file system can be reached from here",
            path=path,
        ) from error
    if system.type_name != "local":
        return system, root
    from statemigrate.files.confined_system import ConfinedFiles

    return fs.PyFileSystem(ConfinedFiles(root)), root


def replace_file(system: Any, path: str, data: bytes) -> None:
    """Write a file so that a reader sees the old content or the new one."""
    # A name that nobody can have foreseen, and taken.
    unfinished = f"{path}.{uuid.uuid4().hex}.new"
    with system.open_output_stream(unfinished) as stream:
        stream.write(data)
    system.move(unfinished, path)


def active_session(path: str) -> SparkSession:
    """The active session. Raises `CheckpointError` if there is none to read ``path`` with."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise CheckpointError(
            f"reading {path} needs a Spark session",
            expected="an active SparkSession",
            found="none",
            next_action="create the session before the processor is wrapped",
            path=path,
        )
    return session
