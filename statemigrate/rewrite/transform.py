"""Transforming a family's old rows into new ones, kind by kind.

What a family's old rows become, whichever way they take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators import (
    EXPIRATION,
    GROUP_STATE,
    TIMEOUT,
    FamilyShape,
    OperatorShape,
    is_numbered,
    key_paths,
    shown_key,
    with_labels,
)
from statemigrate.errors import RewriteError, shown
from statemigrate.migration import Stage, stages_of
from statemigrate.rewrite.arrow_types import row_type, value_type
from statemigrate.rewrite.checksums import hashes
from statemigrate.rewrite.column_pairing import FamilyAddress, part_of
from statemigrate.rewrite.entry_functions import (
    EXPIRES,
    MERGED,
    ORIGINS,
    EntryFormats,
    EntryTask,
    FieldChanges,
    MergeTask,
    TableTask,
    with_fields,
)
from statemigrate.rewrite.family_plans import (
    ChangedFamily,
    ContinuedFamily,
    CountFamily,
    EntryFamily,
    FamilyPlan,
    JoinedFamily,
    LargeValueFamily,
    MatchedEntries,
    MatchedRows,
    PackedPages,
    PagedFamily,
    PageTimerFamily,
    ScriptedEntries,
    ScriptedRows,
    TimeoutFamily,
)
from statemigrate.rewrite.fields import owned_fields
from statemigrate.rewrite.pages import Parts, large_values, page_timers, pages_of
from statemigrate.rewrite.script_ways import Scripted
from statemigrate.rewrite.spark_reader import RowReader
from statemigrate.state import CarriesErrors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


# The rows of a store carried along its scripts, as Spark runs them.


def upgraded(rows: DataFrame, plan: ScriptedRows) -> DataFrame:
    """What rows become by a family's scripts: ``key``, ``value`` and the counts of `entries`.

    Where keys change, entries that meet are merged.
    """
    from pyspark.sql import functions as F  # noqa: N812

    script, family = plan.script, plan.new.family
    formats = EntryFormats(script.key, script.value, is_list=family.is_list)
    one, none = F.lit(1).cast("long"), F.lit(0).cast("long")
    counted = rows.select("key", "value", one.alias(ORIGINS), none.alias(MERGED))
    found = along(counted, script, formats, plan.new, merges=not family.is_list)
    return found.select(
        F.col("key").cast(row_type(family.key)).alias("key"),
        _value_as(value_type(family)).alias("value"),
        ORIGINS,
        MERGED,
    )


def _value_as(kind: DataType) -> Column:
    """The column ``value`` in another type.

    The rows of `dropDuplicates` have a value without content, which Spark casts to no other one.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import NullType, StructType

    if isinstance(kind, StructType) and all(isinstance(f.dataType, NullType) for f in kind):
        return F.struct(*(F.lit(None).alias(each.name) for each in kind))
    return F.col("value").cast(kind)


def along(
    entries: DataFrame,
    script: Scripted,
    formats: EntryFormats,
    new: FamilyAddress,
    *,
    merges: bool,
    order: tuple[str, ...] = (),
) -> DataFrame:
    """Entries of the family ``new`` carried along a script.

    Where it ``merges``, those that meet under one key become one; ``order`` is in which order.
    """
    from pyspark.sql import functions as F  # noqa: N812

    key, value = formats.types
    found = entries.select(
        F.col("key").cast(key).alias("key"),
        _value_as(value).alias("value"),
        *formats.counted,
    )
    stages = stages_of(script.path, prefer_tables=not formats.carried)
    has_met = not formats.carried
    for number, stage in enumerate(stages, 1):
        after = replace(formats, key=stage.key or formats.key, value=stage.value)
        task = TableTask(stage, after) if stage.on_tables else EntryTask(stage, formats, after)
        found = found.mapInArrow(CarriesErrors(task), _schema(after))
        may_meet = stage.key is not None or stage.merges or (number == len(stages) and not has_met)
        if may_meet and merges:
            found, has_met = _met(found, stage, after, new.store.partitions, order), True
        formats = after
    return found


def one_of_each(rows: DataFrame) -> DataFrame:
    """One row of those that have the same key, with the sums of their counts."""
    from pyspark.sql import functions as F  # noqa: N812

    # Of rows that only say until when a key is known, the longest counts.
    return rows.groupBy("key").agg(
        F.max("value").alias("value"),
        F.sum(ORIGINS).alias(ORIGINS),
        (F.count("*") - 1).alias(MERGED),
    )


