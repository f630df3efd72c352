"""The charts of a dry run's page as data: bars whose parts have widths in per cent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from statemigrate.inspect.dry_run_report import DryRunReport, FamilyTrial, FieldEffect
from statemigrate.inspect.report_text import counted, size

_EFFECTS = ("kept", "renamed", "changed", "emptied", "added", "removed")


@dataclass(frozen=True)
class BarPart:
    """A part of a bar: its ``kind`` names the colour, ``start`` and ``width`` are per cent."""

    kind: str
    values: int
    start: float
    width: float

    @property
    def is_tiny(self) -> bool:
        """Whether it would not be seen: a mark shows that it is there."""
        return 0 < self.width < 0.4


@dataclass(frozen=True)
class Bar:
    """A line of a chart: lanes one below the other, each with parts side by side."""

    label: str
    note: str
    lanes: tuple[tuple[BarPart, ...], ...]

    @property
    def description(self) -> str:
        """The whole line in words."""
        return f"{self.label}: {self.note}"


def share_bar(label: str, counts: Mapping[str, int]) -> Bar:
    """The parts of one whole, side by side."""
    return Bar(label, _noted(counts), (_parts(counts, sum(counts.values())),))


def outcome_bars(report: DryRunReport) -> list[Bar]:
    """Passed, failed and not sampled, a bar a family."""
    bars = []
    for family in report.families:
        counts = {
            "passed": family.passed,
            "failed": family.failed,
            "not sampled": family.stored - family.tried,
        }
        bars.append(Bar(family.family, _noted(counts), (_parts(counts, family.stored),)))
    return bars


def size_bars(family: FamilyTrial) -> list[Bar]:
    """The values by size, before and after; the longest bar is as wide as the chart."""
    before, after = family.sizes_before, family.sizes_after
    most = max([*before.values(), *after.values()], default=0)
    bars = []
    for limit in _limits({*before, *after}):
        counts = {"before": before.get(limit, 0), "after": after.get(limit, 0)}
        lanes = tuple(_parts({kind: values}, most) for kind, values in counts.items())
        bars.append(Bar(f"up to {size(limit)}", _noted(counts, empty=True), lanes))
    return bars


def field_bars(family: FamilyTrial) -> list[Bar]:
    """What happened to each field, a bar a field."""
    fields: dict[str, dict[str, int]] = {}
    for effect in family.fields:
        counts = fields.setdefault(effect.label, dict.fromkeys(_EFFECTS, 0))
        counts[effect.effect] += effect.values
    return [
        Bar(name, _noted(counts), (_parts(counts, family.looked_at),))
        for name, counts in fields.items()
    ]


def cause_bars(family: FamilyTrial) -> list[Bar]:
    """The causes of failures; the most frequent is as wide as the chart."""
    most = max((failure.values for failure in family.failures), default=0)
    return [
        Bar(each.cause, counted(each.values, "value"), (_parts({"failed": each.values}, most),))
        for each in family.failures
    ]


def with_examples(fields: Iterable[FieldEffect]) -> list[FieldEffect]:
    """The effects that have something to show: a kept field is the same on both sides."""
    return [each for each in fields if each.examples]


def _parts(counts: Mapping[str, int], whole: int) -> tuple[BarPart, ...]:
    # A report whose parts are more than the whole must not draw outside the chart.
    whole = max(whole, sum(counts.values()), 1)
    parts, start = [], 0
    for kind, values in counts.items():
        if values > 0:
            parts.append(BarPart(kind, values, 100 * start / whole, 100 * values / whole))
            start += values
    return tuple(parts)


def _noted(counts: Mapping[str, int], *, empty: bool = False) -> str:
    named = [f"{values:,} {kind}" for kind, values in counts.items() if values or empty]
    return ", ".join(named) or "no values"


def _limits(found: set[int]) -> list[int]:
    """The powers of two from the smallest to the largest, so that a gap is seen as one."""
    if not found:
        return []
    limit, largest = max(min(found), 1), max(found)
    between = set()
    while limit < largest:
        between.add(limit)
        limit *= 2
    return sorted(found | between)
