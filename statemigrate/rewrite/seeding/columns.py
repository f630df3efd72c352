"""Which columns of a table are in which fields of state.

A column goes into the field of its name; ``take`` says it where names differ. A struct of state is
made of the column of its name, or else of columns with the names of its fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators.labels import with_labels
from statemigrate.errors import RewriteError
from statemigrate.formats.struct.words import quoted
from statemigrate.rewrite.plan.pairing.types import is_same, is_wider, type_text
from statemigrate.rewrite.seeding.moments import moment_type
from statemigrate.rewrite.seeding.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import Column

Struct = dict[str, Any]
EXPIRES = "expires"
"""How users call when a value expires, or a timer is due."""


@dataclass(frozen=True)
class TakenField:
    """A field of state, by its label: a column, a struct of ``fields``, or neither for nothing.

    ``type`` is Spark's in JSON form, as the table has it.
    """

    name: str
    type: Any
    column: str = ""
    fields: tuple[TakenField, ...] = ()

    @property
    def columns(self) -> Iterator[tuple[str, Any]]:
        """The columns that are in it, with their types."""
        if self.column:
            yield self.column, self.type
        for each in self.fields:
            yield from each.columns

    def value(self) -> Column:
        """The field as a column."""
        from pyspark.sql import functions as F  # noqa: N812

        if self.fields:
            return struct_of(self.fields).alias(self.name)
        return (F.col(quoted(self.column)) if self.column else F.lit(None)).alias(self.name)


@dataclass
class Taking:
    """Finds the columns of a ``table`` for the fields of the state of ``store``.

    ``take`` has columns, ``starts`` the fields that begin otherwise, by ``store.field``; ``used``
    collects the names that were heard.
    """

    store: str
    table: Table
    take: Mapping[str, str]
    starts: Mapping[str, Any]
    used: set[str] = field(default_factory=set)

    def key(self, target: Struct) -> tuple[TakenField, ...]:
        """The fields of a key. Raises `RewriteError` unless there is a column for each."""
        found = self.fields(target)
        missing = sorted(set(_leaves(target)) - set(_taken(found)))
        if missing:
            raise RewriteError(
                "SM-SEED-004",
                f"{self.table.location} has no column for {missing[0]}, of the key of {self.store}",
                expected=f"a column of that name, or --take {self.store}.{missing[0]}=COLUMN",
                found=f"the columns {', '.join(self.table.columns)}",
                next_action="say which column it is",
                store=self.store,
            )
        columns = [name for each in found for name, _ in each.columns]
        twice = next((name for name in columns if columns.count(name) > 1), None)
        if twice is not None:
            raise RewriteError(
                "SM-SEED-005",
                f"the column {twice} stands for several fields of the key of {self.store}",
                expected="a column for each field",
                found=", ".join(_leaves(target)),
                next_action=f"say which column each is, as in --take {self.store}.FIELD=COLUMN",
                store=self.store,
            )
        return found

    def fields(self, target: Struct, prefix: str = "") -> tuple[TakenField, ...]:
        """The fields of a struct that the table has. Raises `RewriteError` for other types."""
        found = (
            self._field(each, prefix + each["name"])
            for each in with_labels(target)["fields"]
            if f"{self.store}.{prefix}{each['name']}" not in self.starts
        )
        return tuple(each for each in found if each is not None)

    def elements(self) -> str:
        """The column with the elements of a list. Raises `RewriteError` where there is none."""
        said = self.take.get(self.store, self.store)
        self.used.add(self.store)
        found = self.table.columns.get(said)
        is_list = isinstance(found, dict) and found["type"] == "array"
        element = found["elementType"] if is_list and found is not None else None
        if not (isinstance(element, dict) and element["type"] == "struct"):
            raise RewriteError(
                "SM-SEED-006",
                f"{self.table.location} has no column with the elements of the list {self.store}",
                expected=f"a column {said} of arrays of structs",
                found=", ".join(f"{n} {type_text(t)}" for n, t in self.table.columns.items()),
                next_action=f"write such a column, or say --take {self.store}=COLUMN",
                store=self.store,
            )
        return said

    def moment(self, *, must: bool) -> tuple[str, str] | None:
        """The column that says when values expire or timers are due, and its type.

        Without ``must`` it is only what is said. Raises `RewriteError` where there is none.
        """
        name = f"{self.store}{'.' if must else ':'}{EXPIRES}"
        column = self._said(name)
        if column is None and must and EXPIRES in self.table.columns:
            column = EXPIRES
        if column is None and must:
            raise RewriteError(
                "SM-SEED-007",
                f"{self.table.location} has no column that says when timers are due",
                expected=f"a column {EXPIRES}, or --take {name}=COLUMN",
                found=f"the columns {', '.join(self.table.columns)}",
                next_action="say which column it is",
                store=self.store,
            )
        return None if column is None else (column, moment_type(self.table, column, self.store))

    def _field(self, target: dict[str, Any], path: str) -> TakenField | None:
        column, label = self._column(path, target["name"]), target["name"]
        if column is not None:
            return TakenField(label, self._type(column, target["type"], path), column)
        if target["type"] == "void":
            return TakenField(label, "void")
        if isinstance(target["type"], dict) and target["type"]["type"] == "struct":
            inner = self.fields(target["type"], f"{path}.")
            return TakenField(label, struct_json(inner), "", inner) if inner else None
        return None

    def _column(self, path: str, label: str) -> str | None:
        said = self._said(f"{self.store}.{path}")
        return said or (label if label in self.table.columns else None)

    def _said(self, name: str) -> str | None:
        """The column that the author says; None where nothing is said."""
        said = self.take.get(name)
        if said is None:
            return None
        self.used.add(name)
        if said not in self.table.columns:
            raise RewriteError(
                "SM-SEED-008",
                f"{self.table.location} has no column {said}",
                expected=f"one of {', '.join(self.table.columns)}",
                found=f"--take {name}={said}",
                next_action="correct the name of the column",
                store=self.store,
            )
        return said

    def _type(self, column: str, target: Any, path: str) -> Any:
        if self.table.is_json:
            return target
        found = self.table.columns[column]
        both_structs = all(isinstance(x, dict) and x["type"] == "struct" for x in (found, target))
        if not (both_structs or is_same(found, target) or is_wider(found, target)):
            raise RewriteError(
                "SM-SEED-009",
                f"the column {column} cannot be {self.store}.{path}",
                expected=f"a column of {type_text(target)}, or of a type that fits into it",
                found=f"{type_text(found)} in {self.table.location}",
                next_action="write the table with the column cast to that type",
                store=self.store,
            )
        return found


def struct_json(fields: tuple[TakenField, ...]) -> Struct:
    """Spark's type of a struct of these fields."""
    return {
        "type": "struct",
        "fields": [
            {"name": each.name, "type": each.type, "nullable": True, "metadata": {}}
            for each in fields
        ],
    }


def struct_of(fields: tuple[TakenField, ...]) -> Column:
    """A struct of these fields as a column."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.struct(*[each.value() for each in fields])


def _leaves(target: Struct, prefix: str = "") -> Iterator[str]:
    for each in with_labels(target)["fields"]:
        if isinstance(each["type"], dict) and each["type"]["type"] == "struct":
            yield from _leaves(each["type"], f"{prefix}{each['name']}.")
        else:
            yield prefix + each["name"]


def _taken(fields: tuple[TakenField, ...], prefix: str = "") -> Iterator[str]:
    for each in fields:
        if each.fields:
            yield from _taken(each.fields, f"{prefix}{each.name}.")
        elif isinstance(each.type, dict) and each.type["type"] == "struct":
            yield from _leaves(each.type, f"{prefix}{each.name}.")
        else:
            yield prefix + each.name
