"""What a query is deployed with, and the check that it fits the checkpoint (rule 10).

Engine-free. An engine says what the code declares and what its checkpoint stores; `plan_store`
answers with the families to read and write, or with an error, before anything is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from statemigrate.errors import StartupError
from statemigrate.formats import Format, Struct, compare, format_from_json
from statemigrate.formats.shape import shape_of
from statemigrate.migration import BASE, Lineage, Path

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Kind = Literal["value", "list", "map"]
SETTINGS = "__statemigrate__"
T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """What `migrated` was given: the scripts' folder, targets by store, and how reads behave."""

    migrations: str | FilePath = "migrations"
    targets: Mapping[str, str] = field(default_factory=dict)
    write_on_read: bool = True
    accept_edited: tuple[str, ...] = ()


@dataclass(frozen=True)
class Declared:
    """A state variable as the processor's ``init`` asks for it."""

    store: str
    kind: Kind
    schema: StructType
    user_key: StructType | None = None


@dataclass(frozen=True)
class StoredFamily:
    """A family as a checkpoint has it; ``empty`` only where that is certain."""

    name: str
    revision: str
    format: Format
    empty: bool = False

    def to_json(self) -> dict[str, Any]:
        """The form checkpoints hold."""
        return {"name": self.name, "revision": self.revision, "format": self.format.to_json()}


