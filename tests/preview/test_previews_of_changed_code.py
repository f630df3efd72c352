"""New code on the batches that a real query has committed: faults are found, and nothing else."""

import previewed_code as code
import pytest
from previewed_query import Query, fields

from statemigrate import init
from statemigrate.errors import CheckpointError, StatemigrateError
from statemigrate.native import class_of_any_release
from statemigrate.rewrite.questions import RewriteAnswers

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def minutes(spark, tmp_path_factory):
    return Query(spark, tmp_path_factory.mktemp("minutes"), code.minutes, "update")


def test_a_change_of_words_alone_makes_no_difference(minutes):
    found = minutes.preview(code.minutes_in_other_words)
    assert (found.noise, found.unexpected, found.path) == ((), (), "as it is")
    assert len(found.batches) == 3
    assert all(each.is_same for batch in found.batches for each in batch.differences)
    assert all(batch.stores[0].rows for batch in found.batches), "there was something to compare"


def test_files_of_a_replay_are_renamed_without_another_program(spark, minutes):
    code.FILE_MANAGERS.clear()
    assert minutes.preview(code.minutes_with_the_session, old=False).unexpected == ()
    # The code is called on empty streams first.
    renaming = code.FILE_MANAGERS[-1]
    assert renaming.endswith(".FileSystemBasedCheckpointFileManager")
    assert spark._jvm.java.lang.Class.forName(renaming).getName() == renaming
    assert spark.conf.get("spark.sql.streaming.checkpointFileManagerClass", None) is None


def test_a_class_of_sparks_is_found_under_the_name_that_this_release_has(spark):
    there, nowhere = "org.apache.spark.sql.SparkSession", "org.apache.spark.sql.nowhere.Session"
    assert class_of_any_release(spark._jvm, (nowhere, there)).getName() == there
    assert class_of_any_release(spark._jvm, (nowhere,)) is None


def test_each_fault_is_found_by_its_field(minutes):
    of_total = {("aggregation-0", "sum"), ("output", "total")}
    of_rows = {("aggregation-0", "_rows"), ("output", "_rows")}
    assert fields(minutes.preview(code.minutes_of_another_field)) == of_total
    assert fields(minutes.preview(code.minutes_doubled)) == of_total
    moved = fields(minutes.preview(code.minutes_a_second_late))
    assert moved >= {("aggregation-0", "count"), ("aggregation-0", "sum")}
    late = minutes.preview(code.minutes_with_another_delay)
    assert any("watermark" in each for each in late.unexpected)
    assert fields(late) & of_rows


def test_null_in_place_of_zero_is_found_without_old_code_too(minutes):
    found = minutes.preview(code.minutes_with_null_for_zero, old=False)
    assert found.reference == "production"
    assert fields(found) == set(), "no window has zeros alone"
    assert fields(minutes.preview(code.minutes_doubled, old=False)) == {("aggregation-0", "sum")}


def test_what_may_differ_is_said_in_the_project(minutes):
    one = {"aggregation-0": {"sum": "changed"}, "output": {"total": "changed"}}
    assert minutes.preview(code.minutes_doubled, expected=one).is_expected
    near = {"aggregation-0": {"sum": {"within": 9.0}}, "output": {"total": {"within": 9.0}}}
    assert minutes.preview(code.minutes_doubled, expected=near).is_expected


def test_state_is_rewritten_before_and_after_with_one_result(minutes):
    answers = RewriteAnswers(accept_new=True)
    found = minutes.preview(code.minutes_with_max, answers=answers)
    assert found.path == "rewritten"
    assert found.unexpected == ()
    assert found.batches[-1].stores[0].only_new == ("max",)
    assert found.square is not None


def test_what_the_old_code_draws_is_noise_and_the_rest_is_compared(spark, tmp_path):
    query = Query(spark, tmp_path, code.drawn, "update")
    found = query.preview(code.drawn)
    assert {(each.store, each.field) for each in found.noise} == {
        ("aggregation-0", "sum"),
        ("output", "drawn"),
    }
    assert found.is_expected
    wrong = query.preview(code.drawn_and_counted_twice)
    assert {text.partition(": ")[2].partition(":")[0] for text in wrong.unexpected} == {
        "aggregation-0.count",
        "output.n",
    }


def test_a_moment_that_stands_for_ever_is_shown_as_it_is(spark, tmp_path):
    query = Query(spark, tmp_path, code.until_for_ever, "append")
    assert query.preview(code.until_for_ever).unexpected == ()
    found = query.preview(code.until_a_day_before)
    assert fields(found) == {("output", "until")}
    example = found.batches[0].output.examples[0]
    assert [str(each["until"]) for each in (example.before, example.after)] == [
        "9999-12-31 00:00:00+00:00",
        "9999-12-30 00:00:00+00:00",
    ]


def test_deduplication_is_previewed(spark, tmp_path):
    query = Query(spark, tmp_path, code.first_ones, "append")
    assert query.preview(code.first_ones).unexpected == ()
    assert ("output", "_rows") in fields(query.preview(code.first_ones_of_some))


def test_a_join_of_two_streams_is_previewed(spark, tmp_path):
    query = Query(spark, tmp_path, code.joined, "append", count=2)
    assert query.preview(code.joined).unexpected == ()
    wrong = query.preview(code.joined_with_a_wrong_value)
    assert ("output", "_rows") in fields(wrong) or ("output", "w") in fields(wrong)


def test_a_processor_is_previewed(spark, tmp_path):
    query = Query(spark, tmp_path, code.processed, "update")
    assert query.preview(code.processed).unexpected == ()
    assert ("total", "sum") in fields(query.preview(code.processed_wrongly))


def test_state_is_migrated_live_by_scripts_with_the_same_result(spark, tmp_path, monkeypatch):
    query = Query(spark, tmp_path, code.processed, "update")
    init(migrations=tmp_path / "migrations")
    versions = tmp_path / "migrations" / "versions"
    (versions / "aaaa11112222_means.py").write_text(code.SCRIPT)
    monkeypatch.setattr(code, "MIGRATIONS", str(tmp_path / "migrations"))
    found = query.preview(code.with_means, migrations=tmp_path / "migrations")
    assert (found.path, found.unexpected) == ("live", ())
    assert found.square
    assert all(each.is_same for each in found.square)
    wrong = query.preview(code.with_wrong_means, migrations=tmp_path / "migrations")
    assert {("total", "sum"), ("total", "mean")} <= fields(wrong)
    assert not all(each.is_same for each in wrong.square)


def test_input_that_is_gone_says_from_which_batch_on_there_is_all(spark, tmp_path):
    query = Query(spark, tmp_path, code.first_ones, "append")
    (query.inputs[0] / "2.json").unlink()
    with pytest.raises(CheckpointError) as raised:
        query.preview(code.first_ones, batches=20)
    assert raised.value.code == "SM-PREVIEW-005"
    later = raised.value.data["batch"]
    assert query.preview(code.first_ones, batches=1).batches[0].batch >= later


def test_code_that_fails_is_named_with_its_batch(minutes):
    with pytest.raises(StatemigrateError) as raised:
        minutes.preview(code.minutes_that_fail, old=False)
    assert raised.value.code == "SM-PREVIEW-009"
    assert raised.value.data["batch"] is not None


def test_rows_that_are_read_twice_are_found(minutes):
    found = fields(minutes.preview(code.minutes_counted_twice, old=False))
    assert found == {("aggregation-0", "count"), ("aggregation-0", "sum")}
