"""`check`: scripts, the code they are for, and what was applied, without any state."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from statemigrate.errors import LineageError, ScriptError, StatemigrateError
from statemigrate.formats import Format
from statemigrate.inspect.check_code import code_findings, target_findings
from statemigrate.inspect.check_examples import entry_findings, example_findings, made_up_findings
from statemigrate.inspect.check_report import CheckReport, Finding
from statemigrate.migration import BASE, Migration
from statemigrate.quoting import argument
from statemigrate.scripts import (
    FOLDER,
    Applied,
    Script,
    ScriptFolder,
    Survey,
    applied_file,
    code_checksum,
    differing_heads,
    read_applied,
    survey,
)
from statemigrate.state import applied_by

# Whether scripts are as they were when they were applied.


@dataclass(frozen=True)
class _DeployedScript:
    store: str
    revision: str
    checksum: str


def unchanged_findings(
    found: Survey, directory: Path, deployed: Applied, checkpoint: str | None
) -> Iterator[Finding]:
    """A finding for each applied script that was edited or is gone.

    What was applied is read from ``applied.json`` in ``directory`` and by ``deployed``, which was
    read from ``checkpoint``.
    """
    sources = {entry: str(checkpoint) for entry in _entries(deployed)}
    try:
        recorded = read_applied(directory)
    except ScriptError as error:
        yield Finding.of("applied", error)
        recorded = {}
    # What both say is found once.
    sources |= {entry: str(applied_file(directory)) for entry in _entries(recorded)}
    scripts = {(each.get("store"), each.get("revision")): each for each in _placed(found)}
    for entry, source in sources.items():
        script = scripts.get((entry.store, entry.revision))
        squashed = _squashed_into(entry, scripts.values()) if script is None else None
        if squashed is not None:
            if squashed.replaces[entry.revision] != entry.checksum:
                yield _edited(entry, squashed, source)
            continue
        if script is not None and not script.was_applied_as(entry.checksum):
            yield _edited(entry, script, source)
        if script is None and entry.revision not in found.unread_revisions:
            yield _gone(entry, source, found)


def copy_findings(found: Survey, directory: Path) -> Iterator[Finding]:
    """A finding for each squashed script whose copy was edited: a script may call it."""
    copies = {path: path.read_text("utf-8") for path in (directory / FOLDER).glob("[!_]*.py")}
    texts = [*(each.source for each in found.scripts), *copies.values()]
    recorded = {checksum for text in texts for checksum in _CHECKSUM.findall(text)}
    # A squash that was interrupted has copied scripts that are still there.
    recorded |= {each.checksum for each in found.scripts}
    for path, text in sorted(copies.items()):
        try:
            checksum = code_checksum(text)
        except SyntaxError:
            checksum = ""
        if checksum not in recorded:
            yield Finding(
                "applied",
                "the copy of a squashed script was edited",
                "restore it from version control; if no script of versions/ calls it, remove it",
                "the checksum that `replaces` of the script that stands for it has",
                f"checksum {checksum[:12]}" if checksum else "no Python",
                path=str(path),
            )


_CHECKSUM = re.compile("[0-9a-f]{64}")


def _squashed_into(entry: _DeployedScript, scripts: Iterable[Script]) -> Script | None:
    """The script that an applied one was squashed into."""
    return next(
        (
            each
            for each in scripts
            if each.get("store") == entry.store and entry.revision in each.replaces
        ),
        None,
    )


def _entries(applied: Applied) -> Iterator[_DeployedScript]:
    for store, checksums in sorted(applied.items()):
        for revision, checksum in sorted(checksums.items()):
            yield _DeployedScript(store, revision, checksum)


def _placed(found: Survey) -> Iterator[Script]:
    return (script for script in found.scripts if None not in found.places[str(script.path)])


def _edited(entry: _DeployedScript, script: Script, source: str) -> Finding:
    return Finding(
        "applied",
        "the script was edited after it was applied",
        "restore the script and make the change in a new migration: "
        f"`statemigrate new {argument(entry.store)} -m MESSAGE`; if values migrate the same as "
        "before, "
        f"deploy with accept_edited=({entry.revision!r},), then "
        "`statemigrate check --checkpoint PATH --record`",
        f"checksum {entry.checksum[:12]}, as in {source}",
        f"checksum {script.checksum[:12]}",
        entry.store,
        entry.revision,
        str(script.path),
    )


def _gone(entry: _DeployedScript, source: str, found: Survey) -> Finding:
    here = [revision for store, revision in found.places.values() if store == entry.store]
    return Finding(
        "applied",
        f"revision {entry.revision} was applied, and no script has it any more",
        "restore the script from version control, as checkpoints hold values of that revision",
        f"revision {entry.revision}, as in {source}",
        f"only {', '.join(sorted(filter(None, here)))}" if here else "no script of this store",
        entry.store,
        entry.revision,
    )


def check(
    migrations: str | Path,
    *,
    code: Iterable[str] = (),
    targets: Mapping[str, str] | None = None,
    checkpoint: str | Path | None = None,
    made_up: bool = True,
) -> CheckReport:
    """Check a folder of migration scripts, and report everything that is wrong.

    Each script must be complete and the scripts of a store one chain; its examples must migrate;
    no question may be open. What was applied, by ``applied.json`` and by ``checkpoint``, must be
    unchanged. ``code`` names processors and functions, ``MODULE:OBJECT``, whose schemas must be
    those of their targets: by store the revision that the code is written for, as `migrated` was
    given it, else as ``targets`` say, else the head. With ``made_up``, each script is also tried on
    values made up from its formats, and ``rekey``, ``merge`` and ``upgrade_table`` on entries.

    Neither state nor Java is needed. Raises `ScriptError` for what is not a folder of scripts and
    `CheckpointError` for what is not a checkpoint.
    """
    folder = ScriptFolder(migrations)
    path = None if checkpoint is None else str(checkpoint)
    deployed = {} if path is None else applied_by(path)
    found = survey(folder.versions)
    migrations_to_try = found.migrations if made_up else ()
    tried = [each for migration in migrations_to_try for each in made_up_findings(migration)]
    tried += (
        each
        for migration in found.migrations
        for each in entry_findings(migration, _key_before(found, migration), made_up=made_up)
    )
    wrong_targets = tuple(target_findings(found, targets or {}))
    findings = (
        *(_fault(found, fault) for fault in found.faults),
        *wrong_targets,
        *code_findings(found, code, targets or {}, {each.store for each in wrong_targets}),
        *unchanged_findings(found, folder.directory, deployed, path),
        *copy_findings(found, folder.directory),
        *(Finding.of("lineage", each) for each in differing_heads(folder.directory, found)),
        *(each for migration in found.migrations for each in example_findings(migration)),
        *(each for each in tried if each.severity == "error"),
        *(each for script in found.scripts for each in _questions(found, script)),
    )
    notes = tuple(each for each in tried if each.severity == "note")
    return CheckReport(findings, len(found.places), len(found.stores), notes)


def _key_before(found: Survey, migration: Migration) -> Format | None:
    """The format of the keys that a script is given; None where no script says it."""
    lineage, before = found.lineages.get(migration.store), migration.down_revision or BASE
    return lineage.key_of(before) if lineage is not None and before in lineage else None


def _fault(found: Survey, fault: StatemigrateError) -> Finding:
    in_chain = isinstance(fault, LineageError)
    path = fault.data.get("path") or _path_of(found, fault)
    store, revision = found.places.get(path, (None, None)) if path else (None, None)
    return Finding.of(
        "lineage" if in_chain else "script", fault, store=store, revision=revision, path=path
    )


def _path_of(found: Survey, fault: StatemigrateError) -> str | None:
    revision = fault.data.get("revision")
    paths = (each.path for each in found.migrations if each.revision == revision)
    return next(paths, None)


def _questions(found: Survey, script: Script) -> Iterator[Finding]:
    store, revision = found.places[str(script.path)]
    for question in script.questions:
        yield Finding(
            "question",
            f"open question: {question.text}",
            "answer it in the script, then remove the comment",
            store=store,
            revision=revision,
            path=str(script.path),
            line=question.line,
        )
