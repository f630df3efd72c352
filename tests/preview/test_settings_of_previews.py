"""Batches that run again have the recorded settings of their query where nothing sets any."""

import json

import embedded_code
import live_code
import previewed_code as code
import pytest
from embedded_life import EmbeddedLife
from previewed_query import Query, events, fields, named, scripts_of

from statemigrate import NewCode, doctor, guarded, open_state
from statemigrate.checkpoint import MEANINGS
from statemigrate.errors import CheckpointError
from statemigrate.files import sealed, unsealed
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


def test_the_embedded_engine_is_previewed_in_the_zone_of_its_query(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(embedded_code, "CHECKPOINT", str(tmp_path / "checkpoint"))
    session = spark.newSession()
    session.conf.set(ZONE, "America/Los_Angeles")
    query = EmbeddedLife(session, tmp_path, embedded_code.minutes_of_the_day, batches=3)
    query.spark = spark.newSession()
    query.save(tmp_path / "bundle", batches=2)
    query.save(tmp_path / "masked", batches=2, mask=["id"])
    for place in (None, tmp_path / "bundle", tmp_path / "masked"):
        found = query.preview(embedded_code.minutes_of_the_day, batches=2, place=place)
        assert (found.noise, found.unexpected, fields(found)) == ((), (), set())
    query.spark.conf.set(ZONE, "Asia/Tokyo")
    assert query.preview(embedded_code.minutes_of_the_day, batches=2).noise


def test_an_operator_that_migrates_live_is_previewed_in_the_zone_of_its_query(
    spark, tmp_path, monkeypatch
):
    scripts = scripts_of(live_code, tmp_path, monkeypatch)
    session = spark.newSession()
    session.conf.set(ZONE, "America/Los_Angeles")
    query = Query(session, tmp_path, live_code.stateful_minutes, "update", batches=3)
    query.spark = spark.newSession()
    query.save(tmp_path / "bundle", batches=2)
    for place in (None, tmp_path / "bundle"):
        found = query.preview(live_code.stateful_minutes, 2, migrations=scripts, place=place)
        assert (found.noise, found.unexpected, fields(found)) == ((), (), set())


def damaged(query, batch, partitions):
    """Damage the state of a batch in some partitions; what `doctor` is given to repair it."""
    for file in query.checkpoint.glob(f"state/0/{partitions}/{batch + 1}*"):
        file.write_bytes(b"")
    target = NewCode(named(code.days), mode="update")
    return {"repair": True, "target": target, "wait": 0, "spark": query.spark, "apply": True}


@pytest.mark.parametrize(("partitions", "is_named"), [("*", True), ("0", False)])
def test_a_repair_names_the_time_zone_that_nothing_confirms(spark, tmp_path, partitions, is_named):
    query = Query(spark, tmp_path / "query", code.days, "update")
    batch = open_state(query.checkpoint, migrations=None).batch
    did = doctor(query.checkpoint, new=tmp_path / "new", **damaged(query, batch, partitions)).did
    assert (f"the time zone {spark.conf.get(ZONE)}:" in did[1]) == is_named
    assert ("are equal" in did[1]) != is_named


def test_settings_are_those_of_a_query_that_is_guarded_since(spark, tmp_path):
    session = spark.newSession()
    session.conf.set(ZONE, "America/Los_Angeles")
    query = Query(session, tmp_path / "query", code.days, "update", batches=2)
    (query.inputs[0] / "2.json").write_text("\n".join(events(2)))
    writer = code.days(query.stream(query.inputs[0])).writeStream.format("noop")
    writer = writer.outputMode("update").option("checkpointLocation", str(query.checkpoint))
    writer = guarded(writer, accept={"unrecorded": "the same code"})
    assert writer.trigger(availableNow=True).start().awaitTermination(180)
    query.spark = spark.newSession()
    found = query.preview(code.days, batches=2)
    assert (found.noise, found.unexpected) == ((), ())


def test_state_that_is_computed_again_has_the_days_of_the_query(query, tmp_path):
    state = open_state(query.checkpoint, migrations=None)
    whole = sorted(map(repr, plain_rows(state["aggregation-0"].to_arrow())))
    given = damaged(query, state.batch, "*")
    (done,) = doctor(query.checkpoint, new=tmp_path / "new", **given).did
    assert "read back whole" in done
    found = open_state(tmp_path / "new", migrations=None)
    assert sorted(map(repr, plain_rows(found["aggregation-0"].to_arrow()))) == whole


def test_a_recorded_zone_that_does_not_exist_is_an_error_until_another_one_is_set(query):
    (record,) = (query.checkpoint / MEANINGS).iterdir()
    text = json.dumps(unsealed(record.read_bytes(), str(record)))
    assert "America/Los_Angeles" in text
    record.write_bytes(sealed(json.loads(text.replace("America/Los_Angeles", "Nowhere/Land"))))
    with pytest.raises(CheckpointError) as refused:
        query.preview(code.days)
    assert (refused.value.code, refused.value.data["setting"]) == ("SM-PREVIEW-039", ZONE)
    assert "Nowhere/Land" in str(refused.value.found)
    query.spark.conf.set(ZONE, "America/Los_Angeles")
    assert query.preview(code.days).unexpected == ()
