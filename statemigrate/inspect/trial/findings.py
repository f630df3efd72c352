"""What trying values found, in a form that partitions can send and the driver can add up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from statemigrate.inspect.report.dry_run import (
    Difference,
    Example,
    Failure,
    FamilyTrial,
    FieldEffect,
)
from statemigrate.inspect.trial.fields.fates import Fate
from statemigrate.inspect.trial.fields.group import Group
from statemigrate.inspect.trial.fields.losses import constants, losses
from statemigrate.inspect.trial.fields.renames import add_renames, with_renames
from statemigrate.migration import Step

_GROUPS = 50
_WHOLE = 3
_OTHERS = "other causes"


@dataclass
class Findings:
    """Of one family: the counts of `FamilyTrial`, and its groups by name.

    ``seconds`` is how long reading and trying took, added up over the partitions.
    The names of ``fields`` are an effect and a path, as in ``changed price``; those of ``fates``
    the number of a step and a path. ``parts`` has the fields of structs that come or go whole, by
    the name of that effect. ``values`` are a few whole ones: a key, before and after.
    """

    stored: int = 0
    tried: int = 0
    failed: int = 0
    differing: int = 0
    looked_at: int = 0
    entries: int = 0
    dropped: int = 0
    several: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    seconds: float = 0.0
    sizes_before: dict[int, int] = field(default_factory=dict)
    sizes_after: dict[int, int] = field(default_factory=dict)
    failures: dict[str, Group] = field(default_factory=dict)
    differences: dict[str, Group] = field(default_factory=dict)
    fields: dict[str, Group] = field(default_factory=dict)
    renames: dict[str, Group] = field(default_factory=dict)
    parts: dict[str, list[str]] = field(default_factory=dict)
    values: list[tuple[str, str, str]] = field(default_factory=list)
    fates: dict[str, Fate] = field(default_factory=dict)

    def group(self, groups: dict[str, Group], name: str) -> Group:
        """The group of that name; past a number of groups, one for all others."""
        if name not in groups and len(groups) >= _GROUPS:
            name = _OTHERS
        return groups.setdefault(name, Group())

    def add(self, other: Findings) -> None:
        """Add what another partition found."""
        for name, value in vars(other).items():
            if isinstance(value, int | float):
                setattr(self, name, getattr(self, name) + value)
        for name in ("sizes_before", "sizes_after"):
            mine, theirs = getattr(self, name), getattr(other, name)
            for size, values in theirs.items():
                mine[size] = mine.get(size, 0) + values
        for name in ("failures", "differences", "fields"):
            mine, theirs = getattr(self, name), getattr(other, name)
            for each, group in theirs.items():
                self.group(mine, each).add(group)
        add_renames(self.renames, other.renames)
        self.parts |= other.parts
        self.values = [*self.values, *other.values][:_WHOLE]
        for name, fate in other.fates.items():
            self.fates.setdefault(name, Fate()).add(fate)

    @property
    def wants_values(self) -> bool:
        """Whether it has too few whole values yet."""
        return len(self.values) < _WHOLE

    def to_json(self) -> dict[str, Any]:
        """The form that travels."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Findings:
        """Read what `to_json` gave, after a way through JSON."""
        named = dict(document)
        for name in ("failures", "differences", "fields", "renames"):
            named[name] = {each: Group(**group) for each, group in document[name].items()}
        for name in ("sizes_before", "sizes_after"):
            named[name] = {int(size): values for size, values in document[name].items()}
        named["fates"] = {each: Fate.from_json(fate) for each, fate in document["fates"].items()}
        return cls(**named)

    def described(
        self, family: str, revision: str, *, reversible: bool, steps: Sequence[Step] = ()
    ) -> FamilyTrial:
        """The family's part of a report, the most frequent things first.

        ``steps`` are those that its values took.
        """
        fates = {_step_and_path(name): fate for name, fate in self.fates.items()}
        return FamilyTrial(
            family=family,
            revision=revision,
            reversible=reversible,
            stored=self.stored,
            tried=self.tried,
            failed=self.failed,
            failures=tuple(
                Failure(_noted(cause, group), group.values, tuple(group.keys))
                for cause, group in _ordered(self.failures.items())
            ),
            differing=self.differing,
            differences=tuple(
                Difference(name, group.values, group.shown())
                for name, group in _ordered(self.differences.items())
            ),
            looked_at=self.looked_at,
            fields=with_renames(
                tuple(_effect(name, group) for name, group in self.fields.items()),
                self.renames,
                self.looked_at,
                self.parts,
            ),
            examples=tuple(Example(*each) for each in self.values),
            bytes_before=self.bytes_before,
            bytes_after=self.bytes_after,
            sizes_before=dict(sorted(self.sizes_before.items())),
            sizes_after=dict(sorted(self.sizes_after.items())),
            direction=steps[0].direction if steps else "upgrade",
            losses=losses(steps, fates),
            constants=constants(steps, fates),
            dropped=self.dropped,
            several=self.several,
        )


def added(documents: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Findings]:
    """What was found by family, added up from what is found in each part of one."""
    total: dict[str, Findings] = {}
    for family, found in documents:
        total.setdefault(family, Findings()).add(Findings.from_json(found))
    return total


def _step_and_path(name: str) -> tuple[int, str]:
    number, _, path = name.partition(" ")
    return int(number), path


def _ordered(groups: Iterable[tuple[str, Group]]) -> list[tuple[str, Group]]:
    return sorted(groups, key=lambda item: (-item[1].values, item[0]))


def _noted(name: str, group: Group) -> str:
    return f"{name}; for example: {group.note}" if group.note else name


def _effect(name: str, group: Group) -> FieldEffect:
    effect, _, path = name.partition(" ")
    return FieldEffect(path, effect, group.values, group.shown())  # type: ignore[arg-type]
