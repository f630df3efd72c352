"""Reads everything in a folder of scripts, and keeps what is wrong instead of stopping at it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from statemigrate.errors import FormatError, LineageError, ScriptError, StatemigrateError
from statemigrate.migration import Lineage, Migration
from statemigrate.migration.chain import chain_faults
from statemigrate.scripts.grouping import faults_across_stores
from statemigrate.scripts.loading import Script, load, script_files
from statemigrate.scripts.reading import faults_in, read

Place = tuple[str | None, str | None]
"""The store and the revision that a script names, None where it names none."""


@dataclass(frozen=True)
class Survey:
    """What a folder holds.

    ``places`` has, by path, what each script says of its store and revision. ``scripts`` are those
    that import, ``migrations`` those of them that are complete; ``unread`` are the paths of all
    others. ``lineages`` are those of the stores in which nothing is wrong.
    """

    places: Mapping[str, Place]

    scripts: tuple[Script, ...]
    migrations: tuple[Migration, ...]
    unread: tuple[str, ...]
    lineages: Mapping[str, Lineage]
    faults: tuple[StatemigrateError, ...]

    @property
    def stores(self) -> list[str]:
        """The stores that any script names."""
        return sorted({store for store, _ in self.places.values() if store})

    @property
    def unread_revisions(self) -> set[str]:
        """The revisions of scripts that are there, but cannot be read."""
        return {revision for path in self.unread if (revision := self.places[path][1])}


def survey(versions: Path) -> Survey:
    """Read all scripts in ``versions``: nothing wrong with one hides what is wrong with another."""
    found = _Reading()
    found.load(script_files(versions))
    found.read()
    found.compare_stores()
    found.connect()
    return Survey(
        found.places,
        tuple(found.scripts),
        tuple(found.migrations),
        tuple(found.unread),
        found.lineages,
        tuple(found.faults),
    )


@dataclass
class _Reading:
    places: dict[str, Place] = field(default_factory=dict)
    scripts: list[Script] = field(default_factory=list)
    complete: list[Script] = field(default_factory=list)
    migrations: list[Migration] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    broken: set[str | None] = field(default_factory=set)
    lineages: dict[str, Lineage] = field(default_factory=dict)
    faults: list[StatemigrateError] = field(default_factory=list)

    def load(self, paths: Iterable[Path]) -> None:
        for path in paths:
            try:
                script = load(path)
            except (ScriptError, FormatError) as fault:
                self.places[str(path)] = _place_in(path)
                self._refuse(path, [fault])
            else:
                self.places[str(path)] = (_text(script, "store"), _text(script, "revision"))
                self.scripts.append(script)
        self.scripts.sort(key=lambda script: script.created)

    def read(self) -> None:
        for script in self.scripts:
            faults = list(faults_in(script))
            if faults:
                self._refuse(script.path, faults)
            else:
                self.complete.append(script)
                self.migrations.append(read(script))

    def compare_stores(self) -> None:
        for fault in faults_across_stores(self.complete):
            self.faults.append(fault)
            self.broken.add(fault.data["store"])

    def connect(self) -> None:
        for store, migrations in sorted(_by_store(self.migrations).items()):
            faults = self._faults_in_chain(store, migrations)
            self.faults += faults
            if not faults and store not in self.broken:
                self.lineages[store] = Lineage.build(store, migrations)

    def _faults_in_chain(self, store: str, migrations: Sequence[Migration]) -> list[LineageError]:
        others = [path for path, (named, _) in self.places.items() if named != store]
        elsewhere = {self.places[path][1] or "" for path in (*others, *self.unread)}
        return list(chain_faults(store, _without_copies(migrations), elsewhere))

    def _refuse(self, path: Path, faults: Sequence[StatemigrateError]) -> None:
        self.faults += faults
        self.unread.append(str(path))
        self.broken.add(self.places[str(path)][0])


def _by_store(migrations: Iterable[Migration]) -> dict[str, list[Migration]]:
    stores = defaultdict(list)
    for migration in migrations:
        stores[migration.store].append(migration)
    return stores


def _without_copies(migrations: Iterable[Migration]) -> list[Migration]:
    # Two scripts of one revision are a fault already; the first stands for both.
    firsts: dict[str, Migration] = {}
    for migration in migrations:
        firsts.setdefault(migration.revision, migration)
    return list(firsts.values())


def _place_in(path: Path) -> Place:
    text = path.read_text(errors="replace")
    return _assigned(text, "store"), _assigned(text, "revision")


def _assigned(text: str, name: str) -> str | None:
    found = re.search(rf"""^{name}\s*(?::[^=\n]*)?=\s*["'](\w+)["']""", text, re.MULTILINE)
    return found[1] if found else None


def _text(script: Script, name: str) -> str | None:
    value = script.get(name)
    return value if isinstance(value, str) else None
