"""A store without scripts is Spark's own: what is declared reaches Spark as it was written."""

from unittest.mock import Mock

from pyspark.sql.types import StructType

from statemigrate.deployment import DeploymentSettings
from statemigrate.native.deployed_variables import Deployed
from statemigrate.native.worker import NativeHandle


def test_what_is_declared_reaches_spark_untouched():
    spark = Mock()
    handle = NativeHandle(spark, Deployed(DeploymentSettings(), {}))
    # No format of this package's holds any of these.
    odd = "shape GEOMETRY(4326), calendar INTERVAL"
    schema = StructType()
    assert handle.getValueState("one", odd, 5) is spark.getValueState.return_value
    assert handle.getListState("two", schema) is spark.getListState.return_value
    assert handle.getMapState("three", odd, schema, None) is spark.getMapState.return_value
    spark.getValueState.assert_called_once_with("one", odd, 5)
    spark.getListState.assert_called_once_with("two", schema, None)
    spark.getMapState.assert_called_once_with("three", odd, schema, None)
    assert not handle.is_dual
