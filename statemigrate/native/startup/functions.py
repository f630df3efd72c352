"""What is made on the driver when a function of ``applyInPandasWithState`` is wrapped."""

from __future__ import annotations

from functools import partial

from statemigrate.deployment import SETTINGS, Settings, check_targets
from statemigrate.deployment.looking import is_only_looking
from statemigrate.errors import LineageError, StatemigrateError
from statemigrate.native.live.deployed import Deployed, Undeployable
from statemigrate.native.live.functions import Function, MigratedFunction, StorePlans
from statemigrate.native.spark_state.retrying import whole
from statemigrate.native.startup.envelopes import compare_with_checkpoint, declared_by
from statemigrate.processor.workers import (
    FUNCTIONS,
    check_packages,
    check_scripts,
    use_this_python,
)
from statemigrate.shell import argument


def migrated_function(function: Function, store: str, settings: Settings) -> MigratedFunction:
    """Read the scripts and, where ``settings`` name a checkpoint, compare it with them.

    Raises what `statemigrate.native.decorator.migrated` says.
    """
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
    seen = None
    if compared:
        compare = partial(compare_with_checkpoint, declared, lineage, settings, function)
        seen = whole(compare, str(settings.checkpoint))
    plan = Deployed(settings, {store: lineage}).plan(declared)
    assert plan is not None  # noqa: S101 - the store has a lineage
    return StorePlans(plan, settings, seen)
