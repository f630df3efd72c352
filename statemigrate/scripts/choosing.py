"""Which script a name means: of stores in order by their lineage, of others as far as they go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from statemigrate.errors import LineageError, StatemigrateError, did_you_mean
from statemigrate.formats import Comparison, Format, compare
from statemigrate.migration import BASE, RELATIVE, Lineage, Migration, step_of
from statemigrate.quoting import argument
from statemigrate.scripts.loading import Script
from statemigrate.scripts.survey import Survey

# What `heads`, `history` and `show` tell about scripts, whatever is wrong with some of them.


@dataclass(frozen=True)
class Entry:
    """One script in its store's history.

    ``created`` is the Create Date in its docstring, None without one. ``applied`` is whether a
    checkpoint has it, None without a checkpoint. ``faults`` are its problems. Parts that cannot be
    read are None, and ``migration`` is None if the script is not complete.
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
        """The names in the script that only a rewrite can run."""
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
            "lenses": list(migration.change.words) if migration and migration.change else None,
            "losses": list(migration.change.losses) if migration and migration.change else None,
            "rewrites": list(self.only_by_rewriting),
            "questions": [asdict(question) for question in questions],
            "path": self.path,
            "checksum": migration.checksum if migration else None,
            "faults": [_fault_json(fault) for fault in self.faults],
        }


@dataclass(frozen=True)
class Details(Entry):
    """One script with its formats; each is None if it cannot be read or does not exist."""

    old: Format | None
    new: Format | None

    @property
    def new_key(self) -> Format | None:
        """The format of the keys after it; None if the script does not define it."""
        return self.migration.new_key if self.migration else None

    @property
    def comparison(self) -> Comparison | None:
        """How the formats differ; None unless there are two."""
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


def chosen(found: Survey, target: str) -> Entry:
    """Return the script that ``target`` means; see `ScriptFolder.show`. Raises LineageError."""
    store, separator, rest = target.partition("@")
    if separator or target in found.stores:
        return _of_store(found, store, rest or "head")
    everywhere = [entry for each in (*found.stores, None) for entry in entries(found, each)]
    if len({entry.store for entry in everywhere}) == 1 and found.stores:
        return _of_the_one(found, target)
    relative = RELATIVE.fullmatch(target)
    if target in ("head", BASE) or (relative and relative["start"] in ("", "head", BASE)):
        raise _of_several_stores(found, target)
    matching = [entry for entry in everywhere if (entry.revision or "").startswith(target)]
    stores = list(dict.fromkeys(entry.store for entry in matching))
    if len(stores) == 1 and stores[0] is not None:
        return _of_store(found, stores[0], target)
    if len(matching) == 1:
        return matching[0]
    known = [*found.stores, *(entry.revision for entry in everywhere if entry.revision)]
    raise LineageError(
        "SM-LINEAGE-023",
        f"{target!r} means scripts of {len(stores)} stores."
        if matching
        else f"No script has the revision {target!r}.",
        expected="a revision, the beginning of one, STORE or STORE@REVISION",
        found=", ".join(str(each) for each in stores) or repr(target),
        next_action="`statemigrate history` lists all revisions"
        f"{'' if matching else did_you_mean(target, known)}",
        revision=target,
    )


def _of_the_one(found: Survey, target: str) -> Entry:
    (store,) = found.stores
    try:
        return _of_store(found, store, target)
    except LineageError as error:
        close = did_you_mean(target, [store])
        if not close:
            raise
        raise error.but(next_action=f"{error.next_action}{close}") from error


def _of_several_stores(found: Survey, target: str) -> LineageError:
    named = [f"{store}@{target}" for store in found.stores]
    return LineageError(
        "SM-LINEAGE-024",
        f"Each store has its own {target!r}, and there are {len(named)} stores.",
        expected=f"one of {', '.join(named)}" if named else "a store with scripts",
        found=repr(target),
        next_action="name the store too" if named else "`statemigrate new STORE -m MESSAGE`",
        revision=target,
    )


def _of_store(found: Survey, store: str, name: str) -> Entry:
    of_store = entries(found, store)
    if not of_store:
        raise found.unscripted(store)
    if store not in found.lineages:
        return _among(store, of_store, name)
    lineage = found.lineages[store]
    revision = lineage.resolve(name)
    if revision == BASE:
        raise _before_the_first(lineage, f"{store}@{name}")
    return next(entry for entry in of_store if entry.revision == revision)


def _among(store: str, of_store: Sequence[Entry], name: str) -> Entry:
    """The one that is meant, where not every script can be used.

    Scripts that follow one another are in order also before they are finished. Where they do not,
    a head or a revision's beginning tells which it is.
    """
    chain = _follow(of_store)
    if chain and (found := _counted(chain, name)):
        return found
    heads = [entry for entry in of_store if entry.is_head]
    exact = [entry for entry in of_store if entry.revision == name]
    beginning = [entry for entry in of_store if (entry.revision or "").startswith(name)]
    matching = heads if name == "head" else exact or beginning
    if len(matching) == 1:
        return matching[0]
    revisions = [str(entry.revision) for entry in of_store]
    raise LineageError(
        "SM-LINEAGE-025",
        f"Store '{store}' has no script {name!r}."
        if chain and not matching
        else f"{name!r} means {len(matching) or 'none'} of the scripts of store '{store}', which "
        f"{'have names alike' if chain else 'form no chain'}.",
        expected=f"one of {', '.join(revisions)}",
        found=", ".join(str(entry.revision) for entry in matching) or repr(name),
        next_action=f"`statemigrate history {argument(store)}` shows what is wrong with them"
        f"{'' if matching else did_you_mean(name, ('head', BASE, *revisions))}",
        store=store,
        revision=name,
    )


def _follow(of_store: Sequence[Entry]) -> list[Entry]:
    """The scripts oldest first, each following the one before; nothing where they do not."""
    followed = {entry.down_revision: entry for entry in of_store}
    chain: list[Entry] = []
    before: str | None = None
    while before in followed and len(chain) < len(of_store):
        chain.append(followed[before])
        before = chain[-1].revision
    return chain if len(chain) == len(of_store) else []


def _counted(chain: Sequence[Entry], name: str) -> Entry | None:
    """The script so far from either end of a chain; None for another kind of name."""
    found = RELATIVE.fullmatch(name)
    start = name if found is None else found["start"] or "head"
    distance = 0 if found is None else int(found["distance"])
    first = chain[0].migration
    # A baseline is the oldest revision itself; before any other script there is one.
    oldest = 0 if first is not None and first.is_baseline else -1
    places = {"head": len(chain) - 1, BASE: oldest}
    if start not in places or not 0 <= places[start] + distance < len(chain):
        return None
    return chain[places[start] + distance]


def _before_the_first(lineage: Lineage, target: str) -> LineageError:
    return LineageError(
        "SM-LINEAGE-026",
        f"No script made {target}: it is the state before the first one.",
        expected=f"one of {', '.join(m.revision for m in lineage.migrations)}",
        found=target,
        next_action=f"`statemigrate history --show {argument(lineage.store)}@base+1` shows the "
        "first script",
        store=lineage.store,
    )
