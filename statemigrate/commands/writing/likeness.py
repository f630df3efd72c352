"""Scripts from what two checkpoints hold: one of the old code, and one that the new code made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from statemigrate.checkpoint.operators.user_stores import OperatorStore
from statemigrate.commands.writing.new import NewScript
from statemigrate.commands.writing.operators import notes_on, stores_in_files
from statemigrate.errors import CheckpointError, LineageError
from statemigrate.formats import Format
from statemigrate.formats.struct.shape import shape_of
from statemigrate.formats.struct_format import struct_from_json
from statemigrate.scripts import ScriptFolder
from statemigrate.scripts.inference.keys import KeyChange
from statemigrate.scripts.loading import load
from statemigrate.scripts.survey import Survey


def autogenerate_like(
    checkpoint: str | Path,
    like: str | Path,
    message: str,
    *,
    store: str | None = None,
    migrations: str | Path = "migrations",
    stores: Mapping[str, str] | None = None,
) -> tuple[NewScript, ...]:
    """Write a script for ``store``, or for each store of an operator that is not as in ``like``.

    ``like`` is a checkpoint that the new code made, on whatever input; of both only files are read.
    The script takes values and keys of ``checkpoint`` to those of ``like``: columns go by name, and
    what that does not tell is a question. ``stores`` has the names that operators' stores get.

    Raises `CheckpointError` for a store that is not in both, `LineageError` where the newest script
    of one leads to another format than the checkpoint holds, and what `ScriptFolder` raises.
    """
    folder = ScriptFolder(migrations)
    scripts = folder.survey()
    before, _ = stores_in_files(checkpoint, stores or {})
    after, _ = stores_in_files(like, stores or {})
    if store is not None:
        for place, found in ((checkpoint, before), (like, after)):
            _require(store, str(place), found)
    both = [name for name in before if name in after and store in (None, name)]
    return tuple(
        _written(folder, scripts, name, message, before[name], after[name])
        for name in both
        if _differ(before[name], after[name])
    )


def _require(store: str, checkpoint: str, found: Mapping[str, OperatorStore]) -> None:
    if store not in found:
        raise CheckpointError(
            "SM-STATE-020",
            f"the checkpoint {checkpoint} has no operator whose state is {store}",
            expected=f"one of {', '.join(found) or 'none: it has no such operator'}",
            found=store,
            next_action="name a store of both checkpoints; a variable of transformWithState is "
            "compared with the code: `statemigrate new --autogenerate MODULE:OBJECT`",
            path=checkpoint,
        )


def _differ(before: OperatorStore, after: OperatorStore) -> bool:
    pairs = ((before.value, after.value), (before.key, after.key))
    return any(not _is_same(struct_from_json(a), struct_from_json(b)) for a, b in pairs)


def _is_same(one: Format, other: Format) -> bool:
    return bool(shape_of(one.struct_type()) == shape_of(other.struct_type()))


def _written(
    folder: ScriptFolder,
    scripts: Survey,
    store: str,
    message: str,
    before: OperatorStore,
    after: OperatorStore,
) -> NewScript:
    keys = KeyChange(
        struct_from_json(before.key), struct_from_json(after.key), is_list=before.is_join
    )
    path = folder.new(
        store,
        message,
        old=_continued(scripts, store, struct_from_json(before.value)),
        new=struct_from_json(after.value),
        infer=True,
        keys=keys if keys.changes else None,
        notes=notes_on(after),
        scripts=scripts,
    )
    return NewScript(store, path, False, load(path).questions)


def _continued(scripts: Survey, store: str, held: Format) -> Format:
    """The format before: the head's, where there are scripts, which must be the state's."""
    lineage = scripts.lineages.get(store)
    if lineage is None:
        return held
    head = lineage.format_of(lineage.head)
    if _is_same(head, held):
        return head
    raise LineageError(
        "SM-LINEAGE-006",
        f"Store '{store}': the newest script leads to another format than the checkpoint holds.",
        expected=repr(head),
        found=repr(held),
        next_action="rewrite the checkpoint first, or remove the script that no state has seen",
        store=store,
        revision=lineage.head,
    )
