"""A query's checkpoint as Spark's own readers see it: state variables after the last batch.

Operators, variables and their types are read from the checkpoint's own
files, a file once; what they hold is read through Spark's public data source ``statestore``. Each
use of that lists and reads all metadata again, some forty requests to an object store, so there is
one for a variable that must be counted or read, and none else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.checkpoint.logs import (
    FILE_IDS,
    PROVIDER,
    ROCKSDB_PROVIDER,
    batches_in,
    names_in,
    read_commit,
    read_entry,
)
from statemigrate.checkpoint.operators import (
    FIRST_METADATA,
    FamilySchema,
    OperatorEntry,
    OperatorFile,
    PrefixScan,
    entry_of,
    is_local,
    operator_files,
    read_operator,
    read_operator_entry,
    read_schemas,
)
from statemigrate.deployment import VARIABLE_KINDS
from statemigrate.errors import CheckpointError, StartupError, UnsupportedError
from statemigrate.files import Files, Remembered, open_files
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType
from statemigrate.native.moved import check_readable, moved, readable_uri
from statemigrate.native.operators import (
    FUNCTION,
    Operator,
    T,
    Variable,
    Which,
    check_names,
    check_operator,
    only,
    operators_in,
    several,
)

# Of which types a query's state variables are, as the checkpoint's own files say.


@dataclass(frozen=True)
class VariableTypes:
    """The grouping ``key``, the ``value`` (of a list an element), and of a map its ``user_key``."""

    key: StructType
    value: StructType
    user_key: StructType | None


def entries_at(files: Files, batch: int, *, as_listed: bool = True) -> list[OperatorEntry]:
    """The metadata of all operators as of a batch, by number.

    With variables that Spark does not list where not ``as_listed``. Raises `CheckpointError` where
    metadata are missing or not understood.
    """
    numbers = sorted(batches_in(names_in(files, "state")))
    conf = _Pinned(files, batch)
    return [
        read_operator_entry(files, each, batch, conf, as_listed=as_listed)[0] for each in numbers
    ]


def metadata_without(files: Files, batch: int) -> dict[str, bytes]:
    """The operators' metadata that Spark before 4.0 did not write, by their paths.

    Those alone that Spark's state reader cannot do without: of keys that it finds by a prefix.
    """
    conf = _Pinned(files, batch)
    entries = [each for each in entries_at(files, batch) if not each.noted]
    shapes = [read_operator(files, each.number, batch, conf, each.name) for each in entries]
    return {
        FIRST_METADATA.format(each.number): entry_of(each).data
        for each in shapes
        if any(isinstance(f.encoder, PrefixScan) for store in each.stores for f in store.families)
    }


class _Pinned(Mapping[str, str]):
    """The settings that are pinned to a batch; its entry is read where one is asked for."""

    def __init__(self, files: Files, batch: int) -> None:
        self._files = files
        self._batch = batch

    @cached_property
    def _conf(self) -> Mapping[str, str]:
        return read_entry(self._files, self._batch).conf

    def __getitem__(self, name: str) -> str:
        return self._conf[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._conf)

    def __len__(self) -> int:
        return len(self._conf)


def types_of(files: Files, entry: OperatorEntry, variable: Variable) -> VariableTypes:
    """The types of one of an operator's variables.

    Raises `CheckpointError` where a schema file is missing, not understood or not of the variable.
    """
    found = _schema(files, entry, variable.name)
    key, value = _struct(found.key), _struct(found.value)
    has_user_key = VARIABLE_KINDS[variable.kind].has_user_key
    return VariableTypes(
        key[0].dataType if has_user_key else key,  # type: ignore[arg-type]
        value["value"].dataType if variable.expires else value,  # type: ignore[arg-type]
        None if found.user_key is None or not has_user_key else _struct(found.user_key),
    )


def _schema(files: Files, entry: OperatorEntry, variable: str) -> FamilySchema:
    found = [each for store in entry.stores for each in read_schemas(files, entry, store)]
    for each in found:
        if each.name == variable:
            return each
    raise CheckpointError(
        "SM-STATE-031",
        f"the schema files of operator {entry.number} do not tell of its variable {variable}",
        expected=f"the schema of {variable}, which the operator's metadata name",
        found=", ".join(sorted(each.name for each in found)) or "no schema",
        next_action="restore state/ from a copy of the checkpoint; Spark reads these files too",
        path=files.location,
    )


def _struct(schema: object) -> StructType:
    from pyspark.sql.types import StructType

    return StructType.fromJson(schema)  # type: ignore[arg-type]


class SparkCheckpoint:
    """The state of a query, read as of its last committed batch.

    ``path`` is the query's checkpoint directory; ``spark`` the session to read with, the active one
    unless given. With ``batch``, one that is still kept, that one is read instead. ``operator`` is
    Spark's number of the stateful operator that is meant, or the name of one on pages, where
    several could be; of several processors the one on pages is, unless ``paged`` is False.
    ``files`` are those of the checkpoint, where they were looked at before: one of these is for one
    moment. Raises `CheckpointError` for what is not such a checkpoint.
    """

    def __init__(
        self,
        path: str,
        spark: SparkSession | None = None,
        *,
        batch: int | None = None,
        operator: Which = None,
        paged: bool = True,
        files: Remembered | None = None,
    ) -> None:
        check_readable(path)
        self.path = path
        self._spark = spark or active_session(path)
        self.files = files or Remembered(open_files(path, self._spark))
        # Spark 4.1 looks for an endpoint here that only its query manager makes, when first asked.
        self._spark.streams  # noqa: B018
        self._batch = batch
        self._operator = operator
        self._paged = paged
        self._frames: dict[str, DataFrame] = {}

    def last_batch(self) -> int | None:
        """The id of the last committed batch, None if nothing was committed yet."""
        return max(batches_in(names_in(self.files, "commits")), default=None)

    def committed_batch(self) -> int:
        """The id of the last committed batch. Raises `CheckpointError` before the first."""
        return CheckpointDirectory(self.files, self.path).require_commit()

    def operators(self, batch: int | None = None) -> tuple[Operator, ...]:
        """The query's stateful operators, as of the last batch or of an earlier one still kept.

        Raises `CheckpointError` where the files do not tell.
        """
        return operators_in(self._entries(batch))

    def processor(self, batch: int | None = None) -> Operator:
        """The ``transformWithState`` that is meant.

        Raises `CheckpointError` where there is none, or where it is not clear which.
        """
        found = self.operators(batch)
        return only(self.path, found, self._processors(found), self._operator)

    def _processors(self, operators: Sequence[Operator]) -> list[Operator]:
        """The candidates: pages, which no other code reads, are recognised by their name."""
        processors = [each for each in operators if each.is_processor]
        if self._operator is not None:
            return processors
        return [each for each in processors if each.is_paged == self._paged] or processors

    @property
    def is_paged(self) -> bool:
        """Whether the operator that is meant keeps pages."""
        meant = [each for each in self.operators() if each.is_meant(self._operator)]
        return self._paged and any(each.is_paged for each in meant)

    def variables(self, batch: int | None = None) -> dict[str, Variable]:
        """The state variables by name, as of the last batch or of an earlier one still kept."""
        return dict(self.processor(batch).variables)

    def frame(self, variable: str) -> DataFrame:
        """A variable's entries: ``key``, the columns of its kind, ``partition_id``."""
        if variable not in self._frames:
            reader = self._state(self._processor_id).option("stateVarName", variable)
            self._frames[variable] = reader.load(self._readable_uri())
        return self._frames[variable]

    def _readable_uri(self) -> str:
        """Where Spark finds this very checkpoint's files, though it may be a copy of another."""
        missing = metadata_without(self.files, self._chosen_batch)
        return readable_uri(self.files, self.path, self._reading, missing)

    @cached_property
    def _processor_id(self) -> int:
        return self.processor().id

    def _state(self, operator: int) -> DataFrameReader:
        return self._at(self._reading.read.format("statestore")).option("operatorId", operator)

    @cached_property
    def _reading(self) -> SparkSession:
        """A session that finds the state's files: a commit says whether they have ids."""
        has_ids = read_commit(self.files, self._chosen_batch).state_ids is not None
        return session_with(self._spark, FILE_IDS, "2" if has_ids else "1")

    def entries(self, variable: Variable) -> DataFrame:
        """A variable's entries, whatever its kind: ``key``, ``value``, ``partition_id``.

        Of a map also ``user_key``. A list has a row an element, in the list's order.
        """
        kind = VARIABLE_KINDS[variable.kind]
        value = kind.reader_column + (".value" if variable.expires else "")
        user_key = ["user_map_key AS user_key"] if kind.has_user_key else []
        frame = self.frame(variable.name)
        return frame.selectExpr("key", *user_key, f"{value} AS value", "partition_id")

    def envelopes(self) -> DataFrame | None:
        """The ``key``, ``value`` and ``partition_id`` of ``applyInPandasWithState`` state.

        ``value`` has the fields of the envelope. None for state of any other operator, and for
        state without an envelope. Keys that have only a timeout are left out. Raises
        `CheckpointError` where it is not clear which operator is meant.
        """
        return self._only_envelopes(lambda each: [self._function_state(each)], _has_envelopes)

    def _only_envelopes(
        self, state_of: Callable[[Operator], Iterable[T]], has_envelopes: Callable[[T], bool]
    ) -> T | None:
        """The one state of a function that is in envelopes; None without any.

        Raises `CheckpointError` where another operator could be meant as well.
        """
        meant = [each for each in self.operators() if each.is_meant(self._operator)]
        found = [
            (each, state)
            for each in meant
            if each.is_function
            for state in state_of(each)
            if has_envelopes(state)
        ]
        if not found:
            return None
        processors = [each for each in meant if each.is_processor]
        if len(found) + len(processors) > 1:
            raise several(self.path, [*processors, *(each for each, _ in found)])
        return found[0][1]

    def function_state(self) -> DataFrame:
        """The ``key``, ``value`` and ``partition_id`` of the ``applyInPandasWithState`` meant.

        ``value`` is what the function keeps, an envelope or not. Raises as `processor`.
        """
        found = self.operators()
        fitting = [each for each in found if each.is_function]
        return self._function_state(only(self.path, found, fitting, self._operator, FUNCTION))

    def _function_state(self, function: Operator) -> DataFrame:
        rows = (
            self._state(function.id)
            .load(self._readable_uri())
            .where("value.groupState IS NOT NULL")
        )
        return rows.selectExpr("key", "value.groupState AS value", "partition_id")

    def at(self, batch: int) -> SparkCheckpoint:
        """The same as of an earlier batch."""
        return SparkCheckpoint(
            self.path,
            self._spark,
            batch=batch,
            operator=self._operator,
            paged=self._paged,
            files=self.files,
        )

    def column_families(self) -> frozenset[str] | None:
        """The column families of the processor, those included that Spark does not list.

        See `statemigrate.native.listing.column_families`.
        """
        batch = self.committed_batch() if self._batch is None else self._batch
        # It reads stores with Arrow, which takes a while to load.
        from statemigrate.native.listing import column_families

        return column_families(self.files, batch, self._processor_id)

    def is_empty(self, variable: str) -> bool:
        """Whether no key has a value in the variable."""
        return self.frame(variable).isEmpty()

    def is_surely_empty(self, variable: str) -> bool:
        """Whether it was read and is empty; False for what Spark does not keep any more."""
        from statemigrate.files import JAVA_ERRORS

        try:
            return self.is_empty(variable)
        except (*JAVA_ERRORS, CheckpointError, UnsupportedError):
            # What was not read is never empty: callers take it for full.
            return False

    def types(self, variable: Variable) -> VariableTypes:
        """The types of a variable's values, elements and keys."""
        entry = next(e for e in self._entries() if e.number == self._processor_id)
        return types_of(self.files, entry, variable)

    def check_provider(self) -> None:
        """Raise `StartupError` unless the session keeps state in RocksDB, as Spark needs here."""
        provider = self._spark.conf.get(PROVIDER, "") or ""
        if "RocksDB" not in provider:
            raise StartupError(
                "SM-START-020",
                "transformWithState needs the RocksDB state store provider",
                expected=f"{PROVIDER} = {ROCKSDB_PROVIDER}",
                found=provider or "Spark's default, which keeps state in files",
                next_action=f"set {PROVIDER} before the query starts; a checkpoint that was "
                "written by another provider is rewritten: `statemigrate rewrite "
                f"{argument(self.path)} NEW --provider rocksdb`, with --code for "
                "transformWithState in a function's place",
            )

    def check_not_moved(self) -> None:
        """Raise `CheckpointError` for one that was moved, so that Spark starts no query on it."""
        newest: dict[str, OperatorFile] = {}
        for file in operator_files(self.files):
            newest[file.path.rpartition("/")[0]] = file
        for file in newest.values():
            # Nothing is asked of a remote place that a file in the checkpoint names.
            for place in filter(is_local, file.roots):
                named = open_files(place if place.startswith("file:") else f"file:{place}")
                missing = [name for name in file.schemas if not _is_file(named, name)]
                if missing:
                    raise moved(self.path, place, missing[0])

    def check_names(self, stores: Sequence[str]) -> None:
        """Raise `StartupError` where another operator of the query has a store of one name."""
        if self.last_batch() is not None:
            found = self.operators()
            fitting = [each for each in found if each.is_processor]
            own_operator = only(self.path, found, self._processors(found), self._operator)
            check_names(self.path, own_operator, fitting, stores)

    def check_operator(self, declared: Sequence[str]) -> None:
        """Raise `StartupError` where ``operator=`` is not the one that has what code declares."""
        if self.last_batch() is not None and self._operator is not None:
            found = [each for each in self.operators() if each.is_processor]
            own_operator = only(self.path, found, found, self._operator)
            check_operator(self.path, own_operator, found, declared)

    def grouping_key(self) -> StructType:
        """The type of the grouping key; without a field where no state is declared."""
        from pyspark.sql.types import StructType

        envelopes = self.envelopes()
        if envelopes is not None:
            return envelopes.schema["key"].dataType  # type: ignore[return-value]
        variable = next(iter(self.variables().values()), None)
        return StructType() if variable is None else self.types(variable).key

    def _entries(self, batch: int | None = None) -> list[OperatorEntry]:
        return entries_at(self.files, self._chosen_batch if batch is None else batch)

    @property
    def _chosen_batch(self) -> int:
        return self.committed_batch() if self._batch is None else self._batch

    def _at(self, reader: DataFrameReader) -> DataFrameReader:
        return reader if self._batch is None else reader.option("batchId", self._batch)


def _is_file(files: Files, name: str) -> bool:
    found = files.find(name)
    return found is not None and found.kind == "file"


def _has_envelopes(held: DataFrame) -> bool:
    value: Any = held.schema["value"].dataType
    return "revision" in value.fieldNames()


def session_with(spark: SparkSession, name: str, value: str) -> SparkSession:
    """The session itself where a setting of it has this value, else another with all its others."""
    if _setting(spark, name) == value:
        return spark
    made = spark.newSession()
    for known, held in spark.conf.getAll.items():
        if spark.conf.isModifiable(known):
            made.conf.set(known, held)
    made.conf.set(name, value)
    return made


def _setting(spark: SparkSession, name: str) -> str | None:
    """The value of a setting, Spark's default where none was set; None where Spark has no such."""
    from pyspark.errors import PySparkException

    try:
        return spark.conf.get(name)
    except PySparkException:
        return None


def active_session(path: str) -> SparkSession:
    """The active session. Raises `CheckpointError` if there is none to read ``path`` with."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise CheckpointError(
            "SM-STATE-028",
            f"reading {path} needs a Spark session",
            expected="an active SparkSession",
            found="none",
            next_action="create a SparkSession first",
            path=path,
        )
    return session
