"""What the scripts of a store say of a rewrite: the way from the state's revision to the target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from statemigrate.checkpoint.operators import (
    GROUP_STATE,
    CheckpointShape,
    FamilyShape,
    NoPrefix,
    OperatorShape,
    StoreShape,
    StructJson,
    is_numbered,
    kind_of,
    labelled,
    shown_key,
    user_stores,
)
from statemigrate.deployment import family_name
from statemigrate.errors import RewriteError
from statemigrate.formats import Format, compare, struct_from_json
from statemigrate.migration import Lineage, MigrationPath
from statemigrate.native import StoreRecord
from statemigrate.quoting import argument
from statemigrate.rewrite.column_pairing import is_same, taken_names
from statemigrate.state import stored_revision


@dataclass(frozen=True)
class Scripted:
    """The scripts of ``store`` that are still to run, from the formats of the state to new ones.

    The key is what users know of it. The value is the content of what is stored; of groups it may
    be all of that. ``applied`` has every script that is then applied: revision and checksum;
    ``family`` is how the store's family of the last revision is called.
    """

    store: str
    path: MigrationPath
    key: Format
    value: Format
    new_key: Format
    new_value: Format
    applied: tuple[tuple[str, str], ...] = ()
    family: str = ""

    @property
    def is_open(self) -> bool:
        """Whether any is still to run."""
        return bool(self.path.steps)

    @property
    def changes_keys(self) -> bool:
        """Whether any gives entries other keys."""
        return any(step.key for step in self.path.steps)

    @property
    def has_tables(self) -> bool:
        """Whether any is run on tables."""
        return any(step.table is not None for step in self.path.steps)

    @property
    def restarts(self) -> bool:
        """Whether any lets the time to live of values begin again."""
        return any(step.time_to_live == "restart" for step in self.path.steps)

    def leads_to(self, other: Scripted) -> bool:
        """Whether ``other`` could begin where this ends."""
        return is_same(_json(self.new_value), _json(other.value)) and is_same(
            _json(self.new_key), _json(other.key)
        )

    def taken_of(self, family: FamilyShape) -> FamilyShape:
        """The old family as the scripts see it: all of a group's state, or its struct alone."""
        is_whole = is_same(_json(self.value), labelled(family.value))
        return (
            replace(family, wrapping="none") if family.wrapping == "state" and is_whole else family
        )

    def taken_as(self, family: FamilyShape, shown: StructJson) -> FamilyShape:
        """The ``family`` with keys and values as the scripts take them.

        ``shown`` is what users know of its keys. Where scripts make its keys of others, it is one
        value under each.
        """
        found = family.holding(_json(self.value))
        if is_same(_json(self.key), shown):
            return found
        return replace(found, key=_json(self.key), encoder=NoPrefix(), is_list=False, user_key=None)

    def check(self, value: StructJson, key: StructJson) -> None:
        """Raise `RewriteError` unless the new code keeps what the scripts lead to."""
        self._check("value", self.new_value, value)
        self._check("key", self.new_key, key)

    def _check(self, part: str, given: Format, kept: StructJson) -> None:
        if not is_same(_json(given), labelled(kept)):
            raise RewriteError(
                "SM-REWRITE-037",
                f"{self.store}: the new code keeps another {part} than its scripts lead to",
                expected=f"{given!r}, as at revision {self.path.target}",
                found=f"{struct_from_json(labelled(kept))!r}\n"
                f"{compare(given, struct_from_json(labelled(kept)))}",
                next_action=f"correct the script of revision {self.path.target}, write a further "
                f"one with `statemigrate new {argument(self.store)}`, or correct the code",
                store=self.store,
            )


