"""A sample of keys: all rows of a part of the keys, and none of the others.

Whether a row is in it depends on the values of named columns alone, so that the rows of a group are
in the sample together, in the input as in the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statemigrate.checkpoint import labelled_paths
from statemigrate.checkpoint.operators import (
    FamilyShape,
    OperatorShape,
    StoreShape,
    partition_columns,
)
from statemigrate.checkpoint.rows import XXHASH64, hash_of
from statemigrate.errors import UnsupportedError
from statemigrate.numpy_arrays import arrow_array

_PARTS = 1_000_000
SampledTypes = list[tuple[str, Mapping[str, str]]]
"""The types of the columns that a sample goes by, in each place that has them."""


@dataclass(frozen=True)
class KeySample:
    """The ``fraction`` of the keys, between 0 and 1, by the hash of some ``columns``."""

    fraction: float
    columns: tuple[str, ...]

    def chosen(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        """Whether each row is in the sample; ``columns`` are by their names in small letters."""
        found = hash_of([_plain(columns[each.casefold()]) for each in self.columns], XXHASH64)
        return arrow_array(found % np.uint64(_PARTS) < np.uint64(round(self.fraction * _PARTS)))

    def check_input(self, source: str, schema: Mapping[str, Any]) -> dict[str, str]:
        """The types of the columns in the schema of a source, as Spark's JSON.

        Raises `UnsupportedError` where it lacks one.
        """
        types = {str(each["name"]).casefold(): each["type"] for each in schema["fields"]}
        return self.check_key(f"source {source}", types)

    def check_state(
        self, name: str, operator: OperatorShape, store: StoreShape, family: FamilyShape
    ) -> dict[str, str]:
        """The types of the columns among those that a family is grouped by.

        Raises `UnsupportedError` where it is not grouped by one of them.
        """
        kinds = {str(each["name"]): each["type"] for each in family.key["fields"]}
        types: dict[str, Any] = {}
        for path in partition_columns(operator, store, family):
            kind: Any = kinds[path[0]]
            for step in path[1:]:
                kind = {str(each["name"]): each["type"] for each in kind["fields"]}[step]
            if isinstance(kind, Mapping) and kind.get("type") == "struct":
                types |= {str(each["name"]).casefold(): each["type"] for each in kind["fields"]}
            types[path[-1].casefold()] = kind
        return self.check_key(name, types)

    def chosen_keys(
        self, operator: OperatorShape, store: StoreShape, family: FamilyShape, keys: pa.StructArray
    ) -> pa.Array:
        """Whether each key of a family is in the sample, after `check_state`."""
        paths = partition_columns(operator, store, family)
        columns: dict[str, pa.Array] = {}
        for path, labels in zip(paths, labelled_paths(paths, family), strict=True):
            column = pc.struct_field(keys, list(labels))
            if pa.types.is_struct(column.type):
                parts = zip(column.type, column.flatten(), strict=True)
                columns |= {each.name.casefold(): part for each, part in parts}
            columns[path[-1].casefold()] = column
        return self.chosen(columns)

    def check_key(self, place: str, types: Mapping[str, Any]) -> dict[str, str]:
        """The types of the columns among those of a place, by their names in small letters.

        Raises `UnsupportedError` where it lacks one.
        """
        missing = [each for each in self.columns if each.casefold() not in types]
        if missing:
            raise UnsupportedError(
                "SM-PREVIEW-027",
                f"the keys of {place} have no column {missing[0]}, which the sample goes by",
                expected=f"{' and '.join(self.columns)} among the columns of each source, and "
                "among those that all state is grouped by",
                found=", ".join(types) or "no column",
                next_action="name columns with --sample-by that are in all of them, by the same "
                "names, or save all keys",
                column=missing[0],
            )
        return {each: str(types[each.casefold()]) for each in self.columns}


def same_types(types: SampledTypes) -> None:
    """Raise `UnsupportedError` where a column of the sample has two types, and so two hashes."""
    for place, found in types[1:]:
        first, wanted = types[0]
        for name, kind in found.items():
            if kind != wanted[name]:
                raise UnsupportedError(
                    "SM-PREVIEW-028",
                    f"column {name}, which the sample goes by, has two types",
                    expected=f"{wanted[name]}, as in {first}",
                    found=f"{kind}, in {place}",
                    next_action="name another column with --sample-by, or save all keys",
                    column=name,
                )


def _plain(column: pa.Array) -> pa.Array:
    """The column as state has it: Spark may give texts with long offsets."""
    if pa.types.is_large_string(column.type):
        return column.cast(pa.string())
    return column.cast(pa.binary()) if pa.types.is_large_binary(column.type) else column
