"""Scripts for what the code declares and the newest scripts do not say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from statemigrate.commands.writing.new import NewScript
from statemigrate.deployment import Declared
from statemigrate.errors import CodeError
from statemigrate.formats import Struct
from statemigrate.formats.struct.shape import shape_of
from statemigrate.inspect.checking.code import declared_in
from statemigrate.migration import Lineage
from statemigrate.scripts import ScriptFolder
from statemigrate.scripts.loading import load
from statemigrate.scripts.survey import Survey


def autogenerate(
    code: str, message: str, *, store: str | None = None, migrations: str | Path = "migrations"
) -> tuple[NewScript, ...]:
    """Write a script for each store whose declared schema is not its newest script's format.

    ``code`` names a processor, ``MODULE:OBJECT``; ``store`` leaves all others out. A store without
    scripts gets a baseline, as there is nothing to compare with. Nothing is written for a store
    that holds the same either way: nullability and whether a format is Avro do not count.

    Raises `CodeError` if the code declares no state, or not ``store``; and what `ScriptFolder`
    raises.
    """
    folder = ScriptFolder(migrations)
    chosen = _chosen(declared_in(code), code, store)
    scripts = folder.survey()
    lineages = scripts.every() if store is None else dict(_lineage_of(scripts, store))
    changed = [(each, Struct(each.schema)) for each in chosen if _differs(each, lineages)]
    return tuple(
        _written(folder, scripts, each.store, message, format, baseline=each.store not in lineages)
        for each, format in changed
    )


def _chosen(declared: Sequence[Declared], reference: str, store: str | None) -> Sequence[Declared]:
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


def _written(
    folder: ScriptFolder,
    scripts: Survey,
    store: str,
    message: str,
    format: Struct,
    *,
    baseline: bool,
) -> NewScript:
    path = folder.new(
        store, message, new=format, baseline=baseline, infer=not baseline, scripts=scripts
    )
    return NewScript(store, path, baseline, load(path).questions)
