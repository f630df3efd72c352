"""Tables of an older revision, which the scripts of their stores bring to the head."""

from __future__ import annotations

from collections.abc import Mapping

from statemigrate.checkpoint.operators.shapes import (
    FamilyShape,
    NoPrefix,
    OperatorShape,
    StructJson,
)
from statemigrate.checkpoint.operators.shown_keys import shown_key
from statemigrate.errors import RewriteError
from statemigrate.formats.struct_format import struct_from_json
from statemigrate.migration import Lineage
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.plan.lineages import scripted_from
from statemigrate.rewrite.plan.pairing.fields import StructChange, match_fields
from statemigrate.rewrite.plan.pairing.places import Place
from statemigrate.rewrite.plan.scripts import Scripted


def seed_script(
    name: str, found: tuple[OperatorShape, Place], lineage: Lineage, revision: str, target: str
) -> Scripted:
    """The scripts from a table's ``revision`` of the store ``name`` to the ``target``.

    Raises `RewriteError` where keys change on the way, and no script says what they were.
    """
    operator, place = found
    said = lineage.resolve(revision)
    shown = struct_from_json(shown_key(operator, place.store, place.family))
    script = scripted_from(lineage, lineage.key_of(said) or shown, said, target)
    if lineage.key_of(said) is None and any(step.key for step in script.path.steps):
        raise RewriteError(
            "SM-SEED-014",
            f"keys of {name} change after revision {said}, and no script says what they were",
            expected=f"new_key in the baseline of store {lineage.store}",
            found=f"new_key only after {said}",
            next_action=f"say `new_key` in the baseline of store {lineage.store}: what its keys "
            "were before they changed",
            store=name,
        )
    return script


def in_form(
    place: Place,
    script: Scripted,
    key: StructJson,
    value: StructJson,
    columns: Mapping[str, object],
) -> FamilyPlan:
    """How rows of a table become entries of the form that a script takes, fields by their names.

    ``key`` and ``value`` are what the table has of both. Raises `RewriteError` for fields that it
    lacks, at any depth, and for those that the form lacks.
    """
    as_key, as_value = (each.struct_type().jsonValue() for each in (script.key, script.value))
    family = FamilyShape(place.family.name, as_key, as_value, NoPrefix())
    plan = FamilyPlan(
        script.store,
        Place(place.store, family),
        key=match_fields(key, family.key, {}, script.store),
        value=match_fields(value, family.value, {}, script.store),
    )
    for change in (plan.key, plan.value):
        _check_whole(change, script, columns)
    return plan


def _check_whole(
    change: StructChange | None, script: Scripted, columns: Mapping[str, object]
) -> None:
    missing = [each.label for each in change.added] if change else []
    further = list(change.dropped) if change else []
    if missing or further:
        field = (missing or further)[0]
        raise RewriteError(
            "SM-SEED-015",
            f"the table of {script.store} is not what revision {script.path.source} has",
            expected=f"the key {script.key!r} and the value {script.value!r}",
            found=f"no column for {field}" if missing else f"{field}, too",
            next_action=f"say which column it is, as in --take {script.store}.{field}=COLUMN"
            if missing
            else "write the table without it",
            store=script.store,
            columns=sorted(columns),
        )
