"""Whatever comes before an operator: a change of a query that changes its result is noticed.

`STATEMIGRATE_QUERIES` is how many queries are tried, of others each time.
"""

import os
import random

import pytest
from random_queries import (
    PROCESSOR,
    Sources,
    built,
    changed,
    in_other_words,
    mode_of,
    random_query,
)
from rewritten_queries import session_with

from statemigrate.meaning import code_meaning, compare_code
from statemigrate.meaning.guard import stream_meaning
from statemigrate.rewrite import embedded_meaning

pytestmark = [pytest.mark.spark, pytest.mark.long]
QUERIES = int(os.environ.get("STATEMIGRATE_QUERIES", "24"))
FIRST = random.randrange(10**9) if "STATEMIGRATE_QUERIES" in os.environ else 0


@pytest.fixture(scope="module")
def session(spark):
    small = {"spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false"}
    return session_with(spark, "rocksdb", **small)


@pytest.fixture(scope="module")
def meaning(session, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("input"))

    def of(query):
        stream = built(query, Sources(session, folder))
        if query.operator == PROCESSOR:
            return code_meaning("a processor", embedded_meaning(stream, ["k"]))
        return stream_meaning(stream, mode_of(query))

    return of


@pytest.fixture(scope="module")
def result(session):
    def of(query):
        frame = built(query, Sources(session))
        types = [kind for _, kind in frame.dtypes]
        return types, sorted(map(str, map(tuple, frame.collect())))

    return of


@pytest.mark.parametrize("seed", range(FIRST, FIRST + QUERIES))
def test_another_result_is_noticed_and_other_words_are_not(seed, meaning, result):
    chance = random.Random(seed)
    old = random_query(chance)
    types, rows = result(old)
    before = meaning(old)
    same = in_other_words(old, chance)
    assert [*compare_code(before, meaning(same))] == [], (old, same)
    for _ in range(3):
        new = changed(old, chance)
        types_after, rows_after = result(new)
        # Spark itself compares the types of keys and results.
        if types == types_after and rows != rows_after:
            found = [each for each in compare_code(before, meaning(new)) if each.asks]
            assert found, (old, new)
