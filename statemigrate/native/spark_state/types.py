"""Of which types a query's state variables are, as the checkpoint's own files say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from statemigrate.checkpoint.logs.entries import read_entry
from statemigrate.checkpoint.logs.offsets import batches_in, names_in
from statemigrate.checkpoint.operators.described import (
    read_operator,
    read_operator_entry,
    read_schemas,
)
from statemigrate.checkpoint.operators.entries import OperatorEntry
from statemigrate.checkpoint.operators.schemas import FamilySchema
from statemigrate.checkpoint.operators.shapes import PrefixScan
from statemigrate.checkpoint.operators.telling import FIRST_METADATA, entry_of
from statemigrate.errors import CheckpointError
from statemigrate.files import Files
from statemigrate.native.spark_state.operators import Variable

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class VariableTypes:
    """The grouping ``key``, the ``value`` (of a list an element), and of a map its ``user_key``."""

    key: StructType
    value: StructType
    user_key: StructType | None


def entries_at(files: Files, batch: int) -> list[OperatorEntry]:
    """The metadata of all operators as of a batch, by number.

    Raises `CheckpointError` where they are missing or not understood.
    """
    numbers = sorted(batches_in(names_in(files, "state")))
    conf = _Pinned(files, batch)
    return [read_operator_entry(files, each, batch, conf)[0] for each in numbers]


def metadata_without(files: Files, batch: int) -> dict[str, bytes]:
    """The operators' metadata that Spark before 4.0 did not write, by their paths.

    Those alone that Spark's state reader cannot do without: of keys that it finds by a prefix.
    """
    conf = _Pinned(files, batch)
    entries = [each for each in entries_at(files, batch) if not each.noted]
    shapes = [read_operator(files, each.number, batch, conf, each.name) for each in entries]
    return {
        FIRST_METADATA.format(each.number): entry_of(each).data
        for each in shapes
        if any(isinstance(f.encoder, PrefixScan) for store in each.stores for f in store.families)
    }


class _Pinned(Mapping[str, str]):
    """The settings that are pinned to a batch; its entry is read where one is asked for."""

    def __init__(self, files: Files, batch: int) -> None:
        self._files = files
        self._batch = batch

    @cached_property
    def _conf(self) -> Mapping[str, str]:
        return read_entry(self._files, self._batch).conf

    def __getitem__(self, name: str) -> str:
        return self._conf[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._conf)

    def __len__(self) -> int:
        return len(self._conf)


def types_of(files: Files, entry: OperatorEntry, variable: Variable) -> VariableTypes:
    """The types of one of an operator's variables.

    Raises `CheckpointError` where a schema file is missing, not understood or not of the variable.
    """
    found = _schema(files, entry, variable.name)
    key, value = _struct(found.key), _struct(found.value)
    return VariableTypes(
        key[0].dataType if variable.kind == "map" else key,  # type: ignore[arg-type]
        value["value"].dataType if variable.expires else value,  # type: ignore[arg-type]
        None if found.user_key is None or variable.kind != "map" else _struct(found.user_key),
    )


def _schema(files: Files, entry: OperatorEntry, variable: str) -> FamilySchema:
    found = [each for store in entry.stores for each in read_schemas(files, entry, store)]
    for each in found:
        if each.name == variable:
            return each
    raise CheckpointError(
        "SM-STATE-031",
        f"the schema files of operator {entry.number} do not tell of its variable {variable}",
        expected=f"the schema of {variable}, which the operator's metadata name",
        found=", ".join(sorted(each.name for each in found)) or "no schema",
        next_action="restore state/ from a copy of the checkpoint; Spark reads these files too",
        path=files.location,
    )


def _struct(schema: object) -> StructType:
    from pyspark.sql.types import StructType

    return StructType.fromJson(schema)  # type: ignore[arg-type]
