"""What a plan says of aggregate functions: the same is the same, and what it hides is not known."""

import pytest
from pyspark.sql import functions as F  # noqa: N812

from statemigrate.rewrite.probe import run_probe
from statemigrate.rewrite.stream_plan import plan_meaning

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


def twice(value):
    return value * 2


def thrice(value):
    return value * 3


twice.__name__ = thrice.__name__ = "times"


def alike(times, nested, part):
    """Code that is another one by one of these three, with the same names in it."""

    def code(events):
        columns = {"by": F.udf(times, "bigint")("v"), "in": F.expr(nested)}
        rows = events.withColumns(columns)
        first, second = (rows.select("k", F.col(n).alias("v"), "by", "in") for n in ("v", part))
        return first.union(second).groupBy("k").agg(F.sum("v"), F.sum("by"), F.sum("in"))

    return code


BODIES = [
    f"element_at(transform(l, x1 -> aggregate(l, 0L, (x2, x3) -> {body})), 1)"
    for body in ("x2 - x3", "x3 - x2", "x2 - x1")
]
RENAMED = BODIES[0].replace("x2", "a").replace("x3", "b").replace("x1", "c")


@pytest.mark.long
def test_what_is_called_the_same_and_computes_something_else_is_not_the_same(spark, tmp_path):
    """Functions of one name, variables of one name, and the other parts of a union."""

    def meanings(number, *code):
        found = {}
        run_probe(
            alike(*code),
            tmp_path / str(number),
            spark,
            inputs={"events": DDL},
            look=lambda *stream: found.update(plan_meaning(*stream).functions),
        )
        return [each.meaning for each in found[0]]

    first = meanings(0, twice, BODIES[0], "v")
    assert "" not in first
    assert meanings(1, twice, RENAMED, "v") == first
    others = [
        (1, meanings(2, thrice, BODIES[0], "v")),
        (2, meanings(3, twice, BODIES[1], "v")),
        (2, meanings(4, twice, BODIES[2], "v")),
        (0, meanings(5, twice, BODIES[0], "w")),
    ]
    for changed, found in others:
        assert "" not in found
        assert [at for at in range(3) if found[at] != first[at]] == [changed]


def keyed_by(first, second):
    def code(events):
        parts = [events.select(F.expr(each).alias("k"), "v") for each in (first, second)]
        return parts[0].union(parts[1]).groupBy("k").agg(F.sum("v"))

    return code


@pytest.mark.long(weight=1 / 3)
def test_a_key_is_what_each_part_of_a_union_computes(spark, tmp_path):
    def meaning(number, *keys):
        found = {}
        run_probe(
            keyed_by(*keys),
            tmp_path / str(number),
            spark,
            inputs={"events": DDL},
            look=lambda *stream: found.update(plan_meaning(*stream).keys),
        )
        (key,) = found[0]
        return key.expression

    first = meaning(0, "k", "k")
    assert meaning(1, "k", "k") == first
    assert len({first, meaning(2, "k", "upper(k)"), meaning(3, "upper(k)", "k")}) == 3


def test_functions_are_the_same_by_what_they_are_computed_from(spark, tmp_path):
    found = {}
    run_probe(
        code,
        tmp_path,
        spark,
        inputs={"events": DDL},
        look=lambda *stream: found.update(plan_meaning(*stream).functions),
    )
    seen = {each.result: each for each in found[0]}
    meanings = {name: each.meaning for name, each in seen.items()}
    assert len(seen) == len(found[0]) == 12
    assert 'input."v"' in meanings["of_product"]
    assert "product" not in meanings["of_product"]
    assert "Explode" in meanings["of_each"]
    assert len({*meanings.values()}) == len(meanings)
    assert "" not in meanings.values()
    assert seen["plain"].uncast == seen["wide"].uncast == meanings["plain"]
    assert seen["wide"].fields == (("sum", "decimal(30,0)"), ("isEmpty", "boolean"))
    assert (seen["wide"].empty, seen["plain"].empty) == (("0", True), (None,))
    assert seen["filtered"].words == "filtered = sum(v) FILTER (WHERE (w > 1L))"


def test_a_function_has_the_same_name_in_each_plan(spark):
    rows = spark.readStream.format("rate").load().selectExpr("value AS v")
    both = [plan_meaning(rows.agg(F.count_if(F.col("v") > 1)), "update") for _ in range(2)]
    texts = {each.text for plan in both for found in plan.functions.values() for each in found}
    assert texts == {"count((IF((NOT (value > 1L)), CAST(NULL AS BOOLEAN), (value > 1L))))"}
