"""The start of a query, the same on every engine: its workers, its scripts, a plan for each store.

An engine adds its catalog: what its checkpoint stores of each store, as it read it. The plans, and
what the log records, follow from that and from the code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statemigrate.deployment import (
    SETTINGS,
    Declared,
    DeploymentSettings,
    StoredStore,
    StorePlan,
    check_targets,
    fitting_lineages,
    is_only_looking,
    plan_store,
    settings_for_query,
)
from statemigrate.errors import UnsupportedError
from statemigrate.event_log import Note, Stamp, planned_revisions
from statemigrate.migration import Lineage
from statemigrate.processor.handle import DualAccessHandle, declared_variables
from statemigrate.processor.workers import (
    Packages,
    check_packages,
    check_scripts,
    use_this_python,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Start:
    """What a query starts with: its code with the settings, what it declares, and the lineages."""

    code: object
    settings: DeploymentSettings
    declared: Sequence[Declared]
    lineages: Mapping[str, Lineage]

    @classmethod
    def of(
        cls, processor: Any, handle: Callable[..., DualAccessHandle], session: SparkSession
    ) -> Start:
        """The start of a processor, whose ``init`` gets a ``handle``.

        Without `migrated` it has no lineages, and its stores keep their formats. Raises
        `StartupError` where a target is not one of its stores, or workers lack what scripts import.
        """
        settings = settings_for_query(getattr(processor, SETTINGS, DeploymentSettings()))
        declared = declared_variables(processor, handle)
        check_targets(settings, declared)
        is_migrated = hasattr(processor, SETTINGS)
        lineages = _lineages(settings, declared, session) if is_migrated else {}
        return cls(processor, settings, declared, lineages)

    def plans(self, catalog: Mapping[str, StoredStore]) -> dict[str, StorePlan]:
        """How each declared store is read and written, by name; raises as `plan_store`.

        ``catalog`` has what the checkpoint stores; a store that is not in it is new.
        """
        return {
            each.store: plan_store(
                each, self.lineages.get(each.store), catalog.get(each.store), self.settings
            )
            for each in self.declared
        }

    def note(self, plans: Mapping[str, StorePlan], **more: Any) -> Note:
        """What the log records of the start; ``more`` are fields of the `Note`."""
        return Note(Stamp.of(self.code), planned_revisions(plans), **more)


def is_by_table(processor: object) -> bool:
    """Whether a processor is a `BatchProcessor`."""
    # By its method: a driver that asks need not load what tables need.
    return hasattr(processor, "handleBatch")


def check_called_by_key(processor: object) -> None:
    """Raise `UnsupportedError` for a `BatchProcessor`, on an engine that has no batches for it."""
    if is_by_table(processor):
        raise called_by_key(processor)


def called_by_key(processor: object) -> UnsupportedError:
    """The error for a batch processor on an engine that calls processors key by key."""
    name = type(processor).__qualname__
    return UnsupportedError(
        "SM-PROCESSOR-008",
        f"{name} is a batch processor, and this engine calls processors key by key",
        expected="a StatefulProcessor with handleInputRows; or state in pages, or the embedded "
        "engine",
        found=f"{name}, a BatchProcessor",
        next_action="run it with statemigrate.paged, stateful(pages=...) or EmbeddedQuery; or "
        "write handleInputRows",
    )


def no_timers_by_table(found: str) -> UnsupportedError:
    """The error for a batch processor and timers, wherever the two meet."""
    return UnsupportedError(
        "SM-PROCESSOR-010",
        "a batch processor has no timers",
        expected="state without timers",
        found=found,
        next_action="keep the time in the value and compare it in handleBatch; or write "
        "handleInputRows and handleExpiredTimer",
    )


def require_workers(packages: Packages, session: SparkSession | None = None) -> None:
    """Let local workers run this Python, and raise `StartupError` where workers lack ``packages``.

    Before the first batch, whose error could not say so: a worker without this package cannot.
    """
    use_this_python(session)
    check_packages(packages, session)


def _lineages(
    settings: DeploymentSettings, declared: Sequence[Declared], session: SparkSession
) -> Mapping[str, Lineage]:
    from statemigrate.scripts import ScriptFolder, lineages_if_any

    if is_only_looking():
        return fitting_lineages(declared, lineages_if_any(settings.migrations), settings)
    lineages = ScriptFolder(settings.migrations).lineages()
    own = {each.store: lineages[each.store] for each in declared if each.store in lineages}
    check_scripts(own, session)
    return own
