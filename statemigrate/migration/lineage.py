"""The migrations of one store, oldest first."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from statemigrate.errors import LineageError, did_you_mean
from statemigrate.formats import Format
from statemigrate.migration.chain import in_order
from statemigrate.migration.migration import BASE, Direction, Migration
from statemigrate.migration.names import check_store_name
from statemigrate.migration.path import Path
from statemigrate.migration.step import Step, step_of
from statemigrate.shell import argument

RELATIVE = re.compile(r"(?P<start>\w*)(?P<distance>[+-]\d+)")
"""A distance from a revision, as in ``head-1``."""


@dataclass(frozen=True)
class Lineage:
    """Every revision a store's values can have, and the ways between them.

    Made by `build` from the scripts, or by `unmigrated` for a store that has none. ``revisions``
    holds the ids oldest first: BASE and then one a script, or, where the first script is a
    baseline, that script in place of BASE; ``formats`` holds their formats in the same order.
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

    def position(self, revision: str) -> int:
        """Return how many revisions are older. LineageError if the full id is unknown."""
        if revision not in self.revisions:
            raise self._unknown(revision)
        return self.revisions.index(revision)

    def format_of(self, revision: str) -> Format:
        """Return the format of values written at ``revision``."""
        return self.formats[self.position(revision)]

    def key_of(self, revision: str) -> Format | None:
        """Return the format of keys at ``revision``; None where no script says it."""
        said = [m.new_key for m in self.applied(revision) if m.new_key is not None]
        return said[-1] if said else None

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

    def path(self, source: str, target: str) -> Path:
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
        return Path(source, target, tuple(steps))

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
        return step_of(migration, direction, self.revisions[start], self.formats[end])

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
