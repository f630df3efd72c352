"""What a plan says of aggregate functions: the same is the same, and what it hides is not known."""

import pytest
from pyspark.sql import functions as F  # noqa: N812

from statemigrate.rewrite.probe.functions import aggregate_functions
from statemigrate.rewrite.probe.run import run_probe

pytestmark = pytest.mark.spark
DDL = "k STRING, v BIGINT, w BIGINT, l ARRAY<BIGINT>"


def doubled(value):
    return value * 2


def tripled(value):
    return value * 3


def code(events):
    rows = events.withColumns(
        {
            "product": F.col("v") * 2,
            "other": F.col("w") * 2,
            "by_name": F.udf(doubled, "bigint")("v"),
            "by_another": F.udf(tripled, "bigint")("v"),
            "nameless": F.udf(lambda value: value, "bigint")("v"),
            "added": F.expr("aggregate(transform(l, x -> x + 1), 0L, (a, b) -> a + b)"),
            "likewise": F.expr("aggregate(transform(l, y -> y + 1), 0L, (a, b) -> a + b)"),
        }
    )
    columns = ("product", "other", "by_name", "by_another", "nameless", "added")
    exploded = rows.withColumn("each", F.explode("l"))
    return exploded.groupBy("k").agg(
        *(F.sum(name).alias(f"of_{name}") for name in columns),
        F.sum("each").alias("of_each"),
        F.expr("sum(v) FILTER (WHERE w > 1)").alias("filtered"),
        F.sum("v").alias("plain"),
        F.first("v").alias("any_first"),
        F.first("v", ignorenulls=True).alias("some_first"),
        F.sum(F.col("v").cast("decimal(20,0)")).alias("wide"),
    )


def test_functions_are_the_same_by_what_they_are_computed_from(spark, tmp_path):
    found = {}
    run_probe(
        code,
        tmp_path,
        spark,
        inputs={"events": DDL},
        look=lambda q: found.update(aggregate_functions(q)),
    )
    seen = {each.result: each for each in found[0]}
    meanings = {name: each.meaning for name, each in seen.items()}
    assert len(seen) == len(found[0]) == 12
    assert 'input."v"' in meanings["of_product"]
    assert "product" not in meanings["of_product"]
    # Of these nothing says what they compute.
    assert (meanings["of_each"], meanings["of_nameless"]) == ("", "")
    others = [name for name in meanings if name not in ("of_each", "of_nameless")]
    assert len({meanings[name] for name in others}) == len(others)
    assert "" not in {meanings[name] for name in others}
    assert seen["plain"].uncast == seen["wide"].uncast == meanings["plain"]
    assert seen["wide"].fields == (("sum", "decimal(30,0)"), ("isEmpty", "boolean"))
    assert (seen["wide"].empty, seen["plain"].empty) == (("0", True), (None,))
    assert seen["filtered"].words == "filtered = sum(v) FILTER (WHERE (w > 1L))"
