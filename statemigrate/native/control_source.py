"""The backfill source: a second source of the query, that names keys whose state is to be migrated.

It stays in the query for good, and costs one listing of a small directory a batch while there is
nothing to backfill: files of committed batches are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.logs import Offsets, file_offset, lines_of_folders, taken_until
from statemigrate.deployment import gets_source, is_on_copy, query_checkpoint
from statemigrate.errors import CheckpointError, StartupError, UnsupportedError
from statemigrate.files import Files
from statemigrate.formats.struct import quoted
from statemigrate.native.adoption_files import newest_adoption
from statemigrate.native.checkpoint import SparkCheckpoint
from statemigrate.native.chunks import CHUNKS, MADE, ChunkFiles, has_keys, paged_in
from statemigrate.native.control_rows import MARKER
from statemigrate.native.deployed_variables import DEPLOYED, Deployed
from statemigrate.native.deployment_check import call_of
from statemigrate.native.moved import check_source_path
from statemigrate.native.operators import Which
from statemigrate.processor import reader_named
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

Compare = Callable[["DataFrame", str], None]
"""Gets the output of an operator with its output mode, and may refuse them."""


# The stream with the backfill source: control rows reach a migrated processor, and nobody else.
#
# To code without `migrated` a control row is a row of its key with nothing in it. So the stream
# that `with_backfill` returns has the rows only where it is grouped for code that knows them. Code
# that does not gets the user's own columns and rows; the source stays in the query, as Spark
# demands. Any other way that a control row takes out of here ends the query with an error.


_LET_THROUGH = (
    "a control row of statemigrate left the stream of with_backfill by another way than groupBy "
    "and transformWithState, transformWithStateInPandas or applyInPandasWithState. Call "
    "with_backfill last, right before groupBy; then start the query again"
)


def gated(
    stream: DataFrame,
    control: DataFrame,
    check: Callable[[Any], None],
    welcome: Callable[[Any], None],
    compare: Compare | None = None,
) -> DataFrame:
    """The union of both, ``stream`` first.

    ``check`` is given the processor or function where it is no migrated one, and may refuse it;
    ``welcome`` is given a migrated one. ``compare`` is given the output of a migrated operator
    with its output mode, and may refuse them.
    """
    from pyspark.sql import functions

    refused = control.where(functions.raise_error(_LET_THROUGH).isNull())
    return _Gate(stream.union(control), check, welcome, compare).on(stream.union(refused))


def is_migrated(code: Any) -> bool:
    """Whether a processor or function tells control rows from the user's own."""
    from statemigrate.native.functions import MigratedFunction

    return isinstance(code, MigratedFunction) or DEPLOYED in getattr(code, "__dict__", {})


class _Gate:
    """The open stream, behind one that lets no control row pass."""

    def __init__(
        self,
        stream: DataFrame,
        check: Callable[[Any], None],
        welcome: Callable[[Any], None],
        compare: Compare | None,
    ) -> None:
        self.stream = stream
        self.check = check
        self.welcome = welcome
        self.compare = compare

    def on(self, closed: DataFrame) -> DataFrame:
        """``closed``, which opens where it is grouped for code that knows control rows."""
        # A class of this one object's own; nobody else's DataFrames change.
        base: Any = type(closed)
        kind = type(base.__name__, (_GatedStream, base), {"_statemigrate_gate": self})
        closed.__class__ = kind
        return closed

    def then(self, change: Callable[[DataFrame], DataFrame]) -> _Gate:
        """The same gate on a changed stream."""
        return _Gate(change(self.stream), self.check, self.welcome, self.compare)

    def harmless(self) -> DataFrame:
        """The user's own columns and rows."""
        return self.stream.where(f"{MARKER} IS NULL").drop(MARKER)

    def stream_for(self, code: Any) -> DataFrame:
        """What ``code`` gets to see."""
        if is_migrated(code):
            self.welcome(code)
            return self.stream
        self.check(code)
        return self.harmless()


