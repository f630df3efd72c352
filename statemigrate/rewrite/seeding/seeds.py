"""The tables of a new checkpoint as the old state that a plan starts from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators.catalogue import (
    DEFAULT,
    INDEX_TO_VALUE,
    JOIN,
    NUM_VALUES,
    kind_of,
    user_stores,
)
from statemigrate.checkpoint.operators.shapes import (
    FamilyShape,
    OperatorShape,
    StoreShape,
    StructJson,
)
from statemigrate.errors import RewriteError, UnsupportedError
from statemigrate.rewrite.plan.places import Place
from statemigrate.rewrite.seeding.columns import TakenField, Taking, struct_json
from statemigrate.rewrite.seeding.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Seed:
    """A ``table`` that becomes the state of a ``store`` of an operator, and its fields there.

    ``new`` is the place of that state in the new checkpoint; of a list ``elements`` is the column
    of arrays.
    """

    store: str
    number: int
    new: Place
    table: Table
    key: tuple[TakenField, ...]
    value: tuple[TakenField, ...]
    elements: str = ""

    @property
    def frame(self) -> DataFrame:
        """The table's rows, with the types that state has of JSON."""
        types = dict(pair for each in (*self.key, *self.value) for pair in each.columns)
        return self.table.frame(types)

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The columns in each field of a key and a value."""
        fields = {
            each.name: tuple(name for name, _ in each.columns) for each in (*self.key, *self.value)
        }
        return {**fields, self.store: (self.elements,)} if self.elements else fields

    @property
    def rest(self) -> tuple[str, ...]:
        """The columns that no field takes."""
        taken = {name for columns in self.columns.values() for name in columns}
        return tuple(each for each in self.table.columns if each not in taken)

    def family(self, store: StoreShape, shape: FamilyShape) -> FamilyShape | None:
        """A family of the operator as the table has it; None for one that it says nothing of."""
        if (store.name, shape.name) == (self.new.store.name, self.new.family.name):
            return replace(shape, key=self._key, value=self._value)
        if self.counts(store, shape):
            return replace(shape, key=struct_json(self.key))
        return None

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
    def _key(self) -> StructJson:
        found = struct_json(self.key)
        if self.is_join:
            found["fields"].append(self.new.family.key["fields"][-1])
        return found

    @property
    def _value(self) -> StructJson:
        if not self.elements:
            return struct_json(self.value)
        found: StructJson = self.table.columns[self.elements]["elementType"]
        return found


def find_seeds(
    operators: Sequence[OperatorShape],
    tables: Mapping[str, Table],
    take: Mapping[str, str],
    starts: Mapping[str, Any],
) -> tuple[Seed, ...]:
    """What becomes of tables, by the names of stores; one without a name is for the only store.

    Raises `RewriteError` for a store or a column that there is not, and for names that stand for
    nothing.
    """
    stores = {
        name: (operator, Place(*found))
        for operator in operators
        for name, found in user_stores(operator).items()
    }
    used: set[str] = set()
    seeds = tuple(
        _seed(_store(name, stores), stores, table, take, starts, used)
        for name, table in tables.items()
    )
    unused = sorted(set(take) - used)
    if unused:
        raise RewriteError(
            f"there is no field {unused[0]} that a table could say",
            expected="STORE.FIELD=COLUMN, of a store with a table, and a field of its key or value",
            found=f"--take {unused[0]}={take[unused[0]]}",
            next_action="correct the name, or leave it out",
        )
    return seeds


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


def _store(name: str, stores: Mapping[str, Any]) -> str:
    if name in stores:
        return name
    if name or len(stores) != 1:
        raise RewriteError(
            f"the query keeps no state {name}" if name else "which state the table is, is not said",
            expected=f"--from STORE=TABLE, of {', '.join(stores) or 'no store at all'}",
            found=name or "--from TABLE",
            next_action="name the store",
        )
    return next(iter(stores))


def _seed(
    name: str,
    stores: Mapping[str, tuple[OperatorShape, Place]],
    table: Table,
    take: Mapping[str, str],
    starts: Mapping[str, Any],
    used: set[str],
) -> Seed:
    operator, place = stores[name]
    taking, family = Taking(name, table, take, starts, used), place.family
    is_join = kind_of(operator.name) is JOIN
    if is_join and not family.name.endswith(INDEX_TO_VALUE) and place.store.name == DEFAULT:
        raise UnsupportedError(
            f"{name} is of a join of state format 4",
            expected="a join of state format 1, 2 or 3",
            found=family.name,
            next_action="this cannot be seeded yet; nothing was written",
        )
    if family.wrapping == "expiry":
        raise UnsupportedError(
            f"values of {name} have a time to live, which a table does not say",
            expected="a variable whose values do not expire",
            found=", ".join(str(each["name"]) for each in family.value["fields"]),
            next_action=f"this cannot be seeded yet: let {name} begin empty; nothing was written",
        )
    fields = family.key["fields"]
    key = taking.key({**family.key, "fields": fields[:-1] if is_join else fields})
    if family.is_list:
        return Seed(name, operator.number, place, table, key, (), taking.elements())
    return Seed(name, operator.number, place, table, key, taking.fields(family.value))
