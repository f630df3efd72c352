"""The start on Spark's own state: code, scripts and checkpoint compared (rule 10).

Families that are found empty leave the read path (rule 11).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.deployment import (
    ENVELOPE,
    SETTINGS,
    Declared,
    DeploymentSettings,
    StoredFamily,
    StoredStore,
    StoreFacts,
    StorePlan,
    applied_scripts,
    check_expiry,
    check_scripted,
    check_targets,
    family_name,
    is_family_of,
    is_only_looking,
    note_variable,
    recorded_call,
    revision_in,
    settings_for_query,
)
from statemigrate.errors import LineageError, StartupError, StatemigrateError
from statemigrate.event_log import Facts, Note, Stamp, StoreRevision
from statemigrate.files import Remembered, open_files
from statemigrate.formats import Struct
from statemigrate.formats.struct import shape_of
from statemigrate.migration import Lineage
from statemigrate.native.checkpoint import SparkCheckpoint
from statemigrate.native.deployed_variables import Deployed, MigrationCounts, Undeployable
from statemigrate.native.deployment_check import (
    ObservedCheckpoint,
    StoreRecord,
    is_planning,
    read_record,
    write_record,
)
from statemigrate.native.functions import Function, MigratedFunction, StorePlans
from statemigrate.native.listing import read_listing
from statemigrate.native.retrying import whole
from statemigrate.native.startup_stored import CommittedStores, read_stores
from statemigrate.native.versions import check_kind, check_spark_version
from statemigrate.processor import (
    FUNCTIONS,
    PROCESSORS,
    Listening,
    Start,
    check_called_by_key,
    check_scripts,
    declared_variables,
    require_workers,
)
from statemigrate.quoting import argument

Drained = dict[str, tuple[StoredFamily, ...]]


def checked(
    processor: Any, settings: DeploymentSettings, lineages: Mapping[str, Lineage]
) -> Deployed:
    """Compare code, scripts and the checkpoint's committed state.

    Families that hold nothing leave the read path, and are dropped by the deployment's first batch
    unless ``settings`` say otherwise. Where nothing is committed yet nothing was seen, and every
    revision may have values. Nothing is written: the record is, when the query starts. Raises
    `StartupError` before anything is touched.
    """
    path = settings.checkpoint
    assert path is not None  # noqa: S101 - the caller asked for this
    check_called_by_key(processor)
    files = Remembered(open_files(path))
    observed = ObservedCheckpoint.at(path, files, of=settings.call)
    checkpoint = SparkCheckpoint(
        observed.checkpoint, operator=settings.operator, paged=False, files=files
    )
    checkpoint.check_provider()
    declared = declared_variables(processor, Listening)
    check_targets(settings, declared)
    checkpoint.check_not_moved()
    checkpoint.check_operator([each.store for each in declared])
    checkpoint.check_names([each.store for each in declared if each.store in lineages])
    counts = MigrationCounts.of_session()
    if not observed.is_something:
        unobserved = Deployed(settings, lineages, counts=counts, observed=observed)
        plans = {
            each.store: plan for each in declared if (plan := unobserved.plan(each)) is not None
        }
        note = Note(Stamp.of(processor), {name: _alone(each) for name, each in plans.items()})
        return replace(unobserved, records=_records(plans, {}, {}, observed, settings), note=note)
    record = read_record(files)
    migrating = {each.store: each for each in declared if each.store in lineages}
    for each in migrating.values():
        check_kind(each.kind, each.store)
    state = read_stores(checkpoint, migrating, lineages, record, settings.accept_edited)
    for each in declared:
        if each.store not in migrating:
            families = {*state.variables, *record.get(each.store, StoreRecord()).families}
            check_scripted(each.store, sorted(families - {*settings.accept_edited}))
    stores = {store: _fitting(each, state) for store, each in migrating.items()}
    start = Start(processor, settings, tuple(migrating.values()), lineages)
    plans = start.plans({store: each for store, each in stores.items() if each is not None})
    drained = _drained(plans, state)
    live = {store: _without(each, drained[store]) for store, each in stores.items() if each}
    records = _records(plans, drained, record, observed, settings)
    note = Note(
        Stamp.of(processor),
        _standings(plans, records),
        dropped=_dropped(drained) if settings.retire_drained else {},
    )
    return Deployed(settings, lineages, live, drained, counts, observed, records, note)


def _alone(plan: StorePlan) -> StoreRevision:
    """A store that nobody looked into: its other families may be there, and none is known."""
    return StoreRevision(plan.target.revision, (plan.target.name,), plan.lineage.revisions)


def _standings(
    plans: Mapping[str, StorePlan], records: Mapping[str, StoreRecord]
) -> dict[str, StoreRevision]:
    return {
        store: StoreRevision(plan.target.revision, records[store].families, plan.lineage.revisions)
        for store, plan in plans.items()
    }


def _dropped(drained: Drained) -> dict[str, tuple[str, ...]]:
    return {store: tuple(each.name for each in found) for store, found in drained.items() if found}


def _fitting(declared: Declared, state: CommittedStores) -> StoredStore | None:
    """What is stored of a declared store, whose values expire if and only if the code's do."""
    facts = state.stores.get(declared.store, StoreFacts())
    check_expiry(declared, facts)
    return facts.stored_for(declared)