class _GatedStream:
    """A ``DataFrame`` behind a gate."""

    _statemigrate_gate: _Gate

    def groupBy(self, *columns: Any) -> Any:
        """See ``DataFrame.groupBy``."""
        grouped = super().groupBy(*columns)  # type: ignore[misc]
        base: Any = type(grouped)
        grouped.__class__ = type(base.__name__, (_GatedGroups, base), {})
        grouped._statemigrate_gate, grouped._statemigrate_columns = self._statemigrate_gate, columns
        return grouped

    groupby = groupBy

    def withWatermark(self, eventTime: str, delayThreshold: str) -> Any:
        """See ``DataFrame.withWatermark``."""
        closed = super().withWatermark(eventTime, delayThreshold)  # type: ignore[misc]
        gate = self._statemigrate_gate
        return gate.then(lambda stream: stream.withWatermark(eventTime, delayThreshold)).on(closed)


class _GatedGroups:
    """``GroupedData`` behind a gate."""

    _statemigrate_gate: _Gate
    _statemigrate_columns: tuple[Any, ...]

    def transformWithState(self, statefulProcessor: Any, *rest: Any, **named: Any) -> Any:
        """See ``GroupedData.transformWithState``."""
        grouped = self._grouped_for(statefulProcessor)
        result = grouped.transformWithState(statefulProcessor, *rest, **named)
        return self._compared(statefulProcessor, result, _nth(1, "outputMode", rest, named))

    def transformWithStateInPandas(self, statefulProcessor: Any, *rest: Any, **named: Any) -> Any:
        """See ``GroupedData.transformWithStateInPandas``."""
        grouped = self._grouped_for(statefulProcessor)
        result = grouped.transformWithStateInPandas(statefulProcessor, *rest, **named)
        return self._compared(statefulProcessor, result, _nth(1, "outputMode", rest, named))

    def applyInPandasWithState(self, func: Any, *rest: Any, **named: Any) -> Any:
        """See ``GroupedData.applyInPandasWithState``."""
        result = self._grouped_for(func).applyInPandasWithState(func, *rest, **named)
        return self._compared(func, result, _nth(2, "outputMode", rest, named))

    def _compared(self, code: Any, result: DataFrame, mode: Any) -> DataFrame:
        compare = self._statemigrate_gate.compare
        # Other code gets a stream without control rows, by a filter that is not the user's.
        if compare is not None and is_migrated(code):
            compare(result, str(mode))
        return result

    def _grouped_for(self, code: Any) -> Any:
        stream = self._statemigrate_gate.stream_for(code)
        return stream.groupBy(*self._statemigrate_columns)


