"""The rows of tables as those of state, and what must not be in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.logs import CommitEntry, Offsets
from statemigrate.checkpoint.operators import (
    EXPIRATION,
    CheckpointShape,
    OperatorShape,
    labels,
)
from statemigrate.errors import RewriteError, shown
from statemigrate.files import Files
from statemigrate.formats.struct import quoted
from statemigrate.native import RECORD, record_document
from statemigrate.rewrite.arrow_types import row_type, value_type
from statemigrate.rewrite.checksums import hashes, summed, sums
from statemigrate.rewrite.column_pairing import FamilyAddress
from statemigrate.rewrite.entry_functions import FieldChanges, with_fields
from statemigrate.rewrite.family_plans import MatchedRows, is_aggregation
from statemigrate.rewrite.fork import making
from statemigrate.rewrite.operator import Copies
from statemigrate.rewrite.partitioning import partition_of
from statemigrate.rewrite.questions import is_never_null
from statemigrate.rewrite.rewrite_plan import RewritePlan
from statemigrate.rewrite.rewrite_report import Checksum
from statemigrate.rewrite.script_ways import noted_stores
from statemigrate.rewrite.seed import TIMER_KEY, Seed, seeded_operators
from statemigrate.rewrite.seed_tables import milliseconds_of, missing_timestamp, struct_of
from statemigrate.rewrite.source_logs import taken_logs
from statemigrate.rewrite.spark_reader import RowReader

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType


@dataclass(frozen=True)
class TableReader:
    """The rows of tables, as families of the operators that `seeded_operators` gives."""

    seeds: Sequence[Seed]

    def rows(self, operator: OperatorShape, place: FamilyAddress) -> DataFrame:
        """A family's ``key`` and ``value``, fields by their labels, and its ``partition``."""
        from pyspark.sql import functions as F  # noqa: N812

        seed = self._seed(operator, place)
        found = _timers(seed, place) if seed.is_timers else _rows(seed, place)
        return found.select(
            F.col("key").cast(row_type(place.family.key)).alias("key"),
            F.col("value").cast(value_type(place.family)).alias("value"),
        ).withColumn("partition", partition_of(operator, place))

    def family(self, operator: OperatorShape, place: FamilyAddress) -> None:
        """See `RowReader`: tables are Spark's to read."""

    def _seed(self, operator: OperatorShape, place: FamilyAddress) -> Seed:
        return next(
            each
            for each in self.seeds
            if each.number == operator.number and each.family(place.store, place.family) is not None
        )


def check_tables(operators: Iterable[OperatorShape], seeds: Sequence[Seed]) -> dict[str, Checksum]:
    """Look at all rows; their checksums by store.

    Raises `RewriteError`, with an example, for a null where Spark never leaves one, and for two
    rows under one key.
    """
    shapes = {each.number: each for each in operators}
    return {each.store: _checked(each, shapes[each.number]) for each in seeds}


def _rows(seed: Seed, place: FamilyAddress) -> DataFrame:
    """Keys and values of a table; of a join's side its numbered rows, or their counts."""
    from pyspark.sql import functions as F  # noqa: N812

    found = _entries(seed)
    if not seed.is_join:
        return found
    columns = [F.col("key").getField(each) for each in found.select("key.*").columns]
    if seed.counts(place.store, place.family):
        name = place.family.value["fields"][0]["name"]
        counted = found.groupBy("key").agg(F.count("*").alias(name))
        return counted.select("key", F.struct(name).alias("value"))
    return found.select(
        F.struct(*columns, _number(found)).alias("key"),
        "value",
    )


def _entries(seed: Seed) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    rows = seed.frame
    if seed.elements:
        value = F.col(quoted(seed.elements))
        rows = rows.where(F.size(value) > 0)
    else:
        value = struct_of(seed.value)
    at = milliseconds_of(*seed.time_column) if seed.time_column else F.lit(None).cast("long")
    found = rows.select(struct_of(seed.key).alias("key"), value.alias("value"), at.alias("at"))
    if seed.form is not None:
        found = _formed(found, seed.form, is_list=bool(seed.elements))
    if seed.time_column is not None and not seed.is_timers:
        found = found.withColumn("value", _expiring(is_list=bool(seed.elements)))
    found = found.withColumn("key", normal(F.col("key"), found.schema["key"].dataType))
    return found if seed.is_timers else found.drop("at")


