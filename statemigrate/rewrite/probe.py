"""The schema probe: runs the new code on empty streams, so that Spark writes down what it keeps.

Runs the new code on empty streams, so that Spark itself writes down what it keeps.

An input is a folder with one empty file, from which Spark makes one batch without rows. In it every
stateful operator writes its metadata and the schemas of its stores. Nothing else is taken from the
checkpoint that this makes.
"""

from __future__ import annotations

import ast
import inspect
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from statemigrate.checkpoint import describe
from statemigrate.checkpoint.logs import files_taken, folders_in
from statemigrate.checkpoint.operators import OperatorShape
from statemigrate.deployment import VARIABLE_KINDS, Kind, Looking, only_looking
from statemigrate.errors import CodeError, FormatError, StatemigrateError
from statemigrate.files import Files, open_files
from statemigrate.formats import Struct
from statemigrate.formats.struct import quoted
from statemigrate.pages import BUCKET, SCHEMA, LargeValues, PagesRecord, declare, variable_of
from statemigrate.processor import reader_named
from statemigrate.rewrite.plan_settings import EFFECTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType


# The streams that a function takes, and what the rows of each are.
#
# The function is the user's: it turns its input streams into the result. A schema stands in the
# annotation of its parameter: ``Annotated[DataFrame, "id string, n int"]``, or the DDL alone. What
# the command line gives outranks it. A parameter for the Spark session is no stream: it gets the
# session.


Schema = Any
"""DDL text, or a ``StructType``."""
_SESSIONS = ("spark", "session", "spark_session")
"""The names by which a parameter without annotation is the Spark session."""


def input_schemas(
    function: Callable[..., Any], given: Mapping[str, Schema], reference: str
) -> dict[str, Schema]:
    """The schema of each stream, by the name of its parameter; one for every one that needs it.

    A parameter that is annotated with ``SparkSession``, or has no annotation and the name of one,
    is no stream. Raises `CodeError` for a stream without a schema, and for one that there
    is not.
    """
    every = _parameters(function, reference)
    sessions = {name for name in every if name not in given and _is_session(every[name])}
    parameters = {name: each for name, each in every.items() if name not in sessions}
    unknown = sorted(set(given) - set(parameters))
    if unknown:
        raise _error(
            "SM-CODE-007",
            reference,
            f"has no input {unknown[0]}",
            expected=", ".join(parameters) or "a parameter for each input stream",
            found=", ".join(unknown),
            next_action="name the input as the function's parameter is named",
        )
    names = getattr(inspect.unwrap(function), "__globals__", {})
    schemas = {name: given.get(name, _annotated(each, names)) for name, each in parameters.items()}
    missing = [name for name, schema in schemas.items() if schema is None]
    if missing or not schemas:
        raise _unsaid(reference, missing, sorted(sessions))
    return {name: _checked(schema, name, reference) for name, schema in schemas.items()}


def _parameters(function: Callable[..., Any], reference: str) -> dict[str, inspect.Parameter]:
    if not callable(function) or isinstance(function, type):
        raise _error(
            "SM-CODE-008",
            reference,
            "is no function",
            expected="a function from the input streams to the result",
            found=type(function).__name__,
            next_action="name the function that turns the input streams into the DataFrame which "
            "the query writes",
        )
    return _read(function)


