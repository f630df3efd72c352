"""Every operator with state that this Spark has is one that the catalogue knows."""

import zipfile
from pathlib import Path

import pyspark
import pytest

from statemigrate.checkpoint.operators.catalogue import KINDS

pytestmark = pytest.mark.spark

WRITER = "org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter"
KNOWN = {
    "FlatMapGroupsInPandasWithStateExec": "applyInPandasWithState",
    "FlatMapGroupsWithStateExec": "flatMapGroupsWithState",
    "SessionWindowStateStoreSaveExec": "sessionWindowStateStoreSaveExec",
    "StateStoreSaveExec": "stateStoreSave",
    "StatefulStreamlineAggregateExec": "StatefulStreamlineAggregate",
    "StreamingDeduplicateExec": "dedupe",
    "StreamingDeduplicateWithinWatermarkExec": "dedupeWithinWatermark",
    "StreamingGlobalLimitExec": "globalLimit",
    "StreamingSymmetricHashJoinExec": "symmetricHashJoin",
    "TransformWithStateExec": "transformWithStateExec",
    "TransformWithStateInPySparkExec": "transformWithStateInPySparkExec",
}
"""By class of Spark's the name that it writes into a checkpoint."""


def test_the_catalogue_knows_every_operator_that_keeps_state(spark):
    (jar,) = Path(pyspark.__file__).parent.glob("jars/spark-sql_2*.jar")
    names = [
        each.removesuffix(".class").replace("/", ".")
        for each in zipfile.ZipFile(jar).namelist()
        if each.startswith("org/apache/spark/sql/execution/") and each.endswith("Exec.class")
    ]
    java = spark._jvm.java.lang
    loader = java.Thread.currentThread().getContextClassLoader()
    writer = java.Class.forName(WRITER, False, loader)
    assert len(names) > 100
    found = set()
    for name in names:
        known = java.Class.forName(name, False, loader)
        is_abstract = java.reflect.Modifier.isAbstract(known.getModifiers())
        if writer.isAssignableFrom(known) and not is_abstract:
            found.add(name.rpartition(".")[2])
    assert found == set(KNOWN)
    assert set(KNOWN.values()) <= {name for kind in KINDS for name in kind.names}
