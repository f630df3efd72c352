"""`guarded`: a query's code compared with what its checkpoint's state means, before it starts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from statemigrate.checkpoint import MEANINGS, OPERATOR_MEANINGS, CheckpointDirectory
from statemigrate.errors import StartupError, UnsupportedError
from statemigrate.files import Files, document_checksum, open_files
from statemigrate.meaning.changes import compare_code
from statemigrate.meaning.code_meaning import CodeMeaning, code_meaning, meaning_document
from statemigrate.meaning.plan_items import WARNING, PlanItem
from statemigrate.meaning.recorded import (
    Accepted,
    MeaningRecord,
    forget_later,
    log_accepted,
    recorded_meaning,
)
from statemigrate.meaning.setting_changes import unset_as_warnings
from statemigrate.quoting import argument
from statemigrate.rewrite import StreamWriter, embedded_meaning, plan_meaning

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_log = logging.getLogger("statemigrate.meaning")
UNRECORDED = "unrecorded"
"""The name by which a first guarded start on existing state is accepted."""


def guarded(
    writer: DataStreamWriter,
    checkpoint: str | Path | None = None,
    *,
    accept: Mapping[str, str] | None = None,
) -> DataStreamWriter:
    """Compare a query with the meaning of its state, just before ``.start()``; return the writer.

    Spark compares types when a query starts, and never what they mean: it starts with another key
    of one type, with `max` in place of `min`, or with a window of another length, and reads old
    values as something that they are not. Here Spark plans the stream without running it, and what
    its keys, windows, functions, filters, joins and watermarks are computed from is compared with
    the record in the checkpoint. A first start writes the record, and so does each start that
    changes it. The record is written when this very query starts, before its first batch.

    ``checkpoint`` is where the query has its state, unless the writer's option
    ``checkpointLocation`` says it. ``accept`` has reasons by the names of changes that are meant,
    with the digits that the error shows: they hold for this very change, and for no later one of
    the same name. The reasons are written into the record, and into the log that `history
    --checkpoint` prints. `unrecorded` is the name for state that
    no guarded start has run on yet: by accepting it you say that the code is the one that wrote the
    state. The logger ``statemigrate.meaning`` reports what was recorded, and what was accepted.

    Call it last: what is set on the writer afterwards is not compared. Raises `StartupError` for a
    change that nobody accepted, and for state without a record; `UnsupportedError` for a session of
    Spark Connect, which shows no plan; `CorruptFileError` for a record that was altered. Then
    nothing is written, and the query has not started.
    """
    if not hasattr(writer, "outputMode"):
        raise _no_writer(writer)
    found = StreamWriter.of(writer)
    if found is None:
        raise _without_plan()
    files = open_files(_location(checkpoint, found.checkpoint), found.stream.sparkSession)
    directory = CheckpointDirectory(files)
    committed = directory.last_commit()
    meaning = stream_meaning(found.stream, found.mode)
    known = recorded_meaning(files, committed)
    reasons = accept or {}
    now = MeaningRecord(committed + 1, meaning)
    if known is None:
        now = replace(now, accepted=_first(files, committed, meaning, reasons))
    before = known.meaning if known else None
    action = _compared(files, known, before, now, reasons, "guarded")
    _when_started(found.stream, files, MEANINGS, action)
    return writer


def _when_started(stream: DataFrame, files: Files, folder: str, action: Callable[[], None]) -> None:
    """Do something when the query with this very stream starts: another one may start first."""
    from statemigrate.native import before_first_batch

    before_first_batch(stream, files, folder, action)


def _record(files: Files, record: MeaningRecord) -> None:
    """Write what a query that starts means by its state, and report what its code accepts."""
    if record.folder == MEANINGS:
        log_accepted(files, record)
    record.write(files)
    # Where the query was set back to an older batch, those of later ones are there.
    forget_later(files, record.batch, record.folder)
    _log.info("%s records what its state means from batch %d on", files.location, record.batch)
    for each in record.accepted:
        _log.warning("%s: accepted %s: %s (%s)", files.location, each.name, each.text, each.reason)


def guard_operator(
    stream: DataFrame,
    mode: str,
    checkpoint: str | Path,
    name: str,
    accept: Mapping[str, str],
    call: str,
) -> None:
    """Compare an operator, and all that comes before it, with the record of its last start.

    ``stream`` is the operator's output, before anything else is made of it. The operator has its
    record by a ``name``; without one the record of a guarded start or a rewrite counts. State
    without any is not refused: the operator's own scripts say what it is. Raises `StartupError` for
    a change that nobody accepted, which names the ``call`` that takes ``accept``. Nothing is
    compared in a session of Spark Connect.
    """
    if not hasattr(stream, "_jdf"):
        return
    files, folder = open_files(checkpoint, stream.sparkSession), f"{OPERATOR_MEANINGS}/{name}"
    committed = CheckpointDirectory(files).last_commit()
    try:
        meaning = stream_meaning(stream, mode)
    except UnsupportedError as error:
        _log.warning("%s is not compared with what its state means: %s", files.location, error)
        return
    known = recorded_meaning(files, committed, folder)
    before = known.meaning if known else _whole_record(files, committed, meaning)
    now = MeaningRecord(committed + 1, meaning, (), folder)
    action = _compared(files, known, before, now, accept, call)
    _when_started(stream, files, folder, action)


def guard_embedded(
    stream: DataFrame,
    by: Sequence[str],
    files: Files,
    committed: int,
    *,
    accept: Mapping[str, str],
) -> Callable[[], None]:
    """Compare a query of the embedded engine with the record of its last start, as `guarded` does.

    The processor gets the rows of ``stream``, grouped ``by`` columns. ``committed`` is the last
    version of the state in ``files``, -1 if there is none. State without a record is not refused.
    Returns what is to be done once nothing else keeps the query from starting: it writes the
    record. Raises `StartupError` for a change that nobody accepted.
    """
    try:
        found = code_meaning("a start", embedded_meaning(stream, by))
        meaning = replace(found, unset=frozenset())
    except UnsupportedError as error:
        _log.warning("%s is not compared with what its state means: %s", files.location, error)
        return _nothing
    known = recorded_meaning(files, committed)
    before = known.meaning if known else None
    now = MeaningRecord(committed + 1, meaning)
    return _compared(files, known, before, now, accept, "EmbeddedQuery")


def _nothing() -> None:
    """What a start does that compares nothing."""


def _compared(
    files: Files,
    known: MeaningRecord | None,
    before: CodeMeaning | None,
    now: MeaningRecord,
    accept: Mapping[str, str],
    call: str,
) -> Callable[[], None]:
    """What a start does that means ``now``, and ``before`` what is ``known`` or recorded elsewhere.

    Raises `StartupError` for a change that nobody accepted, which names the ``call`` that takes
    ``accept``.
    """
    if before is None:
        return partial(_record, files, now)
    changes = _changes(files, before, now.meaning)
    if known and not changes and known.meaning.is_complete:
        return partial(forget_later, files, now.batch - 1, now.folder)
    asked = [each for each in changes if each.asks]
    accepted = _accepted(files, asked, accept, _digits(before, now.meaning), call=call)
    return partial(_record, files, replace(now, accepted=accepted))


def _whole_record(files: Files, committed: int, meaning: CodeMeaning) -> CodeMeaning | None:
    """What the record of the whole query says of the operators in ``meaning``, if it has them.

    Where a query has several operators, those of a part of it may have other numbers.
    """
    record = recorded_meaning(files, committed)
    if record is None or len(record.meaning.operators) != len(meaning.operators):
        return None
    pairs = zip(record.meaning.operators, meaning.operators, strict=True)
    if any((was.number, was.kind) != (now.number, now.kind) for was, now in pairs):
        return None
    # A start has no types of state.
    own = tuple(replace(each, state={}) for each in record.meaning.operators)
    return replace(record.meaning, operators=own, sources=(), schemas=meaning.schemas)


def stream_meaning(stream: DataFrame, mode: str) -> CodeMeaning:
    """What the state of a stream means that is written in an output ``mode``.

    Spark plans it; it is not started. Raises `UnsupportedError` for a release of Spark that plans
    in a way which is not known.
    """
    found = code_meaning("a guarded start", plan_meaning(stream, mode))
    # The query itself starts: what nothing sets is what it has.
    return replace(found, unset=frozenset())


def _changes(files: Files, old: CodeMeaning, new: CodeMeaning) -> list[PlanItem]:
    """What has changed. What nothing shows is reported, and keeps no query from starting."""
    found = list(unset_as_warnings(compare_code(old, new), old, new))
    for each in found:
        if each.level == WARNING:
            _log.warning("%s: %s: %s", files.location, each.name, each.text)
    return [each for each in found if each.level != WARNING]


def _location(given: str | Path | None, option: str | None) -> str:
    if given is not None and option is not None and str(given) != option:
        raise StartupError(
            "SM-MEANING-004",
            "the query has another checkpoint than the one that is compared",
            expected=f"the checkpoint of the writer's option checkpointLocation, {option}",
            found=str(given),
            next_action="give `guarded` the same checkpoint, or leave it out",
            checkpoint=str(given),
        )
    if given is None and option is None:
        raise StartupError(
            "SM-MEANING-004",
            "the query's checkpoint is not known",
            expected="the writer's option checkpointLocation, or guarded(writer, checkpoint=...)",
            found="neither",
            next_action="set the option before `guarded` is called",
        )
    return str(given if option is None else option)


def _first(
    files: Files, committed: int, meaning: CodeMeaning, reasons: Mapping[str, str]
) -> tuple[Accepted, ...]:
    """What a start without a record accepts. Raises `StartupError` for state of unknown meaning."""
    if committed < 0 or not meaning.operators:
        return ()
    if UNRECORDED in reasons:
        text = f"state of batches up to {committed} had no record"
        return (Accepted(UNRECORDED, text, reasons[UNRECORDED]),)
    raise StartupError(
        "SM-MEANING-002",
        f"{files.location} does not say what its state means",
        expected="a record, which a guarded start, `statemigrate check --record-meaning` or a "
        "rewrite writes",
        found=f"state as of batch {committed}, and no record",
        next_action=f'guarded(..., accept={{"{UNRECORDED}": "why"}}) says once that this code '
        "wrote the state; if another one did, run `statemigrate check "
        f"{argument(files.location)} --code MODULE:FUNCTION --record-meaning` with it",
        checkpoint=files.location,
    )


def _accepted(
    files: Files,
    changes: Sequence[PlanItem],
    reasons: Mapping[str, str],
    digits: str,
    call: str,
) -> tuple[Accepted, ...]:
    """The changes with their reasons. Raises `StartupError` where one has none."""
    others = [each for each in changes if f"{each.name}:{digits}" not in reasons]
    if others:
        meant = ", ".join(f'{f"{each.name}:{digits}"!r}: "why"' for each in others)
        raise StartupError(
            "SM-MEANING-001",
            f"the code means something else by the state of {files.location}",
            expected="keys, functions and filters as when the state was written",
            found="; ".join(f"{each.name}: {each.text}" for each in others),
            next_action=f"if it is meant, start with {call}(..., accept={{{meant}}}); else "
            f"`statemigrate plan {argument(files.location)} --code MODULE:FUNCTION` says what "
            "to do",
            checkpoint=files.location,
            changes=[each.to_json() for each in others],
            accept=[f"{each.name}:{digits}" for each in others],
        )
    return tuple(
        Accepted(each.name, each.text, reasons[f"{each.name}:{digits}"]) for each in changes
    )


def _digits(old: CodeMeaning, new: CodeMeaning) -> str:
    """Six digits of the change from one meaning to another: what is accepted holds for it alone."""
    both = [meaning_document(replace(each, reference="", spark="")) for each in (old, new)]
    return document_checksum({"old": both[0], "new": both[1]})[:6]


def _no_writer(found: object) -> StartupError:
    name = type(found).__name__
    return StartupError(
        "SM-MEANING-006",
        f"{name} is not the writer of a query",
        expected="what writeStream returns, with the output mode and the checkpoint set",
        found=name,
        next_action="start it without `guarded` if it is an EmbeddedQuery, which compares each of "
        "its starts; else call guarded(stream.writeStream...)",
    )


def _without_plan() -> UnsupportedError:
    return UnsupportedError(
        "SM-MEANING-003",
        "what the query's state means cannot be seen in this session",
        expected="a session of classic Spark, which shows how it plans a stream",
        found="a session of Spark Connect",
        next_action="run `statemigrate plan CHECKPOINT --code MODULE:FUNCTION` where PySpark "
        "starts Spark itself, before the query is deployed",
    )
