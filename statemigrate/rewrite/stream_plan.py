"""The physical plan of a stream that has not started: what Spark would run in a batch.

`DataFrame.explain` plans a stream in the same way: with ``IncrementalExecution``, as the batch that
begins a query, and without touching a checkpoint or a source. No interface hands that plan out, so
its constructor is called here, with an argument for each type that it asks for; releases differ in
their number and order. Source: ``IncrementalExecution.scala`` of apache/spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from statemigrate.errors import UnsupportedError
from statemigrate.native import class_of_any_release
from statemigrate.rewrite.aggregates import AggregateFunction
from statemigrate.rewrite.plan_expressions import members_of, short_name
from statemigrate.rewrite.plan_tree import Definitions, StreamPlan, plan_of
from statemigrate.rewrite.probe_facts import Facts, facts_of_rows, operator_facts, rows_text
from statemigrate.rewrite.probe_functions import functions_in
from statemigrate.rewrite.probe_keys import keys_in, keys_of_rows
from statemigrate.rewrite.state_schemas import StateSchema, declared_schemas
from statemigrate.rewrite.windows import Meanings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


_EXECUTIONS = (
    "org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution",
    "org.apache.spark.sql.execution.streaming.IncrementalExecution",
)
_BEGINNING = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
_CLOCKS = ("CurrentTimestamp", "Now", "CurrentDate", "LocalTimestamp")
_MODES = {"append": "Append", "update": "Update", "complete": "Complete"}


@dataclass(frozen=True)
class StreamWriter:
    """What a ``DataStreamWriter`` has been given: its stream, output mode and checkpoint.

    ``checkpoint`` is None where no option names it.
    """

    stream: DataFrame
    mode: str
    checkpoint: str | None

    @classmethod
    def of(cls, writer: DataStreamWriter) -> StreamWriter | None:
        """The writer's settings; None for one of a session without plans, as of Spark Connect."""
        java = getattr(writer, "_jwrite", None)
        if java is None:
            return None
        fields = {str(each.getName()): each for each in java.getClass().getDeclaredFields()}
        mode, options = (_read(java, fields, name) for name in ("outputMode", "extraOptions"))
        found = options.get("checkpointLocation")
        checkpoint = str(found.get()) if found.isDefined() else None
        return cls(writer._df, str(mode.toString()).lower(), checkpoint)


def _read(java: Any, fields: dict[str, Any], name: str) -> Any:
    field = fields.get(name)
    if field is None:
        raise _unsupported(f"a writer with {', '.join(sorted(fields))}")
    field.setAccessible(True)
    return field.get(java)


def plan_of_stream(stream: DataFrame, mode: str) -> StreamPlan:
    """The plan of a stream that is written in an output ``mode``, without starting it.

    Raises `UnsupportedError` for a release of Spark whose constructor asks for something else.
    """
    java: Any = stream._jdf
    analyzed = java.queryExecution().analyzed()
    session = _session(stream.sparkSession)
    analyzed = _at_one_time(stream.sparkSession._jvm, analyzed)
    execution = class_of_any_release(stream.sparkSession._jvm, _EXECUTIONS)
    if execution is None:
        raise _unsupported("none of its known names")
    constructor = execution.getConstructors()[0]
    arguments = _Arguments(stream.sparkSession._jvm, session, analyzed, _MODES[mode])
    kinds = [str(each.getName()) for each in constructor.getParameterTypes()]
    made = arguments.called(str(execution.getName()), [arguments.of(each) for each in kinds])
    return plan_of(made)


_PLANNED = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.exchange.reuse": "false",
    "spark.sql.execution.reuseSubquery": "false",
    "spark.sql.shuffle.partitions": "200",
}
"""Settings with which the same code has the same plan, whatever they are in the user's session, and
however large its tables are."""


def _session(spark: SparkSession) -> Any:
    """A copy of a session, with its views and functions, which plans and runs nothing."""
    copy = spark._jsparkSession.cloneSession()
    for name, value in _PLANNED.items():
        copy.conf().set(name, value)
    return copy


def _at_one_time(jvm: Any, analyzed: Any) -> Any:
    """The plan with the batch's time in place of the clock's, as a query that runs has it.

    Otherwise Spark puts the present time into the plan as a constant. A map of Scala is a function,
    which Spark applies to each expression.
    """
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    found: list[Any] = []
    for each in _times_in(json.loads(analyzed.toJSON())):
        zone = each.get("timeZoneId")
        made = getattr(expressions, short_name(each))
        clock = made(jvm.scala.Option.apply(zone)) if "timeZoneId" in each else made()
        found.append(clock)
    if not found:
        return analyzed
    times = jvm.scala.collection.mutable.HashMap()
    for clock in found:
        zone = clock.timeZoneId() if "timeZoneId" in members_of(clock) else None
        zone = jvm.scala.Option.apply("UTC") if zone is None or not zone.isDefined() else zone
        times.put(clock, expressions.CurrentBatchTimestamp(0, clock.dataType(), zone))
    return analyzed.transformAllExpressions(times)


