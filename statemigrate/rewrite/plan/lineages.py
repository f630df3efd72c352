"""Which scripts are about the state of a checkpoint, and how far each has come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from statemigrate.checkpoint.operators.catalogue import VARIABLES, kind_of, user_stores
from statemigrate.checkpoint.operators.labels import labelled
from statemigrate.checkpoint.operators.shapes import GROUP_STATE, CheckpointShape, StructJson
from statemigrate.checkpoint.operators.shown_keys import shown_key
from statemigrate.deployment.names import family_name
from statemigrate.errors import RewriteError
from statemigrate.formats import Format
from statemigrate.formats.struct_format import struct_from_json
from statemigrate.migration import Lineage
from statemigrate.native.seen.record import StoreRecord
from statemigrate.rewrite.plan.pairing.places import taken_names
from statemigrate.rewrite.plan.pairing.types import is_same
from statemigrate.rewrite.plan.scripts import Scripted
from statemigrate.state.native.revisions import stored_revision


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

    def check_undeployed(self) -> None:
        """Raise `RewriteError` for a script of a variable that `migrated` code has written to.

        Such code keeps the values of a later revision in a variable of another name, and nothing
        but the code itself says that the variables of a new checkpoint get these names.
        """
        variables = {
            name
            for operator in self.shape.operators
            if kind_of(operator.name) is VARIABLES
            for name in user_stores(operator)
        }
        for known, script in self.of_old().items():
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
        for known, said in take.items():
            sources, lineage = taken_names(said, stores), self._lineage(known)
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
        said = lineage.key_of(lineage.oldest) or struct_from_json(key)
        return scripted_from(lineage, said, lineage.oldest, self._target(lineage))

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
    said = [each.struct_type().jsonValue() for each in lineage.formats]
    return next((v for v in values if any(is_same(v, each) for each in said)), values[0])
