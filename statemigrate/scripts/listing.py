"""What `heads`, `history` and `show` tell about a script."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from statemigrate.formats import Comparison, compare
from statemigrate.migration import Lineage, Migration


@dataclass(frozen=True)
class Entry:
    """One script in its store's history."""

    migration: Migration
    is_head: bool

    def to_json(self) -> dict[str, Any]:
        """Return the entry as JSON holds it."""
        migration = self.migration
        return {
            "store": migration.store,
            "revision": migration.revision,
            "down_revision": migration.down_revision,
            "message": migration.message,
            "head": self.is_head,
            "baseline": migration.is_baseline,
            "reversible": migration.is_reversible,
            "questions": [asdict(question) for question in migration.questions],
            "path": migration.path,
            "checksum": migration.checksum,
        }


@dataclass(frozen=True)
class Details(Entry):
    """One script with its formats; a baseline has nothing to compare with."""

    comparison: Comparison | None

    def to_json(self) -> dict[str, Any]:
        """Return the entry, its formats and the verdict on them as JSON holds them."""
        old, new = self.migration.old, self.migration.new
        return {
            **super().to_json(),
            "old": old.to_json() if old else None,
            "new": new.to_json(),
            "verdict": str(self.comparison.verdict) if self.comparison else None,
            "changes": [asdict(c) for c in self.comparison.changes] if self.comparison else [],
        }


def entries(lineage: Lineage) -> tuple[Entry, ...]:
    """Return the store's scripts, newest first."""
    newest_first = reversed(lineage.migrations)
    return tuple(Entry(m, m.revision == lineage.head) for m in newest_first)


def details(lineage: Lineage, revision: str) -> Details:
    """Return one script of the lineage with its formats compared."""
    migration = next(m for m in lineage.migrations if m.revision == revision)
    old = migration.old
    comparison = compare(old, migration.new) if old is not None else None
    return Details(migration, revision == lineage.head, comparison)
