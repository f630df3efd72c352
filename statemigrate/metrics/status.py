"""Metrics of looks at checkpoints from outside, which know of scripts that nobody deployed yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from statemigrate.metrics.instruments import StatusInstruments, meter_of

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider


class _Behind(Protocol):
    @property
    def scripts(self) -> Sequence[str]: ...


class _Store(Protocol):
    @property
    def store(self) -> str: ...

    @property
    def left(self) -> int: ...

    @property
    def behind(self) -> _Behind | None: ...

    @property
    def state(self) -> str: ...


class _Status(Protocol):
    @property
    def engine(self) -> str: ...

    @property
    def stores(self) -> Sequence[_Store]: ...


class _Checkpoint(Protocol):
    @property
    def name(self) -> str: ...


class _Look(Protocol):
    @property
    def checkpoint(self) -> _Checkpoint: ...

    @property
    def status(self) -> _Status | None: ...


class Looks(Protocol):
    """What is recorded of a `Fleet`: metrics lie below what looks."""

    @property
    def looks(self) -> Sequence[_Look]:
        """What was found at each checkpoint."""


class StatusMetrics:
    """Records the results of `status_of_all` as gauges: pass each look to `record`.

    A running query knows only the scripts of its start. A look from the machine that has the
    scripts also finds newer ones. ``query`` is the checkpoint's name in every data point;
    ``meter_provider`` is OpenTelemetry's global one by default.

    Raises `StatemigrateError` unless ``statemigrate[metrics]`` is installed.
    """

    def __init__(self, *, meter_provider: MeterProvider | None = None) -> None:
        self._instruments = StatusInstruments(meter_of(meter_provider))
        self._recorded: dict[str, set[tuple[str, str]]] = {}

    def record(self, fleet: Looks) -> None:
        """Record one look at all checkpoints. For an unreadable one, only that is recorded."""
        for look in fleet.looks:
            self._record(look)

    def _record(self, look: _Look) -> None:
        query = {"query": look.checkpoint.name}
        self._instruments.readable.set(int(look.status is not None), query)
        if look.status is None:
            return
        found = {(look.status.engine, each.store): each for each in look.status.stores}
        # A store that is gone would keep its last numbers.
        stores = self._recorded.setdefault(look.checkpoint.name, set())
        stores.update(found)
        for engine, store in sorted(stores):
            each = found.get((engine, store))
            at = {**query, "engine": engine, "store": store}
            behind = None if each is None else each.behind
            self._instruments.left.set(0 if each is None else each.left, at)
            self._instruments.behind.set(0 if behind is None else len(behind.scripts), at)
            self._instruments.unknown.set(int(each is not None and each.state == "unknown"), at)
