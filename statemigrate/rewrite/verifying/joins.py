"""What a stream-stream join relies on: of each key as many rows as are counted, without a hole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from statemigrate.checkpoint.operators.catalogue import (
    INDEX_TO_VALUE,
    JOIN,
    NUM_VALUES,
    TS_TO_VALUES,
    TS_WITH_KEY,
    kind_of,
)
from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.rewrite.plan.pairing.places import Place
from statemigrate.rewrite.rows.reading import StateReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def join_problems(operator: OperatorShape, reader: StateReader) -> Iterator[tuple[str, bool]]:
    """For each side of a join a sentence, and whether its counts are right."""
    if kind_of(operator.name) is not JOIN:
        return
    places = {_part(each): each for each in _places(operator)}
    for side in ("left", "right"):
        counts = places.get(f"{side}-{NUM_VALUES}")
        rows = places.get(f"{side}-{INDEX_TO_VALUE}")
        if counts is not None and rows is not None:
            wrong = _wrong(reader.rows(operator, counts), reader.rows(operator, rows))
            yield _said(operator, side, wrong)
        times, lists = (places.get(f"{side}-{part}") for part in (TS_WITH_KEY, TS_TO_VALUES))
        if times is not None and lists is not None:
            wrong = _wrong_lists(reader.rows(operator, times), reader.rows(operator, lists))
            yield _said(operator, side, wrong)


def _said(operator: OperatorShape, side: str, wrong: int) -> tuple[str, bool]:
    text = f"join-{operator.number}.{side}: {wrong:,} keys whose rows are not those counted"
    return text, wrong == 0


def _places(operator: OperatorShape) -> Iterator[Place]:
    for store in operator.stores:
        for family in store.families:
            yield Place(store, family)


def _part(place: Place) -> str:
    return place.family.name if len(place.store.families) > 1 else place.store.name


def _wrong_lists(times: DataFrame, lists: DataFrame) -> int:
    """How many keys, with their times, have as many rows as the index says not."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType

    # What counts is a value for each row, or their number.
    is_list = isinstance(times.schema["value"].dataType, ArrayType)
    said = F.size("value") if is_list else F.col("value").getField("numValues")
    counted = times.select("key", said.alias("counted"))
    found = lists.select("key", F.size("value").alias("n"))
    pairs = found.join(counted, found["key"].eqNullSafe(counted["key"]), "full")
    return pairs.where(~F.coalesce(F.col("n") == F.col("counted"), F.lit(False))).count()


def _wrong(counts: DataFrame, rows: DataFrame) -> int:
    """How many keys have rows other than numbers 0 to n - 1, where n is what is counted."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    kind = rows.schema["key"].dataType
    assert isinstance(kind, StructType), "a key is a struct"  # noqa: S101
    *columns, index = kind.fieldNames()
    at = F.col("key").getField(index)
    found = rows.groupBy(F.struct(*[F.col("key").getField(each) for each in columns]).alias("key"))
    ranges = found.agg(
        F.count("*").alias("n"), F.count_distinct(at).alias("different"), F.max(at).alias("last")
    )
    counted = counts.select("key", F.col("value").getField("value").alias("counted"))
    pairs = ranges.join(counted, ranges["key"].eqNullSafe(counted["key"]), "full")
    is_right = (
        (F.col("n") == F.col("counted"))
        & (F.col("different") == F.col("n"))
        & (F.col("last") == F.col("n") - 1)
    )
    return pairs.where(~F.coalesce(is_right, F.lit(False))).count()
