"""Spark 4.2 repartitions state itself: another implementation, and what both make is the same."""

from collections import Counter

import pytest
import rewritten_code as code
from rewritten_queries import Feed, late_batch, rewritten, run, session_with
from support.sessions import spark_version
from variables_code import variables

from statemigrate import fork
from statemigrate.checkpoint.shape import describe
from statemigrate.files import LocalFiles
from statemigrate.rewrite.column_pairing import store_families as families_of
from statemigrate.rewrite.spark_reader import StateReader, rewriting_session

pytestmark = [
    pytest.mark.spark,
    pytest.mark.rewrites,
    pytest.mark.skipif(spark_version() < (4, 2), reason="Spark repartitions from 4.2 on"),
]

OPERATORS = {
    "windows": (code.windows, "append"),
    "distinct for a while": (code.distinct_for_a_while, "append"),
    "sessions": (code.sessions, "append"),
    "join": (code.pairs, "append"),
    "values, a list, a map": (variables, "update"),
}


@pytest.mark.parametrize("operator", list(OPERATORS))
def test_the_state_is_that_which_spark_repartitions(spark, feed, tmp_path, operator):
    function, mode = OPERATORS[operator]
    session = session_with(spark, "rocksdb")
    old, theirs, ours = (tmp_path / name for name in ("old", "theirs", "ours"))
    feeds = [feed, Feed(tmp_path / "others")][: 2 if function is code.pairs else 1]
    feed_all(feeds, 1, 2, 3)
    run(session, feeds, function, old, mode)
    fork(old, theirs)
    session._streamingCheckpointManager.repartition(str(theirs), 3)
    rewritten(spark, old, ours, partitions=3)

    expected = state(spark, theirs)
    assert state(spark, ours) == expected
    assert sum(map(len, expected.values())) > 2
    feed_all(feeds, 4, 5)
    given = [list(run(session, feeds, function, each, mode).values()) for each in (ours, theirs)]
    assert given[0] == given[1]


def feed_all(feeds, *numbers):
    for each in feeds:
        each.add(*map(late_batch, numbers))


def state(spark, checkpoint):
    """Every row of every family, and its partition."""
    files = LocalFiles(checkpoint)
    shape = describe(files)
    reader = StateReader(files, shape.batch, rewriting_session(spark, shape))
    return {
        name: Counter(map(str, reader.rows(operator, place).collect()))
        for operator in shape.operators
        for name, place in families_of(operator)
    }
