"""All aggregate functions that Spark has, with arguments of several types, and lists of them.

``aggregate_functions.json`` has what each keeps, as `functions_by_spark` says it; a test with Spark
makes it again.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statemigrate.rewrite.aggregates import AggregateFunction

DDL = (
    "k STRING, a BIGINT, b BIGINT, x DOUBLE, y DOUBLE, i INT, f FLOAT, d DECIMAL(10,2), "
    "e DECIMAL(30,4), s STRING, r STRING, t TIMESTAMP, u DATE, o BOOLEAN, z TINYINT, h SMALLINT, "
    "w BINARY, l ARRAY<INT>, n STRUCT<p: INT, q: STRING>"
)
_EVERY = ("a", "b", "x", "d", "s", "r", "t", "u", "o", "i", "f", "e", "z", "n", "l", "w")
_NUMBERS = ("a", "b", "x", "y", "i", "f", "d", "e", "h")
_PAIRS = ("x, y", "y, x", "a, x")
ARGUMENTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("max", "min"), _EVERY),
    **dict.fromkeys(
        ("first", "last", "any_value", "first_value", "last_value"),
        ("a", "b", "x", "d", "s", "r", "o", "n", "a, true"),
    ),
    "count": ("1", "a", "b", "x", "s"),
    "count_if": ("o", "a > 1"),
    **dict.fromkeys(("any", "some", "every", "bool_and", "bool_or"), ("o", "a > 1")),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), ("a", "b", "i", "z", "h")),
    "sum": (*_NUMBERS, "a) FILTER (WHERE b > 1", "a) FILTER (WHERE b > 2"),
    **dict.fromkeys(("avg", "mean", "try_sum", "try_avg"), _NUMBERS),
    **dict.fromkeys(
        (
            "std",
            "stddev",
            "stddev_pop",
            "stddev_samp",
            "var_pop",
            "var_samp",
            "variance",
            "skewness",
            "kurtosis",
        ),
        ("x", "y", "a"),
    ),
    **dict.fromkeys(
        (
            "corr",
            "covar_pop",
            "covar_samp",
            "regr_avgx",
            "regr_avgy",
            "regr_count",
            "regr_intercept",
            "regr_r2",
            "regr_slope",
            "regr_sxx",
            "regr_sxy",
            "regr_syy",
        ),
        _PAIRS,
    ),
    **dict.fromkeys(("max_by", "min_by"), ("s, a", "a, b", "b, a", "x, a", "a, x")),
    **dict.fromkeys(("collect_list", "collect_set", "array_agg"), ("a", "s", "x", "r")),
    "collect_union": ("l",),
    "mode": ("a", "s", "x"),
    "approx_count_distinct": ("a", "s", "a, 0.2D"),
    **dict.fromkeys(("percentile_approx", "approx_percentile"), ("a, 0.5D", "x, 0.5D", "a, 0.9D")),
    "percentile": ("a, 0.5D", "x, 0.5D"),
    "median": ("a", "x"),
    "percentile_cont": ("0.25D) WITHIN GROUP (ORDER BY a", "0.25D) WITHIN GROUP (ORDER BY a DESC"),
    "percentile_disc": ("0.5D) WITHIN GROUP (ORDER BY a", "0.5D) WITHIN GROUP (ORDER BY a DESC"),
    "histogram_numeric": ("a, 3", "x, 5"),
    "count_min_sketch": ("s, 0.1D, 0.9D, 42",),
    **dict.fromkeys(("listagg", "string_agg"), ("s", "r, ','", "s) WITHIN GROUP (ORDER BY s DESC")),
    **dict.fromkeys(("hll_sketch_agg", "theta_sketch_agg"), ("a", "s")),
    **dict.fromkeys(("approx_top_k", "approx_top_k_accumulate"), ("a", "s")),
    "kll_sketch_agg_bigint": ("a", "b"),
    "kll_sketch_agg_double": ("x",),
    "kll_sketch_agg_float": ("f",),
    "tuple_sketch_agg_double": ("s, x",),
    "tuple_sketch_agg_integer": ("s, i",),
    "bitmap_construct_agg": ("bitmap_bit_position(a)",),
    **dict.fromkeys(
        (
            "bitmap_or_agg",
            "bitmap_and_agg",
            "hll_union_agg",
            "theta_union_agg",
            "theta_intersection_agg",
            "kll_merge_agg_bigint",
            "kll_merge_agg_double",
            "kll_merge_agg_float",
            "tuple_union_agg_double",
            "tuple_union_agg_integer",
            "tuple_intersection_agg_double",
            "tuple_intersection_agg_integer",
        ),
        ("w",),
    ),
}
"""By the name of a function what stands in its parentheses, and what may follow them."""
OF_SKETCHES = frozenset(name for name, given in ARGUMENTS.items() if given == ("w",))
"""Functions that take no bytes but those of other functions."""
NOT_OF_STREAMS = {
    "approx_top_k_combine": "takes the structs of approx_top_k_accumulate alone",
    "grouping": "of several groupings, which no stream has",
    "grouping_id": "of several groupings, which no stream has",
    "measure": "of metric views, which are no streams",
}
"""Functions that the lists do not have, and why."""
TABLE = Path(__file__).with_suffix(".json")


def texts() -> list[str]:
    """Every function with each of its arguments."""
    return [f"{name}({each})" for name, given in ARGUMENTS.items() for each in given]


def known_functions() -> dict[str, AggregateFunction]:
    """What each keeps, as Spark says, by its text; those with the same meaning once."""
    found: dict[str, AggregateFunction] = {}
    seen = set()
    for text, each in json.loads(TABLE.read_text()).items():
        meaning = each["meaning"]
        if meaning not in seen:
            seen.add(meaning)
            fields = tuple((name, spark) for name, spark in each["fields"])
            registers = each.get("registers", 0)
            fields += tuple((f"MS[{n}]", "long") for n in range(registers))
            empty = tuple(each["empty"]) if "empty" in each else (0,) * registers
            found[text] = AggregateFunction(
                text,
                fields,
                meaning,
                each["uncast"],
                each["function"],
                each["argument"],
                empty=empty,
                is_opaque=each["is_opaque"],
            )
    return found


@dataclass(frozen=True)
class Pair:
    """The functions of an old query and those of a new one; what both have goes on."""

    old: tuple[str, ...]
    new: tuple[str, ...]


def pair_of(random_: random.Random, pool: Sequence[str], most: int = 7) -> Pair:
    """Two lists: the new one is the old one in another order, with some less and some more."""
    drawn = random_.sample(list(pool), random_.randint(1, most))
    # Of one name, and so mostly of one shape, with another argument.
    names = [each.partition("(")[0] for each in drawn]
    alike = [each for each in pool if each.partition("(")[0] in names and each not in drawn]
    kept = [each for each in drawn if random_.random() > 0.2]
    more = random_.sample(alike, min(len(alike), random_.choice((0, 0, 1, 2))))
    more += [e for e in random_.sample(list(pool), random_.choice((0, 0, 1))) if e not in drawn]
    new = list(dict.fromkeys([*kept, *more])) or drawn
    random_.shuffle(new)
    return Pair(tuple(drawn), tuple(new))


def functions_by_spark(spark: Any, wanted: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What Spark itself keeps of each function, for `TABLE`."""
    from pyspark.sql import functions as F  # noqa: N812

    from statemigrate.rewrite.stream_plan import plan_meaning

    rows = spark.readStream.schema(DDL).json(tempfile.mkdtemp())
    found = {}
    for text in wanted:
        result = rows.groupBy("k").agg(F.expr(text).alias("found"))
        (one,) = plan_meaning(result, "update").functions[0]
        fields = [list(each) for each in one.fields]
        entry: dict[str, Any] = {
            "function": one.function,
            "argument": one.argument,
            "meaning": one.meaning,
            "uncast": one.uncast,
            "is_opaque": one.is_opaque,
        }
        if fields[0][0] == "MS[0]":
            assert set(one.empty or ()) == {0}
            entry |= {"fields": [], "registers": len(fields)}
        else:
            is_long = any(isinstance(each, str) and len(each) > 100 for each in one.empty or ())
            entry |= {"fields": fields, "empty": None if one.empty is None else list(one.empty)}
            if is_long:
                entry["empty"] = ["" for _ in fields]
        found[text] = entry
    return found
