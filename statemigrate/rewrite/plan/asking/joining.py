"""What is asked where several old states become one."""

from __future__ import annotations

from collections.abc import Iterator

from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.rewrite.plan.asking.ask import Asked, dropped
from statemigrate.rewrite.plan.asking.starting import other_start
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.plan.pairing.fields import FieldChange
from statemigrate.rewrite.plan.pairing.places import place_name


def ask_joining(asked: Asked, family: FamilyPlan, old: OperatorShape) -> None:
    """Ask what entries have in fields that their old state lacks, and which fields go."""
    names = [place_name(old, each) for each in family.sources]
    named = list(zip(names, family.parts, strict=True))
    lacking: dict[str, list[str]] = {}
    for name, part in named:
        for field in _fields(part):
            asked.know(f"{family.name}.{field.label}")
            if field.change == "new":
                lacking.setdefault(field.label, []).append(name)
        for label in part.value.dropped if part.value else ():
            asked.confirm(dropped(f"{name}.{label}"))
    types = {field.label: field.type for _, part in named for field in _new(part)}
    for label, names in lacking.items():
        proposal = other_start({"name": label, "type": types[label]})
        rows = "old rows" if len(names) == len(named) else f"rows of {' and '.join(names)}"
        asked.start(f"{family.name}.{label}", proposal, types[label], rows)


def _fields(part: FamilyPlan) -> Iterator[FieldChange]:
    if part.value is not None:
        yield from part.value.every


def _new(part: FamilyPlan) -> Iterator[FieldChange]:
    return (each for each in _fields(part) if each.change == "new")
