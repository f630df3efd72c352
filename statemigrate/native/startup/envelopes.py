"""The start-up check for a function of ``applyInPandasWithState`` (rule 10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statemigrate.deployment import (
    Declared,
    Settings,
    StoredFamily,
    StoredStore,
    applied_scripts,
    family_name,
    plan_store,
)
from statemigrate.errors import StartupError
from statemigrate.files.opening import open_files
from statemigrate.files.remembered import Remembered
from statemigrate.formats import Struct
from statemigrate.formats.struct.shape import shape_of
from statemigrate.logbook.code import Stamp
from statemigrate.logbook.noting import Note
from statemigrate.logbook.standing import Facts, Standing
from statemigrate.migration import Lineage
from statemigrate.native.live.envelope import ENVELOPE
from statemigrate.native.seen.record import StoreRecord, read_record, write_record
from statemigrate.native.seen.seen import Seen
from statemigrate.native.spark_state.reader import SparkCheckpoint
from statemigrate.shell import argument


def declared_by(lineage: Lineage, settings: Settings) -> Declared:
    """The store as a function has it, whose code declares no format of its own."""
    target = lineage.resolve(settings.targets.get(lineage.store, "head"))
    return Declared(lineage.store, "value", lineage.format_of(target))


def compare_with_checkpoint(
    declared: Declared, lineage: Lineage, settings: Settings, function: object
) -> Seen:
    """What was seen. Raises `StartupError` where scripts and the committed state do not fit.

    The checkpoint's log is told of the ``function``, also before there is more of the checkpoint:
    nothing of it runs on the driver later. The scripts' checksums are left where there is a query,
    for the next one to compare.
    """
    path = settings.checkpoint
    assert path is not None  # noqa: S101 - the caller asked for this
    files = Remembered(open_files(path))
    seen = Seen.at(path, files)
    checkpoint = SparkCheckpoint(seen.checkpoint, operator=settings.operator, files=files)
    record = read_record(checkpoint.files)
    known = record.get(lineage.store, StoreRecord())
    revisions = _revisions(checkpoint) if seen.is_something else []
    stored = stored_envelopes(lineage, revisions, known)
    plan = plan_store(declared, lineage, stored, settings)
    applied = {**known.applied, **plan.stored().applied}
    mine = StoreRecord((), seen.batch, applied, seen.deployment)
    note = Note(Stamp.of(function), {lineage.store: Standing.of_plan(plan)})
    note.start(files, seen.batch + 1, Facts())
    if seen.query is not None:
        write_record(files, {**record, lineage.store: mine})
    return seen


def _revisions(checkpoint: SparkCheckpoint) -> list[str]:
    """The revisions that any key's envelope has."""
    state = checkpoint.held_by_function().select("value.*")
    if shape_of(state.schema) != shape_of(Struct(ENVELOPE).struct_type()):
        raise _no_envelope(checkpoint.path, state.schema)
    return sorted(str(row.revision) for row in state.select("revision").distinct().collect())


def stored_envelopes(lineage: Lineage, revisions: Sequence[str], known: StoreRecord) -> StoredStore:
    """What the checkpoint holds, by the revisions that any key's envelope has."""
    families = tuple(_family(lineage, revision) for revision in revisions)
    return StoredStore("value", families, applied_scripts(lineage, families, known.applied))


def _family(lineage: Lineage, revision: str) -> StoredFamily:
    # At least one key's envelope says so.
    fmt = lineage.format_of(revision) if revision in lineage else Struct(ENVELOPE)
    return StoredFamily(family_name(lineage, revision), revision, fmt, "something")


def _no_envelope(path: str, schema: Any) -> StartupError:
    return StartupError(
        "SM-START-021",
        f"the state in {path} was written without an envelope, and Spark cannot change the state "
        "schema of a query",
        expected=ENVELOPE,
        found=schema.simpleString(),
        next_action="stop the query and `statemigrate rewrite "
        f"{argument(path)} NEW --code MODULE:FUNCTION`, which makes a checkpoint NEW for code that "
        "keeps another struct without migrated, or that has a transformWithState in the function's "
        "place, whose state then migrates live",
        path=path,
    )
