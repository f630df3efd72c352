"""Which scripts are about the state of a checkpoint, and how far each has come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from statemigrate.checkpoint.operators.catalogue import user_stores
from statemigrate.checkpoint.operators.labels import labelled
from statemigrate.checkpoint.operators.shapes import GROUP_STATE, CheckpointShape, StructJson
from statemigrate.checkpoint.operators.shown_keys import shown_key
from statemigrate.deployment.names import family_name
from statemigrate.formats.struct_format import struct_from_json
from statemigrate.migration import Lineage
from statemigrate.native.seen.record import StoreRecord
from statemigrate.rewrite.plan.scripts import Scripted
from statemigrate.rewrite.plan.types import is_same
from statemigrate.state.native.revisions import stored_revision


def scripted_stores(
    shape: CheckpointShape,
    lineages: Mapping[str, Lineage],
    record: Mapping[str, StoreRecord],
    targets: Mapping[str, str],
    names: Mapping[str, str],
) -> dict[str, Scripted]:
    """What is still to be run, by Spark's kind and number of a store, as in ``aggregation-0``.

    ``record`` is what earlier deployments noted in the checkpoint, ``names`` has the kind and
    number of stores with a name of the project's own. Raises `StartupError` for state of no
    revision.
    """
    found = {}
    for known, key, values in _stores(shape):
        store = next((name for name, each in names.items() if each == known), known)
        if store in lineages:
            noted = record.get(store, StoreRecord())
            wanted = targets.get(store, "head")
            value = _fitting(lineages[store], values)
            found[known] = _scripted(lineages[store], key, value, noted, wanted)
    return found


def noted_stores(scripts: Mapping[str, Scripted], batch: int) -> dict[str, StoreRecord]:
    """What the new checkpoint notes of the scripts that were run on its stores."""
    return {
        each.store: StoreRecord((each.family,), batch, dict(each.applied))
        for each in scripts.values()
    }


def _stores(shape: CheckpointShape) -> Iterator[tuple[str, StructJson, list[StructJson]]]:
    """The name of each store, its key as users know it, and what scripts may take for a value."""
    for operator in shape.operators:
        for name, (store, family) in user_stores(operator).items():
            values = [labelled(family.content)]
            if family.value["fields"][0]["name"] == GROUP_STATE:
                values.append(replace(family, wrapping="state").content)
            yield name, shown_key(operator, store, family), values


def _fitting(lineage: Lineage, values: list[StructJson]) -> StructJson:
    """Of what scripts may take for a value that which one of them does, or else the first."""
    said = [each.struct_type().jsonValue() for each in lineage.formats]
    return next((v for v in values if any(is_same(v, each) for each in said)), values[0])


def _scripted(
    lineage: Lineage, shown: StructJson, content: StructJson, record: StoreRecord, wanted: str
) -> Scripted:
    key, value = struct_from_json(shown), struct_from_json(content)
    revision, target = stored_revision(lineage, value, key, record), lineage.resolve(wanted)
    path = lineage.path(revision, target)
    return Scripted(
        lineage.store,
        path,
        key,
        value,
        lineage.key_of(target) or key,
        lineage.format_of(target),
        tuple((each.revision, each.checksum) for each in lineage.applied(target)),
        family_name(lineage, target),
    )
