"""What is made on the driver when a processor is marked: its deployment."""

from __future__ import annotations

import logging
from typing import Any

from statemigrate.deployment import Settings, check_targets
from statemigrate.deployment.looking import is_only_looking
from statemigrate.errors import StatemigrateError
from statemigrate.native.live.counts import MigrationCounts
from statemigrate.native.live.deployed import Deployed, Undeployable
from statemigrate.native.seen.comparing import is_planning
from statemigrate.native.spark_state.retrying import whole
from statemigrate.native.spark_state.versions import check_spark_version
from statemigrate.native.startup.variables import checked
from statemigrate.processor.variables.handle import Listening, declared_variables
from statemigrate.processor.workers import (
    PROCESSORS,
    check_packages,
    check_scripts,
    use_this_python,
)

_log = logging.getLogger("statemigrate.native")


def deployed(processor: Any, settings: Settings) -> Deployed | Undeployable:
    """Read the scripts and, where ``settings`` name a checkpoint, compare it with the code.

    Raises what `statemigrate.native.decorator.migrated` says.
    """
    from statemigrate.scripts import ScriptFolder

    check_spark_version()
    is_starting = not _is_worker() and not is_only_looking()
    if is_starting:
        use_this_python()
        # Not for the first batch to say: a worker without this package could not.
        check_packages(PROCESSORS)
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
