"""Whether the time at which a batch runs may matter, by the plan of a stream alone."""

import previewed_code as code
import pytest
from pyspark.sql import functions as F  # noqa: N812

from statemigrate import NewCode
from statemigrate.commands.new_code import probed, probing_once
from statemigrate.preview import UnoptimizedPlan

pytestmark = pytest.mark.spark
OUTPUT = "k STRING, n BIGINT"


def _in_pandas(key, rows, state):
    yield from rows


def _with_function(stream, timeout):
    grouped = stream.groupBy("k")
    return grouped.applyInPandasWithState(_in_pandas, OUTPUT, "n BIGINT", "update", timeout)


def _processed(stream, mode, pandas=False):
    grouped = stream.groupBy("k")
    run = grouped.transformWithStateInPandas if pandas else grouped.transformWithState
    return run(code.Totals(), OUTPUT, "Update", mode)


CASES = {
    "aggregation": (False, lambda stream: stream.groupBy("k").count()),
    "current time": (True, lambda stream: stream.select(F.current_timestamp()).distinct()),
    "processor without time": (False, lambda stream: _processed(stream, "None")),
    "processor in pandas without time": (False, lambda stream: _processed(stream, "none", True)),
    "processor in processing time": (True, lambda stream: _processed(stream, "ProcessingTime")),
    "processor in event time": (True, lambda stream: _processed(stream, "EventTime")),
    "current time before a processor": (
        True,
        lambda stream: _processed(stream.where(F.col("at") < F.current_timestamp()), "None"),
    ),
    # A function may ask for the time of the batch, whatever its timeout.
    "function": (True, lambda stream: _with_function(stream, "NoTimeout")),
    "function before a processor": (
        True,
        lambda stream: _processed(_with_function(stream, "NoTimeout"), "None"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_time_matters_to_code_that_may_ask_for_it(spark, tmp_path, name):
    stream = spark.readStream.schema("k STRING, v BIGINT, at TIMESTAMP").json(str(tmp_path))
    matters, function = CASES[name]
    made = function(stream.withWatermark("at", "1 minute"))
    assert UnoptimizedPlan.of(made).clock is matters


def test_code_is_looked_at_once_for_each_mode_and_settings_of_a_query(spark):
    wanted = NewCode(f"{code.__name__}:sums")
    conf = {"spark.sql.shuffle.partitions": "1"}
    with probing_once():
        first = probed(wanted, conf, spark, "bundle")
        assert probed(wanted, dict(conf), spark, "copy") is first
        assert first.mode == "update"
        other = probed(NewCode(wanted.code, mode="complete"), conf, spark, "bundle")
        assert (other is first, other.mode) == (False, "complete")
        with_two = probed(wanted, {"spark.sql.shuffle.partitions": "2"}, spark, "bundle")
        assert with_two is not first
    assert probed(wanted, conf, spark, "bundle") is not first
