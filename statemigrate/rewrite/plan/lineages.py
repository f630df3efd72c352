"""Which scripts are about the state of a checkpoint, and how far each has come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from statemigrate.checkpoint.operators.catalogue import VARIABLES, kind_of, user_stores
from statemigrate.checkpoint.operators.labels import labelled
from statemigrate.checkpoint.operators.shapes import CheckpointShape, FamilyShape, OperatorShape
from statemigrate.deployment.names import family_name
from statemigrate.errors import RewriteError
from statemigrate.formats.struct_format import struct_from_json
from statemigrate.migration import Lineage
from statemigrate.native.seen.record import StoreRecord
from statemigrate.rewrite.plan.scripts import Scripted
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
    revision, `RewriteError` for scripts that only a live migration can run.
    """
    found = {}
    for known, operator, family in _stores(shape):
        store = next((name for name, each in names.items() if each == known), known)
        if store in lineages:
            lineage = lineages[store]
            _check_kind(store, operator, family, lineage)
            noted = record.get(store, StoreRecord())
            found[known] = _scripted(lineage, family, noted, targets.get(store, "head"))
    return found


def noted_stores(scripts: Mapping[str, Scripted], batch: int) -> dict[str, StoreRecord]:
    """What the new checkpoint notes of the scripts that were run on its stores."""
    return {
        each.store: StoreRecord((each.family,), batch, dict(each.applied))
        for each in scripts.values()
    }


def _stores(shape: CheckpointShape) -> Iterator[tuple[str, OperatorShape, FamilyShape]]:
    for operator in shape.operators:
        for name, (_, family) in user_stores(operator).items():
            yield name, operator, family


def _scripted(lineage: Lineage, family: FamilyShape, record: StoreRecord, wanted: str) -> Scripted:
    key, value = struct_from_json(labelled(family.key)), struct_from_json(labelled(family.value))
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


def _check_kind(store: str, operator: OperatorShape, family: FamilyShape, lineage: Lineage) -> None:
    """Keys of joins, lists and maps have parts that Spark numbers or looks things up by."""
    kind = kind_of(operator.name)
    changes_keys = any(each.new_key is not None and each.rekey for each in lineage.migrations)
    if changes_keys and (family.is_list or family.user_key or kind is VARIABLES or "." in store):
        raise RewriteError(
            f"the scripts of {store} change keys, which a rewrite cannot do for {kind.word} yet",
            expected="scripts that change values alone",
            found=f"new_key with rekey in a script of {store}",
            next_action="keep the keys of this store",
            store=store,
        )
