"""`new`: scripts for a store, from a message, from the code or from a checkpoint.

First scripts for stores that have state and no script yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint import describe
from statemigrate.checkpoint.operators import (
    OperatorStore,
    kind_of,
    meanings,
    operator_names,
    operator_stores,
)
from statemigrate.deployment import Declared, StoredStore
from statemigrate.errors import CheckpointError, CodeError, LineageError, ScriptError
from statemigrate.formats import Format, Struct, struct_from_json
from statemigrate.formats.struct import shape_of
from statemigrate.migration import Lineage, OpenQuestion
from statemigrate.native import looks_again
from statemigrate.quoting import argument
from statemigrate.scripts import KeyChange, ScriptFolder, Survey, load
from statemigrate.state import (
    Project,
    State,
    directory_of,
    engine_of,
    open_committed,
    reported_stores,
    stored_store,
)

if TYPE_CHECKING:
    from statemigrate.native import Spark


# `new`: a script to be filled in.


@dataclass(frozen=True)
class NewScript:
    """A written script; answer its ``questions`` before you use it.

    ``is_declared`` is whether lenses say what it changes.
    """

    store: str
    path: Path
    is_baseline: bool
    questions: tuple[OpenQuestion, ...] = ()
    is_declared: bool = False


def new(
    store: str,
    message: str,
    *,
    old: Format | None = None,
    new: Format | None = None,
    baseline: bool = False,
    lens: bool | None = None,
    rename: Mapping[str, str] | None = None,
    migrations: str | Path = "migrations",
) -> NewScript:
    """Write a script on the store's newest one, or its first.

    ``old`` is filled in from the newest script's ``new``, and otherwise left open, as ``new`` and
    ``upgrade`` are. With ``baseline``, for a store without scripts, it only records ``new``, the
    format that the state has today; so it does where only ``new`` is given and no script is there
    to take ``old`` from, and the result says so. Where lenses say all that differs between the two
    formats, the script declares them in place of functions, unless ``lens`` is False; if it is True
    they have to. ``rename`` are the fields with another name, by their paths. A change of values
    within one format names no ``new``. Raises `LineageError` if ``old`` is not the newest format or
    a baseline would not come first, and `ScriptError` for what is no folder of scripts, and for a
    ``new`` that is the format before.
    """
    folder = ScriptFolder(migrations)
    scripts = folder.survey()
    is_first = store not in scripts.stores
    baseline = baseline or (is_first and new is not None and old is None)
    if new is not None and not baseline:
        _check_changed(scripts.lineages.get(store), store, old, new)
    path = folder.new(
        store,
        message,
        old=old,
        new=new,
        baseline=baseline,
        lenses=lens,
        renames=rename,
        scripts=scripts,
    )
    return _result(store, path, baseline)


def _result(store: str, path: Path, is_baseline: bool) -> NewScript:
    if is_baseline:
        return NewScript(store, path, is_baseline)
    found = load(path)
    return NewScript(store, path, False, found.questions, found.get("change") is not None)


def _check_changed(lineage: Lineage | None, store: str, old: Format | None, new: Format) -> None:
    """Raise `ScriptError` for a ``new`` format that is the one before it."""
    before = old if lineage is None else lineage.format_of(lineage.head)
    if before is None or before.fingerprint != new.fingerprint:
        return
    newest = "the old format" if lineage is None else f"its newest script, {lineage.head},"
    raise ScriptError(
        "SM-SCRIPT-033",
        f"the script of store '{store}' would change nothing",
        expected=f"another format than {newest} has: {before!r}",
        found=repr(new),
        next_action="name the format that the new code writes with --to; for other values of the "
        f"same format leave --to out: `statemigrate new {argument(store)} -m MESSAGE`; if the "
        "newest script "
        "was meant to record what the state has today, remove it, and let the checkpoint say it: "
        f"`statemigrate new {argument(store)} --from-checkpoint CHECKPOINT`",
        store=store,
    )


# The state of Spark's own operators, as a checkpoint's files alone describe it.


def stores_in_files(
    checkpoint: str | Path, names: Mapping[str, str], operator: int | str | None = None
) -> tuple[Mapping[str, OperatorStore], bool]:
    """The stores of Spark's own operators, and whether the query has no other state.

    None of the embedded engine's. Raises `CheckpointError` for what is no checkpoint, and
    `UnsupportedError` for an operator that is not known.
    """
    if engine_of(checkpoint) == "embedded":
        return {}, False
    directory = directory_of(str(checkpoint))
    names_of_operators = operator_names(directory.files).values()
    if names_of_operators and all(kind_of(name).has_variables for name in names_of_operators):
        return {}, False
    shape = describe(directory.files, directory.last_commit())
    found = operator_stores(shape, names)
    chosen = {name: each for name, each in found.items() if operator in (None, each.number)}
    known = {each.number for each in found.values()}
    is_all = all(each.number in known for each in shape.operators)
    return chosen, is_all


def notes_on(store: OperatorStore) -> str:
    """What a script says of a store's columns; nothing where their names say it."""
    reported = meanings(store.value) if store.name.startswith("aggregation") else ()
    lines = [f"- {each}" for each in reported]
    if not lines:
        return ""
    return "\n".join(["The columns of a value are what Spark's functions keep:", "", *lines])


