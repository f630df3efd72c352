"""Batches that run again have the recorded settings of their query where nothing sets any."""

import previewed_code as code
import pytest
from previewed_query import Query, fields, named

from statemigrate import NewCode, doctor, open_state
from statemigrate.formats.arrow_values import plain_rows

pytestmark = [pytest.mark.spark, pytest.mark.long]
ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def query(spark, tmp_path):
    """A query of another zone than the session that looks at it, in which nobody sets any."""
    session = spark.newSession()
    session.conf.set(ZONE, "America/Los_Angeles")
    made = Query(session, tmp_path / "query", code.days, "update", is_guarded=True)
    made.spark = spark.newSession()
    assert made.spark.conf.get(ZONE) != "America/Los_Angeles"
    return made


def test_a_preview_has_the_zone_of_the_query_also_of_a_bundle(query, tmp_path):
    query.save(tmp_path / "bundle")
    for place in (None, tmp_path / "bundle"):
        found = query.preview(code.days, place=place)
        assert (found.noise, found.unexpected, fields(found)) == ((), (), set())
    query.spark.conf.set(ZONE, "Asia/Tokyo")
    assert query.preview(code.days).noise


def test_state_that_is_computed_again_has_the_days_of_the_query(query, tmp_path):
    state = open_state(query.checkpoint, migrations=None)
    whole = sorted(map(repr, plain_rows(state["aggregation-0"].to_arrow())))
    for file in query.checkpoint.glob(f"state/0/*/{state.batch + 1}*"):
        file.write_bytes(b"")
    target = NewCode(named(code.days), mode="update")
    given = {"repair": True, "target": target, "wait": 0, "spark": query.spark}
    assert doctor(query.checkpoint, new=tmp_path / "new", apply=True, **given).did
    found = open_state(tmp_path / "new", migrations=None)
    assert sorted(map(repr, plain_rows(found["aggregation-0"].to_arrow()))) == whole
