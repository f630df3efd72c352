"""What the new code keeps and reads: seen by running it on nothing, or in a checkpoint of its."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint import describe
from statemigrate.checkpoint.logs import newest_offsets
from statemigrate.checkpoint.operators import CheckpointShape, in_envelopes
from statemigrate.deployment import Call, Looking, StorePlan, named_object, store_of
from statemigrate.errors import CodeError, RewriteError, StatemigrateError
from statemigrate.files import Files, open_files
from statemigrate.meaning import (
    CodeMeaning,
    MeaningRecord,
    code_meaning,
    read_lock,
    recorded_meaning,
)
from statemigrate.native import session_of
from statemigrate.pages import PagesRecord, records
from statemigrate.processor import SOURCE_NAMES
from statemigrate.rewrite import (
    AggregateFunction,
    Meanings,
    NewSources,
    PlanMeaning,
    StateSchema,
    call_on_empty_streams,
    embedded_meaning,
    has_functions,
    input_names,
    input_schemas,
    operator_name,
    plan_meaning,
    probe_folder,
    probed_inputs,
    run_once,
    state_ddl,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from statemigrate.embedded import QueryParts
    from statemigrate.native import Spark


@dataclass(frozen=True)
class NewCode:
    """The new code, or a checkpoint of it; neither if its state is that of the old code.

    ``code`` is ``MODULE:FUNCTION``, a function from the input streams to the result, which runs on
    empty streams. ``inputs`` has their schemas by name if the function does not declare them, and
    ``mode`` is the output mode. ``like`` is a checkpoint that the new code has made on a little
    input.

    ``old_code`` is the function of the query whose checkpoint is rewritten, also
    ``MODULE:FUNCTION``: it shows which aggregate functions wrote the old state. ``lock`` is the
    lock file of that code, with the same content. Either function gets the inputs that it reads.
    """

    code: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    mode: str | None = None
    like: str | Path | None = None
    old_code: str | None = None
    lock: str | Path | None = None


@dataclass(frozen=True)
class Probed:
    """The ``shape`` of a checkpoint that the new code has made, and what the code reads.

    ``plan`` is what the code's plan means, None where none was seen. ``like`` is the checkpoint
    where one was given. ``calls`` are those by which the code declares operators whose state
    migrates. ``pages`` are the records of operators on pages, by their names, and ``numbers`` how
    many pages each is to have, where the code says it. ``mode`` is the output mode that the code
    ran in, empty where it did not run. ``in_envelopes`` are the functions of
    ``applyInPandasWithState`` whose values are in envelopes, by their stores, and ``variables``
    those of processors that scripts lead to.
    """

    shape: CheckpointShape
    sources: NewSources
    plan: PlanMeaning | None = None
    like: Files | None = None
    calls: frozenset[Call] = frozenset()
    pages: Mapping[str, PagesRecord] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    mode: str = ""
    in_envelopes: Mapping[str, StorePlan | StatemigrateError] = field(default_factory=dict)
    variables: Mapping[str, StorePlan] = field(default_factory=dict)

    @property
    def functions(self) -> Mapping[int, tuple[AggregateFunction, ...]]:
        """The functions of aggregations by operator, as far as a plan was seen."""
        found = {} if self.plan is None else self.plan.functions
        return {
            number: tuple(each.in_any_session() for each in functions)
            for number, functions in found.items()
        }

    @property
    def keys(self) -> Meanings:
        """The key columns of operators by their numbers, as far as a plan was seen."""
        found = {} if self.plan is None else self.plan.keys
        return {
            number: tuple(each.in_any_session() for each in keys) for number, keys in found.items()
        }


def probed(
    wanted: NewCode, pinned: Mapping[str, str] | None, spark: Spark, checkpoint: str
) -> Probed | None:
    """Look at what the new code keeps; None where no code is named.

    ``pinned`` are the settings that the new checkpoint will have, None where those of the session
    or the probe are right. Raises `CodeError` for code that does not run, `RewriteError` for one
    that is named twice or was made with other settings.
    """
    if wanted.code and wanted.like:
        raise RewriteError(
            "SM-REWRITE-002",
            "the new code is named in two ways",
            expected="--code or --like",
            found="both",
            next_action="leave one of them out",
        )
    if wanted.like:
        return _described(open_files(wanted.like), pinned)
    if not wanted.code:
        return None
    inputs = inputs_of(wanted.code, wanted.old_code, wanted.inputs)
    return _run(replace(wanted, inputs=inputs), pinned, spark, checkpoint)


def check_inputs(wanted: NewCode) -> None:
    """Raise `CodeError` for code that is no function of input streams, before Spark starts."""
    for code, other in ((wanted.code, wanted.old_code), (wanted.old_code, wanted.code)):
        if code:
            inputs = inputs_of(code, other, wanted.inputs)
            input_schemas(named_object(code), inputs, code)


def inputs_of(code: str, other: str | None, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The inputs for ``code``: without those that only the ``other`` code reads.

    Those that neither reads stay, and are refused.
    """
    if other is None:
        return inputs
    alone = input_names(named_object(other)) - input_names(named_object(code))
    return {name: schema for name, schema in inputs.items() if name not in alone}


