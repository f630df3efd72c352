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
from statemigrate.rewrite.plan.families import Place
from statemigrate.rewrite.rows.checksums import NAMES, Checksum, hashes, sums
from statemigrate.rewrite.rows.columns import partition_of

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

    hashed = rows.select(
        "partition",
        partition_of(operator, place).alias("expected"),
        F.to_json("key").alias("text"),
        *hashes(rows.schema),
    )
    is_astray = F.col("partition") != F.col("expected")
    found = (
        hashed.groupBy("partition")
        .agg(
            *sums(),
            F.count_if(is_astray).alias("astray"),
            F.min(F.when(is_astray, F.struct("text", "expected"))).alias("example"),
        )
        .collect()
    )
    for each in found:
        if each.astray:
            raise _astray(name, each.partition, each.astray, each.example)
    return Survey(
        {each.partition: Checksum.of(each.rows, *(each[name] for name in NAMES)) for each in found}
    )


def _astray(name: str, partition: int, count: int, example: tuple[str, int]) -> RewriteError:
    key, expected = example
    return RewriteError(
        f"{count} rows of {name} are not in the partition where Spark would look for them",
        expected=f"the key {shown(key)} in partition {expected}, by Spark's hash of it",
        found=f"it in partition {partition}",
        next_action="nothing was written; a query that was begun before Spark 3.3 lays its rows "
        "out otherwise, which a rewrite does not change: begin the query anew",
        store=name,
    )
