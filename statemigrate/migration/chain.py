"""Puts the migrations of one store in order, or says why they form no chain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from statemigrate.errors import LineageError
from statemigrate.formats import compare
from statemigrate.migration.migration import BASE, Migration
from statemigrate.migration.names import check_revision

Children = dict[str | None, list[Migration]]


def in_order(store: str, migrations: Sequence[Migration]) -> tuple[Migration, ...]:
    """Return the migrations oldest first; LineageError if they are not one unbroken chain."""
    _check_each(store, migrations)
    _check_unique(migrations)
    _check_parents(migrations)
    children = _children(migrations)
    _check_branches(store, children)
    chain = _follow(children, None)
    _check_cycle(migrations, chain)
    for before, after in pairwise(chain):
        _check_joint(before, after)
    return tuple(chain)


def _check_each(store: str, migrations: Sequence[Migration]) -> None:
    for migration in migrations:
        check_revision(migration.revision, migration.where)
        if migration.store != store:
            raise LineageError(
                f"{migration.where} belongs to another store than the scripts around it.",
                expected=f"store = {store!r}",
                found=f"store = {migration.store!r}",
                next_action="correct `store`, or start a branch of its own with `statemigrate new`",
                store=store,
                revision=migration.revision,
            )
        _check_transforms(migration)


def _check_transforms(migration: Migration) -> None:
    if migration.is_baseline and migration.down_revision is not None:
        raise LineageError(
            f"{migration.where} has `old = None` but is not the store's first script.",
            expected="`old` equal to the `new` of the script before",
            found=f"old = None with down_revision = {migration.down_revision!r}",
            next_action="fill in `old`",
            revision=migration.revision,
        )
    if migration.is_baseline and (migration.upgrade or migration.downgrade):
        raise LineageError(
            f"{migration.where} has `old = None` and a transform that could never run.",
            expected="either a format in `old`, or neither `upgrade` nor `downgrade`",
            next_action="fill in `old`, or remove the functions",
            revision=migration.revision,
        )
    if not migration.is_baseline and migration.upgrade is None:
        raise LineageError(
            f"{migration.where} has no `upgrade`.",
            expected="a function `upgrade(value)` that returns the value in the new format",
            next_action="write `upgrade`",
            revision=migration.revision,
        )


def _check_unique(migrations: Sequence[Migration]) -> None:
    seen: dict[str, Migration] = {}
    for migration in migrations:
        other = seen.setdefault(migration.revision, migration)
        if other is not migration:
            raise LineageError(
                f"Two scripts have the revision {migration.revision}.",
                expected="a revision of its own for every script",
                found=f"{other.where} and {migration.where}",
                next_action="remove the copy, or give one of them another `revision`",
                store=migration.store,
                revision=migration.revision,
            )


def _check_parents(migrations: Sequence[Migration]) -> None:
    known = {migration.revision for migration in migrations} | {None}
    for migration in migrations:
        if migration.down_revision not in known:
            raise LineageError(
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


def _check_branches(store: str, children: Children) -> None:
    for parent, rivals in children.items():
        if len(rivals) > 1:
            raise _branched(store, parent, rivals[0], rivals[-1], children)


def _branched(
    store: str, parent: str | None, first: Migration, later: Migration, children: Children
) -> LineageError:
    head = [first, *_follow(children, first.revision)][-1]
    rival = [later, *_follow(children, later.revision)][-1]
    what = "two first scripts" if parent is None else "two heads"
    return LineageError(
        f"Store '{store}' has {what}: {head.revision} and {rival.revision}.",
        expected="one chain of scripts",
        found=f"{first.where} and {later.where} both follow {parent or BASE}",
        next_action=f"set `down_revision = {head.revision!r}` in {later.where}, its `old` to the "
        f"`new` of {head.where}, and adapt its transforms",
        store=store,
        revisions=(head.revision, rival.revision),
    )


def _follow(children: Children, parent: str | None) -> list[Migration]:
    chain: list[Migration] = []
    seen = {parent}
    while parent in children and (child := children[parent][0]).revision not in seen:
        chain.append(child)
        parent = child.revision
        seen.add(parent)
    return chain


def _check_cycle(migrations: Sequence[Migration], chain: Sequence[Migration]) -> None:
    reached = {migration.revision for migration in chain}
    circle = [migration for migration in migrations if migration.revision not in reached]
    if circle:
        raise LineageError(
            f"The scripts of store '{circle[0].store}' form a circle.",
            expected="a first script with `down_revision = None` that leads to all others",
            found=", ".join(f"{m.revision} follows {m.down_revision}" for m in circle),
            next_action=f"correct `down_revision` in {circle[0].where}",
            store=circle[0].store,
            revisions=tuple(m.revision for m in circle),
        )


def _check_joint(before: Migration, after: Migration) -> None:
    if after.old is None or after.old.fingerprint == before.new.fingerprint:
        return
    raise LineageError(
        f"`old` of {after.where} is not the `new` of {before.where}.",
        expected=repr(before.new),
        found=f"{after.old!r}\n{compare(before.new, after.old)}",
        next_action=f"copy `new` of revision {before.revision} to `old` of {after.revision}; "
        "a further change needs a script of its own: "
        f"`statemigrate new {after.store} -m MESSAGE`",
        store=after.store,
        revision=after.revision,
    )
