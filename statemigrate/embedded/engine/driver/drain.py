"""The end of a run that ends by itself: what no row has touched is migrated too, and dropped.

A nightly run has few batches, and each of them backfills only a part. Once Spark has committed the
last one nothing else writes to the state, and the rest is done as for a stopped query: chunk by
chunk, each of them committed by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from statemigrate.embedded.options import EmbeddedOptions

if TYPE_CHECKING:
    from statemigrate.deployment import StorePlan
    from statemigrate.embedded.engine.stopped.offline import StoppedBackfill, StoppedQuery
    from statemigrate.embedded.versions.manifest import Manifest


@dataclass(frozen=True)
class Held:
    """The state after the last batch, and how its stores are to be accessed."""

    query: StoppedQuery
    manifest: Manifest
    plans: Mapping[str, StorePlan]

    def is_empty(self) -> bool:
        """Whether no family but the targets holds a value."""
        names = [family.name for plan in self.plans.values() for family in plan.sources]
        # What the first release noted is counted again before it is acted on.
        return self.manifest.is_counted and all(self.manifest.is_empty(name) for name in names)


class Drain:
    """A backfill to the end, made once; ``held`` opens the state, None where there is none."""

    def __init__(self, held: Callable[[], Held | None], options: EmbeddedOptions) -> None:
        self._held = held
        self._options = options
        self._cancelled = threading.Event()
        self.done: StoppedBackfill | None = None
        self.error: Exception | None = None

    def cancel(self) -> None:
        """End it after the chunk that is being migrated, which is kept."""
        self._cancelled.set()

    def run(self) -> None:
        """Migrate what is left, then drop what is empty; an error is kept for who waits."""
        try:
            self._run()
        except _CancelledError:
            # Each chunk is committed: the next run goes on from there.
            return
        except Exception as error:
            self.error = error

    def _run(self) -> None:
        self._go_on()
        held = self._held()
        if held is None or not any(plan.sources for plan in held.plans.values()):
            return
        if not held.is_empty():
            on_error = self._options.backfill.on_error
            self.done = held.query.backfill(held.plans, on_error=on_error, tick=self._go_on)
        if self._options.retire_drained:
            held.query.retire(held.plans)

    def _go_on(self, *_figures: int) -> None:
        if self._cancelled.is_set():
            raise _CancelledError


class _CancelledError(Exception):
    """The query was stopped meanwhile."""


def drains(options: EmbeddedOptions, trigger: Mapping[str, object]) -> bool:
    """Whether a run with this trigger is to end with nothing left."""
    ends = bool(trigger.get("availableNow") or trigger.get("once"))
    return ends and options.backfill.enabled and options.backfill.drain