def _expiring(*, is_list: bool) -> Column:
    """The column ``value`` with when it expires, of a list for each of its elements."""
    from pyspark.sql import functions as F  # noqa: N812

    def expiring(value: Column) -> Column:
        return F.struct(value.alias("value"), F.col("at").alias(EXPIRATION))

    return F.transform("value", expiring) if is_list else expiring(F.col("value"))


def _timers(seed: Seed, place: FamilyAddress) -> DataFrame:
    """The timers of a table as a family has them: by key, or by when they are due."""
    from pyspark.sql import functions as F  # noqa: N812

    names = row_type(place.family.key).fieldNames()
    columns = [F.col("key" if name == TIMER_KEY else "at").alias(name) for name in names]
    nothing = F.struct(F.lit(None).alias("nothing"))
    return _entries(seed).select(F.struct(*columns).alias("key"), nothing.alias("value"))


def _formed(rows: DataFrame, form: MatchedRows, *, is_list: bool) -> DataFrame:
    """Keys and values as scripts take them."""
    key = form.new.family.key
    return with_fields(rows, FieldChanges.of(form, {}, key, is_list=is_list), form, key)


def _number(found: DataFrame) -> Column:
    """The place of a row among those of its key: any order is one, but the same at every read."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    order = Window.partitionBy("key").orderBy(*hashes(found.schema))
    return (F.row_number().over(order) - 1).cast("long")


def normal(column: Column, kind: DataType) -> Column:
    """A key as Spark groups by it: 0.0 for -0.0, and one not a number."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import DoubleType, FloatType, StructType

    if isinstance(kind, FloatType | DoubleType):
        plain = F.when(F.isnan(column), F.lit(float("nan"))).otherwise(column + F.lit(0.0))
        return plain.cast(kind)
    if isinstance(kind, StructType):
        parts = [normal(column.getField(e.name), e.dataType).alias(e.name) for e in kind.fields]
        return F.when(column.isNotNull(), F.struct(*parts))
    return column


def _checked(seed: Seed, operator: OperatorShape) -> Checksum:
    _check_timestamps(seed)
    rows = _timers(seed, seed.new) if seed.is_timers else _entries(seed)
    is_plain = not (seed.elements or seed.form or seed.time_column)
    never = _never_null(seed, is_aggregation(operator)) if is_plain else []
    found = rows.select("key", *hashes(rows.schema), *_nulls(never)).agg(*sums(), *_examples(never))
    (totals,) = found.collect()
    for place, name in enumerate(never):
        if totals[f"null_{place}"] is not None:
            raise _null(seed, name, totals[f"null_{place}"])
    if not seed.is_join:
        _check_once(seed, rows)
    return summed(totals)


def _check_timestamps(seed: Seed) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    if seed.time_column is not None:
        unknown = seed.frame.where(milliseconds_of(*seed.time_column).isNull())
        found = unknown.select(F.to_json(struct_of(seed.key)).alias("key")).head(1)
        if found:
            raise missing_timestamp(seed.store, seed.table, seed.time_column[0], found[0].key)


def _nulls(never: Sequence[str]) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812

    text = F.to_json("key")
    return [
        F.when(F.col("value").getField(name).isNull(), text).alias(f"null_{place}")
        for place, name in enumerate(never)
    ]


def _examples(never: Sequence[str]) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812

    return [F.min(f"null_{place}").alias(f"null_{place}") for place in range(len(never))]


def _never_null(seed: Seed, is_aggregate: bool) -> list[str]:
    fields = seed.new.family.value["fields"]
    named = zip(labels(seed.new.family.value), range(len(fields)), strict=True)
    there = {each.name for each in seed.value}
    return [
        label
        for label, place in named
        if label in there and is_never_null(fields, place, is_aggregate=is_aggregate)
    ]