def _met(
    rows: DataFrame, stage: Stage, formats: EntryFormats, partitions: int, order: tuple[str, ...]
) -> DataFrame:
    # Which of two values comes first is the same in every run, wherever they were read.
    last = hashes(rows.schema)[0]
    together = rows.repartition(partitions, "key").sortWithinPartitions("key", *order, last)
    return together.mapInArrow(CarriesErrors(MergeTask(stage, formats)), _schema(formats))


def _schema(formats: EntryFormats) -> StructType:
    from pyspark.sql.types import LongType, StructType

    key, value = formats.types
    found = StructType().add("key", key).add("value", value)
    for name in formats.counted:
        found = found.add(name, LongType())
    return found


# What surrounds a value's content, taken off and put on: when it expires, or its key.


_EXPIRES = "expires"


def content_of(family: FamilyShape, value: Column) -> Column:
    """The struct that users know, of a value, or of an element of a list."""
    from pyspark.sql import functions as F  # noqa: N812

    match family.wrapping:
        case "expiry":
            return value.getField("value")
        case "state":
            return value.getField(GROUP_STATE)
        case "key":
            names = [each["name"] for each in with_labels(family.value)["fields"]]
            inner = with_labels(family.content)["fields"]
            placed = zip(names[len(names) - len(inner) :], inner, strict=True)
            return F.struct(*(value.getField(name).alias(each["name"]) for name, each in placed))
    return value


def expiration_of(family: FamilyShape, value: Column) -> Column:
    """When a value expires, in milliseconds since 1970; null where it never does."""
    from pyspark.sql import functions as F  # noqa: N812

    if family.wrapping == "expiry":
        return value.getField(EXPIRATION)
    return F.lit(None).cast("long")


def wrapped(family: FamilyShape, key: Column, content: Column, expires: Column) -> Column:
    """The value of a ``key`` as a family has it, from its content."""
    from pyspark.sql import functions as F  # noqa: N812

    match family.wrapping:
        case "expiry":
            value = F.struct(content.alias("value"), expires.alias(EXPIRATION))
        case "key":
            whole = row_type(family.value).fieldNames()
            inner = row_type(family.content).fieldNames()
            keys = row_type(family.key).fieldNames()
            columns = [*(key.getField(name) for name in keys)]
            columns += [content.getField(name) for name in inner]
            named = zip(columns, whole, strict=True)
            value = F.struct(*(column.alias(name) for column, name in named))
        case _:
            value = content
    return value.cast(row_type(family.value))


def unwrapped(rows: DataFrame, family: FamilyShape) -> DataFrame:
    """Rows with the content of their values, or those of a list's elements, for `wrapped_again`."""
    from pyspark.sql import functions as F  # noqa: N812

    value = F.col("value")
    if not family.is_list:
        content, expires = content_of(family, value), expiration_of(family, value)
    else:
        content = F.transform(value, lambda each: content_of(family, each))
        expires = F.transform(value, lambda each: expiration_of(family, each))
    return rows.select("key", content.alias("value"), expires.alias(_EXPIRES))


def wrapped_again(rows: DataFrame, family: FamilyShape) -> DataFrame:
    """The ``key`` and the ``value`` as a family has it, of what `unwrapped` has given."""
    from pyspark.sql import functions as F  # noqa: N812

    key, content, expires = F.col("key"), F.col("value"), F.col(_EXPIRES)
    value = (
        F.zip_with(content, expires, lambda each, at: wrapped(family, key, each, at))
        if family.is_list
        else wrapped(family, key, content, expires)
    )
    return rows.select("key", value.alias("value"))


# Rows taken apart into single entries, each with what users know of its key and its value.
#
# An element of a list is an entry, and so is a row of a join's side. Each takes along which old key
# it was under, at which place, and when it expires.


ORIGIN, POSITION = "origin", "position"
CARRIED = (EXPIRES, ORIGIN, POSITION)
"""What entries take along with their counts."""