_FOUND: ContextVar[dict[str, Probed] | None] = ContextVar("statemigrate_probed", default=None)


@contextmanager
def probing_once() -> Iterator[None]:
    """For the length of a block, code runs once for each output mode and settings of a query."""
    token = _FOUND.set({})
    try:
        yield
    finally:
        _FOUND.reset(token)


def _run(
    wanted: NewCode, pinned: Mapping[str, str] | None, spark: Spark, checkpoint: str
) -> Probed:
    found = _FOUND.get()
    if found is None:
        return _ran_once(wanted, pinned, spark, checkpoint)
    settings = pinned or {}
    names = _sources(settings, checkpoint)
    inputs = sorted(wanted.inputs.items())
    asked = repr((wanted.code, wanted.mode, inputs, sorted(settings.items()), names))
    if asked not in found:
        found[asked] = _ran_once(wanted, pinned, spark, checkpoint)
    return found[asked]


def _ran_once(
    wanted: NewCode, pinned: Mapping[str, str] | None, spark: Spark, checkpoint: str
) -> Probed:
    with _called(wanted, pinned, spark, checkpoint) as (made, looking, folder):
        return _probed(wanted, made, looking, folder)


def look_at(
    wanted: NewCode, pinned: Mapping[str, str] | None, spark: Spark, checkpoint: str
) -> Probed | ProbedQuery:
    """Look at code that may be for either engine: its function is called once."""
    with _called(wanted, pinned, spark, checkpoint) as (made, looking, folder):
        return _query_in(made, str(wanted.code)) or _probed(wanted, made, looking, folder)


@contextmanager
def _called(
    wanted: NewCode, pinned: Mapping[str, str] | None, spark: Spark, checkpoint: str
) -> Iterator[tuple[Any, Looking, Path]]:
    """What the code makes of empty streams, what it asks of our functions, and their folder."""
    assert wanted.code is not None, "asked before"  # noqa: S101
    function, session = named_object(wanted.code), session_of(spark, checkpoint)
    with probe_folder() as folder:
        made, looking = call_on_empty_streams(
            function,
            folder,
            session,
            inputs=wanted.inputs,
            conf=pinned or {},
            sources=_sources(pinned or {}, checkpoint),
            reference=wanted.code,
        )
        yield made, looking, folder


def _sources(pinned: Mapping[str, str], checkpoint: str) -> tuple[str, ...]:
    """The names of a query's sources, where they have any."""
    if pinned.get(SOURCE_NAMES, "").lower() != "true":
        return ()
    offsets = newest_offsets(open_files(checkpoint))
    named = () if offsets is None else offsets.by_source
    # The backfill's source and the embedded engine's heartbeat are no inputs of the code.
    return tuple(each for each in named if not each.startswith("statemigrate_"))


