"""What tasks make of the rows of a family by themselves, a batch at a time as Arrow has them.

That is for rows that stay as they are, for fields that go by name, and for scripts that neither
change keys nor merge; all else needs Spark, which brings rows together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint.operators.shapes import FamilyShape
from statemigrate.migration.stage import stages_of
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.plan.pairing.types import is_same
from statemigrate.rewrite.rows.arrow.entries import (
    MERGED,
    ORIGINS,
    EntryFormats,
    EntryTask,
    TableTask,
)
from statemigrate.rewrite.rows.arrow.fields import FieldChanges
from statemigrate.rewrite.rows.arrow.structs import arrow_row, arrow_value, retyped
from statemigrate.state.telling import Batches

_COLUMNS = ["key", "value", ORIGINS, MERGED]
_Types = tuple[pa.DataType, pa.DataType]


def change_task(plan: FamilyPlan, starts: Mapping[str, Any]) -> Batches | None:
    """What changes batches of ``key`` and ``value``, which then have the counts of `entries`.

    ``starts`` has what the author said of new fields, by ``store.field``. None where that takes
    Spark.
    """
    if plan.old is None or plan.way != "rows" or plan.old.family.is_list != plan.new.family.is_list:
        return None
    return _matched(plan, starts) if plan.script is None else _scripted(plan)


def _matched(plan: FamilyPlan, starts: Mapping[str, Any]) -> Batches | None:
    assert plan.old is not None, "asked before"  # noqa: S101
    old, new = plan.old.family, plan.new.family
    changes = FieldChanges.of(plan, starts, new.key, is_list=new.is_list)
    before, after = (arrow_row(old.key), arrow_value(old)), (arrow_row(new.key), arrow_value(new))
    if changes.is_identity and before == after:
        return _Changing((), before, after)
    # Rows that have lost a column of their key meet, and Spark takes off what is around a value.
    if changes.key.dropped or not (_is_bare(old) and _is_bare(new)):
        return None
    return _Changing((changes,), before, after)


def _scripted(plan: FamilyPlan) -> Batches | None:
    assert plan.old is not None, "asked before"  # noqa: S101
    assert plan.script is not None, "asked before"  # noqa: S101
    old, new = plan.old.family, plan.new.family
    if not (is_same(old.key, new.key) and _is_bare(old) and _is_bare(new)):
        return None
    formats = EntryFormats(plan.script.key, plan.script.value, is_list=new.is_list)
    tasks: list[Batches] = []
    before = formats
    for stage in stages_of(plan.script.path):
        if stage.key is not None or stage.merges:
            return None
        after = replace(before, value=stage.value)
        tasks.append(
            TableTask(stage, after) if stage.on_tables else EntryTask(stage, before, after)
        )
        before = after
    types = arrow_row(new.key), arrow_value(new)
    return _Changing(tuple(tasks), _types_of(formats), types)


def _is_bare(family: FamilyShape) -> bool:
    """Whether a value is its content."""
    return is_same(family.value, family.content)


@dataclass(frozen=True)
class _Changing:
    """Runs ``tasks`` on entries of the types ``before``, and gives those of the types ``after``."""

    tasks: tuple[Batches, ...]
    before: _Types
    after: _Types

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: Iterator[pa.RecordBatch] = (_counted(batch, self.before) for batch in batches)
        for task in self.tasks:
            found = task(found)
        for batch in found:
            counts = [batch[ORIGINS], batch[MERGED]]
            yield pa.RecordBatch.from_arrays([*_retyped(batch, self.after), *counts], _COLUMNS)


def _counted(batch: pa.RecordBatch, types: _Types) -> pa.RecordBatch:
    """Each entry is of one old row, and nothing is merged into it."""
    ones = pa.array(np.ones(batch.num_rows, np.int64))
    none = pa.array(np.zeros(batch.num_rows, np.int64))
    return pa.RecordBatch.from_arrays([*_retyped(batch, types), ones, none], _COLUMNS)


def _retyped(batch: pa.RecordBatch, types: _Types) -> list[pa.Array]:
    return [retyped(batch[name], kind) for name, kind in zip(_COLUMNS[:2], types, strict=True)]


def _types_of(formats: EntryFormats) -> _Types:
    from pyspark.sql.pandas.types import to_arrow_type

    key, value = formats.types
    return to_arrow_type(key, timezone="UTC"), to_arrow_type(value, timezone="UTC")