def entries_of(rows: DataFrame, operator: OperatorShape, place: FamilyAddress) -> DataFrame:
    """The columns ``key``, ``value``, the counts of `entries`, and `CARRIED`."""
    from pyspark.sql import functions as F  # noqa: N812

    family = place.family
    numbered = is_numbered(operator, place.store, family)
    if family.is_list:
        apart = rows.select("key", F.posexplode("value").alias("at", "value"))
    else:
        last = F.col("key").getField(row_type(family.key).fieldNames()[-1])
        apart = rows.select("key", (last if numbered else F.lit(0)).alias("at"), "value")
    # A list is one row of state: its first element stands for it.
    counted = (F.col("at") == 0) if family.is_list else F.lit(True)
    found = apart.select(
        _shown(operator, place).alias("key"),
        content_of(family, F.col("value")).alias("value"),
        counted.cast("long").alias(ORIGINS),
        F.lit(0).cast("long").alias(MERGED),
        expiration_of(family, F.col("value")).alias(EXPIRES),
        F.xxhash64(_shown(operator, place)).alias(ORIGIN),
        F.col("at").cast("long").alias(POSITION),
    )
    return found.where(F.col("value").isNotNull()) if family.wrapping == "state" else found


def _shown(operator: OperatorShape, place: FamilyAddress) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    names = row_type(shown_key(operator, place.store, place.family)).fieldNames()
    paths = key_paths(operator, place.store, place.family)
    columns = []
    for path, name in zip(paths, names, strict=True):
        column = F.col("key")
        for part in path:
            column = column.getField(part)
        columns.append(column.alias(name))
    return F.struct(*columns)


# When new values expire: as the old ones do, or as the author says.


