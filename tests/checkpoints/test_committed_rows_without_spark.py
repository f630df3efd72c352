"""Committed state read from its files is what Spark's own state reader gives, row by row.

A cell for each operator, provider, encoding, checkpoint format and state format that there is.
"""

import itertools

import pytest
from state_queries import CHECKED, OPERATORS
from support.committed_rows import rows_by_spark, rows_from_files

from statemigrate.checkpoint.state import CommittedState
from statemigrate.checkpoint.stores.provider import provider_of
from statemigrate.files import LocalFiles

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]

AVRO = {"stateStore.encodingFormat": "avro"}
COMMAS = {"stateStore.rocksdb.mergeOperatorVersion": "1"}
ON_ROCKSDB = ["rocksdb", "changelogs", "rocksdb with ids", "changelogs with ids"]
CASES = [
    *((name, way, {}) for name in OPERATORS for way in ("hdfs", "rocksdb")),
    *((name, "changelogs with ids", {}) for name in ("aggregation", "join", "sessions")),
    *((name, "rocksdb with ids", CHECKED) for name in ("windows", "groups")),
    ("aggregation", "hdfs", {"aggregation.stateFormatVersion": "1"}),
    ("windows", "hdfs", CHECKED),
    *(("join", way, {"join.stateFormatVersion": "3"}) for way in ON_ROCKSDB),
    *(("join", way, {"join.stateFormatVersion": "4"}) for way in ON_ROCKSDB),
    ("join", "changelogs", CHECKED | {"join.stateFormatVersion": "4"}),
    *itertools.product(("variables", "expiring"), ON_ROCKSDB, ({}, AVRO)),
    *itertools.product(("variables", "expiring"), ("rocksdb", "changelogs"), (CHECKED, COMMAS)),
    ("expiring", "changelogs with ids", AVRO | CHECKED | COMMAS),
]


def names(case):
    name, way, settings = case
    return "-".join([name, way, *(f"{n}={v}" for n, v in settings.items())]).replace(" ", "_")


@pytest.mark.parametrize("case", CASES, ids=names)
def test_every_row_is_the_one_that_spark_reads(spark, made, case):
    name, way, settings = case
    state = CommittedState(LocalFiles(made(name, way, **settings).checkpoint))
    assert (provider_of(state.shape.conf).name == "rocksdb") == (way != "hdfs")
    expected, found = rows_by_spark(spark, state), rows_from_files(state)
    assert expected.keys() <= found.keys()
    assert {family: found[family] for family in expected} == expected
    assert any(expected.values())