def _nth(position: int, name: str, rest: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """An argument of Spark's, which is given by position or by name."""
    return rest[position] if len(rest) > position else named.get(name)


# Whether a query has the backfill source, by its checkpoint alone.
#
# Spark goes on from a checkpoint only with as many sources as its offset log has lines, and says so
# with a bare assertion. Sources without names differ by their order alone, in which the
# backfill source is the last.


def require_control_source(files: ChunkFiles) -> None:
    """Raise `CheckpointError` for a query that has run without the backfill source.

    One that has no batch yet may get it with its first start, and one whose sources have names at
    any start.
    """
    offsets = files.offsets()
    if offsets is None or not lacks_control_source(files):
        return
    check_last_source(files, offsets)
    count = len(offsets.lines)
    raise CheckpointError(
        "SM-BACKFILL-008",
        f"the query of {files.checkpoint} has run without the backfill source",
        expected=f"{count + 1} sources in its offset log: the stream's {count} and the control "
        "source, which stateful and with_backfill add",
        found="one source"
        if count == 1
        else f"{count} sources, the backfill source not among them",
        next_action=gets_source(files.checkpoint, call_of(files.files)),
        path=files.checkpoint,
    )


def check_last_source(files: ChunkFiles, offsets: Offsets) -> None:
    """Raise `CheckpointError` where nothing shows whose the query's last source is.

    It may be the backfill source, whose directory is lost, and one more would be too many.
    """
    if not is_last_source_unknown(files, offsets):
        return
    raise CheckpointError(
        "SM-BACKFILL-009",
        f"it is unknown whether the query of {files.checkpoint} has the backfill source",
        expected=f"the directory {files.chunks}, or the files that its last source has taken",
        found=f"{len(offsets.lines)} sources; the last has taken nothing, and there is no such "
        "directory",
        next_action=unrecorded_advice(files.checkpoint),
        path=files.checkpoint,
    )


def is_last_source_unknown(files: ChunkFiles, offsets: Offsets) -> bool:
    """Whether nothing is left that tells the backfill source from a stream's own last source."""
    if offsets.named or files.adoptions() or files.is_made() or paged_in(files.files):
        return False
    *others, (last, text) = offsets.by_source.items()
    if not others or file_offset(text) is None:
        return False
    return files.is_taken_by(last, offsets) is None


def unrecorded_advice(checkpoint: str) -> str:
    """What to do there."""
    return (
        "if the query ran with stateful or with_backfill, make the empty directory "
        f"{checkpoint}/{CHUNKS} again, in a bucket with an empty file {MADE} in it; if the last "
        "source is the stream's own, let it take a file first; a query that reads one stream twice "
        "has no files of its own there: it migrates with migrated, which needs no backfill source"
    )


def lacks_control_source(files: ChunkFiles) -> bool:
    """Whether the query has run without the backfill source, and has no room for it."""
    offsets = files.offsets()
    if offsets is None or offsets.named:
        return False
    return not has_control_source(files, offsets)


def has_control_source(files: ChunkFiles, offsets: Offsets) -> bool:
    """Whether the last of the query's sources, which have no names, is the backfill source."""
    # Pages have their source from the first day, whatever was adopted for another.
    adoption = newest_adoption(files.adoptions()) if files.operator is None else None
    if adoption is not None:
        # Spark has given it the line that the adoption made room for.
        return adoption.progress == "adopted" and len(offsets.lines) == adoption.sources + 1
    return control_source(files, offsets) is not None


def control_source(files: ChunkFiles, offsets: Offsets) -> str | None:
    """The query's backfill source among sources without names, None where it has none.

    It is the last one, but for those of other operators on pages. Of several that have taken
    nothing yet it may be any; the last of them is given then.
    """
    return next(reversed(control_sources(files, offsets)), None)


def control_sources(files: ChunkFiles, offsets: Offsets) -> tuple[str, ...]:
    """The sources without names that may be the backfill source: one, unless none has taken files.

    Then they have taken nothing yet, and nothing tells one from the other.
    """
    others = [ChunkFiles(files.files, name) for name in _others(files)]
    if not others:
        *rest, (last, text) = offsets.by_source.items()
        if not rest or file_offset(text) is None:
            return ()
        taken = files.is_taken_by(last, offsets)
        return (last,) if taken or (taken is None and files.is_made()) else ()
    numbers = [name for name, text in offsets.by_source.items() if file_offset(text) is not None]
    by_source = {name: files.is_taken_by(name, offsets) for name in numbers}
    own = tuple(name for name in numbers if by_source[name])
    if own or not files.is_made():
        return own
    return tuple(name for name in numbers if by_source[name] is None)


def backfill_lines(files: Files, offsets: Offsets) -> frozenset[str]:
    """The lines of an offset log that are backfill sources, of all operators of the query."""
    own = ChunkFiles(files, reading=True)
    every: list[ChunkFiles] = [ChunkFiles(files, each, reading=True) for each in paged_in(files)]
    if offsets.named:
        names = {_name_of(each.operator) for each in (own, *every)}
        return frozenset(names & offsets.by_source.keys())
    found: set[str] = set()
    if own.is_made() and has_control_source(own, offsets):
        every.append(own)
        found.add(control_source(own, offsets) or next(reversed(offsets.by_source)))
    for each in every:
        found.update(control_sources(each, offsets))
    # Of several that have taken nothing, nothing tells which is which, and any has no rows.
    ordered = [line for line in offsets.by_source if line in found]
    return frozenset(ordered[len(ordered) - len(every) :])


def takes_keys(files: Files, lines: Iterable[str], before: Offsets, after: Offsets) -> bool:
    """Whether the backfill sources of some ``lines`` have taken keys between two offsets.

    A chunk that only asks for a batch has none.
    """
    reached = {
        line: [file_offset(each.by_source.get(line)) for each in (before, after)] for line in lines
    }
    moved = {line: each for line, each in reached.items() if each[0] != each[1]}
    if not moved:
        return False
    folders = {line: folder for folder, line in lines_of_folders(files, after).items()}
    for line, (since, until) in moved.items():
        if since is None or until is None:
            return True
        taken = taken_until(files, folders.get(line, line), until)
        names = [each.path for each in taken if each.offset > since]
        # Where the source's log does not say what was taken, it may have been anything.
        if not names or any(map(has_keys, names)):
            return True
    return False


def _others(files: ChunkFiles) -> list[str | None]:
    """The operators whose backfill sources are other ones."""
    operators: list[str | None] = [*paged_in(files.files)]
    if files.operator is not None and ChunkFiles(files.files).is_made():
        operators.append(None)
    return [each for each in operators if each != files.operator]


NAME = "statemigrate_control"
"""The name of `with_backfill`'s backfill source in a query whose sources have names."""
_NAME_OF_PAGES = "statemigrate_pages"
"""The name of that of the operator on pages that has none."""

WATERMARK = "spark.watermarkDelayMs"
"""What the metadata of a column says that has a watermark."""
_FILLED = {"boolean": False, "byte": 0, "short": 0, "integer": 0, "long": 0}
_OPTIONS = {
    # One chunk a batch; planning again and pausing are seen at once, since no listing is kept.
    "maxFilesPerTrigger": "1",
    "maxCachedFiles": "0",
    # A chunk may be withdrawn at any time.
    "ignoreMissingFiles": "true",
    "recursiveFileLookup": "true",
    # No chunk is ever too old, whatever was planned after it: a hundred years.
    "maxFileAge": "36500d",
}


def with_backfill_source(
    stream: DataFrame,
    keys: tuple[str, ...],
    checkpoint: str | Path,
    operator: int | None = None,
    compare: Compare | None = None,
) -> DataFrame:
    """The stream together with the backfill source, as `statemigrate.with_backfill` says.

    ``compare`` gets the output of the operator that follows, and its output mode.
    """
    place = query_checkpoint(str(checkpoint))
    if is_on_copy():
        return stream
    files = ChunkFiles(place)
    marked, control = with_control(stream, keys, files, operator)
    from statemigrate.native.variables_startup import check_forgetting

    check = partial(check_forgetting, files.checkpoint, operator)
    return gated(marked, control, check, partial(ask_to_retire, files), compare)


def with_control(
    stream: DataFrame,
    keys: tuple[str, ...],
    files: ChunkFiles,
    operator: Which = None,
    *,
    creates: bool = True,
) -> tuple[DataFrame, DataFrame]:
    """The stream, marked, and the backfill source that is to stand behind it, with its columns.

    Raises what `with_backfill` says, and makes the backfill source's directory. With ``creates`` as
    False the caller does, once a query runs there: until then nothing is written.
    """
    _check_stream(stream, keys)
    check_source_path(files.checkpoint)
    _check_checkpoint(stream, keys, files, operator, creates=creates)
    if creates:
        files.create()
    from statemigrate.native.feeder import feed

    feed(stream.sparkSession, files)
    return _both(stream, keys, files)


def ask_to_retire(files: ChunkFiles, code: Any) -> None:
    """What is empty is dropped in a batch, and without input there would be none."""
    deployed = vars(code).get(DEPLOYED)
    if isinstance(deployed, Deployed) and deployed.retires and deployed.observed is not None:
        files.ask_for_batch(deployed.observed.batch)


def _both(
    stream: DataFrame, keys: tuple[str, ...], files: ChunkFiles
) -> tuple[DataFrame, DataFrame]:
    from pyspark.sql import functions
    from pyspark.sql.types import StringType, StructField, StructType

    fields = [StructField(name, stream.schema[name].dataType) for name in keys]
    schema = StructType([*fields, StructField(MARKER, StringType())])
    control = _source(stream.sparkSession, schema, files)
    columns = [
        functions.col(quoted(field.name))
        if field.name in keys
        else functions.lit(_blank(field)).cast(field.dataType).alias(field.name)
        for field in stream.schema
    ]
    # The stream comes first: sources without names are counted in this order.
    marked = stream.select("*", functions.lit(None).cast(StringType()).alias(MARKER))
    return marked, control.select(*columns, MARKER)


def _blank(field: StructField) -> Any:
    # A column with a null in it is one of floats in pandas, for the stream's own rows as well.
    return _FILLED.get(field.dataType.typeName())


def _source(spark: SparkSession, schema: StructType, files: ChunkFiles) -> DataFrame:
    location = files.location if files.is_made() else files.pattern
    return (
        reader_named(spark, _name_of(files.operator))
        .schema(schema)
        .options(**_OPTIONS)
        .parquet(location)
    )


def _name_of(operator: str | None) -> str:
    if operator is None:
        return NAME
    return f"{NAME}_{operator}" if operator else _NAME_OF_PAGES


def _check_stream(stream: DataFrame, keys: tuple[str, ...]) -> None:
    columns = stream.columns
    if not stream.isStreaming:
        raise StartupError(
            "SM-BACKFILL-010",
            "the rows of the operator are a DataFrame that is not a stream",
            expected="what spark.readStream made",
            found="a DataFrame of a batch",
            next_action="pass the stream that the query reads",
        )
    if MARKER in columns:
        raise StartupError(
            "SM-BACKFILL-011",
            f"the stream already has a column {MARKER}",
            expected="a stream without it, since it tells control rows from the stream's own",
            found=", ".join(columns),
            next_action="call stateful or with_backfill once on a stream, or rename the column",
        )
    wrong = [name for name in keys if columns.count(name) != 1 or keys.count(name) != 1]
    if wrong or not keys:
        raise StartupError(
            "SM-BACKFILL-012",
            "by does not name the columns that the stream is grouped by",
            expected=f"one or more of {', '.join(columns)}, each once",
            found=repr(keys),
            next_action="pass names of columns; make a column of an expression first",
        )
    _check_event_time(stream, keys)


def _check_event_time(stream: DataFrame, keys: tuple[str, ...]) -> None:
    timed = [name for name in keys if WATERMARK in stream.schema[name].metadata]
    if timed:
        raise UnsupportedError(
            "SM-BACKFILL-013",
            f"the stream is grouped by its event time, {', '.join(timed)}",
            expected="keys without the column that has the watermark",
            found="control rows would be as late as their keys, and be dropped by the watermark",
            next_action="migrate by touch: migrated on the processor, and neither stateful nor "
            "with_backfill",
        )


def _check_checkpoint(
    stream: DataFrame,
    keys: tuple[str, ...],
    files: ChunkFiles,
    operator: Which,
    *,
    creates: bool,
) -> None:
    if files.directory.is_unused():
        files.directory.refuse_embedded()
        return
    files.directory.require_query()
    checkpoint = SparkCheckpoint(files.checkpoint, stream.sparkSession, operator=operator)
    # A first batch may have been refused, which had the source, and not yet its directory.
    if creates or checkpoint.last_batch() is not None:
        require_control_source(files)
    if checkpoint.last_batch() is not None:
        _check_keys(stream, keys, checkpoint)


def _check_keys(stream: DataFrame, keys: tuple[str, ...], checkpoint: SparkCheckpoint) -> None:
    stored = {each.name: each.dataType for each in checkpoint.grouping_key()}
    named = {name: stream.schema[name].dataType for name in keys}
    # Nullability inside of a type does not change what a key is.
    if stored and _shown(stored) != _shown(named):
        raise StartupError(
            "SM-START-013",
            f"the state in {checkpoint.path} has other keys than the stream is grouped by",
            expected=", ".join(_shown(stored)),
            found=", ".join(_shown(named)),
            next_action="check that checkpoint is the checkpointLocation of this very query, and "
            "that by has the columns that it groups by; other keys are a rewrite, with the query "
            f"stopped: `statemigrate rewrite {argument(checkpoint.path)} NEW --code "
            "MODULE:FUNCTION` and a script that has `rekey`",
        )


def _shown(types: dict[str, Any]) -> list[str]:
    return sorted(f"{name} {data_type.simpleString()}" for name, data_type in types.items())
