"""`new STORE --squash REVISION`: one script in the place of those that no checkpoint is behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.commands.fleet import Named, found_or_error, named_checkpoints
from statemigrate.errors import ScriptError, StatemigrateError
from statemigrate.files import replacing
from statemigrate.formats import made_up_values
from statemigrate.inspect import Equality, LensComparison
from statemigrate.migration import BASE, Lineage, Migration
from statemigrate.quoting import argument
from statemigrate.scripts import (
    FOLDER,
    ScriptFolder,
    SquashedScript,
    Survey,
    copied_files,
    load,
    of_functions,
    of_lenses,
    parts_up_to,
    read,
    read_heads,
    script_files,
    write_head,
)
from statemigrate.state import Project, open_committed

if TYPE_CHECKING:
    from statemigrate.native import Spark

UNKNOWN = "unknown"
"""The name of the checkpoints that no configuration names."""


@dataclass(frozen=True)
class Squash:
    """One script for several, written or proposed.

    ``replaces`` are the revisions that it stands for, oldest first; it has the last one. ``known``
    are the checkpoints that were read, and ``unknown`` those that were not: nothing is written
    until each of these is accepted. ``is_declared`` is whether the script has lenses, so that the
    copies of the others may be removed.
    """

    store: str
    revision: str
    path: Path
    text: str
    replaces: tuple[str, ...]
    known: tuple[str, ...]
    unknown: tuple[str, ...]
    is_declared: bool
    written: bool
    next_action: str

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {**vars(self), "path": str(self.path)}


def squash(
    store: str,
    revision: str = "head",
    *,
    apply: bool = False,
    checkpoints: Named = (),
    accept_unknown: Sequence[str] = (),
    migrations: str | Path = "migrations",
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> Squash:
    """Make one script of a store's scripts up to ``revision``, and keep copies of the others.

    The script leads from the oldest format to that of ``revision``, whose id it has. It declares
    the lenses of all, if all have lenses and the result is the same for values made up from the
    formats; else it calls the functions of the others. These are copied to ``squashed/``.

    ``checkpoints`` are all that are known. None of them may have a family of a revision that would
    be gone, or complements of the store. One that cannot be read is unknown, and so are all where
    none is named: `accept_unknown` has the names of those that need not be read, ``"unknown"`` for
    the latter. Without ``apply`` nothing is written.

    Raises `ScriptError` for scripts that cannot be squashed, and for a checkpoint that needs them.
    """
    project = Project(migrations, {}, stores or {}, spark)
    folder = project.folder
    found = folder.survey()
    lineage = found.sound(store)[store]
    last = lineage.resolve(revision)
    finished = _finished(folder.versions, found, store, last, apply=apply)
    if finished is not None:
        return finished
    parts = parts_up_to(lineage, last, found.scripts)
    gone = [each.migration.revision for each in parts[:-1]]
    known, unknown = _look(named_checkpoints(checkpoints), store, gone, lineage, project)
    unknown = [each for each in unknown if each not in accept_unknown]
    text, is_declared = _composed(parts, lineage)
    written = apply and not unknown
    if apply and unknown:
        raise _not_known(store, unknown)
    if written:
        read_heads(folder.directory)
        _write(folder.directory, parts, lineage, text, is_proven=is_declared)
    return Squash(
        store,
        last,
        parts[-1].script.path,
        text,
        tuple(each.migration.revision for each in parts),
        tuple(known),
        tuple(unknown),
        is_declared,
        written,
        _next(store, last, unknown, written=written),
    )


def _look(
    checkpoints: Iterable[Any], store: str, gone: Sequence[str], lineage: Lineage, project: Project
) -> tuple[list[str], list[str]]:
    """The names of the checkpoints that can do without some scripts, and of those nobody knows."""
    known, unknown = [], []
    for named in checkpoints:
        own = project.at(named)

        def look(path: str = named.path, own: Project = own) -> Any:
            with closing(open_committed(path, {store: lineage}, own)) as state:
                return state.stores.get(store)

        stored = found_or_error(named, look)
        if isinstance(stored, StatemigrateError):
            unknown.append(named.name)
            continue
        known.append(named.name)
        if stored is None:
            continue
        behind = [each.revision for each in stored.families if each.revision in gone]
        if behind:
            raise _needed(
                store,
                named.path,
                f"values of {', '.join(behind)}",
                "run its backfill to the end and `statemigrate backfill "
                f"{argument(named.path)} --retire`, or squash up to an older revision",
            )
        if stored.complement is not None:
            raise _needed(
                store,
                named.path,
                "complements, which are of single scripts",
                f"`statemigrate backfill {argument(named.path)} --retire --complement` gives them "
                "up; or leave the scripts as they are",
            )
    return known, unknown if known or unknown else [UNKNOWN]


def _needed(store: str, path: str, found: str, next_action: str) -> ScriptError:
    return ScriptError(
        "SM-SCRIPT-040",
        f"The scripts of store '{store}' were not squashed: {path} needs them.",
        expected="no family of a revision that would be gone, and no complement",
        found=found,
        next_action=next_action,
        store=store,
        path=path,
    )


def _not_known(store: str, unknown: Sequence[str]) -> ScriptError:
    accepted = " ".join(f"--accept-unknown {argument(each)}" for each in unknown)
    return ScriptError(
        "SM-SCRIPT-040",
        f"The scripts of store '{store}' were not squashed: not every checkpoint was read.",
        expected="every checkpoint that has been under these scripts, named in [tool.statemigrate] "
        "and readable",
        found=", ".join(unknown),
        next_action=f"name them, or say that they need not be read: {accepted}",
        store=store,
        unknown=tuple(unknown),
    )


def _composed(parts: Sequence[SquashedScript], lineage: Lineage) -> tuple[str, bool]:
    """The text of the one script, and whether it has lenses."""
    declared = of_lenses(parts)
    if declared is not None:
        made = read(load(parts[-1].script.path, declared.encode()))
        equality = _compared(parts, lineage, made)
        if equality.is_equal and not equality.taken:
            return declared, True
    return of_functions(parts), False


def _compared(parts: Sequence[SquashedScript], lineage: Lineage, made: Migration) -> Equality:
    """The one script against all others, one after the other, on made-up values."""
    first, last = parts[0].migration, parts[-1].migration
    before = first.down_revision or BASE
    has_back = lineage.missing_downgrade(last.revision, before) is None
    assert first.old is not None, "no baseline is squashed"  # noqa: S101
    comparison = LensComparison(
        first.old,
        last.new,
        _all(lineage, before, last.revision),
        _all(lineage, last.revision, before) if has_back else None,
        made,
    )
    found = Equality()
    comparison.compare(made_up_values(first.old), "upgrade", found)
    comparison.compare(made_up_values(last.new), "downgrade", found)
    return found


def _all(lineage: Lineage, source: str, target: str) -> Callable[[Any], Any]:
    """The scripts one after the other, with every format between them checked."""
    steps = lineage.path(source, target).steps

    def run(value: Any) -> Any:
        for step in steps:
            value = step.conformed(step.run(value))
        return value

    return run


def _write(
    directory: Path,
    parts: Sequence[SquashedScript],
    lineage: Lineage,
    text: str,
    *,
    is_proven: bool,
) -> None:
    """Copies first, then the one script, by which the others count no more; then these go.

    A script that is not ``is_proven`` calls the copies, so that it can be tried only now.
    """
    files = copied_files(directory, parts)
    (directory / FOLDER).mkdir(exist_ok=True)
    for path, content in files.items():
        with replacing(path) as stream:
            stream.write(content)
    target = parts[-1].script.path
    if not is_proven:
        _check_equal(parts, lineage, text)
    with replacing(target) as stream:
        stream.write(text.encode())
    for part in parts[:-1]:
        part.script.path.unlink()
    write_head(directory, lineage.store, ScriptFolder(directory).survey())


def _check_equal(parts: Sequence[SquashedScript], lineage: Lineage, text: str) -> None:
    """Raise `ScriptError` unless the one script makes the same of made-up values as all others."""
    target = parts[-1].script.path
    equality = _compared(parts, lineage, read(load(target, text.encode())))
    if not equality.is_equal or equality.taken:
        raise ScriptError(
            "SM-SCRIPT-027",
            f"{target} was not changed: the new text is not what it should be.",
            expected="one script that makes the same of every value as those it stands for",
            found=", ".join(equality.groups) or f"{equality.taken} more values",
            next_action="please report this, with the scripts; nothing in versions/ was changed",
            path=str(target),
        )


def _finished(
    versions: Path, found: Survey, store: str, revision: str, *, apply: bool
) -> Squash | None:
    """What a squash that was interrupted has left: scripts that count no more; None if nothing."""
    script = next(
        (each for each in found.scripts if each.replaces and each.get("revision") == revision), None
    )
    left = [path for path in script_files(versions) if str(path) not in found.places]
    copies = {path.read_bytes() for path in (versions.parent / FOLDER).glob("*.py")}
    if script is None or not left or any(path.read_bytes() not in copies for path in left):
        return None
    if apply:
        for path in left:
            path.unlink()
        write_head(versions.parent, store, found)
    return Squash(
        store,
        revision,
        script.path,
        script.source,
        tuple(script.replaces),
        (),
        (),
        script.get("change") is not None,
        apply,
        _next(store, revision, (), written=apply),
    )


def _next(store: str, revision: str, unknown: Sequence[str], *, written: bool) -> str:
    command = f"statemigrate new {argument(store)} --squash {argument(revision)} --apply"
    if written:
        return f"`statemigrate check`, and commit the folder with {FOLDER}/"
    accepted = "".join(f" --accept-unknown {argument(each)}" for each in unknown)
    return f"`{command}{accepted}` writes it"
