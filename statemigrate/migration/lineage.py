"""The migrations of one store, oldest first."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from statemigrate.errors import LineageError, did_you_mean
from statemigrate.formats import Format, differences
from statemigrate.migration.migration import (
    BASE,
    Direction,
    Migration,
    check_revision,
    check_store_name,
)
from statemigrate.migration.path import MigrationPath, Step, step_of
from statemigrate.quoting import argument

# Puts the migrations of one store in order, or says why they form no chain.


Children = dict[str | None, list[Migration]]
Fork = tuple[tuple[Migration, ...], tuple[Migration, ...]]
"""Two branches that follow one revision, each oldest first."""


def in_order(store: str, migrations: Sequence[Migration]) -> tuple[Migration, ...]:
    """Return the migrations oldest first; LineageError if they are not one unbroken chain."""
    for fault in chain_faults(store, migrations):
        raise fault
    return tuple(_follow(_children(migrations), None))


def chain_faults(
    store: str, migrations: Sequence[Migration], elsewhere: Collection[str] = ()
) -> Iterator[LineageError]:
    """All that keeps the migrations from being one unbroken chain.

    That one follows a revision in ``elsewhere`` is no fault: its script is there, but cannot be
    read. Where two have the same revision the rest is left open.
    """
    yield from _misplaced(store, migrations)
    twins = list(_twins(migrations))
    yield from twins
    if twins:
        return
    known = {migration.revision for migration in migrations} | {None}
    loose = [migration for migration in migrations if migration.down_revision not in known]
    yield from (_orphan(m, known) for m in loose if m.down_revision not in elsewhere)
    children = _children(migrations)
    rivals = list(_branches(store, children))
    yield from rivals
    if not loose and not rivals:
        yield from _circle(migrations, _follow(children, None))
    yield from _open_joints(migrations)


def first_fork(migrations: Sequence[Migration]) -> Fork | None:
    """Two branches without a fork of their own; None where nothing forks.

    The one whose first script comes first among the ``migrations`` is the first of both.
    """
    children = _children(migrations)
    for rivals in children.values():
        chains = [(each, *_follow(children, each.revision)) for each in rivals]
        if len(rivals) > 1 and not any(
            len(children.get(each.revision, ())) > 1 for chain in chains for each in chain
        ):
            return chains[0], chains[1]
    return None


def _misplaced(store: str, migrations: Sequence[Migration]) -> Iterator[LineageError]:
    for migration in migrations:
        check_revision(migration.revision, migration.where)
        if migration.store != store:
            yield LineageError(
                "SM-LINEAGE-008",
                f"{migration.where} belongs to another store than the scripts around it.",
                expected=f"store = {store!r}",
                found=f"store = {migration.store!r}",
                next_action="correct `store`, or start a branch of its own with `statemigrate new`",
                store=store,
                revision=migration.revision,
            )
        yield from _wrong_transforms(migration)


def _wrong_transforms(migration: Migration) -> Iterator[LineageError]:
    if migration.is_baseline and migration.down_revision is not None:
        yield LineageError(
            "SM-LINEAGE-009",
            f"{migration.where} has `old = None` but is not the store's first script.",
            expected="`old` equal to the `new` of the script before",
            found=f"old = None with down_revision = {migration.down_revision!r}",
            next_action="fill in `old`",
            revision=migration.revision,
        )
    if migration.is_baseline and (migration.upgrade or migration.downgrade):
        yield LineageError(
            "SM-LINEAGE-010",
            f"{migration.where} has `old = None` and a transform that could never run.",
            expected="either a format in `old`, or neither `upgrade` nor `downgrade`",
            next_action="fill in `old`, or remove the functions",
            revision=migration.revision,
        )
    if not migration.is_baseline and not migration.makes_values:
        yield LineageError(
            "SM-LINEAGE-011",
            f"{migration.where} has no `upgrade`.",
            expected="a function `upgrade(value)` that returns the value in the new format",
            next_action="write `upgrade`",
            revision=migration.revision,
        )


def _twins(migrations: Sequence[Migration]) -> Iterator[LineageError]:
    seen: dict[str, Migration] = {}
    for migration in migrations:
        other = seen.setdefault(migration.revision, migration)
        if other is not migration:
            yield LineageError(
                "SM-LINEAGE-012",
                f"Two scripts have the revision {migration.revision}.",
                expected="a revision of its own for every script",
                found=f"{other.where} and {migration.where}",
                next_action="remove the copy, or give one of them another `revision`",
                store=migration.store,
                revision=migration.revision,
            )


def _orphan(migration: Migration, known: Collection[str | None]) -> LineageError:
    return LineageError(
        "SM-LINEAGE-013",
        f"{migration.where} follows a revision that does not exist.",
        expected=f"a script of the same store with revision {migration.down_revision!r}",
        found=f"only {', '.join(sorted(r for r in known if r))}",
        next_action="restore the missing script, or correct `down_revision`",
        store=migration.store,
        revision=migration.revision,
    )


def _children(migrations: Sequence[Migration]) -> Children:
    children: Children = defaultdict(list)
    for migration in migrations:
        children[migration.down_revision].append(migration)
    return children


def _branches(store: str, children: Children) -> Iterator[LineageError]:
    for parent, rivals in children.items():
        if len(rivals) > 1:
            yield _branched(store, parent, rivals[0], rivals[-1], children)


def _branched(
    store: str, parent: str | None, first: Migration, later: Migration, children: Children
) -> LineageError:
    head = [first, *_follow(children, first.revision)][-1]
    rival = [later, *_follow(children, later.revision)][-1]
    what = "two first scripts" if parent is None else "two heads"
    return LineageError(
        "SM-LINEAGE-014",
        f"Store '{store}' has {what}: {head.revision} and {rival.revision}.",
        expected="one chain of scripts",
        found=f"{first.where} and {later.where} both follow {parent or BASE}",
        next_action=f"`statemigrate new {argument(store)} --rebase` shows one branch on top of the "
        "other, with the fields of both and what is to be asked; --apply writes it",
        store=store,
        revisions=(head.revision, rival.revision),
        heads=2,
    )


def _follow(children: Children, parent: str | None) -> list[Migration]:
    chain: list[Migration] = []
    seen = {parent}
    while parent in children and (child := children[parent][0]).revision not in seen:
        chain.append(child)
        parent = child.revision
        seen.add(parent)
    return chain


def _circle(migrations: Sequence[Migration], chain: Sequence[Migration]) -> Iterator[LineageError]:
    reached = {migration.revision for migration in chain}
    circle = [migration for migration in migrations if migration.revision not in reached]
    if circle:
        yield LineageError(
            "SM-LINEAGE-015",
            f"The scripts of store '{circle[0].store}' form a circle.",
            expected="a first script with `down_revision = None` that leads to all others",
            found=", ".join(f"{m.revision} follows {m.down_revision}" for m in circle),
            next_action=f"correct `down_revision` in {circle[0].where}",
            store=circle[0].store,
            revisions=tuple(m.revision for m in circle),
        )


def _open_joints(migrations: Sequence[Migration]) -> Iterator[LineageError]:
    known = {migration.revision: migration for migration in migrations}
    for after in migrations:
        before = known.get(after.down_revision or "")
        if before and after.old and after.old.fingerprint != before.new.fingerprint:
            yield _open_joint(before, after, after.old)


def _open_joint(before: Migration, after: Migration, old: Format) -> LineageError:
    found = differences(before.new, old)
    return LineageError(
        "SM-LINEAGE-016",
        f"`old` of {after.where} is not the `new` of {before.where}.",
        expected=repr(before.new),
        found="\n".join([*found, repr(old)]),
        next_action=f"copy `new` of revision {before.revision} to `old` of {after.revision}; "
        "a further change needs a script of its own: "
        f"`statemigrate new {argument(after.store)} -m MESSAGE`",
        store=after.store,
        revision=after.revision,
        differences=found,
    )


RELATIVE = re.compile(r"(?P<start>\w*)(?P<distance>[+-]\d+)")
"""A distance from a revision, as in ``head-1``."""


@dataclass(frozen=True)
class Lineage:
    """Every revision that a store's values can have, and the transforms between them.

    Made by `build` from the scripts, or by `unmigrated` for a store without scripts. ``revisions``
    has the ids, oldest first: BASE and then one for each script. If the first script is a baseline,
    it is in place of BASE. ``formats`` has their formats in the same order.
    """

    store: str
    migrations: tuple[Migration, ...]
    revisions: tuple[str, ...]
    formats: tuple[Format, ...]

    @classmethod
    def build(cls, store: str, migrations: Iterable[Migration]) -> Lineage:
        """Order the migrations of one store.

        Raises LineageError for a duplicate revision, a missing parent, two heads, two first
        scripts, a circle, and an ``old`` that is not the ``new`` of the script before.
        """
        chain = in_order(check_store_name(store), tuple(migrations))
        if not chain:
            raise LineageError(
                "SM-LINEAGE-017",
                f"Store '{store}' has no migration script.",
                expected="at least one script",
                next_action=f"`statemigrate new {argument(store)} -m MESSAGE`",
                store=store,
            )
        revisions = tuple(migration.revision for migration in chain)
        formats = tuple(migration.new for migration in chain)
        first = chain[0].old
        if first is None:
            return cls(store, chain, revisions, formats)
        return cls(store, chain, (BASE, *revisions), (first, *formats))

    @classmethod
    def unmigrated(cls, store: str, format: Format) -> Lineage:
        """Return the lineage of a store without scripts: only BASE, in ``format``."""
        return cls(check_store_name(store), (), (BASE,), (format,))

    @property
    def oldest(self) -> str:
        """BASE, or the baseline's revision."""
        return self.revisions[0]

    @property
    def head(self) -> str:
        """The newest revision."""
        return self.revisions[-1]

    def __contains__(self, revision: object) -> bool:
        return revision in self.revisions

    def has_all(self, revisions: Iterable[str]) -> bool:
        """Whether all of these are among its revisions."""
        return all(each in self for each in revisions)

    def position(self, revision: str) -> int:
        """Return how many revisions are older. LineageError if the full id is unknown."""
        if revision not in self.revisions:
            raise self._unknown(revision)
        return self.revisions.index(revision)

    def format_of(self, revision: str) -> Format:
        """Return the format of values written at ``revision``."""
        return self.formats[self.position(revision)]

    def key_of(self, revision: str) -> Format | None:
        """Return the format of keys at ``revision``; None if no script defines it."""
        keys = [m.new_key for m in self.applied(revision) if m.new_key is not None]
        return keys[-1] if keys else None

    def applied(self, revision: str) -> tuple[Migration, ...]:
        """Return the scripts up to and including ``revision``, a baseline among them."""
        place = self.position(revision)
        return tuple(m for m in self.migrations if self.position(m.revision) <= place)

    def resolve(self, target: str) -> str:
        """Return the full revision id that ``target`` means.

        It may be ``head``, ``base`` (the oldest revision), a full id or the beginning of just one,
        or a distance from any of these such as ``head-1``; ``-1`` counts from the head. All may
        follow ``STORE@``. Raises LineageError otherwise.
        """
        name = target.removeprefix(f"{self.store}@")
        relative = RELATIVE.fullmatch(name)
        if relative is None:
            return self._named(name)
        start, distance = relative["start"], int(relative["distance"])
        if not start and distance > 0:
            raise self._unknown(target)
        place = self.position(self._named(start or "head")) + distance
        if not 0 <= place < len(self.revisions):
            raise self._unknown(target)
        return self.revisions[place]

    def path(self, source: str, target: str) -> MigrationPath:
        """Return the composed transforms from one revision to another, full ids both.

        Raises LineageError if a step on the way down has no ``downgrade``.
        """
        missing = self.missing_downgrade(source, target)
        if missing is not None:
            raise LineageError(
                "SM-LINEAGE-018",
                f"Store '{self.store}' cannot go from revision {source} back to {target}.",
                expected=f"a `downgrade` in {missing.where}",
                found="none",
                next_action="write that `downgrade`, or run the code written for "
                f"{missing.revision} or later",
                store=self.store,
                revision=missing.revision,
            )
        start, end = self.position(source), self.position(target)
        stride = 1 if start <= end else -1
        steps = [self._step(place, place + stride) for place in range(start, end, stride)]
        return MigrationPath(source, target, tuple(steps))

    def missing_downgrade(self, source: str, target: str) -> Migration | None:
        """Return the first migration on the way down that has no ``downgrade``, if any."""
        for place in range(self.position(source), self.position(target), -1):
            migration = self._arriving_at(place)
            if migration.downgrade is None:
                return migration
        return None

    def _arriving_at(self, place: int) -> Migration:
        return self.migrations[place - len(self.revisions)]

    def _step(self, start: int, end: int) -> Step:
        migration = self._arriving_at(max(start, end))
        direction: Direction = "upgrade" if start < end else "downgrade"
        return step_of(
            migration, direction, self.revisions[start], self.formats[end], self.formats[start]
        )

    def _named(self, name: str) -> str:
        if name == "head":
            return self.head
        if name == BASE:
            return self.oldest
        if name in self.revisions:
            return name
        matches = [revision for revision in self.revisions if name and revision.startswith(name)]
        if len(matches) > 1:
            raise LineageError(
                "SM-LINEAGE-019",
                f"{name!r} is the beginning of several revisions of store '{self.store}'.",
                expected="the beginning of one revision",
                found=", ".join(matches),
                next_action="give more characters of the id",
                store=self.store,
                revision=name,
            )
        if not matches:
            raise self._unknown(name)
        return matches[0]

    def _unknown(self, revision: str) -> LineageError:
        return LineageError(
            "SM-LINEAGE-020",
            f"Store '{self.store}' has no revision {revision!r}.",
            expected=f"one of {', '.join(self.revisions)}",
            found=repr(revision),
            next_action=f"`statemigrate history {argument(self.store)}` lists them"
            f"{did_you_mean(revision, ('head', BASE, *self.revisions))}",
            store=self.store,
            revision=revision,
        )


def lineage_with(
    revisions: Collection[str], lineages: Mapping[str, Lineage], wanted: Container[str]
) -> Lineage | None:
    """The only lineage with all of some revisions; of several, the only one of a ``wanted`` store.

    None where it is not clear.
    """
    fitting = {store: each for store, each in lineages.items() if each.has_all(revisions)}
    if len(fitting) > 1:
        fitting = {store: each for store, each in fitting.items() if store in wanted}
    return next(iter(fitting.values())) if len(fitting) == 1 else None
