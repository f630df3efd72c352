"""The session that state is read in: the own one, unless a checkpoint needs another setting."""

import pytest

from statemigrate.native.checkpoint import session_with

pytestmark = pytest.mark.spark

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
ZONE = "spark.sql.session.timeZone"


def test_the_session_itself_is_taken_where_sparks_default_is_what_is_needed(spark):
    own = spark.newSession()
    assert session_with(own, FORMAT, "1") is own
    own.conf.set(FORMAT, "2")
    assert session_with(own, FORMAT, "2") is own


def test_another_session_has_the_needed_setting_and_all_others_of_the_first(spark):
    own = spark.newSession()
    own.conf.set(ZONE, "Asia/Kathmandu")
    made = session_with(own, FORMAT, "2")
    assert made is not own
    assert (made.conf.get(FORMAT), made.conf.get(ZONE)) == ("2", "Asia/Kathmandu")
    assert own.conf.get(FORMAT) == "1"


def test_a_setting_that_spark_does_not_have_is_set_all_the_same(spark):
    made = session_with(spark, "statemigrate.tests.unknown", "x")
    assert made.conf.get("statemigrate.tests.unknown") == "x"