def _drained(plans: Mapping[str, StorePlan], state: CommittedStores) -> Drained:
    """By store, the families seen to be empty."""
    return {
        store: tuple(
            family
            for family in plan.sources
            if family.occupancy == "nothing" and family.name in state.variables
        )
        for store, plan in plans.items()
    }


def _without(store: StoredStore, drained: tuple[StoredFamily, ...]) -> StoredStore:
    names = {each.name for each in drained}
    live = tuple(each for each in store.families if each.name not in names)
    return replace(store, families=live)


def _records(
    plans: Mapping[str, StorePlan],
    drained: Drained,
    record: Mapping[str, StoreRecord],
    observed: ObservedCheckpoint,
    settings: DeploymentSettings,
) -> dict[str, StoreRecord]:
    """What is to be noted of each store once the query has started."""
    gone = [each for families in drained.values() for each in families]
    retired = {each.name for each in gone if settings.retire_drained}
    return {
        store: StoreRecord(
            tuple(f.name for f in (plan.target, *plan.sources) if f.name not in retired),
            observed.batch,
            {**record.get(store, StoreRecord()).applied, **plan.stored().applied},
            observed.deployment,
            call=settings.call,
        )
        for store, plan in plans.items()
    }


# What is made on the driver when a processor is marked: its deployment.


_log = logging.getLogger("statemigrate.native")


def deployed(processor: Any, settings: DeploymentSettings) -> Deployed | Undeployable:
    """Read the scripts and, where ``settings`` name a checkpoint, compare it with the code.

    Raises what `statemigrate.native.decorator.migrated` says.
    """
    from statemigrate.scripts import ScriptFolder

    check_spark_version()
    settings = settings_for_query(settings)
    if is_only_looking():
        return _tried(processor, settings)
    is_starting = not _is_worker()
    if is_starting:
        require_workers(PROCESSORS)
    if settings.checkpoint is not None and is_starting:
        lineages = ScriptFolder(settings.migrations).lineages()
        check_scripts(lineages)
        return whole(lambda: checked(processor, settings, lineages), settings.checkpoint)
    try:
        lineages = ScriptFolder(settings.migrations).lineages()
        if is_starting:
            check_scripts(lineages)
    except StatemigrateError as error:
        return Undeployable(error)
    deployment = Deployed(settings, lineages, counts=MigrationCounts.of_session())
    error_of_init = _error_of_init(processor, deployment) if is_starting else None
    return deployment if error_of_init is None else Undeployable(error_of_init)


_NO_FOLDER = "SM-SCRIPT-005"


def _tried(processor: Any, settings: DeploymentSettings) -> Deployed | Undeployable:
    """The deployment of code that is only tried, perhaps before its scripts are written.

    A store whose scripts do not lead to what the code declares is as code without scripts has it:
    what is to be written is for the one to say who tries the code.
    """
    from statemigrate.scripts import ScriptFolder

    try:
        lineages = ScriptFolder(settings.migrations).lineages()
    except StatemigrateError as error:
        if error.code != _NO_FOLDER:
            return Undeployable(error)
        lineages = {}
    tried = Deployed(settings, lineages, counts=MigrationCounts.of_session())
    try:
        declared = declared_variables(processor, Listening)
    except Exception:
        # Spark calls init again, and reports the user's own error.
        _log.debug("init of %s fails when tried", type(processor).__qualname__, exc_info=True)
        return tried
    fitting = {each.store for each in declared if _noted(tried, each)}
    own = {each.store for each in declared}
    return replace(
        tried, lineages={s: each for s, each in lineages.items() if s in fitting or s not in own}
    )


def _noted(deployment: Deployed, declared: Declared) -> bool:
    """Note how what the code declares is read and written; False where no script leads there."""
    try:
        plan = deployment.plan(declared)
    except StatemigrateError:
        return False
    if plan is not None:
        note_variable(plan)
    return plan is not None


def _error_of_init(processor: Any, deployment: Deployed) -> StatemigrateError | None:
    """The error that ``init`` will raise when Spark calls it, if it is one of this package.

    Spark shows no error that is raised in ``init``: it reports that a worker crashed.
    """
    try:
        declared = declared_variables(processor, Listening)
        check_targets(deployment.settings, declared)
        for each in declared:
            deployment.plan(each)
    except StatemigrateError as error:
        return error
    except Exception:
        # The user's own error. Spark calls init again where the query runs, and reports it.
        _log.debug("init of %s fails on the driver", type(processor).__qualname__, exc_info=True)
    return None