def _check_once(seed: Seed, rows: DataFrame) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    value = F.to_json(F.struct("value"))
    twice = rows.groupBy("key").agg(
        F.count("*").alias("n"), F.min(value).alias("one"), F.max(value).alias("other")
    )
    met = twice.where("n > 1").select(F.to_json("key").alias("key"), "n", "one", "other").head(1)
    if met:
        raise RewriteError(
            "SM-SEED-012",
            f"several rows of {seed.table.location} have one key of {seed.store}",
            expected="one row for each key",
            found=f"{met[0].n} rows with the key {shown(met[0].key)}: "
            f"{shown(met[0].one)} and {shown(met[0].other)}",
            next_action="write the table with one row for each key, as by groupBy; nothing was "
            "written here",
            store=seed.store,
        )


def _null(seed: Seed, name: str, key: Any) -> RewriteError:
    return RewriteError(
        "SM-SEED-013",
        f"a row of {seed.table.location} has no {name}, which {seed.store} always has",
        expected=f"a value of {name} in every row",
        found=f"null with the key {shown(key)}",
        next_action=f"fill the column; or leave it out, with --start {seed.store}.{name}=VALUE; "
        "nothing was written",
        store=seed.store,
    )


# A query that has not run yet: the logs of two batches that only brought its state in.


BATCH = 1
"""The batch whose state the seeded one is.

After its first batch, which is 0, state is a changelog that Spark replays row by row, and has no
numbers of column families; after the second it may be tables with a snapshot.
"""


@dataclass(frozen=True)
class SeedTables:
    """The tables of ``seeds``, for a new ``query`` with this id.

    ``meaning`` is the record of what its code means by the state, by its name, where it is known.
    """

    seeds: Sequence[Seed]
    query: str
    meaning: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def location(self) -> str:
        """Where the tables are."""
        return ", ".join(self.tables.values())

    @property
    def tables(self) -> Mapping[str, str]:
        """By store where its table is."""
        return {each.store: each.table.location for each in self.seeds}

    @property
    def metadata(self) -> bytes:
        """The file that names the query."""
        return json.dumps({"id": self.query}, separators=(",", ":")).encode()

    def reader(self, plan: RewritePlan, spark: SparkSession) -> RowReader:  # noqa: ARG002 - an Origin's
        """The rows of the tables."""
        return TableReader(self.seeds)

    def unchanged_operators(self, plan: RewritePlan) -> Mapping[int, Copies]:  # noqa: ARG002 - an Origin's
        """None: tables are no files of state."""
        return {}

    def extra_files(
        self,
        plan: RewritePlan,
        new: Files,  # noqa: ARG002 - an Origin's
        spark: SparkSession,
    ) -> Iterator[tuple[str, bytes]]:
        """The logs of sources of files, and what scripts have been run."""
        yield from taken_logs(plan, spark)
        noted = noted_stores(plan.scripts, plan.new.batch)
        if noted:
            yield RECORD, record_document(noted)
        yield from self.meaning.items()
        unique = plan.fingerprint[:32]
        yield from making("seed", BATCH, self.location, (), plan.scripts, unique).items()

    def confirm(self, plan: RewritePlan) -> None:
        """Nothing: a table has no batches."""


def before_seeding(
    like: CheckpointShape, conf: Mapping[str, str], seeds: Sequence[Seed], begun: int
) -> CheckpointShape:
    """The state of the tables as that of an old checkpoint, which has read no source.

    ``like`` is a checkpoint that the query's code has made elsewhere, ``conf`` what is pinned;
    ``begun`` is when its last batch counts as begun, in milliseconds since 1970.
    """
    entry = like.offsets[like.batch]
    started = replace(
        entry,
        offsets=Offsets(entry.offsets.named, ()),
        watermark=0,
        timestamp=begun,
        pinned=dict(conf),
        source_metadata={} if entry.offsets.named else None,
    )
    batches = range(BATCH + 1)
    return CheckpointShape(
        "",
        BATCH,
        dict.fromkeys(batches, started),
        dict.fromkeys(batches, CommitEntry(0)),
        seeded_operators(like.operators, seeds),
    )