def _times_in(found: Any) -> Iterator[dict[str, Any]]:
    """The expressions of the clock's time in a plan's JSON."""
    if isinstance(found, list):
        for each in found:
            yield from _times_in(each)
    elif isinstance(found, dict):
        if "class" in found and short_name(found) in _CLOCKS:
            yield found
        for each in found.values():
            if isinstance(each, list | dict):
                yield from _times_in(each)


@dataclass(frozen=True)
class _Arguments:
    """Makes the arguments of the constructor, each by the name of its type."""

    jvm: Any
    session: Any
    analyzed: Any
    mode: str

    def of(self, kind: str) -> Any:
        """The argument of a type: that of a first batch which has no rows."""
        given = {
            "SparkSession": self.session,
            "LogicalPlan": self.analyzed,
            "String": "unknown",
            "long": 0,
            "boolean": False,
        }
        name = kind.rpartition(".")[2]
        made = given.get(name)
        # Each name of a package is a question to the JVM: only those of the one type are asked.
        match name:
            case "OutputMode":
                made = getattr(self._spark.streaming.OutputMode, self.mode)()
            case "UUID":
                made = self.jvm.java.util.UUID.randomUUID()
            case "Option":
                made = self.jvm.scala.Option.empty()
            case "Map":
                made = self.jvm.scala.collection.mutable.HashMap()
            case "Enumeration$Value":
                made = self._spark.execution.CommandExecutionMode.SKIP()
            case "OffsetSeqMetadata" | "OffsetSeqMetadataBase":
                made = self._metadata(kind.removesuffix("Base"))
            case "WatermarkPropagator":
                made = self._module(kind).noop()
        if made is None:
            raise _unsupported(f"a parameter of the type {kind}")
        return made

    @property
    def _spark(self) -> Any:
        return self.jvm.org.apache.spark.sql

    def called(self, name: str, arguments: list[Any]) -> Any:
        """An object of the class."""
        return self._named(name)(*arguments)

    def _metadata(self, name: str) -> Any:
        return self._named(name).apply(_BEGINNING)

    def _module(self, name: str) -> Any:
        return self.jvm.java.lang.Class.forName(f"{name}$").getField("MODULE$").get(None)

    def _named(self, name: str) -> Any:
        return getattr(self.jvm, name)


def _unsupported(found: str) -> UnsupportedError:
    import pyspark

    return UnsupportedError(
        "SM-MEANING-005",
        f"PySpark {pyspark.__version__} plans streams in a way that is not known",
        expected="IncrementalExecution as in Spark 4.0 to 4.3",
        found=found,
        next_action="start the query without `guarded`, and see statemigrate's changelog for a "
        "release that knows this PySpark",
    )


# What a plan means for state: keys, aggregate functions and facts of each of its operators.


@dataclass(frozen=True)
class PlanMeaning:
    """What is known of each stateful operator by its number.

    ``kinds`` are Spark's names of the operators, ``keys`` and ``functions`` what their keys and
    aggregates are computed from, ``facts`` what else decides about their rows. ``states`` are what
    the code declares that it keeps. ``schemas`` are those of the streams, in the plan's order.
    ``unset`` are the settings that neither the code nor anybody else has set in its session.
    """

    kinds: Mapping[int, str] = field(default_factory=dict)
    keys: Meanings = field(default_factory=dict)
    functions: Mapping[int, tuple[AggregateFunction, ...]] = field(default_factory=dict)
    facts: Facts = field(default_factory=dict)
    states: Mapping[int, Mapping[str, StateSchema]] = field(default_factory=dict)
    schemas: tuple[str, ...] = ()
    unset: frozenset[str] = frozenset()


def plan_meaning(stream: DataFrame, mode: str) -> PlanMeaning:
    """What the plan of a stream means that is written in an output ``mode``; it is not started.

    Raises `UnsupportedError` for a release of Spark that plans in a way which is not known.
    """
    plan = plan_of_stream(stream, mode)
    return _meaning_of(plan, Definitions(plan.root, rows_text))


EMBEDDED = -1
"""The number of the operator of the embedded engine, which Spark does not count."""


def embedded_meaning(stream: DataFrame, by: Sequence[str]) -> PlanMeaning:
    """What a plan means whose rows a processor of the embedded engine gets, grouped ``by`` columns.

    The processor is the operator `EMBEDDED`; others are those of Spark's before it. Raises as
    `plan_meaning`.
    """
    plan = plan_of_stream(stream, "append")
    definitions = Definitions(plan.root, rows_text)
    found = _meaning_of(plan, definitions)
    return replace(
        found,
        kinds={**found.kinds, EMBEDDED: "embedded"},
        keys={**found.keys, EMBEDDED: keys_of_rows(plan.root, definitions, by)},
        facts={**found.facts, EMBEDDED: facts_of_rows(plan.root, definitions)},
    )


def _meaning_of(plan: StreamPlan, definitions: Definitions) -> PlanMeaning:
    kinds = {
        each.number: each.kind
        for each in plan.root.every()
        if each.number is not None and each.kind
    }
    return PlanMeaning(
        kinds,
        keys_in(plan.root, definitions),
        functions_in(plan.root, definitions),
        operator_facts(plan.root, definitions),
        declared_schemas(plan.root),
        plan.schemas,
        plan.unset,
    )