def _probed(wanted: NewCode, made: Any, looking: Looking, folder: Path) -> Probed:
    plans: list[PlanMeaning] = []
    modes: list[str] = []

    def look(stream: DataFrame, mode: str) -> None:
        modes.append(mode)
        # A session of Spark Connect has no plan to show.
        if hasattr(stream, "_jdf"):
            plans.append(plan_meaning(stream, mode))

    run = run_once(made, folder, mode=wanted.mode, reference=str(wanted.code), look=look)
    files = open_files(run.as_uri())
    shape = describe(files, 0)
    sources = NewSources.of(shape, probed_inputs(files))
    plan = plans[0] if plans else None
    calls, numbers = frozenset(looking.calls), dict(looking.pages)
    return Probed(
        shape,
        sources,
        plan,
        None,
        calls,
        records(files),
        numbers,
        "".join(modes),
        dict(looking.functions),
        dict(looking.variables),
    )


@dataclass(frozen=True)
class ProbedQuery:
    """The ``parts`` of a query of the embedded engine, and its ``meaning``."""

    parts: QueryParts
    meaning: CodeMeaning


def _query_in(made: Any, reference: str) -> ProbedQuery | None:
    """What a function has made of empty streams, if that is a query of the embedded engine."""
    if getattr(made, "isStreaming", False):
        return None
    from statemigrate.embedded import ProcessorQuery, parts_of

    if not isinstance(made, ProcessorQuery):
        return None
    parts = parts_of(made)
    plan = embedded_meaning(parts.stream, parts.schema.key.fieldNames())
    return ProbedQuery(parts, code_meaning(reference, plan))


def query_of(wanted: NewCode, spark: Spark, checkpoint: str) -> ProbedQuery:
    """The query that the code makes for a ``checkpoint`` of the embedded engine.

    Raises `CodeError` for code that does not run, or makes something else.
    """
    with _called(wanted, None, spark, checkpoint) as (made, _, _):
        found = _query_in(made, str(wanted.code))
    if found is not None:
        return found
    raise CodeError(
        "SM-CODE-017",
        f"{wanted.code} returns no query of the embedded engine, whose state {checkpoint} has",
        expected="an EmbeddedQuery that is not started, or the name of its processor",
        found=type(made).__name__,
        next_action="return the EmbeddedQuery from the function, or give --code MODULE:PROCESSOR",
        reference=wanted.code,
    )


def meaning_of(found: Probed, reference: str) -> CodeMeaning:
    """What a probe has seen of the code that ``reference`` names."""
    sources = tuple(found.sources.inputs.get(name, "") for name in found.sources.names)
    shapes = found.shape.operators
    made = code_meaning(reference, found.plan or PlanMeaning(), sources, shapes)
    made = _with_targets(made, found.variables)
    functions = [each.number for each in shapes if in_envelopes(each)]
    if len(functions) != 1 or len(found.in_envelopes) != 1:
        return made
    (plan,) = found.in_envelopes.values()
    if isinstance(plan, StatemigrateError):
        return made
    # The envelope's own type is the same for ever.
    target = plan.target
    values = {target.name: StateSchema(state_ddl(target.format.struct_type().jsonValue()))}
    operators = tuple(
        replace(each, state=values) if each.number in functions else each for each in made.operators
    )
    return replace(made, operators=operators)


def _with_targets(made: CodeMeaning, variables: Mapping[str, StorePlan]) -> CodeMeaning:
    """The meaning, with the families that the code writes to where it has the stores."""
    operators = []
    for each in made.operators:
        own = {*map(store_of, each.state)} & variables.keys()
        targets = {store: variables[store].target.name for store in own}
        operators.append(replace(each, targets=targets))
    return replace(made, operators=tuple(operators))


def meaning_files(found: Probed, reference: str, batch: int) -> Mapping[str, bytes]:
    """The record for a new checkpoint of a ``batch``; none where no plan was seen of the code."""
    if found.plan is None:
        return {}
    return MeaningRecord(batch, meaning_of(found, reference)).files()


def known_before(
    wanted: NewCode, shape: CheckpointShape, spark: Spark, files: Files
) -> CodeMeaning | None:
    """What the code meant that wrote the checkpoint in ``files``; None where nothing says it.

    The old code or its lock file says it where one is given, else the record in the checkpoint.
    Raises `CodeError` for a lock file that is none or of another query, `CorruptFileError` for a
    record that was altered, and as `probed_before`.
    """
    checkpoint = files.location
    if wanted.lock is None and wanted.old_code is None:
        record = recorded_meaning(files, shape.batch)
        return None if record is None else record.meaning
    if wanted.lock is None:
        before = probed_before(wanted, shape, spark, checkpoint)
        return None if before is None else meaning_of(before, str(wanted.old_code))
    check_known_once(wanted)
    found = read_lock(wanted.lock)
    check_of_checkpoint(found, shape, str(wanted.lock), checkpoint)
    return found


