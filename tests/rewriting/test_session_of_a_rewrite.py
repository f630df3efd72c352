"""A rewrite's own session never takes the place of the user's."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from statemigrate.rewrite.spark_reader import frame_of

pytestmark = pytest.mark.spark
MARK = "statemigrate.test.mark"


def test_a_frame_of_local_rows_leaves_the_users_session_active(spark):
    spark.conf.set(MARK, "the user's")
    try:
        spark.createDataFrame([], "nothing INT")
        own = spark.newSession()
        frame = frame_of(own, pa.table({"key": [1, 2]}))
        assert SparkSession.getActiveSession().conf.get(MARK, None) == "the user's"
        assert [row.key for row in frame.collect()] == [1, 2]
    finally:
        spark.conf.unset(MARK)
