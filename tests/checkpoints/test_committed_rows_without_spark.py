"""Committed state read from its files is what Spark's own state reader gives, row by row.

A cell for each operator, provider, encoding, checkpoint format and state format that there is.
"""

import pytest
from state_queries import CASES, case_name
from support.committed_rows import rows_by_spark, rows_from_files

from statemigrate.checkpoint.state import CommittedState
from statemigrate.checkpoint.stores.provider import provider_of
from statemigrate.files import LocalFiles

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_every_row_is_the_one_that_spark_reads(spark, made, case):
    name, way, settings = case
    state = CommittedState(LocalFiles(made(name, way, **settings).checkpoint))
    assert (provider_of(state.shape.conf).name == "rocksdb") == (way != "hdfs")
    expected, found = rows_by_spark(spark, state), rows_from_files(state)
    assert expected.keys() <= found.keys()
    assert {family: found[family] for family in expected} == expected
    assert any(expected.values())