def check_known_once(wanted: NewCode) -> None:
    """Raise `CodeError` where both the old code and its lock file are given."""
    if wanted.lock is None or wanted.old_code is None:
        return
    raise CodeError(
        "SM-LOCK-003",
        "the old code is given in two ways",
        expected="the lock file or the old code",
        found=f"{wanted.lock} and {wanted.old_code}",
        next_action="leave one of them out",
        reference=wanted.old_code,
    )


def check_of_checkpoint(
    found: CodeMeaning, shape: CheckpointShape, lock: str, location: str
) -> None:
    """Raise `CodeError` for a lock of other operators than the checkpoint has."""
    known = sorted(each.name for each in found.operators)
    there = sorted(map(operator_name, shape.operators))
    if known != there:
        raise CodeError(
            "SM-LOCK-004",
            f"{lock} is not of the code that {location} was written by",
            expected=f"its operators: {', '.join(there) or 'none'}",
            found=", ".join(known) or "none",
            next_action="take the lock file of the commit that is deployed, or leave --lock out",
            reference=lock,
        )


def probed_before(
    wanted: NewCode, shape: CheckpointShape, spark: Spark, checkpoint: str
) -> Probed | None:
    """Look at what the old code keeps; None where it is not given.

    ``shape`` is that of the old ``checkpoint``. Raises `CodeError` for code that does not run,
    `RewriteError` where it has not the aggregations of the checkpoint, or no new code is given
    that it could be compared with.
    """
    if wanted.old_code is None:
        return None
    if wanted.code is None and wanted.like is None:
        raise RewriteError(
            "SM-REWRITE-003",
            "the old code alone is given",
            expected="--code too, whose functions go on with those of --old-code",
            found=f"--old-code {wanted.old_code}",
            next_action="add --code MODULE:FUNCTION, or leave --old-code out: without new code "
            "every function stays what it is",
        )
    inputs = inputs_of(wanted.old_code, wanted.code, wanted.inputs)
    # The output mode is the new query's; which functions there are does not depend on it.
    old = replace(wanted, code=wanted.old_code, inputs=inputs, mode=None, like=None)
    found = _run(old, shape.conf, spark, checkpoint)
    kept, ran = (_aggregations(each) for each in (shape, found.shape))
    if kept != ran:
        raise RewriteError(
            "SM-REWRITE-004",
            f"{wanted.old_code} is not the code of {checkpoint}",
            expected=f"its aggregations: {', '.join(kept) or 'none'}",
            found=", ".join(ran) or "none",
            next_action="give --old-code the function that the query was made of, as it was when "
            "the checkpoint was written",
        )
    return found


def _aggregations(shape: CheckpointShape) -> list[str]:
    return [operator_name(each) for each in shape.operators if has_functions(each)]


def _described(like: Files, pinned: Mapping[str, str] | None) -> Probed:
    """The operators of a checkpoint that was made elsewhere, with formats of its own."""
    shape = describe(like)
    differing = sorted(
        name
        for name in shape.conf
        if name.endswith(("stateFormatVersion", "encodingFormat", "providerClass"))
        and pinned is not None
        and shape.conf[name] != pinned.get(name)
    )
    if pinned is not None and differing:
        name = differing[0]
        raise RewriteError(
            "SM-REWRITE-005",
            f"{like.location} was made with other settings than the new checkpoint will have",
            expected=f"{name}={pinned.get(name)}",
            found=f"{name}={shape.conf[name]}",
            next_action="make it with the setting of the old checkpoint, or ask for the new one, "
            f"as in --conf {name}={shape.conf[name]}",
        )
    pages = records(like)
    numbers = {name: each.pages for name, each in pages.items()}
    return Probed(shape, NewSources.of(shape), like=like, pages=pages, numbers=numbers)