@dataclass(frozen=True)
class RewriteScripts:
    """The scripts that a rewrite runs, by the names that Spark's kinds and numbers give to stores.

    Those of ``old`` stores, and those of ``new`` ones that go on with a store of another name, or
    with several.
    """

    old: Mapping[str, Scripted] = field(default_factory=dict)
    new: Mapping[str, Scripted] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Scripted]:
        yield from self.old.values()
        yield from self.new.values()

    def between(self, old: str, new: str) -> Scripted | None:
        """Those that are still to run where the store ``new`` goes on with ``old``.

        It is those of ``new`` that begin at what ``old`` has, or else those of ``old``. Raises
        `RewriteError` where the first could also run after the second.
        """
        before, after = self.open_of(old), self.new.get(new)
        if after is None or not after.is_open:
            return before
        if before is not None and before.leads_to(after):
            raise RewriteError(
                "SM-REWRITE-038",
                f"{new} goes on with {old}, and whether scripts of both are to run is not clear",
                expected=f"scripts of {new} that begin at another format than those of {old} end",
                found=f"revision {before.path.target} of {before.store}, and then those of "
                f"{after.store} to {after.path.target}; or the latter alone",
                next_action=f"say --target {before.store}={before.path.source} to leave the former "
                "out",
                store=new,
            )
        return after

    def open_of(self, old: str) -> Scripted | None:
        """Those of an old store that are still to run."""
        found = self.old.get(old)
        return found if found is not None and found.is_open else None


def as_scripted(
    operator: OperatorShape, store: StoreShape, family: FamilyShape, scripted: Scripted
) -> FamilyShape:
    """The family as the scripts leave it, where there is no new code to ask.

    Raises `RewriteError` for keys of several parts that change: only the code says which column
    belongs to which part.
    """
    key, content = _json(scripted.new_key), _json(scripted.new_value)
    if not is_same(key, shown_key(operator, store, family)):
        if family.is_list or family.user_key or is_numbered(operator, store, family):
            raise RewriteError(
                "SM-REWRITE-039",
                f"the scripts of {scripted.store} change keys that have several parts",
                expected="the new code, which says what its keys are",
                found=f"keys {scripted.new_key!r}, and no new code",
                next_action="say it with --code, or with --like",
                store=scripted.store,
            )
        family = replace(family, key=key)
    return family if is_same(content, labelled(family.content)) else family.holding(content)


def _json(fmt: Format) -> Any:
    return fmt.struct_type().jsonValue()


# Which scripts are about the state of a checkpoint, and how far each has come.


