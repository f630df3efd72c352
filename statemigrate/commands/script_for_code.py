"""`new --code`: the script that takes the state of Spark's operators to that of new code.

A variable of ``transformWithState`` gets one where its keys change. Another format of its values
needs no rewrite, so `new --autogenerate` writes scripts for these.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.checkpoint import CheckpointDirectory, describe
from statemigrate.checkpoint.operators import (
    CheckpointShape,
    OperatorStore,
    operator_stores,
    variable_stores,
)
from statemigrate.commands.arguments import required
from statemigrate.commands.new_code import (
    NewCode,
    Probed,
    check_inputs,
    known_before,
    meaning_of,
    probed,
)
from statemigrate.commands.new_script import (
    NewScript,
    ScriptedStore,
    baseline_of,
    in_both,
    write_changes,
)
from statemigrate.deployment import store_of
from statemigrate.files import open_files
from statemigrate.formats import struct_from_json
from statemigrate.meaning import (
    CodeMeaning,
    OperatorMeaning,
    computed_notes,
    function_questions,
    key_sources,
    merging_of,
)
from statemigrate.scripts import KeyChange, ScriptFolder

if TYPE_CHECKING:
    from statemigrate.native import Spark


def autogenerate_for(  # noqa: PLR0913 - all by name
    checkpoint: str | Path,
    target: NewCode,
    message: str,
    *,
    store: str | None = None,
    lens: bool | None = None,
    rename: Mapping[str, str] | None = None,
    migrations: str | Path = "migrations",
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> tuple[NewScript, ...]:
    """Write a script for ``store``, or for each store of an operator that ``target`` changes.

    The new code runs once on empty streams. If the meaning of the old code is known, by its
    function or its lock file in ``target``, or by the checkpoint's record, new keys are computed
    from old ones, and values whose keys meet are merged. What nothing tells is a question in the
    script. Before the first script that changes keys comes a baseline with the keys that the state
    has. The folder of scripts is made if there is none. ``lens`` and ``rename`` are as in `new`; a
    script that changes keys has functions. ``stores`` has the project's names for the stores of
    operators.

    Raises `CheckpointError` for a store that is not in both, `LineageError` if the newest script of
    a store leads to another format than the checkpoint's, `CodeError` for code that does not run
    on empty streams, and the errors of `ScriptFolder`.
    """
    required("new", target.code or target.like, "code in its target")
    check_inputs(target)
    files = open_files(checkpoint)
    shape = describe(files, CheckpointDirectory(files).require_commit())
    found = probed(target, shape.conf, spark, files.location)
    assert found is not None, "asked before"  # noqa: S101
    old = known_before(target, shape, spark, files)
    changes = changes_of_stores(shape, found, old, stores or {})
    before, after = (
        operator_stores(each, stores or {})
        | {name: own for name, own in variable_stores(each).items() if name in changes}
        for each in (shape, found.shape)
    )
    both = in_both((str(checkpoint), before), (str(target.code or target.like), after), store)
    changes = {name: changes[name] for name in both}
    if not Path(migrations).exists():
        ScriptFolder.create(migrations)
    folder = ScriptFolder(migrations)
    known = folder.survey().stores
    written: tuple[NewScript, ...] = ()
    for name, change in changes.items():
        if change.rekeys and name not in known:
            # State has the oldest revision with its keys. Equal keys do not say which that is.
            written = (*written, baseline_of(folder, name, before[name]))
    return *written, *write_changes(folder, message, changes, lenses=lens, renames=rename)


def changes_of_stores(
    shape: CheckpointShape, found: Probed, old: CodeMeaning | None, names: Mapping[str, str]
) -> dict[str, ScriptedStore]:
    """What changes of each store that both the state and the new code have, by its name.

    Variables are among them where their keys change and no `migrated` code has written them.
    ``old`` is what is known of the old code, and ``names`` has the project's own for stores.
    """
    before, after = (operator_stores(each, names) for each in (shape, found.shape))
    new = meaning_of(found, "")
    changes = {
        name: _change(before[name], after[name], old, new) for name in before if name in after
    }
    before, after = (variable_stores(each) for each in (shape, found.shape))
    migrating = {store_of(name) for name in (*before, *after) if store_of(name) != name}
    for name in before:
        if name in after and name not in migrating:
            change = _change(before[name], after[name], old, new)
            if change.rekeys:
                changes[name] = change
    return changes


def _change(
    before: OperatorStore, after: OperatorStore, old: CodeMeaning | None, new: CodeMeaning
) -> ScriptedStore:
    was, now = _operator_of(old, before), _operator_of(new, after)
    if now is None or before.is_join:
        return ScriptedStore.by_name(before, after)
    known = None if was is None else was.keys
    columns = before.grouping["fields"], after.grouping["fields"]
    keys = KeyChange(
        struct_from_json(before.key),
        struct_from_json(after.key),
        before.is_list,
        sources=key_sources(known, now.keys, *columns),
        merging=merging_of(now.functions, after.value["fields"]),
        asked=tuple(
            function_questions(
                was.functions, now.functions, before.value["fields"], after.value["fields"]
            )
            if was is not None
            else ()
        ),
    )
    return ScriptedStore(
        before, after, keys, computed_notes(None if was is None else was.keys, now.keys)
    )


def _operator_of(code: CodeMeaning | None, store: OperatorStore) -> OperatorMeaning | None:
    found = () if code is None else code.operators
    return next((each for each in found if each.number == store.number), None)
