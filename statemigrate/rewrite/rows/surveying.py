"""One look at all rows of a family: how many, their checksum, and whether each lies where it must.

Before anything is written, every old key must be in the partition that Spark's own hash gives. One
that is not was written by a query born before Spark 3.3, or the key is not what its schema says;
either way the new query would not find it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.errors import RewriteError, shown
from statemigrate.rewrite.plan.pairing.places import Place
from statemigrate.rewrite.rows.checksum import Checksum
from statemigrate.rewrite.rows.checksums import hashes, summed, sums
from statemigrate.rewrite.rows.columns import partition_of
from statemigrate.rewrite.rows.session import gathered_by_one_task
from statemigrate.state.telling import told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Survey:
    """Of the rows of a family: the checksum of each partition, by its number."""

    partitions: dict[int, Checksum] = field(default_factory=dict)

    @property
    def total(self) -> Checksum:
        """Of all partitions together."""
        return sum(self.partitions.values(), Checksum())


def survey(rows: DataFrame, operator: OperatorShape, place: Place, name: str) -> Survey:
    """Look at rows as `StateReader` gives them.

    Raises `RewriteError`, with an example, for a row that is not where Spark's hash puts it.
    """
    from pyspark.sql import functions as F  # noqa: N812

    placed = rows.withColumn("expected", partition_of(operator, place))
    is_astray = F.col("partition") != F.col("expected")
    hashed = placed.select("partition", is_astray.alias("is_astray"), *hashes(rows.schema))
    found = hashed.groupBy("partition").agg(*sums(), F.count_if("is_astray").alias("astray"))
    with told(), gathered_by_one_task(rows.sparkSession):
        partitions = {each.partition: each for each in found.collect()}
    for number, each in partitions.items():
        if each.astray:
            text = F.to_json("key").alias("text")
            here = placed.where(is_astray & (F.col("partition") == number))
            example = here.select(text, "expected").orderBy("text").limit(1).collect()[0]
            raise astray(name, number, each.astray, example)
    return Survey({number: summed(each) for number, each in partitions.items()})


def astray(name: str, partition: int, count: int, example: tuple[str, int]) -> RewriteError:
    """The error for ``count`` rows; ``example`` is a key of one as JSON, and where it belongs."""
    key, expected = example
    return RewriteError(
        "SM-REWRITE-044",
        f"{count} rows of {name} are not in the partition where Spark would look for them",
        expected=f"the key {shown(key)} in partition {expected}, by Spark's hash of it",
        found=f"it in partition {partition}",
        next_action="nothing was written; a query that was begun before Spark 3.3 lays its rows "
        "out otherwise, which a rewrite does not change: begin the query anew",
        store=name,
    )
