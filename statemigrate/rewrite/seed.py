"""The tables of a new checkpoint as the old state that a plan starts from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators import (
    DEFAULT,
    EXPIRATION,
    INDEX_TO_VALUE,
    NUM_VALUES,
    FamilyShape,
    NoPrefix,
    OperatorShape,
    StoreShape,
    StructJson,
    is_timers,
    kind_of,
    shown_key,
    user_stores,
)
from statemigrate.errors import RewriteError, UnsupportedError
from statemigrate.formats import struct_from_json
from statemigrate.migration import Lineage
from statemigrate.rewrite.column_pairing import FamilyAddress, all_families, operator_name
from statemigrate.rewrite.family_plans import MatchedRows
from statemigrate.rewrite.fields import StructChange, match_fields
from statemigrate.rewrite.script_ways import Scripted, scripted_from
from statemigrate.rewrite.seed_tables import EXPIRES, SeedTable, TakenField, Taking, struct_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Tables of an older revision, which the scripts of their stores bring to the head.


def seed_script(
    name: str,
    found: tuple[OperatorShape, FamilyAddress],
    lineage: Lineage,
    revision: str,
    target: str,
) -> Scripted:
    """The scripts from a table's ``revision`` of the store ``name`` to the ``target``.

    Raises `RewriteError` where keys change on the way, and no script says what they were.
    """
    operator, place = found
    resolved = lineage.resolve(revision)
    shown = struct_from_json(shown_key(operator, place.store, place.family))
    script = scripted_from(lineage, lineage.key_of(resolved) or shown, resolved, target)
    if lineage.key_of(resolved) is None and any(step.key for step in script.path.steps):
        raise RewriteError(
            "SM-SEED-014",
            f"keys of {name} change after revision {resolved}, and no script says what they were",
            expected=f"new_key in the baseline of store {lineage.store}",
            found=f"new_key only after {resolved}",
            next_action=f"say `new_key` in the baseline of store {lineage.store}: what its keys "
            "were before they changed",
            store=name,
        )
    return script


def in_form(
    place: FamilyAddress,
    script: Scripted,
    key: StructJson,
    value: StructJson,
    columns: Mapping[str, object],
) -> MatchedRows:
    """How rows of a table become entries of the form that a script takes, fields by their names.

    ``key`` and ``value`` are what the table has of both. Raises `RewriteError` for fields that it
    lacks, at any depth, and for those that the form lacks.
    """
    as_key, as_value = (each.struct_type().jsonValue() for each in (script.key, script.value))
    old, new = (
        FamilyAddress(place.store, FamilyShape(place.family.name, *both, NoPrefix()))
        for both in ((key, value), (as_key, as_value))
    )
    changes = (
        match_fields(key, as_key, {}, script.store),
        match_fields(value, as_value, {}, script.store),
    )
    for change in changes:
        _check_whole(change, script, columns)
    return MatchedRows(script.store, new, old, *changes)


def _check_whole(change: StructChange, script: Scripted, columns: Mapping[str, object]) -> None:
    missing, further = [each.label for each in change.added], list(change.dropped)
    if missing or further:
        field = (missing or further)[0]
        raise RewriteError(
            "SM-SEED-015",
            f"the table of {script.store} is not what revision {script.path.source} has",
            expected=f"the key {script.key!r} and the value {script.value!r}",
            found=f"no column for {field}" if missing else f"{field}, too",
            next_action=f"say which column it is, as in --take {script.store}.{field}=COLUMN"
            if missing
            else "write the table without it",
            store=script.store,
            columns=sorted(columns),
        )


TIMERS = "timers"
"""What timers of an operator go by, behind its kind and number."""
TIMER_KEY = "key"
"""The part of their keys that is the grouping key; the other is when they are due."""


@dataclass(frozen=True)
class Seed:
    """A ``table`` that becomes the state of a ``store`` of an operator, and its fields there.

    ``new`` is the place of that state in the new checkpoint; of a list ``elements`` is the column
    of arrays. With a ``form`` rows first take that of an older revision, which scripts change.
    ``time_column`` is the column that says when values expire or timers are due, and its type.
    """

    store: str
    number: int
    new: FamilyAddress
    table: SeedTable
    key: tuple[TakenField, ...]
    value: tuple[TakenField, ...]
    elements: str = ""
    form: MatchedRows | None = None
    time_column: tuple[str, str] | None = None

    @property
    def frame(self) -> DataFrame:
        """The table's rows, with the types that state has of JSON."""
        types = dict(pair for each in (*self.key, *self.value) for pair in each.columns)
        return self.table.frame({**types, **dict([self.time_column] if self.time_column else [])})

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The columns in each field of a key and a value."""
        fields = {
            each.name: tuple(name for name, _ in each.columns) for each in (*self.key, *self.value)
        }
        if self.elements:
            fields[self.store] = (self.elements,)
        return {**fields, EXPIRES: self.time_column[:1]} if self.time_column else fields

    @property
    def rest(self) -> tuple[str, ...]:
        """The columns that no field takes."""
        taken = {name for columns in self.columns.values() for name in columns}
        return tuple(each for each in self.table.columns if each not in taken)

    def family(self, store: StoreShape, shape: FamilyShape) -> FamilyShape | None:
        """A family of the operator as the table has it; None for one that it says nothing of."""
        if self.is_timers:
            return shape if is_timers(shape.name) else None
        if (store.name, shape.name) == (self.new.store.name, self.new.family.name):
            return self._own(shape)
        if self.counts(store, shape):
            return replace(shape, key=self._columns_of_key)
        return None

    @property
    def matched(self) -> tuple[TakenField, ...]:
        """The fields that the plan matches by these names."""
        if self.form is not None or self.is_timers:
            return ()
        family = self.new.family
        is_key_in_value = family.wrapping == "expiry" and self.time_column is None
        # Where values come to expire, of a map the columns of its keys are matched, not its parts.
        return self.value if is_key_in_value and family.user_key else (*self.key, *self.value)

    @property
    def is_timers(self) -> bool:
        """Whether the table has timers, which two families have in their keys."""
        return is_timers(self.new.family.name)

    def _own(self, shape: FamilyShape) -> FamilyShape:
        shape = replace(shape, wrapping="key" if shape.wrapping == "key" else "none")
        found = self._content(shape)
        if self.time_column is None:
            return found
        return replace(found, value=with_expiry(found.value), wrapping="expiry")

    def _content(self, shape: FamilyShape) -> FamilyShape:
        key = self._columns_of_key
        if self.is_join:
            key = {**key, "fields": [*key["fields"], self.new.family.key["fields"][-1]]}
        if self.form is None:
            return replace(shape, key=key, value=self.value_in_table)
        value = self.form.new.family.value
        if self.is_join or self.elements:
            return replace(shape, key=key, value=value)
        # Scripts take entries, whatever they make of them.
        return FamilyShape(shape.name, key, value, NoPrefix())

    def counts(self, store: StoreShape, shape: FamilyShape) -> bool:
        """Whether a family counts the rows of this side of a join."""
        own = (self.new.store.name, self.new.family.name)
        counted = tuple(each.replace(INDEX_TO_VALUE, NUM_VALUES) for each in own)
        return self.is_join and (store.name, shape.name) == counted

    @property
    def is_join(self) -> bool:
        """Whether it is one side of a join, whose rows are numbered and counted."""
        return INDEX_TO_VALUE in f"{self.new.store.name} {self.new.family.name}"

    @property
    def _columns_of_key(self) -> StructJson:
        return struct_json(self.key) if self.form is None else self.form.new.family.key

    @property
    def value_in_table(self) -> StructJson:
        """A value, or an element of a list, as the table has it."""
        if not self.elements:
            return struct_json(self.value)
        found: StructJson = self.table.columns[self.elements]["elementType"]
        return found


def with_expiry(content: StructJson) -> StructJson:
    """A value of this content that expires."""
    fields = [("value", content), (EXPIRATION, "long")]
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": spark, "nullable": True, "metadata": {}}
            for name, spark in fields
        ],
    }


def find_seeds(
    operators: Sequence[OperatorShape],
    tables: Mapping[str, SeedTable],
    take: Mapping[str, str],
    starts: Mapping[str, Any],
    scripts: Mapping[str, Scripted],
) -> tuple[Seed, ...]:
    """What becomes of tables, by the names of stores; one without a name is for the only store.

    ``scripts`` has those of stores whose tables are of an older revision. Raises `RewriteError` for
    a store or a column that there is not, and for names that stand for nothing.
    """
    stores = seeded_stores(operators)
    used: set[str] = set()
    seeds = []
    for label, table in tables.items():
        name = only_store(label, stores)
        taking = Taking(name, table, take, {} if name in scripts else starts, used)
        seeds.append(_seed(stores[name], taking, scripts.get(name)))
    unused = sorted(set(take) - used)
    if unused:
        raise RewriteError(
            "SM-SEED-016",
            f"there is no field {unused[0]} that a table could say",
            expected="STORE.FIELD=COLUMN, of a store with a table, and a field of its key or value",
            found=f"--take {unused[0]}={take[unused[0]]}",
            next_action="correct the name, or leave it out",
        )
    return tuple(seeds)


def seeded_stores(
    operators: Sequence[OperatorShape],
) -> dict[str, tuple[OperatorShape, FamilyAddress]]:
    """By their names the stores that a table may become."""
    found = {}
    for operator in operators:
        for name, known in user_stores(operator).items():
            found[name] = operator, FamilyAddress(*known)
        for place in all_families(operator):
            if is_timers(place.family.name):
                # Both of its families have the same, each in its order.
                found[f"{operator_name(operator)}.{TIMERS}"] = operator, place
    return found


def seeded_operators(
    operators: Sequence[OperatorShape], seeds: Sequence[Seed]
) -> tuple[OperatorShape, ...]:
    """The operators as the tables have them; those that no table says anything of are left out."""
    found = (_as_seeded(each, [s for s in seeds if s.number == each.number]) for each in operators)
    return tuple(each for each in found if each.stores)


def _as_seeded(operator: OperatorShape, seeds: Sequence[Seed]) -> OperatorShape:
    stores = (replace(store, families=tuple(_families(store, seeds))) for store in operator.stores)
    return replace(operator, stores=tuple(each for each in stores if each.families))


def _families(store: StoreShape, seeds: Sequence[Seed]) -> Iterator[FamilyShape]:
    for shape in store.families:
        found = (seed.family(store, shape) for seed in seeds)
        yield from (each for each in found if each is not None)


def only_store(name: str, stores: Mapping[str, tuple[OperatorShape, FamilyAddress]]) -> str:
    """The store of this name, or without a name the only one.

    Raises `RewriteError` where that is not clear.
    """
    if name in stores:
        return name
    values = [each for each in stores if not is_timers(stores[each][1].family.name)]
    if not name and len(values) == 1:
        return values[0]
    if name or len(stores) != 1:
        raise RewriteError(
            "SM-SEED-017",
            f"the query keeps no state {name}"
            if name
            else "no option names the state that the table is for",
            expected=f"STORE=, of {', '.join(stores) or 'no store at all'}",
            found=name or "no name",
            next_action="name the store",
        )
    return next(iter(stores))


def _seed(
    found: tuple[OperatorShape, FamilyAddress], taking: Taking, script: Scripted | None
) -> Seed:
    operator, place = found
    name, table, family = taking.store, taking.table, place.family
    is_join = kind_of(operator.name).has_sides
    if is_join and not family.name.endswith(INDEX_TO_VALUE) and place.store.name == DEFAULT:
        raise UnsupportedError(
            "SM-SEED-018",
            f"{name} is of a join of state format 4",
            expected="a join of state format 1, 2 or 3",
            found=family.name,
            next_action="this cannot be seeded yet; nothing was written",
        )
    if is_timers(family.name):
        part = next(each for each in family.key["fields"] if each["name"] == TIMER_KEY)
        key = taking.key(part["type"])
        return Seed(
            name, operator.number, place, table, key, (), time_column=taking.time_column(must=True)
        )
    fields = family.key["fields"]
    keys, values = {**family.key, "fields": fields[:-1] if is_join else fields}, family.value
    time_column = None
    if family.wrapping == "expiry":
        values, time_column = family.content, taking.time_column(must=False)
    if script is not None:
        keys, values = (each.struct_type().jsonValue() for each in (script.key, script.value))
    elements = taking.elements() if family.is_list else ""
    value = () if elements else taking.fields(values)
    key = taking.key(keys)
    seed = Seed(name, operator.number, place, table, key, value, elements, time_column=time_column)
    if script is None:
        return seed
    form = in_form(place, script, struct_json(seed.key), seed.value_in_table, table.columns)
    return replace(seed, form=form)
