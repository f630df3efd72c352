"""Which columns of a table are in which fields of state.

A column goes into the field of its name; ``take`` says it where names differ. A struct of state is
made of the column of its name, or else of columns with the names of its fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators import with_labels
from statemigrate.errors import RewriteError, shown
from statemigrate.files import open_files
from statemigrate.formats.struct import quoted
from statemigrate.rewrite.column_pairing import is_same, is_wider, type_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


# Tables that become state: folders and files of Parquet or JSON.


_JSON = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz")


@dataclass(frozen=True)
class SeedTable:
    """The table at ``location``, read by ``spark``; ``zone`` is that of moments without one.

    Values of JSON have the types that state has of them; those of Parquet have their own.
    """

    location: str
    spark: SparkSession
    is_json: bool
    zone: str

    @classmethod
    def at(cls, location: str, spark: SparkSession, zone: str) -> SeedTable:
        """Open a table. Raises `RewriteError` where there is none, or one that is not its files."""
        return cls(location, spark, is_json(location, spark), zone)

    @cached_property
    def columns(self) -> Mapping[str, Any]:
        """Spark's type of each column in JSON form; of JSON as far as its values tell it."""
        return {each.name: each.dataType.jsonValue() for each in self.frame().schema.fields}

    def frame(self, types: Mapping[str, Any] | None = None) -> DataFrame:
        """The rows; columns of JSON in ``types``, where given.

        What is not of its type ends the read: it is never null.
        """
        if not self.is_json:
            return self.spark.read.parquet(self.location)
        reader = self.spark.read.option("mode", "FAILFAST").option("timeZone", self.zone)
        if types is None:
            return reader.json(self.location)
        return reader.schema(_schema({**self.columns, **types})).json(self.location)


def _schema(types: Mapping[str, Any]) -> Any:
    from pyspark.sql.types import StructType

    fields = [
        {"name": name, "type": each, "nullable": True, "metadata": {}}
        for name, each in types.items()
    ]
    return StructType.fromJson({"type": "struct", "fields": fields})


def is_json(location: str, spark: SparkSession | None = None) -> bool:
    """Whether the files of a table are JSON, by their names; Parquet otherwise.

    Raises `RewriteError` where there is none, or one that is not its files.
    """
    if any(letter in location for letter in "*?[{"):
        return location.endswith(_JSON)
    files = open_files(location, spark)
    if files.find("_delta_log") is not None:
        raise _refused(
            "SM-SEED-019",
            location,
            "is a table of Delta's, whose files have rows that are no longer in it",
            "a folder of Parquet files",
            "_delta_log",
            'export it: spark.read.format("delta").load(...).write.parquet(...)',
        )
    if files.find() is None:
        raise _refused(
            "SM-SEED-020",
            location,
            "is not there",
            "a table",
            "nothing",
            "correct the place that --from names",
        )
    names = [location, *(each.name for each in files.list(recursive=True))]
    kinds = {name.endswith(_JSON) for name in names if name.endswith((*_JSON, ".parquet"))}
    if len(kinds) != 1:
        raise _refused(
            "SM-SEED-021",
            location,
            "is no table that is understood",
            "files that end in .parquet, or in one of " + ", ".join(_JSON),
            "both" if kinds else ", ".join(names[1:6]) or "nothing",
            "write the rows as Parquet, and name the folder",
        )
    return kinds.pop()


def _refused(
    code: str, location: str, problem: str, expected: str, found: str, next_action: str
) -> RewriteError:
    return RewriteError(
        code, f"{location} {problem}", expected=expected, found=found, next_action=next_action
    )


# Columns of tables that say a moment: when a value expires, or a timer is due.


_WHOLE = ("byte", "short", "integer", "long")
_TIME = "timestamp"


def timestamp_type(table: SeedTable, column: str, store: str) -> str:
    """Spark's type of a column of moments: whole numbers are milliseconds since 1970.

    Text of JSON is read as a time. Raises `RewriteError` for any other type.
    """
    found = table.columns[column]
    if table.is_json and found == "string":
        return _TIME
    if found not in (*_WHOLE, _TIME):
        raise RewriteError(
            "SM-SEED-010",
            f"the column {column} of {table.location} does not say when, for {store}",
            expected="times, or whole numbers of milliseconds since 1970",
            found=type_text(found),
            next_action="write the table with the column cast to TIMESTAMP",
            store=store,
        )
    return str(found)


def milliseconds_of(column: str, spark: str) -> Column:
    """Its milliseconds since 1970."""
    from pyspark.sql import functions as F  # noqa: N812

    found = F.col(quoted(column))
    return F.unix_millis(found) if spark == _TIME else found.cast("long")


def missing_timestamp(store: str, table: SeedTable, column: str, key: Any) -> RewriteError:
    """The error for a row without one; ``key`` is its key as JSON."""
    return RewriteError(
        "SM-SEED-011",
        f"a row of {table.location} has no {column}, which says when, for {store}",
        expected=f"a value of {column} in every row",
        found=f"null with the key {shown(key)}",
        next_action="fill the column, or leave the row out; nothing was written",
        store=store,
    )


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
    table: SeedTable
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
        given = self.take.get(self.store, self.store)
        self.used.add(self.store)
        found = self.table.columns.get(given)
        is_list = isinstance(found, dict) and found["type"] == "array"
        element = found["elementType"] if is_list and found is not None else None
        if not (isinstance(element, dict) and element["type"] == "struct"):
            raise RewriteError(
                "SM-SEED-006",
                f"{self.table.location} has no column with the elements of the list {self.store}",
                expected=f"a column {given} of arrays of structs",
                found=", ".join(f"{n} {type_text(t)}" for n, t in self.table.columns.items()),
                next_action=f"write such a column, or say --take {self.store}=COLUMN",
                store=self.store,
            )
        return given

    def time_column(self, *, must: bool) -> tuple[str, str] | None:
        """The column that says when values expire or timers are due, and its type.

        Without ``must`` it is only what the author gave. Raises `RewriteError` where there is none.
        """
        name = f"{self.store}{'.' if must else ':'}{EXPIRES}"
        column = self._given_column(name)
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
        return None if column is None else (column, timestamp_type(self.table, column, self.store))

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
        given = self._given_column(f"{self.store}.{path}")
        return given or (label if label in self.table.columns else None)

    def _given_column(self, name: str) -> str | None:
        """The column that the author names; None without one."""
        given = self.take.get(name)
        if given is None:
            return None
        self.used.add(name)
        if given not in self.table.columns:
            raise RewriteError(
                "SM-SEED-008",
                f"{self.table.location} has no column {given}",
                expected=f"one of {', '.join(self.table.columns)}",
                found=f"--take {name}={given}",
                next_action="correct the name of the column",
                store=self.store,
            )
        return given

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
