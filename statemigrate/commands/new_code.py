"""What the new code keeps and reads: seen by running it on nothing, or in a checkpoint of its."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint import describe
from statemigrate.checkpoint.operators import CheckpointShape
from statemigrate.deployment import Call, Looking, named_object
from statemigrate.errors import CodeError, RewriteError
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
from statemigrate.rewrite import (
    AggregateFunction,
    Meanings,
    NewSources,
    PlanMeaning,
    has_functions,
    input_names,
    input_schemas,
    operator_name,
    plan_meaning,
    probe_folder,
    probed_inputs,
    run_probe,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    ran in, empty where it did not run.
    """

    shape: CheckpointShape
    sources: NewSources
    plan: PlanMeaning | None = None
    like: Files | None = None
    calls: frozenset[Call] = frozenset()
    pages: Mapping[str, PagesRecord] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    mode: str = ""

    @property
    def functions(self) -> Mapping[int, tuple[AggregateFunction, ...]]:
        """The functions of aggregations by operator, as far as a plan was seen."""
        return {} if self.plan is None else self.plan.functions

    @property
    def keys(self) -> Meanings:
        """The key columns of operators by their numbers, as far as a plan was seen."""
        return {} if self.plan is None else self.plan.keys


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
    inputs = _without_inputs_of(wanted.old_code, wanted.code, wanted.inputs)
    return _run(replace(wanted, inputs=inputs), pinned, spark, checkpoint)


def check_inputs(wanted: NewCode) -> None:
    """Raise `CodeError` for code that is no function of input streams, before Spark starts."""
    for code, other in ((wanted.code, wanted.old_code), (wanted.old_code, wanted.code)):
        if code:
            inputs = _without_inputs_of(other, code, wanted.inputs)
            input_schemas(named_object(code), inputs, code)


def _without_inputs_of(
    other: str | None, code: str, inputs: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The inputs without those that only the ``other`` code reads.

    Those that neither reads stay, and are refused.
    """
    if other is None:
        return inputs
    alone = input_names(named_object(other)) - input_names(named_object(code))
    return {name: schema for name, schema in inputs.items() if name not in alone}


def _run(
    wanted: NewCode, pinned: Mapping[str, str] | None, spark: Spark, checkpoint: str
) -> Probed:
    assert wanted.code is not None, "asked before"  # noqa: S101
    function = named_object(wanted.code)
    session = session_of(spark, checkpoint)
    seen: list[PlanMeaning] = []
    asked: list[Looking] = []
    modes: list[str] = []

    def look(stream: DataFrame, mode: str) -> None:
        modes.append(mode)
        # A session of Spark Connect has no plan to show.
        if hasattr(stream, "_jdf"):
            seen.append(plan_meaning(stream, mode))

    with probe_folder() as folder:
        made = run_probe(
            function,
            folder,
            session,
            inputs=wanted.inputs,
            mode=wanted.mode,
            conf=pinned or {},
            reference=wanted.code,
            look=look,
            note=asked.append,
        )
        files = open_files(made.as_uri())
        shape = describe(files, 0)
        sources = NewSources.of(shape, probed_inputs(files))
        plan = seen[0] if seen else None
        calls, numbers = frozenset(asked[0].calls), dict(asked[0].pages)
        mode = "".join(modes)
        return Probed(shape, sources, plan, None, calls, records(files), numbers, mode)


def meaning_of(found: Probed, reference: str) -> CodeMeaning:
    """What a probe has seen of the code that ``reference`` names."""
    sources = tuple(found.sources.inputs.get(name, "") for name in found.sources.names)
    return code_meaning(reference, found.plan or PlanMeaning(), sources, found.shape.operators)


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
    if wanted.old_code is not None:
        raise CodeError(
            "SM-LOCK-003",
            "the old code is given in two ways",
            expected="the lock file or the old code",
            found=f"{wanted.lock} and {wanted.old_code}",
            next_action="leave one of them out",
            reference=wanted.old_code,
        )
    found = read_lock(wanted.lock)
    check_of_checkpoint(found, shape, str(wanted.lock), checkpoint)
    return found


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
    inputs = _without_inputs_of(wanted.code, wanted.old_code, wanted.inputs)
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