@dataclass(frozen=True)
class StoredStore:
    """A store as a checkpoint has it: its families, and the scripts applied by checksum."""

    kind: Kind
    families: tuple[StoredFamily, ...] = ()
    applied: Mapping[str, str] = field(default_factory=dict)
    user_key: dict[str, Any] | None = None

    def marked(self, is_empty: Callable[[str], bool]) -> StoredStore:
        """The same store with every family's emptiness filled in."""
        families = tuple(replace(each, empty=is_empty(each.name)) for each in self.families)
        return replace(self, families=families)

    def to_json(self) -> dict[str, Any]:
        """The form checkpoints hold."""
        families = [each.to_json() for each in self.families]
        return {
            "kind": self.kind,
            "families": families,
            "applied": dict(self.applied),
            "user_key": self.user_key,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> StoredStore:
        """Read what `to_json` gave."""
        families = tuple(
            StoredFamily(each["name"], each["revision"], format_from_json(each["format"]))
            for each in document["families"]
        )
        return cls(document["kind"], families, document["applied"], document["user_key"])


@dataclass(frozen=True)
class StorePlan:
    """How one store is read and written: the target family, the others newest first."""

    declared: Declared
    lineage: Lineage
    target: StoredFamily
    sources: tuple[StoredFamily, ...]
    paths: tuple[Path, ...]

    def stored(self) -> StoredStore:
        """What the checkpoint holds once this plan has run."""
        applied = {m.revision: m.checksum for m in self.lineage.applied(self._newest())}
        user_key = self.declared.user_key
        return StoredStore(
            self.declared.kind,
            (self.target, *self.sources),
            applied,
            None if user_key is None else user_key.jsonValue(),
        )

    def without(self, retired: frozenset[str]) -> StorePlan:
        """The plan once the named families are dropped."""
        pairs = zip(self.sources, self.paths, strict=True)
        kept = [(family, path) for family, path in pairs if family.name not in retired]
        sources = tuple(family for family, _ in kept)
        return replace(self, sources=sources, paths=tuple(path for _, path in kept))

    def _newest(self) -> str:
        live = (self.target, *self.sources)
        return max((each.revision for each in live), key=self.lineage.position)


def migrated(
    processor: T | None = None,
    *,
    migrations: str | FilePath = "migrations",
    targets: Mapping[str, str] | None = None,
    write_on_read: bool = True,
    accept_edited: tuple[str, ...] = (),
) -> Any:
    """Mark a ``StatefulProcessor`` class or instance as one whose stores have migrations.

    ``migrations`` is the folder of scripts; ``targets`` names, by store, the revision the code is
    written for (the head unless said otherwise); with ``write_on_read=False`` reads do not migrate;
    ``accept_edited`` names applied scripts whose text may differ from what was applied. Used as
    ``@migrated``, ``@migrated(...)`` or ``migrated(instance, ...)``; the code stays as it is.
    """
    settings = Settings(migrations, dict(targets or {}), write_on_read, accept_edited)

    def mark(target: T) -> T:
        setattr(target, SETTINGS, settings)
        return target

    return mark if processor is None else mark(processor)


def family_name(lineage: Lineage, revision: str) -> str:
    """The family of a revision: the oldest has the store's own name, so plain state fits in."""
    return lineage.store if revision == lineage.oldest else f"{lineage.store}@{revision}"


def plan_store(
    declared: Declared,
    lineage: Lineage | None,
    stored: StoredStore | None,
    settings: Settings,
) -> StorePlan:
    """Decide how a store is accessed. Raises `StartupError` where code, scripts and state differ.

    ``lineage`` is None for a store without scripts: its only revision is what the code declares.
    """
    store = declared.store
    known = lineage or Lineage.unmigrated(store, _format_of(declared, stored))
    revision = known.resolve(settings.targets.get(store, "head"))
    target = StoredFamily(family_name(known, revision), revision, known.format_of(revision))
    _check_schema(declared, target, known)
    if stored is None:
        return StorePlan(declared, known, target, (), ())
    stored = _renamed_by_baseline(known, stored)
    _check_kind(declared, stored)
    _check_families(known, stored)
    _check_scripts(known, stored, settings)
    sources = _sources(known, stored, revision)
    paths = tuple(_path(known, family, revision) for family in sources)
    return StorePlan(declared, known, target, sources, paths)


def _format_of(declared: Declared, stored: StoredStore | None) -> Format:
    # Without scripts the stored format stays in force as long as the code's schema equals it.
    base = stored.families[0] if stored and len(stored.families) == 1 else None
    same = base is not None and shape_of(base.format.struct_type()) == shape_of(declared.schema)
    return base.format if base is not None and same else Struct(declared.schema)


def _renamed_by_baseline(lineage: Lineage, stored: StoredStore) -> StoredStore:
    """State from before the store's first script; if that is a baseline, it is at its revision."""
    at = {} if BASE in lineage else {BASE: lineage.oldest}
    families = (
        replace(each, revision=at.get(each.revision, each.revision)) for each in stored.families
    )
    return replace(stored, families=tuple(families))


def _sources(lineage: Lineage, stored: StoredStore, target: str) -> tuple[StoredFamily, ...]:
    others = [each for each in stored.families if each.revision != target]
    newest_first = sorted(others, key=lambda each: lineage.position(each.revision), reverse=True)
    return tuple(newest_first)


def _path(lineage: Lineage, family: StoredFamily, target: str) -> Path:
    missing = lineage.missing_downgrade(family.revision, target)
    if missing is None:
        return lineage.path(family.revision, target)
    if family.empty:
        return Path(family.revision, target)
    raise StartupError(
        f"store {lineage.store} cannot go back from {family.revision} to {target}",
        expected=f"a downgrade in {missing.where}, since family {family.name} holds values",
        found="no downgrade",
        next_action="write that downgrade, or deploy code whose target is "
        f"{family.revision}; nothing was touched",
        store=lineage.store,
        revision=missing.revision,
    )


def _check_schema(declared: Declared, target: StoredFamily, lineage: Lineage) -> None:
    wanted = target.format.struct_type()
    if shape_of(wanted) == shape_of(declared.schema):
        return
    differences = compare(target.format, Struct(declared.schema))
    raise StartupError(
        f"store {declared.store}: the code's schema is not the one of its target revision "
        f"{target.revision}",
        expected=wanted.simpleString(),
        found=f"{declared.schema.simpleString()}\n{differences}",
        next_action=f"`statemigrate show {declared.store}@head` shows the format; declare it in "
        "init, or set targets to the revision the code is written for, or run "
        f"`statemigrate new {declared.store} -m MESSAGE`",
        store=declared.store,
        head=lineage.head,
    )


def _check_kind(declared: Declared, stored: StoredStore) -> None:
    user_key = None if declared.user_key is None else declared.user_key.jsonValue()
    found = (stored.kind, stored.user_key)
    if found != (declared.kind, user_key):
        raise StartupError(
            f"store {declared.store} changed its kind or its map key",
            expected=f"{stored.kind} state, map key {stored.user_key}",
            found=f"{declared.kind} state, map key {user_key}",
            next_action="give the new state another name; kind and map key cannot be migrated",
            store=declared.store,
        )


def _check_families(lineage: Lineage, stored: StoredStore) -> None:
    for family in stored.families:
        if family.revision not in lineage:
            raise StartupError(
                f"store {lineage.store}: the checkpoint has a family of the unknown revision "
                f"{family.revision}",
                expected=f"one of {', '.join(lineage.revisions)}",
                found=f"{family.revision} (family {family.name})",
                next_action="check out the scripts this checkpoint was last run with; "
                f"`statemigrate history {lineage.store}` lists those that are here",
                store=lineage.store,
                revision=family.revision,
            )
        _check_format(lineage, family)


def _check_format(lineage: Lineage, family: StoredFamily) -> None:
    scripted = lineage.format_of(family.revision)
    if scripted.fingerprint != family.format.fingerprint:
        raise StartupError(
            f"store {lineage.store}: the format stored for revision {family.revision} is not the "
            "script's",
            expected=f"as stored, {family.format!r}",
            found=f"in the script, {scripted!r}\n{compare(family.format, scripted)}",
            next_action="restore the script's format and make the change in a new migration: "
            f"`statemigrate new {lineage.store} -m MESSAGE`",
            store=lineage.store,
            revision=family.revision,
        )


def _check_scripts(lineage: Lineage, stored: StoredStore, settings: Settings) -> None:
    for migration in lineage.migrations:
        checksum = stored.applied.get(migration.revision, migration.checksum)
        if checksum == migration.checksum or migration.revision in settings.accept_edited:
            continue
        raise StartupError(
            f"store {lineage.store}: {migration.where} was edited after it was applied to this "
            "checkpoint",
            expected=f"checksum {checksum[:12]}",
            found=f"checksum {migration.checksum[:12]}",
            next_action="restore the script and make the change in a new migration; if values "
            f"migrate the same as before, pass accept_edited=({migration.revision!r},) to migrated",
            store=lineage.store,
            revision=migration.revision,
        )