def with_expirations(
    entries: DataFrame, plan: EntryFamily, given: Any, batch_time: int
) -> DataFrame:
    """Entries with their expirations as the new family has them.

    ``given`` is a number, or an expression of Spark's over ``batch_time``, ``key``,
    ``value`` and ``expires``. Where values do not expire any more, those that have expired are left
    out: no code sees them. Raises `RewriteError` for what is no such expression.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F  # noqa: N812

    if plan.expiry == "ends":
        return entries.where(F.col(EXPIRES) > batch_time)
    if given is None:
        return entries
    timed = entries.withColumn("batch_time", F.lit(batch_time).cast("long"))
    try:
        moment = F.expr(str(given)).cast("long")
        unknown = F.raise_error(F.lit(f"{plan.name}: {given} is null for an entry")).cast("long")
        return timed.withColumn(EXPIRES, F.coalesce(moment, unknown)).select(*entries.columns)
    except AnalysisException as cause:
        raise RewriteError(
            "SM-REWRITE-043",
            f"when values of {plan.name} expire is not an expression that Spark understands",
            expected="milliseconds since 1970, or an expression over batch_time, key, value "
            "and expires",
            found=f"{shown(given)}: {str(cause)[:300]}",
            next_action=f"correct --start '{plan.name}:expires=...'; nothing was written",
            store=plan.name,
        ) from cause


# Entries of several old states that become one: merged by a script, or each field from its own.


_PART = "part"
"""A column: which of the old states an entry is of, in their order."""
_ORDER = (_PART, ORIGIN, POSITION)


def assembled_entries(found: Sequence[DataFrame], plan: JoinedFamily) -> DataFrame:
    """One entry for each key, of the entries that each part of ``plan`` brings.

    In a list they stand one after the other. An entry takes along what `entries_of` says.
    """
    from pyspark.sql import functions as F  # noqa: N812

    numbered = [
        each.withColumn(_PART, F.lit(number).cast("long")) for number, each in enumerate(found)
    ]
    united = reduce(lambda one, other: one.unionByName(other), numbered)
    script, merges = plan.script, not plan.new.family.is_list
    if script is not None:
        formats = EntryFormats(script.key, script.value, carried=(_PART, *CARRIED))
        united = along(united, script, formats, plan.new, merges=merges, order=_ORDER)
    elif merges:
        united = _side_by_side(united, plan)
    # What comes first in a list is of the first part.
    return united.withColumn(ORIGIN, _after(F.col(_PART), F.col(ORIGIN))).drop(_PART)


def _after(part: Column, origin: Column) -> Column:
    """A number by which entries stay in the order of their parts, and then of their old keys."""
    from pyspark.sql import functions as F  # noqa: N812

    bits = 16
    return F.shiftleft(part, 63 - bits) + F.shiftrightunsigned(origin, bits + 1)


def _side_by_side(united: DataFrame, plan: JoinedFamily) -> DataFrame:
    """Each field from the part that has it; where that has no entry, what the others start with."""
    from pyspark.sql import functions as F  # noqa: N812

    names = united.select("value.*").columns
    owners = _owners(plan, names)
    return united.groupBy("key").agg(
        F.struct(*(_field(name, owners.get(name)).alias(name) for name in names)).alias("value"),
        F.sum(ORIGINS).alias(ORIGINS),
        (F.sum(MERGED) + F.count("*") - 1).alias(MERGED),
        F.max(EXPIRES).alias(EXPIRES),
        F.min(ORIGIN).alias(ORIGIN),
        F.min(POSITION).alias(POSITION),
        F.min(_PART).alias(_PART),
    )


def _owners(plan: JoinedFamily, names: list[str]) -> dict[str, int]:
    """By the name of a field the part that has it; without those that none has."""
    return {
        name: number
        for number, part in enumerate(plan.parts)
        for name in (owned_fields(part.value) if isinstance(part, MatchedEntries) else names)
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


# Timeouts of a function's groups as the timers of a processor.


_NONE = -1
"""What Spark writes where a group has no timeout."""


def timers_of(rows: DataFrame, family: FamilyShape) -> DataFrame:
    """A timer for each group that has a timeout, as rows with ``key``, ``value`` and the counts."""
    from pyspark.sql import functions as F  # noqa: N812

    at = F.col("value").getField(TIMEOUT)
    fields = row_type(family.key).fields
    columns = [
        (at if field.dataType.typeName() == "long" else F.col("key")).alias(field.name)
        for field in fields
    ]
    return rows.where(at.isNotNull() & (at != _NONE)).select(
        F.struct(*columns).cast(row_type(family.key)).alias("key"),
        F.struct(F.lit(None).alias("nothing")).cast(value_type(family)).alias("value"),
        F.lit(1).cast("long").alias(ORIGINS),
        F.lit(0).cast("long").alias(MERGED),
    )


# Entries put together to rows: elements of lists, rows of joins, entries of maps, or values.


_NUMBER, _ORDER_COLUMN = "number", (ORIGIN, POSITION, "number")


def rows_of(entries: DataFrame, family: FamilyShape, *, numbered: bool = False) -> DataFrame:
    """The rows of the new family, with ``key``, ``value`` and the counts of `entries`.

    What stood under one old key stays together in its order. ``numbered`` is of a join's keys.
    """
    from pyspark.sql import functions as F  # noqa: N812

    value = wrapped(family, F.col("key"), F.col("value"), F.col(EXPIRES)).alias("value")
    single = entries.withColumn(_NUMBER, F.monotonically_increasing_id()).select(
        "key", value, ORIGINS, MERGED, *_ORDER_COLUMN
    )
    if family.is_list:
        single = _lists(single)
    elif numbered:
        single = _numbered(single)
    return single.select(
        _whole_key(family, numbered=numbered).alias("key"),
        F.col("value").cast(value_type(family)).alias("value"),
        ORIGINS,
        MERGED,
    )


def counts_of(entries: DataFrame, family: FamilyShape) -> DataFrame:
    """The numbers of a join's rows by their keys, as rows of the family that has them.

    None of them is an old one that goes on: all old numbers are dropped.
    """
    from pyspark.sql import functions as F  # noqa: N812

    none = F.lit(0).cast("long")
    counted = entries.groupBy("key").agg(F.count("*").alias("value"))
    return counted.select(
        F.col("key").cast(row_type(family.key)).alias("key"),
        F.struct("value").cast(value_type(family)).alias("value"),
        none.alias(ORIGINS),
        none.alias(MERGED),
    )


def _lists(single: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    found = single.groupBy("key").agg(
        F.collect_list(F.struct(*_ORDER_COLUMN, "value")).alias("held"),
        F.sum(ORIGINS).alias(ORIGINS),
        # Rows of state whose elements come into one list are merged.
        (F.sum(MERGED) + F.greatest(F.sum(ORIGINS) - 1, F.lit(0))).alias(MERGED),
    )
    # A value may hold maps, which Spark does not order: only their places are sorted.
    places = F.sort_array(
        F.transform(
            "held",
            lambda each, at: F.struct(*(each.getField(n) for n in _ORDER_COLUMN), at.alias("at")),
        )
    )
    return found.withColumn(
        "value",
        F.transform(places, lambda each: F.col("held")[each.getField("at")].getField("value")),
    )


def _numbered(single: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    in_order = Window.partitionBy("key").orderBy(*_ORDER_COLUMN)
    return single.withColumn("index", (F.row_number().over(in_order) - 1).cast("long"))


def _whole_key(family: FamilyShape, *, numbered: bool) -> Column:
    """A key as the family has it, from the columns that users know."""
    from pyspark.sql import functions as F  # noqa: N812

    target = row_type(family.key)
    if numbered:
        return F.struct("key.*", "index").cast(target)
    if family.user_key is None:
        return F.col("key").cast(target)
    parts = with_labels(family.key)["fields"]
    columns = [each for part in parts for each in part["type"]["fields"]]
    shown = iter(row_type({"type": "struct", "fields": columns}).fieldNames())
    nested = [
        F.struct(*(F.col("key").getField(next(shown)) for _ in part["type"]["fields"]))
        for part in parts
    ]
    return F.struct(*nested).cast(target)


@dataclass(frozen=True)
class Changes:
    """Changes rows of the operator ``old`` to those of ``new``.

    ``starts`` has the author's answers for fields that old rows lack, and of expirations;
    ``batch_time`` is when the last batch was begun, in milliseconds since 1970.
    """

    reader: RowReader
    old: OperatorShape
    new: OperatorShape
    families: Sequence[FamilyPlan | ContinuedFamily]
    starts: Mapping[str, Any]
    batch_time: int

    def rows(self, plan: ChangedFamily) -> DataFrame:  # noqa: PLR0911 - one of each kind
        """The rows as they become: ``key``, ``value`` and the counts of `entries`."""
        family = plan.new.family
        match plan:
            case MatchedRows():
                return self._matched(plan)
            case ScriptedRows():
                return upgraded(self._read(plan), plan)
            case MatchedEntries():
                return rows_of(self._entries(plan), family)
            case ScriptedEntries():
                return rows_of(self._entries(plan), family, numbered=plan.is_numbered)
            case JoinedFamily():
                found = [self._entries(each) for each in plan.parts]
                return rows_of(assembled_entries(found, plan), family)
            case CountFamily():
                return counts_of(self._entries(self._counted(plan)), family)
            case TimeoutFamily():
                return timers_of(self._read(plan), family)
            case PackedPages():
                return pages_of(self.old, self._parts(plan), plan)
            case PageTimerFamily():
                return page_timers(self.old, self._parts(plan), plan)
            case LargeValueFamily():
                return large_values(self.old, self._parts(plan), plan)

    def _parts(self, plan: PagedFamily) -> Parts:
        return [(each.old, self._read(each)) for each in plan.parts]

    def _read(self, plan: ContinuedFamily) -> DataFrame:
        return self.reader.rows(self.old, plan.old)

    def _matched(self, plan: MatchedRows) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        family = plan.new.family
        contents = unwrapped(self._read(plan), plan.old.family)
        changes = FieldChanges.of(plan, self.starts, family.key, is_list=family.is_list)
        changed = wrapped_again(with_fields(contents, changes, plan, family.key), family).select(
            "key",
            "value",
            F.lit(1).cast("long").alias(ORIGINS),
            F.lit(0).cast("long").alias(MERGED),
        )
        return one_of_each(changed) if plan.key.dropped else changed

    def _entries(self, plan: EntryFamily) -> DataFrame:
        found = entries_of(self._read(plan), self.old, plan.old)
        given = self.starts.get(f"{plan.name}:expires")
        found = with_expirations(found, plan, given, self.batch_time)
        match plan:
            case MatchedEntries():
                key = shown_key(self.new, plan.new.store, plan.new.family)
                changes = FieldChanges.of(plan, self.starts, key, is_list=False)
                return with_fields(found, changes, plan, key)
            case ScriptedEntries(script=script, new=new):
                formats = EntryFormats(script.key, script.value, carried=CARRIED)
                merges = not (new.family.is_list or plan.is_numbered)
                order = (ORIGIN, POSITION)
                return along(found, script, formats, new, merges=merges, order=order)

    def _counted(self, plan: CountFamily) -> ScriptedEntries:
        return next(
            each
            for each in self.families
            if isinstance(each, ScriptedEntries) and part_of(self.old, each.old) == plan.counted
        )