MESSAGE = "the format the state has today"


def change(  # noqa: PLR0913 - all but four by name
    checkpoint: str | Path,
    store: str,
    message: str,
    to: Format,
    *,
    lens: bool | None = None,
    rename: Mapping[str, str] | None = None,
    migrations: str | Path = "migrations",
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> tuple[NewScript, ...]:
    """Write the script that changes a store to the format ``to``, and before it what it needs.

    That is the folder of scripts where there is none, and a baseline with the format that the
    checkpoint has where the store has no script. Raises as `baseline` and `new`.
    """
    if not Path(migrations).exists():
        ScriptFolder.create(migrations)
    written: tuple[NewScript, ...] = ()
    if store not in ScriptFolder(migrations).survey().stores:
        written = baseline(
            checkpoint,
            store=store,
            migrations=migrations,
            operator=operator,
            stores=stores,
            spark=spark,
        )
    script = new(store, message, new=to, lens=lens, rename=rename, migrations=migrations)
    return *written, script


@dataclass(frozen=True)
class _StoreFormat:
    """What a script of a store records: its value, of an operator's state the key, and notes."""

    value: Format
    key: Format | None = None
    notes: str = ""


def baseline(
    checkpoint: str | Path,
    message: str = MESSAGE,
    *,
    store: str | None = None,
    migrations: str | Path = "migrations",
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> tuple[NewScript, ...]:
    """Write a baseline for ``store``, or for every store without scripts, from the state.

    The format is that of the checkpoint: the embedded engine's own record, or the schema of Spark's
    state. For Spark's own operators, named by kind and number or in ``stores``, the checkpoint's
    files have it. Spark's other state is read with ``spark``, the active session by default, or a
    function that makes one.

    Raises `LineageError` for a store with scripts, and `CheckpointError` for a store that the
    checkpoint does not have, or for a directory that is not a checkpoint.
    """
    project = Project(migrations, {}, stores or {}, spark, operator)
    folder = project.folder
    scripts = folder.survey()
    found = _in_files(checkpoint, scripts, store, project)
    if found is None:
        chosen = _in_state(checkpoint, scripts, store, project)
        found = {name: _StoreFormat(_only_format(name, each)) for name, each in chosen.items()}
    return tuple(_written(folder, scripts, name, each, message) for name, each in found.items())


def baseline_of(folder: ScriptFolder, name: str, store: OperatorStore) -> NewScript:
    """Write a baseline with the format and the keys of a store that users call ``name``."""
    return _written(folder, folder.survey(), name, _described(store), MESSAGE)


def _in_files(
    checkpoint: str | Path, scripts: Survey, store: str | None, project: Project
) -> Mapping[str, _StoreFormat] | None:
    """What the files alone tell; None where they do not tell it."""
    there, is_all = stores_in_files(checkpoint, project.stores, project.operator)
    if store is not None and store in there:
        wanted = {store}
    elif store is None and is_all:
        wanted = there.keys() - set(scripts.stores)
    else:
        return None
    return {name: _described(each) for name, each in there.items() if name in wanted}


@looks_again
def _in_state(
    checkpoint: str | Path, scripts: Survey, store: str | None, project: Project
) -> Mapping[str, StoredStore]:
    with closing(open_committed(checkpoint, {}, project)) as state:
        return dict(_chosen(scripts, state, store))


def _described(store: OperatorStore) -> _StoreFormat:
    # No script changes the keys of a join: both sides would have to change alike.
    key = None if store.is_join else struct_from_json(store.key)
    return _StoreFormat(struct_from_json(store.value), key, notes_on(store))


def _chosen(scripts: Survey, state: State, store: str | None) -> Iterator[tuple[str, StoredStore]]:
    scripted = scripts.stores
    if store is not None:
        yield store, stored_store(state, store)
        return
    reported = reported_stores(state, ())
    yield from ((name, each) for name, each in reported.items() if name not in scripted)


def _only_format(store: str, stored: StoredStore) -> Format:
    if len(stored.families) > 1:
        raise LineageError(
            "SM-LINEAGE-005",
            f"store {store} has been migrated already: it has {len(stored.families)} families",
            expected="state in one format, from before the first migration",
            found=", ".join(each.name for each in stored.families),
            next_action="check out the scripts that this checkpoint was last run with",
            store=store,
        )
    return stored.target.format


def _written(
    folder: ScriptFolder, scripts: Survey, store: str, found: _StoreFormat, message: str
) -> NewScript:
    path = folder.new(
        store,
        message,
        new=found.value,
        new_key=found.key,
        notes=found.notes,
        baseline=True,
        scripts=scripts,
    )
    return NewScript(store, path, True)


# Scripts for what the code declares and the newest scripts do not say.


def autogenerate(
    code: str,
    message: str,
    *,
    store: str | None = None,
    lens: bool | None = None,
    rename: Mapping[str, str] | None = None,
    migrations: str | Path = "migrations",
) -> tuple[NewScript, ...]:
    """Write a script for each store whose declared schema differs from its newest script's format.

    ``code`` names a processor, ``MODULE:OBJECT``; ``store`` selects one of its stores. A store
    without scripts gets a baseline, because there is nothing to compare with. A store whose format
    is equivalent gets no script: nullability does not count, nor whether a format is Avro. ``lens``
    and ``rename`` are as in `new`.

    Raises `CodeError` if the code declares no state, or not ``store``; and the errors of
    `ScriptFolder`.
    """
    folder = ScriptFolder(migrations)
    from statemigrate.inspect import declared_in

    chosen = _picked(declared_in(code), code, store)
    scripts = folder.survey()
    lineages = scripts.every() if store is None else dict(_lineage_of(scripts, store))
    changed = [(each, Struct(each.schema)) for each in chosen if _differs(each, lineages)]
    return tuple(
        _wrote(
            folder,
            scripts,
            each.store,
            message,
            format,
            baseline=each.store not in lineages,
            lenses=lens,
            renames=rename,
        )
        for each, format in changed
    )


def _picked(declared: Sequence[Declared], reference: str, store: str | None) -> Sequence[Declared]:
    chosen = [each for each in declared if store in (None, each.store)]
    if chosen:
        return chosen
    names = ", ".join(each.store for each in declared)
    raise CodeError(
        "SM-CODE-001",
        f"{reference} declares no state" if store is None else f"{reference} has no store {store}",
        expected="a getValueState, getListState or getMapState call in init"
        if store is None
        else f"a store that init declares, named {store}",
        found=names or "none",
        next_action=f"name one of {names}, or the processor that declares it"
        if names
        else "name the processor that declares the state",
        reference=reference,
        store=store,
    )


def _lineage_of(scripts: Survey, store: str) -> Iterator[tuple[str, Lineage]]:
    # Broken scripts of other stores stay out of it.
    if store in scripts.stores:
        yield store, scripts.sound(store)[store]


def _differs(declared: Declared, lineages: dict[str, Lineage]) -> bool:
    lineage = lineages.get(declared.store)
    if lineage is None:
        return True
    head = lineage.format_of(lineage.head).struct_type()
    return bool(shape_of(head) != shape_of(declared.schema))


def _wrote(
    folder: ScriptFolder,
    scripts: Survey,
    store: str,
    message: str,
    format: Struct,
    *,
    baseline: bool,
    **how: Any,
) -> NewScript:
    path = folder.new(
        store, message, new=format, baseline=baseline, infer=not baseline, scripts=scripts, **how
    )
    return _result(store, path, baseline)


# Scripts from the state that there is to that of new code, or of a checkpoint that it made.


def autogenerate_like(
    checkpoint: str | Path,
    like: str | Path,
    message: str,
    *,
    store: str | None = None,
    lens: bool | None = None,
    rename: Mapping[str, str] | None = None,
    migrations: str | Path = "migrations",
    stores: Mapping[str, str] | None = None,
) -> tuple[NewScript, ...]:
    """Write a script for ``store``, or for each store of an operator that differs from ``like``.

    ``like`` is a checkpoint that the new code made, on any input. Only files of both are read. The
    script migrates values and keys of ``checkpoint`` to those of ``like``. It matches columns by
    name, and asks a question for the rest. ``lens`` and ``rename`` are as in `new`; a script that
    changes keys has functions. ``stores`` has the project's names for the stores of operators.

    Raises `CheckpointError` for a store that is not in both, `LineageError` if the newest script of
    a store leads to another format than the checkpoint's, and the errors of `ScriptFolder`.
    """
    folder = ScriptFolder(migrations)
    before, _ = stores_in_files(checkpoint, stores or {})
    after, _ = stores_in_files(like, stores or {})
    both = in_both((str(checkpoint), before), (str(like), after), store)
    changes = {name: ScriptedStore.by_name(before[name], after[name]) for name in both}
    return write_changes(folder, message, changes, lenses=lens, renames=rename)


def in_both(
    old: tuple[str, Mapping[str, OperatorStore]],
    new: tuple[str, Mapping[str, OperatorStore]],
    store: str | None,
) -> list[str]:
    """The stores that two checkpoints, or a checkpoint and code, both have; or ``store`` alone.

    ``old`` and ``new`` are what each is called, and its stores. Raises `CheckpointError` where one
    of them has no ``store``.
    """
    if store is not None:
        for place, found in (old, new):
            _require(store, place, found)
    return [name for name in old[1] if name in new[1] and store in (None, name)]


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


@dataclass(frozen=True)
class ScriptedStore:
    """A store ``before`` and ``after`` a change, with what becomes of its keys.

    ``notes`` go into the docstring of the script where keys change.
    """

    before: OperatorStore
    after: OperatorStore
    keys: KeyChange
    notes: str = ""

    @classmethod
    def by_name(cls, before: OperatorStore, after: OperatorStore) -> ScriptedStore:
        """A change known by the names and types of columns alone."""
        keys = struct_from_json(before.key), struct_from_json(after.key)
        return cls(before, after, KeyChange(*keys, is_list=before.is_list))

    @property
    def changes(self) -> bool:
        """Whether there is anything for a script to do."""
        return self.rekeys or _differ(self.before, self.after)

    @property
    def rekeys(self) -> bool:
        """Whether rows get other keys."""
        return self.keys.changes


def write_changes(
    folder: ScriptFolder, message: str, changes: Mapping[str, ScriptedStore], **how: Any
) -> tuple[NewScript, ...]:
    """Write a script for each store that changes, by its name.

    ``how`` are `ScriptFolder.new`'s ``lenses`` and ``renames``; a script that changes keys has
    functions.
    """
    scripts = folder.survey()
    return tuple(
        _written_like(folder, scripts, name, message, change, **how)
        for name, change in changes.items()
        if change.changes
    )


def _written_like(
    folder: ScriptFolder,
    scripts: Survey,
    store: str,
    message: str,
    change: ScriptedStore,
    **how: Any,
) -> NewScript:
    is_rekeyed = change.rekeys
    notes = change.notes if is_rekeyed else "", notes_on(change.after)
    path = folder.new(
        store,
        message,
        old=_continued(scripts, store, struct_from_json(change.before.value)),
        new=struct_from_json(change.after.value),
        infer=True,
        notes="\n\n".join(each for each in notes if each),
        scripts=scripts,
        **({"keys": change.keys, "lenses": False} if is_rekeyed else how),
    )
    return _result(store, path, is_baseline=False)


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
