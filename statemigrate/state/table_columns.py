"""How the rows of a store become the columns of a table, and a key's values Arrow's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint.operators import StructJson
from statemigrate.checkpoint.rows import arrow_schema
from statemigrate.errors import ValueMismatchError
from statemigrate.formats import Mask, json_text, plain_values
from statemigrate.numpy_arrays import arrow_array
from statemigrate.state.table_stores import Failures, StorePart, ValueFailure
from statemigrate.state.user_rows import EXPIRES_AT, one_value, repeated

PARTITION, REVISION, INDEX = "_partition", "_revision", "_index"
EXPIRY, BATCH = "_expires_at", "_batch"
ERROR, STORED = "_error", "_stored"
FAILURE_COLUMNS: tuple[str, ...] = (ERROR, STORED)
"""Of a value that does not migrate why it does not, and what is stored, as JSON."""
_SYSTEM = {
    INDEX: pa.int64(),
    PARTITION: pa.int32(),
    REVISION: pa.string(),
    EXPIRY: EXPIRES_AT,
    BATCH: pa.int64(),
}


@dataclass(frozen=True)
class TableColumns:
    """The columns of a store's table: those of the key, of a map's own key, and of the value.

    A value's column that is called as one of the key's is ``value_`` and its name. The columns that
    ``mask`` covers, by the names of their fields, have a hash of what is in them. With
    ``has_errors`` the values that do not migrate are null, and two columns have the reason and what
    is stored.
    """

    key: StructJson
    user_key: StructJson | None
    value: StructJson
    has_several: bool
    batch_id: int
    mask: Mask = field(default_factory=lambda: Mask.of(()))
    has_errors: bool = False

    @cached_property
    def key_names(self) -> tuple[str, ...]:
        """The columns of a key, a map's own included."""
        fields = [*self.key["fields"], *(self.user_key or {"fields": []})["fields"]]
        return _unique([str(each["name"]) for each in fields], set(self._system), "key_")

    @cached_property
    def value_names(self) -> tuple[str, ...]:
        """The columns of a value."""
        names = [str(each["name"]) for each in self.value["fields"]]
        return _unique(names, {*self.key_names, *self._system}, "value_")

    @cached_property
    def own_names(self) -> dict[str, str]:
        """By column the name of its field, where that is another one."""
        fields = [*self.key["fields"], *(self.user_key or {"fields": []})["fields"]]
        fields += self.value["fields"]
        named = zip((*self.key_names, *self.value_names), fields, strict=True)
        return {name: str(each["name"]) for name, each in named if name != each["name"]}

    @property
    def failure_names(self) -> tuple[str, ...]:
        """The columns about values that do not migrate."""
        return FAILURE_COLUMNS if self.has_errors else ()

    @property
    def content_names(self) -> tuple[str, ...]:
        """The columns in which two rows of a key may differ: a value's, and why there is none."""
        return (*self.value_names, *self.failure_names)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        types = [*self._key_types, *(each.type for each in arrow_schema(self.value))]
        names = [*self.key_names, *self.value_names]
        fields = [
            pa.field(name, pa.string() if name in self._masked else kind)
            for name, kind in zip(names, types, strict=True)
        ]
        system = [
            pa.field(name, kind)
            for name, kind in self._system.items()
            if self.has_several or name != INDEX
        ]
        return pa.schema([*fields, *system])

    def batch(
        self, part: StorePart, rows: pa.RecordBatch, names: Sequence[str] | None = None
    ) -> pa.RecordBatch:
        """The rows of a family as rows of the table, or of the columns ``names`` of it."""
        schema = self.schema if names is None else self.schema_of(names)
        own = [*rows["key"].flatten()]
        if self.user_key is not None:
            own += rows["user_key"].flatten()
        failures: Failures | None = {} if self.has_errors else None
        own += part.values_of(rows, failures).flatten()
        found = dict(zip((*self.key_names, *self.value_names), own, strict=True))
        if failures is not None:
            found[ERROR] = _texts(failures, self._reason, rows.num_rows)
            found[STORED] = _texts(failures, self._stored, rows.num_rows)
        columns = [
            self._of_system(name, part, rows)
            if name not in found
            else self._hashed(found[name])
            if name in self._masked
            else found[name]
            for name in schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def schema_of(self, names: Sequence[str]) -> pa.Schema:
        """Some of the columns and their types. Raises `ValueMismatchError` for a name of none."""
        known = self.schema.names
        for name in names:
            if name not in known:
                raise ValueMismatchError(
                    "SM-VALUE-014",
                    f"there is no column {name}",
                    expected=f"one of {', '.join(known)}",
                    found=name,
                    next_action="name columns of the table; `columns` has them all",
                    field=name,
                )
        return pa.schema([self.schema.field(name) for name in names])

    def fields_of(self, names: Sequence[str]) -> frozenset[str]:
        """The fields of a value that the columns ``names`` have."""
        own = [str(each["name"]) for each in self.value["fields"]]
        columns = dict(zip(self.value_names, own, strict=True))
        return frozenset(columns[name] for name in names if name in columns)

    @cached_property
    def _system(self) -> dict[str, pa.DataType]:
        """The columns of a table's own, whose names no other column gets."""
        return {**_SYSTEM, **dict.fromkeys(self.failure_names, pa.string())}

    def _reason(self, failure: ValueFailure) -> str:
        """Why a value does not migrate. Where columns are masked it quotes nothing of the value."""
        error = failure.error
        quoted = "" if self.mask.names or not error.found else f": {error.found}"
        return f"{error.summary.rstrip('.')}{quoted}"

    def _stored(self, failure: ValueFailure) -> str | None:
        """A stored value as JSON, or a hash of it where columns are masked."""
        return self.mask.hashed(failure.stored) if self.mask.names else json_text(failure.stored)

    def _of_system(self, name: str, part: StorePart, rows: pa.RecordBatch) -> pa.Array:
        count = rows.num_rows
        if name == INDEX:
            return rows["index"]
        if name == PARTITION:
            return rows["partition_id"]
        if name == REVISION:
            return repeated(part.revision, count)
        if name == BATCH:
            return arrow_array(np.full(count, self.batch_id, np.int64))
        expires = "expires_at" in rows.schema.names
        return rows["expires_at"] if expires else pa.nulls(count, EXPIRES_AT)

    def key_arrays(self, key: Sequence[Any]) -> list[pa.Array]:
        """For each of the first columns of a key an array of its one value.

        Raises `ValueMismatchError` for a value that is not of its column's type.
        """
        return [
            one_value(value, kind, name)
            for value, kind, name in zip(key, self._key_types, self.key_names, strict=False)
        ]

    def value_of(self, row: dict[str, Any]) -> dict[str, Any]:
        """The value that a row of the table has, by the names of its own columns."""
        own = [str(each["name"]) for each in self.value["fields"]]
        return {name: row[column] for name, column in zip(own, self.value_names, strict=True)}

    def in_order(self, rows: pa.Table) -> pa.Table:
        """Rows of one key, or some, each key's in their order."""
        return rows.sort_by([(INDEX, "ascending")]) if self.has_several else rows

    @cached_property
    def _masked(self) -> frozenset[str]:
        """The columns that have hashes, by their names in the table."""
        fields = [*self.key["fields"], *(self.user_key or {"fields": []})["fields"]]
        fields += self.value["fields"]
        named = zip((*self.key_names, *self.value_names), fields, strict=True)
        return frozenset(name for name, each in named if self.mask.covers(each))

    def _hashed(self, column: pa.Array) -> pa.Array:
        return pa.array([self.mask.hashed(each) for each in plain_values(column)], pa.string())

    @cached_property
    def _key_types(self) -> list[pa.DataType]:
        fields = [*arrow_schema(self.key)]
        if self.user_key is not None:
            fields += arrow_schema(self.user_key)
        return [each.type for each in fields]


def _unique(names: Sequence[str], taken: set[str], before: str) -> tuple[str, ...]:
    found: list[str] = []
    for name in names:
        column = name
        while column in taken or column in found:
            column = f"{before}{column}"
        found.append(column)
    return tuple(found)


def _texts(
    failures: Failures, text: Callable[[ValueFailure], str | None], count: int
) -> pa.StringArray:
    """A text of each failure, and null for the other rows of so many."""
    if not failures:
        return pa.nulls(count, pa.string())
    places = map(failures.get, range(count))
    return pa.array([None if each is None else text(each) for each in places], pa.string())
