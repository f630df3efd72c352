"""The start-up check for a function of ``applyInPandasWithState`` (rule 10)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from statemigrate.deployment import (
    SETTINGS,
    Declared,
    Settings,
    StoredFamily,
    StoredStore,
    applied_scripts,
    check_targets,
    family_name,
    plan_store,
)
from statemigrate.deployment.code import is_only_looking
from statemigrate.errors import LineageError, StartupError, StatemigrateError
from statemigrate.event_log.events import Stamp
from statemigrate.event_log.log import Facts, Note, StoreRevision
from statemigrate.files.cached import Remembered
from statemigrate.files.open import open_files
from statemigrate.formats import Struct
from statemigrate.formats.struct.rules import shape_of
from statemigrate.migration import Lineage
from statemigrate.native.checkpoint import SparkCheckpoint
from statemigrate.native.deployed import Deployed, Undeployable
from statemigrate.native.deployment_check import (
    ObservedCheckpoint,
    StoreRecord,
    read_record,
    write_record,
)
from statemigrate.native.envelope import ENVELOPE
from statemigrate.native.functions import Function, MigratedFunction, StorePlans
from statemigrate.native.retrying import whole
from statemigrate.processor.workers import FUNCTIONS, check_packages, check_scripts, use_this_python
from statemigrate.quoting import argument


def declared_by(lineage: Lineage, settings: Settings) -> Declared:
    """The store as a function has it, whose code declares no format of its own."""
    target = lineage.resolve(settings.targets.get(lineage.store, "head"))
    return Declared(lineage.store, "value", lineage.format_of(target))


def compare_with_checkpoint(
    declared: Declared, lineage: Lineage, settings: Settings, function: object
) -> ObservedCheckpoint:
    """What was seen. Raises `StartupError` where scripts and the committed state do not fit.

    The checkpoint's log records the ``function``, also before there is more of the checkpoint:
    nothing of it runs on the driver later. The scripts' checksums are left where there is a query,
    for the next one to compare.
    """
    path = settings.checkpoint
    assert path is not None  # noqa: S101 - the caller asked for this
    files = Remembered(open_files(path))
    observed = ObservedCheckpoint.at(path, files)
    checkpoint = SparkCheckpoint(observed.checkpoint, operator=settings.operator, files=files)
    record = read_record(checkpoint.files)
    known = record.get(lineage.store, StoreRecord())
    revisions = _revisions(checkpoint) if observed.is_something else []
    stored = stored_envelopes(lineage, revisions, known)
    plan = plan_store(declared, lineage, stored, settings)
    applied = {**known.applied, **plan.stored().applied}
    own_record = StoreRecord((), observed.batch, applied, observed.deployment)
    note = Note(Stamp.of(function), {lineage.store: StoreRevision.of_plan(plan)})
    note.start(files, observed.batch + 1, Facts())
    if observed.query is not None:
        write_record(files, {**record, lineage.store: own_record})
    return observed


def _revisions(checkpoint: SparkCheckpoint) -> list[str]:
    """The revisions that any key's envelope has."""
    state = checkpoint.function_state().select("value.*")
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


# What is made on the driver when a function of ``applyInPandasWithState`` is wrapped.


def _check_complement(store: str, settings: Settings) -> None:
    if settings.complement:
        raise StartupError(
            "SM-START-034",
            f"store {store}: a function for applyInPandasWithState cannot have complements",
            expected="no complement=True: its state is one envelope a key",
            found="complement=True",
            next_action="leave complement=True out, or move the code to a StatefulProcessor",
            store=store,
        )


def migrated_function(function: Function, store: str, settings: Settings) -> MigratedFunction:
    """Read the scripts and, where ``settings`` name a checkpoint, compare it with them.

    Raises what `statemigrate.native.decorator.migrated` says.
    """
    _check_complement(store, settings)
    made = MigratedFunction(function, store, _found(function, store, settings))
    setattr(made, SETTINGS, settings)
    return made


def _found(function: Function, store: str, settings: Settings) -> StorePlans | Undeployable:
    from pyspark import TaskContext

    is_starting = TaskContext.get() is None and not is_only_looking()
    if is_starting:
        use_this_python()
        # Not for the first batch to say: a worker without this package could not.
        check_packages(FUNCTIONS)
    if settings.checkpoint is not None and is_starting:
        return _deployable(function, store, settings)
    # A worker that imports the function's module gets here, and has neither scripts nor session.
    try:
        return _deployable(function, store, settings, compared=False)
    except StatemigrateError as error:
        return Undeployable(error)


def _deployable(
    function: Function, store: str, settings: Settings, *, compared: bool = True
) -> StorePlans:
    from pyspark import TaskContext

    from statemigrate.scripts import ScriptFolder

    lineage = ScriptFolder(settings.migrations).lineages().get(store)
    if lineage is None:
        raise LineageError(
            "SM-LINEAGE-017",
            f"store {store} has no migration script in {settings.migrations}",
            expected="at least a baseline, which says what format the state has today",
            found="none",
            next_action=f"`statemigrate new {argument(store)} -m MESSAGE`",
            store=store,
        )
    if not is_only_looking() and TaskContext.get() is None:
        check_scripts({store: lineage})
    declared = declared_by(lineage, settings)
    check_targets(settings, (declared,))
    observed = None
    if compared:
        compare = partial(compare_with_checkpoint, declared, lineage, settings, function)
        observed = whole(compare, str(settings.checkpoint))
    plan = Deployed(settings, {store: lineage}).plan(declared)
    assert plan is not None  # noqa: S101 - the store has a lineage
    return StorePlans(plan, settings, observed)