def _read(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters that input streams are given to."""
    found = inspect.signature(function).parameters
    return {
        name: each
        for name, each in found.items()
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    }


def input_names(function: object) -> set[str]:
    """The names of the inputs that a function reads; none of what is no function."""
    found = _read(function) if callable(function) else {}
    return {name for name, each in found.items() if not _is_session(each)}


def session_parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the parameters that get the Spark session."""
    return tuple(name for name, each in _read(function).items() if _is_session(each))


def _is_session(parameter: inspect.Parameter) -> bool:
    """Whether a parameter is for the Spark session, by its annotation, or by its name alone."""
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return parameter.name in _SESSIONS
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return name.split(".")[-1] == "SparkSession"


def _annotated(parameter: inspect.Parameter, names: Mapping[str, Any]) -> Schema | None:
    annotation = parameter.annotation
    if isinstance(annotation, str):
        annotation = _evaluated(annotation, names)
    parts = get_args(annotation)[1:] or (annotation,)
    return next((each for each in parts if _is_schema(each)), None)


def _is_schema(part: object) -> bool:
    return isinstance(part, str) or type(part).__name__ == "StructType"


def _evaluated(annotation: str, names: Mapping[str, Any]) -> object:
    """What a postponed annotation says: the schema in it, as text or by a name of the module's."""
    try:
        expression = ast.parse(annotation, mode="eval").body
    except SyntaxError:
        return annotation  # the DDL itself
    hints = [
        each.value if isinstance(each, ast.Constant) else names.get(each.id)
        for each in ast.walk(expression)
        if isinstance(each, ast.Constant | ast.Name)
    ]
    # A name may be that of a whole annotation.
    hints += [part for each in hints for part in get_args(each)[1:]]
    return next((each for each in reversed(hints) if _is_schema(each)), None)


def _checked(schema: Schema, name: str, reference: str) -> Schema:
    if isinstance(schema, str):
        try:
            return Struct(schema).ddl
        except FormatError as error:
            raise _error(
                "SM-CODE-009",
                reference,
                f"has an input {name} whose schema is none",
                expected="DDL, as in order_id string, amount double, at timestamp",
                found=f"{schema!r}: {error.summary}",
                next_action=error.next_action or "correct the DDL",
            ) from error
    return schema


def _unsaid(reference: str, missing: list[str], sessions: list[str]) -> CodeError:
    if not missing:
        name = reference.rpartition(":")[2] or "query"
        stream = 'events: Annotated[DataFrame, "id string, amount double"]'
        return _error(
            "SM-CODE-010",
            reference,
            "takes no input stream",
            expected=f"a parameter for each input stream, as in def {name}({stream})",
            found=f"only {', '.join(sessions)}, which gets the Spark session"
            if sessions
            else "no parameter",
            next_action="let the function take its streams, and open them where it is called; or "
            "let the new code run on a little input and give its checkpoint with --like",
        )
    name = missing[0]
    return _error(
        "SM-CODE-011",
        reference,
        f"does not say what the rows of {', '.join(missing)} are",
        expected=f'{name}: Annotated[DataFrame, "order_id string, amount double, at timestamp"]',
        found=f"no schema of {name}",
        next_action=f'annotate the parameter so, or add --input {name}="..."',
    )


def _error(
    code: str, reference: str, problem: str, *, expected: object, found: object, next_action: str
) -> CodeError:
    return CodeError(
        code,
        f"{reference} {problem}",
        expected=expected,
        found=found,
        next_action=next_action,
        reference=reference,
    )


_MODES = ("append", "update", "complete")
_TOO_LONG = 300.0  # seconds
_PARTITIONS = "spark.sql.shuffle.partitions"


@contextmanager
def probe_folder() -> Iterator[Path]:
    """A temporary folder for a probe.

    A query that has ended may still write there: Spark's maintenance of state stores runs by its
    own clock. So what cannot be removed at once is removed again, and is no error.
    """
    with tempfile.TemporaryDirectory(
        prefix="statemigrate-probe-", ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)
    shutil.rmtree(folder, ignore_errors=True)


def run_probe(
    function: Callable[..., Any],
    folder: Path,
    spark: SparkSession,
    *,
    inputs: Mapping[str, Schema] | None = None,
    mode: str | None = None,
    conf: Mapping[str, str] | None = None,
    look: Callable[[DataFrame, str], None] | None = None,
) -> Path:
    """Run the ``function`` in an empty ``folder``; return the checkpoint that it made.

    ``inputs`` and ``conf`` are those of `call_on_empty_streams`, ``mode`` and ``look`` those of
    `run_once`. Raises as both.
    """
    name = getattr(function, "__qualname__", repr(function))
    made, _ = call_on_empty_streams(
        function, folder, spark, inputs=inputs, conf=conf, reference=name
    )
    return run_once(made, folder, mode=mode, reference=name, look=look)


def run_once(
    made: Any,
    folder: Path,
    *,
    mode: str | None,
    reference: str,
    look: Callable[[DataFrame, str], None] | None,
) -> Path:
    """Run what a function has made of empty streams in ``folder``; return its checkpoint.

    The stream is given to ``look`` with its output mode once the query has run its batch. ``mode``
    is that mode, the first that Spark takes unless given. Raises `CodeError` for what is no stream,
    and where it fails.
    """
    checkpoint, result = folder / "checkpoint", _stream(made, reference)
    query, taken = _started(result, checkpoint, (mode,) if mode else _MODES, reference)
    try:
        _first_batch(query, checkpoint, reference)
        if look is not None:
            look(result, taken)
    finally:
        query.stop()
    return checkpoint


def call_on_empty_streams(
    function: Callable[..., Any],
    folder: Path,
    spark: SparkSession,
    *,
    inputs: Mapping[str, Schema] | None = None,
    conf: Mapping[str, str] | None = None,
    sources: Sequence[str] = (),
    reference: str = "",
) -> tuple[Any, Looking]:
    """What the ``function`` makes of empty streams, and what it asks of our functions.

    ``inputs`` has schemas by the names of the function's parameters, see `input_schemas`, and
    ``conf`` settings as they are pinned to the query. ``sources`` are the names of the query's
    sources, which the streams get too. The streams read from the empty ``folder``, and code of ours
    takes ``folder/checkpoint`` for the query's. Raises `CodeError` for what is no such function,
    and where it fails.
    """
    schemas = input_schemas(function, inputs or {}, reference)
    session = _session(spark, conf or {})
    names = _source_names(schemas, sources)
    streams = {
        each: _empty(session, schemas[each], folder / "in" / each, names[each]) for each in schemas
    }
    sessions = dict.fromkeys(_read(function).keys() - schemas.keys(), session)
    with only_looking((folder / "checkpoint").as_uri()) as looking:
        try:
            made = function(**streams, **sessions)
        except StatemigrateError:
            # It says what is wrong and what to do.
            raise
        except Exception as cause:
            raise _failed(
                "SM-CODE-013", reference, "does not run on empty streams", cause
            ) from cause
    return made, looking


def probed_inputs(files: Files) -> dict[str, str]:
    """The parameter that each source of a checkpoint which `run_probe` has made stands for."""
    return {
        source: path.split("/")[-2]
        for source in folders_in(files, "sources")
        for path in files_taken(files, source)
    }


def _session(spark: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    """One of its own, with the given one's settings that results depend on.

    The query runs with those that are pinned to the old one.
    """
    session, given = spark.newSession(), spark.conf.getAll
    for setting in EFFECTS:
        if setting in given:
            session.conf.set(setting, given[setting])
    for setting, value in conf.items():
        session.conf.set(setting, value)
    session.conf.set(_PARTITIONS, "1")
    return session


def _source_names(parameters: Iterable[str], sources: Sequence[str]) -> dict[str, str]:
    """By parameter the name of the source that it stands for.

    The names are given where the streams are made, which no function of them shows. A parameter
    stands for the source of its own name, and the only one that is left for the only source that is
    left.
    """
    names = {each: each for each in parameters}
    left = [each for each in names if each not in sources]
    others = [each for each in sources if each not in names]
    if len(left) == len(others) == 1:
        names[left[0]] = others[0]
    return names


def _empty(session: SparkSession, schema: Schema, folder: Path, name: str) -> DataFrame:
    folder.mkdir(parents=True)
    (folder / "empty.json").touch()
    return reader_named(session, name).schema(schema).json(folder.as_uri())


def _stream(result: Any, reference: str) -> DataFrame:
    if not getattr(result, "isStreaming", False):
        raise CodeError(
            "SM-CODE-012",
            f"{reference} returns no stream",
            expected="the streaming DataFrame that the query writes",
            found=type(result).__name__,
            next_action="return the DataFrame from the function, before writeStream",
            reference=reference,
        )
    found: DataFrame = result
    return found


def _started(
    result: DataFrame, checkpoint: Path, modes: tuple[str, ...], reference: str
) -> tuple[StreamingQuery, str]:
    """The query, and the first output mode that Spark takes."""
    from pyspark.errors import AnalysisException

    refused: AnalysisException | None = None
    for mode in modes:
        writer = result.writeStream.format("noop").outputMode(mode).trigger(availableNow=True)
        try:
            return writer.option("checkpointLocation", checkpoint.as_uri()).start(), mode
        except AnalysisException as error:
            # A query that one output mode is not for may be for another.
            refused = refused or error
    raise _failed(
        "SM-CODE-014", reference, f"is no query for output mode {' or '.join(modes)}", refused
    )


def _first_batch(query: StreamingQuery, checkpoint: Path, reference: str) -> None:
    """Wait for it: with timers in processing time there is no last one."""
    until = time.monotonic() + _TOO_LONG
    while not (checkpoint / "commits" / "0").exists():
        if not query.isActive:
            break
        if time.monotonic() > until:
            raise _failed(
                "SM-CODE-015", reference, f"takes more than {_TOO_LONG:g} seconds for no rows", None
            )
        time.sleep(0.05)
    error = query.exception()
    if error is not None or not (checkpoint / "commits" / "0").exists():
        raise _failed("SM-CODE-013", reference, "does not run on empty streams", error)


def _failed(code: str, reference: str, problem: str, cause: Exception | None) -> CodeError:
    return CodeError(
        code,
        f"{reference} {problem}",
        expected="a query that runs one batch without rows",
        found=None if cause is None else f"{type(cause).__name__}: {_without_plan(cause)}",
        next_action="correct the function, or let the new code run on a little input elsewhere and "
        "give its checkpoint with --like",
        reference=reference,
    )


def _without_plan(cause: Exception) -> str:
    """What Spark says, without the description of the query that it adds."""
    return str(cause).partition("\n=== Streaming Query ===")[0].rstrip()


# What Spark keeps of variables that are known, seen by running a processor that has just these.


Variable = tuple[str, Kind, Any, Any, int | None]
"""Its name, kind, type of values, that of a map's keys, and its time to live."""
_MOMENT = "statemigrate_moment"
_MODE_NAMES = ("EventTime", "ProcessingTime")


class Having(StatefulProcessor):
    """Has ``variables``, and does nothing with them."""

    def __init__(self, variables: tuple[Variable, ...]) -> None:
        self._variables = variables

    def init(self, handle: Any) -> None:
        """Declare them."""
        for name, kind, value, key, life in self._variables:
            VARIABLE_KINDS[kind].variable(handle, name, value, key, life)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: ARG002
        """Nothing comes of rows."""
        return iter(())

    def close(self) -> None:
        """Nothing is open."""


class HavingPages(StatefulProcessor):
    """Has what a paged query has in Spark's state, under the name of its operator."""

    def __init__(self, operator: str) -> None:
        self._operator = operator

    def init(self, handle: Any) -> None:
        """Declare it."""
        handle.getValueState(variable_of(self._operator), SCHEMA)
        LargeValues(handle, self._operator)
        declare(handle, self._operator)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: ARG002
        """Nothing comes of rows."""
        return iter(())

    def close(self) -> None:
        """Nothing is open."""


def operator_with(
    record: PagesRecord, like: OperatorShape, conf: Mapping[str, str], spark: SparkSession
) -> OperatorShape:
    """An operator with every family of a record as a variable, in the time mode of ``like``."""
    from pyspark.sql.types import StructType

    variables = tuple(
        (
            family.name,
            store.kind,
            family.format.struct_type(),
            None if store.user_key is None else StructType.fromJson(store.user_key),
            1 if name in record.expiring else None,
        )
        for name, store in record.stores.items()
        for family in store.families
    )
    key = StructType.fromJson(dict(record.key))
    return _probed(Having(variables), key, like, conf, spark)


def operator_with_pages(
    operator: str, like: OperatorShape, conf: Mapping[str, str], spark: SparkSession
) -> OperatorShape:
    """An operator that has pages, by its name, which may be empty."""
    from pyspark.sql.types import StructType

    return _probed(HavingPages(operator), StructType().add(BUCKET, "integer"), like, conf, spark)


def _probed(
    having: StatefulProcessor,
    key: StructType,
    like: OperatorShape,
    conf: Mapping[str, str],
    spark: SparkSession,
) -> OperatorShape:
    from pyspark.sql import functions as F  # noqa: N812

    properties = like.properties or {}
    time_mode = next((each for each in _MODE_NAMES if properties.get("timeMode") == each), "None")
    mode = str(properties.get("outputMode", "Update"))

    def query(rows: DataFrame) -> DataFrame:
        timed = rows
        if time_mode == _MODE_NAMES[0]:
            timed = rows.withColumn(_MOMENT, F.current_timestamp())
            timed = timed.withWatermark(_MOMENT, "0 seconds")
        grouped = timed.groupBy(*(quoted(name) for name in key.fieldNames()))
        return grouped.transformWithState(having, "nothing INT", mode, time_mode)

    with probe_folder() as folder:
        made = run_probe(query, folder, spark, inputs={"rows": key}, mode=mode.lower(), conf=conf)
        (found,) = describe(open_files(made.as_uri()), 0).operators
    partitions = like.stores[0].partitions
    stores = tuple(replace(each, partitions=partitions) for each in found.stores)
    return replace(found, number=like.number, stores=stores)
