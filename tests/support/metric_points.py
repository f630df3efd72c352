"""What an OpenTelemetry reader has collected, as plain values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from opentelemetry.metrics import Counter, NoOpMeterProvider
from opentelemetry.metrics import NoOpMeter as Meter

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
PREFIX = "statemigrate."


def metrics(reader: Any) -> dict[str, Any]:
    """By name without its prefix, the metrics collected so far."""
    data = reader.get_metrics_data()
    if data is None:
        return {}
    (resource,) = data.resource_metrics
    (scope,) = resource.scope_metrics
    assert scope.scope.name == "statemigrate"
    assert all(metric.name.startswith(PREFIX) for metric in scope.metrics)
    return {metric.name.removeprefix(PREFIX): metric for metric in scope.metrics}


def points(reader: Any) -> dict[tuple[Any, ...], Any]:
    """By name and attributes, each point's value; a histogram's is (count, sum)."""
    return {
        (name, *sorted(point.attributes.items())): value_of(point)
        for name, metric in metrics(reader).items()
        for point in metric.data.data_points
    }


def value_of(point: Any) -> Any:
    return (point.count, round(point.sum, 9)) if hasattr(point, "bucket_counts") else point.value


def page_code(number: int) -> str:
    """The code blocks of the page on metrics."""
    blocks = re.findall(r"^```python[^\n]*\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return blocks[number]


class RaisingProvider(NoOpMeterProvider):
    """A provider whose counters raise while ``broken``, and remember what they were given."""

    def __init__(self) -> None:
        self.broken = True
        self.added: list[tuple[float, dict[str, Any]]] = []

    def get_meter(self, name: str, *arguments: Any, **named: Any) -> Meter:
        return _RaisingMeter(name, self)


class _RaisingMeter(Meter):
    def __init__(self, name: str, provider: RaisingProvider) -> None:
        super().__init__(name)
        self._provider = provider

    def create_counter(self, name: str, unit: str = "", description: str = "") -> Counter:
        return _RaisingCounter(self._provider)


class _RaisingCounter(Counter):
    def __init__(self, provider: RaisingProvider) -> None:
        self._provider = provider

    def add(self, amount: float, attributes: Any = None, context: Any = None) -> None:
        if self._provider.broken:
            raise ConnectionError("the collector is away")
        self._provider.added.append((amount, dict(attributes)))
