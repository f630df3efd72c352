"""Reads everything in a folder of scripts, and keeps what is wrong instead of stopping at it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from statemigrate.errors import (
    FormatError,
    LineageError,
    ScriptError,
    StatemigrateError,
    did_you_mean,
)
from statemigrate.migration import Lineage, Migration, chain_faults
from statemigrate.quoting import argument
from statemigrate.scripts.loading import Script, load, script_files
from statemigrate.scripts.script_reader import faults_in, read

# What is wrong between the scripts of a folder, whatever stores they are for.


def faults_across_stores(scripts: Iterable[Script]) -> Iterator[LineageError]:
    """What is wrong between scripts whose places are checked, and cannot be seen within one store.

    A revision that two scripts have, and a script that follows one of another store.
    """
    known: dict[str, Script] = {}
    for script in scripts:
        first = known.setdefault(script.get("revision"), script)
        if first is not script:
            yield _same_revision(first, script)
    for script in known.values():
        parent = known.get(script.get("down_revision"))
        if parent is not None and parent.get("store") != script.get("store"):
            yield _another_store(parent, script)


def _same_revision(first: Script, script: Script) -> LineageError:
    return LineageError(
        "SM-LINEAGE-012",
        f"Two scripts have the revision {script.get('revision')}.",
        expected="a revision of its own for every script",
        found=f"{first.path} and {script.path}",
        next_action="remove the copy, or give one of them another `revision`",
        store=script.get("store"),
        revision=script.get("revision"),
        path=str(script.path),
    )


def _another_store(parent: Script, script: Script) -> LineageError:
    above, here = parent.get("store"), script.get("store")
    return LineageError(
        "SM-LINEAGE-008",
        f"{script.path} is for another store than the script it follows.",
        expected=f"store = {above!r}, as in {parent.path}",
        found=f"store = {here!r}",
        next_action="correct `store`, or write a first script for the other store: "
        f"`statemigrate new {argument(here)} -m MESSAGE`",
        store=here,
        revision=script.get("revision"),
        path=str(script.path),
    )


StoreAndRevision = tuple[str | None, str | None]
"""The store and the revision that a script names, None where it names none."""


@dataclass(frozen=True)
class Fault:
    """Something wrong, the store in which it is, and the paths of the scripts that it is about.

    The store is None where a script names none: it may be of any.
    """

    store: str | None
    paths: tuple[str, ...]
    error: StatemigrateError


@dataclass(frozen=True)
class Survey:
    """What a folder holds, read once: a value for every function that needs scripts.

    ``versions`` is where the scripts lie. ``places`` has, by path, what each script says of its
    store and revision, ``follows`` which revision it says it follows. ``scripts`` are those that
    import, ``migrations`` those of them that are complete; ``unread`` are the paths of all others.
    ``lineages`` are those of the stores in which nothing is wrong.
    """

    versions: Path
    places: Mapping[str, StoreAndRevision]
    follows: Mapping[str, str | None]
    scripts: tuple[Script, ...]
    migrations: tuple[Migration, ...]
    unread: tuple[str, ...]
    lineages: Mapping[str, Lineage]
    found_faults: tuple[Fault, ...]

    @property
    def faults(self) -> tuple[StatemigrateError, ...]:
        """All that is wrong."""
        return tuple(each.error for each in self.found_faults)

    def placing(self, path: Path) -> Survey:
        """The same with the place of a script that was written since; it is not executed."""
        place, before = _place_in(path)
        places, follows = {**self.places, str(path): place}, {**self.follows, str(path): before}
        return replace(self, places=places, follows=follows)

    def require(self, store: str) -> None:
        """Raise the first fault of a store, or of a script that may be one of its scripts."""
        for fault in self.found_faults:
            if fault.store in (store, None):
                raise fault.error

    def every(self) -> dict[str, Lineage]:
        """The lineage of every store, by name. Raises the first fault of any script."""
        for fault in self.found_faults:
            raise fault.error
        return dict(self.lineages)

    def sound(self, *needed: str) -> dict[str, Lineage]:
        """The lineages of all stores in which nothing is wrong.

        Raises what is wrong with the stores that are ``needed``, and LineageError for one of them
        without a script.
        """
        for store in needed:
            self.require(store)
            if store not in self.lineages:
                raise self.unscripted(store)
        return dict(self.lineages)

    def unscripted(self, store: str) -> LineageError:
        """No script is for this store."""
        stores = self.stores
        write = f"`statemigrate new {argument(store)} -m MESSAGE`"
        close = did_you_mean(store, stores)
        return LineageError(
            "SM-LINEAGE-017",
            f"No migration script in {self.versions} is for store '{store}'.",
            expected=f"one of {', '.join(stores)}" if stores else "at least one script",
            found=repr(store),
            next_action=f"{write}{close}",
            store=store,
        )

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
    found = _FolderContent()
    found.load(script_files(versions))
    found.read()
    found.compare_stores()
    found.connect()
    return Survey(
        versions,
        found.places,
        found.follows,
        tuple(found.scripts),
        tuple(found.migrations),
        tuple(found.unread),
        found.lineages,
        tuple(_placed(found, fault, store) for store, fault in found.faults),
    )


@dataclass
class _FolderContent:
    places: dict[str, StoreAndRevision] = field(default_factory=dict)
    follows: dict[str, str | None] = field(default_factory=dict)
    scripts: list[Script] = field(default_factory=list)
    complete: list[Script] = field(default_factory=list)
    migrations: list[Migration] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    broken: set[str | None] = field(default_factory=set)
    lineages: dict[str, Lineage] = field(default_factory=dict)
    faults: list[tuple[str | None, StatemigrateError]] = field(default_factory=list)

    def load(self, paths: Iterable[Path]) -> None:
        for path in paths:
            try:
                script = load(path)
            except (ScriptError, FormatError) as fault:
                self.places[str(path)], self.follows[str(path)] = _place_in(path)
                self._refuse(path, [fault])
            else:
                self.places[str(path)] = (_text(script, "store"), _text(script, "revision"))
                self.follows[str(path)] = _text(script, "down_revision")
                self.scripts.append(script)
        self._leave_out_replaced()
        self.scripts.sort(key=lambda script: script.created)

    def _leave_out_replaced(self) -> None:
        """Scripts that were squashed into another one may still lie there."""
        replaced = {
            (script.get("store"), revision)
            for script in self.scripts
            for revision in script.replaces
            if revision != script.get("revision")
        }
        for path in [path for path, place in self.places.items() if place in replaced]:
            del self.places[path], self.follows[path]
            self.unread = [each for each in self.unread if each != path]
        self.scripts = [each for each in self.scripts if str(each.path) in self.places]

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
            self.faults.append((fault.data["store"], fault))
            self.broken.add(fault.data["store"])

    def connect(self) -> None:
        for store, migrations in sorted(_by_store(self.migrations).items()):
            faults = self._faults_in_chain(store, migrations)
            self.faults += [(store, fault) for fault in faults]
            if not faults and store not in self.broken:
                self.lineages[store] = Lineage.build(store, migrations)

    def _faults_in_chain(self, store: str, migrations: Sequence[Migration]) -> list[LineageError]:
        others = [path for path, (named, _) in self.places.items() if named != store]
        elsewhere = {self.places[path][1] or "" for path in (*others, *self.unread)}
        return list(chain_faults(store, _without_copies(migrations), elsewhere))

    def _refuse(self, path: Path, faults: Sequence[StatemigrateError]) -> None:
        store = self.places[str(path)][0]
        self.faults += [(store, fault) for fault in faults]
        self.unread.append(str(path))
        self.broken.add(store)


def _placed(found: _FolderContent, error: StatemigrateError, store: str | None) -> Fault:
    data = error.data
    if data.get("path"):
        return Fault(store, (data["path"],), error)
    revisions = {data.get("revision"), *data.get("revisions", ())} - {None}
    paths = [path for path, place in found.places.items() if place[1] in revisions]
    return Fault(store, tuple(paths), error)


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


def _place_in(path: Path) -> tuple[StoreAndRevision, str | None]:
    """Store and revision of a script, and the revision before, as its text says."""
    text = path.read_text(errors="replace")
    return (_assigned(text, "store"), _assigned(text, "revision")), _assigned(text, "down_revision")


def _assigned(text: str, name: str) -> str | None:
    found = re.search(rf"""^{name}\s*(?::[^=\n]*)?=\s*["']([\w.-]+)["']""", text, re.MULTILINE)
    return found[1] if found else None


def _text(script: Script, name: str) -> str | None:
    value = script.get(name)
    return value if isinstance(value, str) else None
