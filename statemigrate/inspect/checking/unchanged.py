"""Whether scripts are as they were when they were applied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from statemigrate.errors import ScriptError
from statemigrate.inspect.checking.report import Finding
from statemigrate.scripts.applied import Applied, applied_file, read_applied
from statemigrate.scripts.loading import Script
from statemigrate.scripts.survey import Survey
from statemigrate.shell import argument


@dataclass(frozen=True)
class _Entry:
    store: str
    revision: str
    checksum: str


def unchanged_findings(
    found: Survey, directory: Path, deployed: Applied, checkpoint: str | None
) -> Iterator[Finding]:
    """A finding for each applied script that was edited or is gone.

    What was applied is said by ``applied.json`` in ``directory`` and by ``deployed``, which was
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
        if script is not None and not script.was_applied_as(entry.checksum):
            yield _edited(entry, script, source)
        if script is None and entry.revision not in found.unread_revisions:
            yield _gone(entry, source, found)


def _entries(applied: Applied) -> Iterator[_Entry]:
    for store, checksums in sorted(applied.items()):
        for revision, checksum in sorted(checksums.items()):
            yield _Entry(store, revision, checksum)


def _placed(found: Survey) -> Iterator[Script]:
    return (script for script in found.scripts if None not in found.places[str(script.path)])


def _edited(entry: _Entry, script: Script, source: str) -> Finding:
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


def _gone(entry: _Entry, source: str, found: Survey) -> Finding:
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
