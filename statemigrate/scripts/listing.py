"""What `heads`, `history` and `show` tell about scripts, whatever is wrong with some of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from statemigrate.errors import StatemigrateError
from statemigrate.formats import Comparison, Format, compare
from statemigrate.migration import BASE, Migration
from statemigrate.migration.step import step_of
from statemigrate.scripts.loading import Script
from statemigrate.scripts.survey import Survey


@dataclass(frozen=True)
class Entry:
    """One script in its store's history.

    ``created`` is the Create Date of its docstring, None without one, and ``applied`` whether a
    checkpoint has it, None where none was asked. ``faults`` are what is wrong with it. What it says
    is None as far as it cannot be read, and ``migration`` is None if the script is not complete.
    """

    store: str | None
    revision: str | None
    down_revision: str | None
    message: str
    path: str
    is_head: bool
    faults: tuple[StatemigrateError, ...]
    migration: Migration | None
    created: str | None
    applied: bool | None

    @property
    def only_by_rewriting(self) -> tuple[str, ...]:
        """What of the script no running query can do, by the names it has there."""
        migration = self.migration
        if migration is None or migration.is_baseline:
            return ()
        before = migration.down_revision or BASE
        return step_of(migration, "upgrade", before, migration.new).only_by_rewriting

    def to_json(self) -> dict[str, Any]:
        """Return the entry as JSON holds it."""
        migration = self.migration
        questions = migration.questions if migration else ()
        return {
            "store": self.store,
            "revision": self.revision,
            "down_revision": self.down_revision,
            "message": self.message,
            "created": self.created,
            "applied": self.applied,
            "head": self.is_head,
            "baseline": migration.is_baseline if migration else None,
            "reversible": migration.is_reversible if migration else None,
            "drops": list(migration.drops) if migration else None,
            "rewrites": list(self.only_by_rewriting),
            "questions": [asdict(question) for question in questions],
            "path": self.path,
            "checksum": migration.checksum if migration else None,
            "faults": [_fault_json(fault) for fault in self.faults],
        }


@dataclass(frozen=True)
class Details(Entry):
    """One script with its formats, each None if it cannot be read or, as of a baseline, is none."""

    old: Format | None
    new: Format | None

    @property
    def new_key(self) -> Format | None:
        """The format of the keys after it; None where it says nothing of them."""
        return self.migration.new_key if self.migration else None

    @property
    def comparison(self) -> Comparison | None:
        """How the formats differ; None where there are not two."""
        return compare(self.old, self.new) if self.old and self.new else None

    def to_json(self) -> dict[str, Any]:
        """Return the entry, its formats and the verdict on them as JSON holds them."""
        comparison = self.comparison
        return {
            **super().to_json(),
            "old": self.old.to_json() if self.old else None,
            "new": self.new.to_json() if self.new else None,
            "new_key": self.new_key.to_json() if self.new_key else None,
            "verdict": str(comparison.verdict) if comparison else None,
            "changes": [asdict(c) for c in comparison.changes] if comparison else [],
        }


def entries(found: Survey, store: str | None) -> tuple[Entry, ...]:
    """Return the scripts of a store, newest first; for None those that name no store.

    A script is newer than the one it says it follows; of two that follow one, that which was
    created later comes first.
    """
    paths = [path for path, place in found.places.items() if place[0] == store]
    scripts = {str(script.path): script for script in found.scripts}
    created = {path: scripts[path].created if path in scripts else "" for path in paths}
    ages = _ages(found, paths)
    ordered = sorted(paths, key=lambda path: (ages[path], created[path], path), reverse=True)
    followed = {found.follows[path] for path in paths}
    return tuple(_entry(found, path, scripts.get(path), followed) for path in ordered)


def details(found: Survey, entry: Entry) -> Details:
    """Return one script with its formats."""
    script = next((each for each in found.scripts if str(each.path) == entry.path), None)
    return Details(**vars(entry), old=_format(script, "old"), new=_format(script, "new"))


def _format(script: Script | None, name: str) -> Format | None:
    value = None if script is None else script.get(name)
    return value if isinstance(value, Format) else None


def _entry(found: Survey, path: str, script: Script | None, followed: set[str | None]) -> Entry:
    store, revision = found.places[path]
    faults = tuple(fault.error for fault in found.found_faults if path in fault.paths)
    return Entry(
        store,
        revision,
        found.follows[path],
        script.message if script else "",
        path,
        revision not in followed,
        faults,
        next((each for each in found.migrations if each.path == path), None),
        script.created or None if script else None,
        None,
    )


def _ages(found: Survey, paths: list[str]) -> Mapping[str, int]:
    """By path, how many scripts come before one."""
    by_revision = {found.places[path][1]: path for path in paths}
    ages = {}
    for path in paths:
        seen = [path]
        before = by_revision.get(found.follows[path])
        while before is not None and before not in seen:
            seen.append(before)
            before = by_revision.get(found.follows[before])
        ages[path] = len(seen)
    return ages


def _fault_json(fault: StatemigrateError) -> dict[str, Any]:
    return {
        "code": fault.code,
        "summary": fault.summary,
        "expected": None if fault.expected is None else str(fault.expected),
        "found": None if fault.found is None else str(fault.found),
        "next": fault.next_action,
    }
