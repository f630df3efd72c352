"""Entries of several old states that become one: merged by a script, or each field from its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.plan.pairing.joining import owned_fields
from statemigrate.rewrite.rows.arrow.entries import EXPIRES, MERGED, ORIGINS, EntryFormats
from statemigrate.rewrite.rows.kinds.apart import CARRIED, ORIGIN, POSITION
from statemigrate.rewrite.rows.scripted import along

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_PART = "part"
"""A column: which of the old states an entry is of, in their order."""
_ORDER = (_PART, ORIGIN, POSITION)


def entries_together(found: Sequence[DataFrame], plan: FamilyPlan) -> DataFrame:
    """One entry for each key, of the entries that each part of ``plan`` brings.

    In a list they stand one after the other. An entry takes along what `entries_of` says.
    """
    from pyspark.sql import functions as F  # noqa: N812

    numbered = [
        each.withColumn(_PART, F.lit(number).cast("long")) for number, each in enumerate(found)
    ]
    united = reduce(lambda one, other: one.unionByName(other), numbered)
    if plan.script is not None:
        formats = EntryFormats(plan.script.key, plan.script.value, carried=(_PART, *CARRIED))
        united = along(united, plan, formats, _ORDER)
    elif not plan.gathers:
        united = _side_by_side(united, plan)
    # What comes first in a list is of the first part.
    return united.withColumn(ORIGIN, _after(F.col(_PART), F.col(ORIGIN))).drop(_PART)


def _after(part: Column, origin: Column) -> Column:
    """A number by which entries stay in the order of their parts, and then of their old keys."""
    from pyspark.sql import functions as F  # noqa: N812

    bits = 16
    return F.shiftleft(part, 63 - bits) + F.shiftrightunsigned(origin, bits + 1)


def _side_by_side(united: DataFrame, plan: FamilyPlan) -> DataFrame:
    """Each field from the part that has it; where that has no entry, what the others start with."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    kind = united.schema["value"].dataType
    assert isinstance(kind, StructType), "a value is a struct"  # noqa: S101
    owners = _owners(plan, kind)
    return united.groupBy("key").agg(
        F.struct(*(_field(name, owners.get(name)).alias(name) for name in kind.names)).alias(
            "value"
        ),
        F.sum(ORIGINS).alias(ORIGINS),
        (F.sum(MERGED) + F.count("*") - 1).alias(MERGED),
        F.max(EXPIRES).alias(EXPIRES),
        F.min(ORIGIN).alias(ORIGIN),
        F.min(POSITION).alias(POSITION),
        F.min(_PART).alias(_PART),
    )


def _owners(plan: FamilyPlan, kind: StructType) -> dict[str, int]:
    """By the name of a field the part that has it; without those that none has."""
    return {
        name: number
        for number, part in enumerate(plan.parts)
        for name in (kind.names if part.value is None else owned_fields(part.value))
    }


def _field(name: str, owner: int | None) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    # A struct around the field tells a null of its own from there being no entry.
    held = F.struct(F.col("value").getField(name).alias("held"))
    own = F.lit(True) if owner is None else F.col(_PART) == owner
    of_owner = F.first(F.when(own, held), ignorenulls=True)
    of_others = F.first(F.when(~own, held), ignorenulls=True)
    return F.when(of_owner.isNotNull(), of_owner.getField("held")).otherwise(
        of_others.getField("held")
    )