@dataclass(frozen=True)
class StoreScripts:
    """The ``lineages`` of a project's stores, held against the state of a checkpoint.

    ``record`` is what earlier deployments noted in it, ``targets`` has the revisions to go to where
    not the head, ``names`` Spark's kind and number, as in ``aggregation-0``, of stores with a name
    of the project's own. What is found goes by kind and number.
    """

    shape: CheckpointShape
    lineages: Mapping[str, Lineage]
    record: Mapping[str, StoreRecord] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def of_old(self) -> dict[str, Scripted]:
        """What is still to be run on each store there is.

        Raises `StartupError` for state of no revision.
        """
        found = {}
        for known, key, values in _stores(self.shape):
            lineage = self._lineage(known)
            if lineage is not None:
                noted = self.record.get(lineage.store, StoreRecord())
                found[known] = self._from_state(lineage, key, values, noted)
        return found

    def check_undeployed(self, scripts: Mapping[str, Scripted]) -> None:
        """Raise `RewriteError` for a script of a variable that `migrated` code has written to.

        Such code keeps the values of a later revision in a variable of another name, and nothing
        but the code itself says that the variables of a new checkpoint get these names.
        """
        variables = {
            name
            for operator in self.shape.operators
            if kind_of(operator.name).has_variables
            for name in user_stores(operator)
        }
        for known, script in scripts.items():
            noted = self.record.get(script.store, StoreRecord())
            if script.is_open and noted.deployment and known in variables:
                raise RewriteError(
                    "SM-REWRITE-062",
                    f"the values of store {script.store} migrate under its query",
                    expected="no script that is still to run: `migrated` code wrote the state",
                    found=f"a script that leads to {script.path.target}",
                    next_action="start the code that is written for that revision, run "
                    "`statemigrate backfill` until nothing is left, and rewrite then; or leave the "
                    f"store at its revision now: --target {script.store}={script.path.source}",
                    store=script.store,
                )

    def of_new(self, take: Mapping[str, str]) -> dict[str, Scripted]:
        """What is to be run on new stores that go on with others, as ``take`` says.

        The scripts of one begin at what the other has. Several become what the oldest revision of
        the new one has; or what its own state has, where that is among them. A baseline alone says
        nothing. Raises `StartupError` for state of no revision.
        """
        stores = {known: (key, values) for known, key, values in _stores(self.shape)}
        found = {}
        for known, given in take.items():
            sources, lineage = taken_names(given, stores), self._lineage(known)
            is_known = all(each in stores for each in sources)
            if lineage is not None and is_known and sources != (known,) and lineage.revisions[1:]:
                found[known] = self._taken(lineage, known, sources, stores)
        return found

    def _taken(
        self,
        lineage: Lineage,
        known: str,
        sources: tuple[str, ...],
        stores: Mapping[str, tuple[StructJson, list[StructJson]]],
    ) -> Scripted:
        if known in sources:
            noted = self.record.get(lineage.store, StoreRecord())
            return self._from_state(lineage, *stores[known], noted)
        key, values = stores[sources[0]]
        if len(sources) == 1:
            return self._from_state(lineage, key, values, StoreRecord())
        oldest_key = lineage.key_of(lineage.oldest) or struct_from_json(key)
        return scripted_from(lineage, oldest_key, lineage.oldest, self._target(lineage))

    def _from_state(
        self, lineage: Lineage, shown: StructJson, values: list[StructJson], record: StoreRecord
    ) -> Scripted:
        key, value = struct_from_json(shown), struct_from_json(_fitting(lineage, values))
        revision = stored_revision(lineage, value, key, record)
        return replace(scripted_from(lineage, key, revision, self._target(lineage)), value=value)

    def _target(self, lineage: Lineage) -> str:
        return self.targets.get(lineage.store, "head")

    def _lineage(self, known: str) -> Lineage | None:
        own = next((name for name, each in self.names.items() if each == known), known)
        return self.lineages.get(own)


def scripted_from(lineage: Lineage, key: Format, revision: str, wanted: str) -> Scripted:
    """The scripts from a ``revision``, whose keys are ``key``, to the one that is ``wanted``."""
    target = lineage.resolve(wanted)
    return Scripted(
        lineage.store,
        lineage.path(revision, target),
        key,
        lineage.format_of(revision),
        lineage.key_of(target) or key,
        lineage.format_of(target),
        tuple((each.revision, each.checksum) for each in lineage.applied(target)),
        family_name(lineage, target),
    )


def noted_stores(scripts: Iterable[Scripted], batch: int) -> dict[str, StoreRecord]:
    """What the new checkpoint notes of the scripts that were run on its stores."""
    return {each.store: StoreRecord((each.family,), batch, dict(each.applied)) for each in scripts}


def _stores(shape: CheckpointShape) -> Iterator[tuple[str, StructJson, list[StructJson]]]:
    """The name of each store, its key as users know it, and what scripts may take for a value."""
    for operator in shape.operators:
        for name, (store, family) in user_stores(operator).items():
            values = [labelled(family.content)]
            if family.value["fields"][0]["name"] == GROUP_STATE:
                values.append(replace(family, wrapping="state").content)
            yield name, shown_key(operator, store, family), values


def _fitting(lineage: Lineage, values: list[StructJson]) -> StructJson:
    """Of what scripts may take for a value that which one of them does, or else the first."""
    structs = [each.struct_type().jsonValue() for each in lineage.formats]
    return next((v for v in values if any(is_same(v, each) for each in structs)), values[0])
