"""How one store is read and written, decided from code, scripts and state (rule 10).

An engine says what the code declares and what its checkpoint stores; `plan_store` answers with the
families to read and write, or with an error, before anything is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

from statemigrate.access import Adopt, DualAccess, DualList
from statemigrate.deployment import deployment_checks as checks
from statemigrate.deployment.stored import (
    VARIABLE_KINDS,
    Declared,
    DeploymentSettings,
    Kind,
    StoredFamily,
    StoredStore,
    complement_of,
    family_name,
)
from statemigrate.errors import StartupError, StatemigrateError
from statemigrate.families import Family, Key, Source, Span
from statemigrate.formats import Format, Struct
from statemigrate.formats.struct import shape_of
from statemigrate.migration import BASE, Lineage, MigrationPath, Step

# What a running query can do of a store's scripts, and the error for what it cannot.


def live_path(lineage: Lineage, source: str, target: str) -> MigrationPath:
    """The way from one revision to another that values are taken while a query runs.

    Raises LineageError where there is none, and `StartupError` where only a rewrite of the whole
    checkpoint can go it, since keys change or meet.
    """
    path = lineage.path(source, target)
    step = path.only_by_rewriting
    if step is not None:
        raise only_by_rewriting(step)
    return path


def only_by_rewriting(step: Step) -> StartupError:
    """A script that has what no running query can do."""
    names = " and ".join(f"`{name}`" for name in step.only_by_rewriting)
    return StartupError(
        "SM-START-010",
        f"store {step.store}: {step.script or step.revision} has {names}, which a running query "
        "cannot do",
        expected="`upgrade(value)` alone: a value is migrated when it is touched, under its key",
        found=names,
        next_action="stop the query and `statemigrate rewrite OLD NEW --code MODULE:FUNCTION`, "
        "which makes a new checkpoint from the old one; or deploy code whose target is "
        f"{step.source}",
        store=step.store,
        revision=step.revision,
    )


# A family that no way leads from: what is in it must not be touched, nor passed over.


class GuardedFamily:
    """A family no way leads from: as long as it is empty it is as if it were not there.

    ``refuse`` raises the error for a key that has a value in it.
    """

    def __init__(self, family: Family[Any], refuse: Callable[[], NoReturn]) -> None:
        self.name = family.name
        self.revision = family.revision
        self._family = family
        self._refuse = refuse

    def get(self, key: Key) -> None:
        """See `statemigrate.families.Family.get`."""
        self.contains(key)

    def contains(self, key: Key) -> bool:
        """See `statemigrate.families.Family.contains`."""
        if self._family.contains(key):
            self._refuse()
        return False

    def conform(self, value: Any) -> Any:
        """See `statemigrate.families.Family.conform`."""
        return self._family.conform(value)

    def put(self, key: Key, value: Any) -> NoReturn:  # noqa: ARG002
        """Never: dual access writes only to the target."""
        self._refuse()

    def delete(self, key: Key) -> None:
        """See `statemigrate.families.Family.delete`."""
        self.contains(key)

    def scan(self, span: Span) -> Iterator[tuple[Key, Any]]:
        """See `statemigrate.families.Family.scan`."""
        if next(self._family.scan(span), None) is not None:
            self._refuse()
        return iter(())

    def is_drained(self) -> bool:
        """See `statemigrate.families.Family.is_drained`."""
        return self._family.is_drained()


def missing_path(
    lineage: Lineage, revision: str, target: str, *, held: str, at: str = ""
) -> StartupError:
    """The error for values of ``revision`` that cannot become ``target``'s.

    ``held`` says where there is such a value; ``at`` names the key, if it was one that showed it.
    """
    missing = lineage.missing_downgrade(revision, target)
    where = revision if missing is None else missing.where
    return StartupError(
        "SM-START-009",
        f"store {lineage.store}{at and ', key ' + at}"
        f"{':' if at else ''} cannot go back from {revision} to {target}",
        expected=f"a downgrade in {where}, since {held}",
        found="no downgrade",
        next_action="write that downgrade, or deploy code whose target is "
        f"{revision}; {'nothing of this batch was written' if at else 'nothing was touched'}",
        store=lineage.store,
        revision=revision if missing is None or at else missing.revision,
    )


@dataclass(frozen=True)
class StorePlan:
    """How one store is read and written: the target family, the others newest first.

    ``paths`` has each source's way to the target. None where no way leads from it: then it is not
    known to hold anything, and a task that meets a value in it must stop. ``complement`` is the
    family of the values' complements, where scripts leave nothing out for good, and ``dropped``
    the one that the code gives up.
    """

    declared: Declared
    lineage: Lineage
    target: StoredFamily
    sources: tuple[StoredFamily, ...]
    paths: tuple[MigrationPath | None, ...]
    complement: StoredFamily | None = None
    dropped: StoredFamily | None = None

    @property
    def migrates_in_background(self) -> bool:
        """Whether reads and the backfill may migrate, and not only writes."""
        return migrates_in_background(self.paths, expires=self.declared.ttl is not None)

    def stored(self) -> StoredStore:
        """What the checkpoint holds once this plan has run."""
        applied = {m.revision: m.checksum for m in self.lineage.applied(self._newest())}
        user_key = self.declared.user_key
        return StoredStore(
            self.declared.kind,
            (self.target, *self.sources),
            applied,
            None if user_key is None else user_key.jsonValue(),
            self.complement,
        )

    def without(self, retired: frozenset[str]) -> StorePlan:
        """The plan once the named families are dropped."""
        pairs = zip(self.sources, self.paths, strict=True)
        kept = [(family, path) for family, path in pairs if family.name not in retired]
        sources = tuple(family for family, _ in kept)
        return replace(self, sources=sources, paths=tuple(path for _, path in kept))

    def refuse(self, family: StoredFamily) -> NoReturn:
        """Raise `StartupError` for a value in a family that no way leads from."""
        held = f"family {family.name} holds values"
        raise missing_path(self.lineage, family.revision, self.target.revision, held=held)

    def _newest(self) -> str:
        live = (self.target, *self.sources)
        return max((each.revision for each in live), key=self.lineage.position)


def access_for(kind: Kind) -> type[DualAccess[Any]]:
    """The dual access of a kind: several values of a key migrate together, others one by one."""
    return DualList if VARIABLE_KINDS[kind].has_several_values else DualAccess


def dual_access(  # noqa: PLR0913 - all but the families by name
    plan: StorePlan,
    target: Family[Any],
    sources: Sequence[Family[Any]],
    *,
    write_on_read: bool = True,
    asks_after_hit: bool = True,
    show_key: Callable[[Key], object] = lambda key: key,
    refuse: Callable[[StoredFamily], NoReturn] | None = None,
    adopt: Adopt | None = None,
    complement: Family[Any] | None = None,
) -> DualAccess[Any]:
    """A store's dual access over the families an engine opened for ``plan``, in its order.

    A family that no way leads from is guarded: ``refuse`` raises the error for a value in it.
    ``complement`` is the family of the values' complements, if the plan has one.
    """
    made = None
    if complement is not None:
        from statemigrate.families import Complements

        made = Complements(complement)
    guarded = [
        opened if path is not None else GuardedFamily(opened, partial(refuse or plan.refuse, each))
        for opened, each, path in zip(sources, plan.sources, plan.paths, strict=True)
    ]
    pairs = zip(guarded, plan.paths, strict=True)
    return access_for(plan.declared.kind)(
        plan.declared.store,
        target,
        [Source(family, path) for family, path in pairs],
        write_on_read=write_on_read,
        asks_after_hit=asks_after_hit,
        show_key=show_key,
        adopt=adopt,
        complements=made,
    )


def migrates_in_background(paths: Iterable[MigrationPath | None], *, expires: bool) -> bool:
    """Whether values may migrate along ``paths`` without being written.

    A migrated value is a new one to Spark's own variables, and so is its time to live. Where
    values expire, a script says whether that may be; if not, a value stays where its own time runs
    out.
    """
    return not expires or all(path is None or path.restarts_time for path in paths)


def plan_store(
    declared: Declared,
    lineage: Lineage | None,
    stored: StoredStore | None,
    settings: DeploymentSettings,
    *,
    rewrites: bool = False,
) -> StorePlan:
    """Decide how a store is accessed. Raises `StartupError` where code, scripts and state differ.

    ``lineage`` is None for a store without scripts: its only revision is what the code declares.
    With ``rewrites`` the paths may be such as no running query can take.
    """
    store = declared.store
    if lineage is None and stored is not None:
        checks.check_scripted(store, [each.name for each in stored.families])
    known = lineage or Lineage.unmigrated(store, _format_of(declared, stored))
    revision = known.resolve(settings.target_of(store))
    target = StoredFamily(family_name(known, revision), revision, known.format_of(revision))
    checks.check_schema(declared, target, known)
    own = None if stored is None else stored.complement
    complement = _complement(declared, lineage, own, settings)
    dropped = (own or complement_of(store)) if settings.complement is False else None
    if stored is None:
        return StorePlan(declared, known, target, (), (), complement, dropped)
    stored = _renamed_by_baseline(known, stored)
    checks.check_kind(declared, stored)
    checks.check_families(known, stored)
    checks.check_scripts(known, stored, settings)
    sources = _sources(known, stored, revision)
    paths = tuple(_path(known, family, revision, rewrites=rewrites) for family in sources)
    return StorePlan(declared, known, target, sources, paths, complement, dropped)


def _complement(
    declared: Declared,
    lineage: Lineage | None,
    own: StoredFamily | None,
    settings: DeploymentSettings,
) -> StoredFamily | None:
    """The family of complements: the one that is there, or a new one if the code asks for it."""
    if lineage is None or settings.complement is False:
        return None
    if own is not None or not settings.complement:
        return own
    checks.check_complement(declared)
    return complement_of(declared.store)


def fitting_lineages(
    declared: Sequence[Declared], lineages: Mapping[str, Lineage], settings: DeploymentSettings
) -> dict[str, Lineage]:
    """The lineages that lead to what the code declares, for code that is only tried.

    Its scripts are perhaps still to be written: a store of the others is as code without scripts
    has it.
    """
    found = {}
    for each in declared:
        lineage = lineages.get(each.store)
        if lineage is not None:
            try:
                plan_store(each, lineage, None, settings)
            except StatemigrateError:
                continue
            found[each.store] = lineage
    return found


def _format_of(declared: Declared, stored: StoredStore | None) -> Format:
    # Without scripts the stored format stays in force as long as the code's schema equals it.
    base = stored.families[0] if stored and len(stored.families) == 1 else None
    if base is None:
        return Struct(declared.schema)
    same = base.format is declared.given or (
        shape_of(base.format.struct_type()) == shape_of(declared.schema)
    )
    return base.format if same else Struct(declared.schema)


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


def _path(
    lineage: Lineage, family: StoredFamily, target: str, *, rewrites: bool
) -> MigrationPath | None:
    if lineage.missing_downgrade(family.revision, target) is None:
        if rewrites:
            return lineage.path(family.revision, target)
        return _live_path(lineage, family, target)
    if family.occupancy == "something":
        held = f"family {family.name} holds values"
        raise missing_path(lineage, family.revision, target, held=held)
    return None


def _live_path(lineage: Lineage, family: StoredFamily, target: str) -> MigrationPath | None:
    if family.occupancy == "nothing":
        path = lineage.path(family.revision, target)
        return None if path.only_by_rewriting else path
    return live_path(lineage, family.revision, target)
