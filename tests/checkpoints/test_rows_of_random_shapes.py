"""Committed state of any schema, read from its files, is what Spark's own state reader gives.

Schemas, values, operators, providers, encodings and codecs are drawn at random; the seed is in the
name of a test. ``STATEMIGRATE_SHAPES=500`` draws as many, from the seed ``STATEMIGRATE_SEED`` on.
"""

import os

import pytest
from random_shapes import RandomQuery
from support.committed_rows import rows_by_spark, rows_from_files
from support.table_columns import check_conditions, check_each_column

from statemigrate import open_state
from statemigrate.checkpoint.state import CommittedState
from statemigrate.files import LocalFiles

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]

FIRST = int(os.environ.get("STATEMIGRATE_SEED", "1"))
MANY = int(os.environ.get("STATEMIGRATE_SHAPES", "3"))
OPERATORS = ["aggregation", "deduplicate", "join", "variables"]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + MANY))
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_row_is_the_one_that_spark_reads(spark, tmp_path, operator, seed):
    query = RandomQuery.of(seed, operator)
    query.feed(tmp_path)
    checkpoint = query.run(spark, tmp_path)
    state = CommittedState(LocalFiles(checkpoint))
    expected, found = rows_by_spark(spark, state), rows_from_files(state)
    assert {family: found[family] for family in expected} == expected
    assert any(expected.values())
    check_tables(checkpoint)


def check_tables(checkpoint):
    """The tables have as many rows as their count says, and each is found by its key."""
    state = open_state(checkpoint, migrations=None)
    for name in state.stores:
        table = state[name]
        rows = table.to_arrow()
        assert rows.num_rows == table.count() > 0
        for key in rows.select(list(table.key_columns)).slice(0, 2).to_pylist():
            assert table.under(*key.values()).num_rows, (name, key)
    check_each_column(state[state.stores[0]])
    check_conditions(state, state.stores[0])