def _is_worker() -> bool:
    """Whether this is Spark's process, which imports the user's module once more."""
    from pyspark import TaskContext

    return TaskContext.get() is not None or is_planning()


# Code without `migrated` on a checkpoint whose state is in families it does not know.


def check_forgetting(checkpoint: str, operator: int | None, code: Any) -> None:
    """Raise `StartupError` if ``code``, which is not migrated, would make Spark forget values.

    Spark drops a state variable that no code declares, and says nothing.
    """
    batch = CheckpointDirectory(open_files(checkpoint), checkpoint).last_commit()
    if batch < 0:
        return
    record = read_record(checkpoint)
    if not hasattr(code, "handleInputRows"):
        _check_function(checkpoint, sorted(record))
        return
    variables = read_listing(checkpoint, batch, operator).variables
    live = {
        name
        for store, each in record.items()
        for name in each.families
        # Another operator of the query has stores of its own.
        if any(is_family_of(store, variable) for variable in variables)
    }
    listed = {name for name in variables if revision_in(name)}
    declared = {each.store for each in declared_variables(code, Listening)}
    unknown = sorted((live | listed) - declared)
    if unknown:
        raise StartupError(
            "SM-START-022",
            f"{type(code).__qualname__} is not migrated, and the state is in families it does not "
            "declare",
            expected=f"{_migrating(type(code).__qualname__, record)}, since the checkpoint has "
            f"{', '.join(sorted(live | listed))}",
            found=f"only {', '.join(sorted(declared)) or 'no state variable'}: Spark would forget "
            f"{', '.join(unknown)} with every value in it",
            next_action="declare the operator so again; to go back to an older format, with "
            "targets=",
            path=checkpoint,
        )


def _migrating(name: str, record: Mapping[str, StoreRecord]) -> str:
    call = recorded_call(each.call for each in record.values())
    return (
        f"migrated({name}(...), ...)"
        if call == "migrated"
        else (f"stateful(..., processor={name}(...), ...), or migrated({name}(...), ...)")
    )


def _check_function(checkpoint: str, stores: list[str]) -> None:
    if stores:
        raise StartupError(
            "SM-START-023",
            "the function is not migrated, and the state is in envelopes",
            expected=f"migrated(function, store={stores[0]!r}, ...)",
            found="a function that would be handed the envelope in place of its value",
            next_action="put migrated around the function again; to go back to an older format, "
            "with targets=",
            path=checkpoint,
        )


# The start-up check for a function of ``applyInPandasWithState`` (rule 10).


def declared_by(lineage: Lineage, settings: DeploymentSettings) -> Declared:
    """The store as a function has it, whose code declares no format of its own."""
    target = lineage.resolve(settings.target_of(lineage.store))
    return Declared(lineage.store, "value", lineage.format_of(target))


def compare_with_checkpoint(
    declared: Declared, lineage: Lineage, settings: DeploymentSettings, function: object
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
    start = Start(function, settings, (declared,), {lineage.store: lineage})
    plans = start.plans({lineage.store: stored})
    applied = {**known.applied, **plans[lineage.store].stored().applied}
    own_record = StoreRecord((), observed.batch, applied, observed.deployment)
    start.note(plans).start(files, observed.batch + 1, Facts())
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


def _check_complement(store: str, settings: DeploymentSettings) -> None:
    if settings.complement:
        raise StartupError(
            "SM-START-034",
            f"store {store}: a function for applyInPandasWithState cannot have complements",
            expected="no complement=True: its state is one envelope a key",
            found="complement=True",
            next_action="leave complement=True out, or move the code to a StatefulProcessor",
            store=store,
        )


def migrated_function(
    function: Function, store: str, settings: DeploymentSettings
) -> MigratedFunction:
    """Read the scripts and, where ``settings`` name a checkpoint, compare it with them.

    Raises what `statemigrate.native.decorator.migrated` says.
    """
    _check_complement(store, settings)
    settings = settings_for_query(settings)
    made = MigratedFunction(function, store, _plans_of(function, store, settings))
    setattr(made, SETTINGS, settings)
    return made


def _plans_of(
    function: Function, store: str, settings: DeploymentSettings
) -> StorePlans | Undeployable:
    from pyspark import TaskContext

    is_starting = TaskContext.get() is None and not is_only_looking()
    if is_starting:
        require_workers(FUNCTIONS)
    if settings.checkpoint is not None and is_starting:
        return _deployable(function, store, settings)
    # A worker that imports the function's module gets here, and has neither scripts nor session.
    try:
        return _deployable(function, store, settings, compared=False)
    except StatemigrateError as error:
        return Undeployable(error)


def _deployable(
    function: Function, store: str, settings: DeploymentSettings, *, compared: bool = True
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
