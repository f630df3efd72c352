"""Starts of the embedded engine, compared with what the state means, before the first batch."""

import json
import shlex
import sys
from types import ModuleType

import pytest
from click.testing import CliRunner
from pyspark.sql import functions as F  # noqa: N812
from support.file_hashes import file_hashes
from tally import CentsTally, batch

from statemigrate import EmbeddedQuery, NewCode, check, guarded, plan
from statemigrate.cli import main
from statemigrate.commands.current import log
from statemigrate.commands.lock import lock
from statemigrate.commands.repair import repair
from statemigrate.errors import CodeError, CorruptFileError, StartupError

pytestmark = [pytest.mark.spark, pytest.mark.long(weight=1 / 8)]


def as_it_is(rows):
    return rows


def in_other_words(rows):
    return rows.toDF("a", "b", "c").where("true").selectExpr("c name", "a key", "b cents")


def with_a_column(rows):
    return rows.withColumn("twice", F.expr("cents * 2"))


def by_another_key(rows):
    return rows.withColumn("key", F.col("name"))


def with_a_filter(rows):
    return rows.where("cents > 3")


def with_another_column(rows):
    return rows.withColumn("cents", F.expr("cents * 2"))


def doubled(rows):
    return rows.withColumn("time", F.explode(F.array(F.lit(1), F.lit(2)))).drop("time")


def of_a_table(rows):
    return rows.join(rows.sparkSession.range(100), F.expr("cents = id"), "left_semi")


def each_once(rows):
    return rows.dropDuplicates(["key", "cents"])


CHANGED = {
    by_another_key: "processor key key",
    with_a_filter: "processor filter",
    with_another_column: "processor column",
    doubled: "processor rows",
    of_a_table: "processor table",
    each_once: "operator 0",
}


class Query:
    """A query whose rows go through a function before the processor gets them."""

    def __init__(self, pipeline):
        self.pipeline, self.batches = pipeline, 0

    def made(self, function, by="key", **options):
        return EmbeddedQuery(
            function(self.pipeline.stream()),
            by=by,
            processor=CentsTally(),
            outputStructType=self.pipeline.output,
            checkpoint=self.pipeline.checkpoint,
            sink=self.pipeline.sink,
            options=self.pipeline.options(),
            **options,
        )

    def run(self, function, **options):
        self.pipeline.feed(batch(f"n{self.batches}", range(8)))
        self.batches += 1
        self.pipeline.run(self.made(function, **options).start())

    def refused(self, function):
        """The error of a start that changes nothing."""
        before = file_hashes(self.pipeline.checkpoint)
        with pytest.raises(StartupError) as caught:
            self.made(function).start()
        assert caught.value.code == "SM-MEANING-001"
        after = file_hashes(self.pipeline.checkpoint)
        assert {name for name in after if after[name] != before.get(name)} <= {"statemigrate/lock"}
        return caught.value.data

    @property
    def records(self):
        folder = self.pipeline.checkpoint / "statemigrate" / "meaning"
        found = {int(each.name): json.loads(each.read_text())["body"] for each in folder.iterdir()}
        return dict(sorted(found.items()))


@pytest.fixture
def query(pipeline):
    return Query(pipeline)


@pytest.fixture(scope="module")
def deployed(spark, tmp_path_factory):
    from pipelines import Pipeline

    query = Query(Pipeline(spark, tmp_path_factory.mktemp("deployed") / "pipeline"))
    query.run(as_it_is)
    return query


def test_the_same_query_starts_again_however_it_is_written(query):
    for function in (as_it_is, in_other_words, with_a_column, as_it_is):
        query.run(function)
    assert list(query.records) == [0]
    assert query.pipeline.handed[-1][0] == 3


@pytest.mark.parametrize("changed", CHANGED, ids=lambda each: each.__name__)
def test_other_keys_and_rows_are_refused_by_name(deployed, changed):
    found = deployed.refused(changed)
    assert [each["name"] for each in found["changes"]] == [CHANGED[changed]]
    assert deployed.records.keys() == {0}


def test_a_change_that_is_meant_is_accepted_with_its_reason_and_no_other(query):
    query.run(as_it_is)
    accept = dict.fromkeys(query.refused(with_a_filter)["accept"], "small ones were noise")
    query.run(with_a_filter, accept=accept)
    query.run(with_a_filter)
    assert list(query.records) == [0, 1]
    (accepted,) = query.records[1]["accepted"]
    assert (accepted["name"], accepted["reason"]) == ("processor filter", "small ones were noise")
    (entry,) = [each for each in log(query.pipeline.checkpoint).entries if each.verb == "found"]
    assert (entry.batch, entry.outcome, entry.details["step"]) == (1, "done", "and accepted")
    assert "small ones were noise" in entry.details["processor filter"]
    with pytest.raises(StartupError):
        query.made(as_it_is, accept=accept).start()


def test_a_change_whose_first_batch_fails_leaves_the_old_code_startable(query):
    query.run(as_it_is)
    accept = dict.fromkeys(query.refused(with_a_filter)["accept"], "meant")
    query.pipeline.fail_on.add(1)
    with pytest.raises(Exception, match="the sink refuses batch 1 once"):
        query.run(with_a_filter, accept=accept)
    assert list(query.records) == [0, 1]
    query.run(as_it_is)
    assert list(query.records) == [0]
    query.refused(with_a_filter)


def test_state_that_was_set_back_means_what_it_meant_then(query):
    query.run(as_it_is)
    query.run(as_it_is)
    accept = dict.fromkeys(query.refused(with_a_filter)["accept"], "meant")
    query.run(with_a_filter, accept=accept)
    repair(str(query.pipeline.checkpoint), back_to=0, apply=True)
    query.refused(with_a_filter)
    accept = dict.fromkeys(query.refused(doubled)["accept"], "meant")
    query.run(doubled, accept=accept)
    assert list(query.records) == [0, 1]
    assert "Explode" in json.dumps(query.records[1]["meaning"])


def test_state_without_a_record_is_taken_as_it_is(query):
    query.run(as_it_is)
    (query.pipeline.checkpoint / "statemigrate/meaning/0").unlink()
    query.run(with_a_filter)
    assert list(query.records) == [1]
    query.refused(as_it_is)


def test_a_record_that_was_altered_is_refused(query):
    query.run(as_it_is)
    path = query.pipeline.checkpoint / "statemigrate/meaning/0"
    whole = path.read_text()
    path.write_text(whole.replace("key = key", "key = name"))
    assert path.read_text() != whole
    with pytest.raises(CorruptFileError):
        query.made(as_it_is).start()


def test_columns_may_have_any_names(query, spark):
    odd = {"`a.b`": "cents", "`a``b`": "name", "`A.b`": "key"}

    def named(rows):
        return rows.selectExpr("key", "cents", "name", *(f"{b} AS {a}" for a, b in odd.items()))

    def exchanged(rows):
        return named(rows.selectExpr("key", "cents", "name || '!' AS name"))

    query.run(named)
    query.run(named)
    assert list(query.records) == [0]
    assert query.refused(exchanged)["changes"][0]["name"] == "processor column"


def test_a_query_that_is_guarded_once_more_is_refused(query):
    with pytest.raises(StartupError) as caught:
        guarded(query.made(as_it_is))
    assert (caught.value.code, caught.value.found) == ("SM-MEANING-006", "EmbeddedQuery")


# What `plan` and `check` say of the same.


@pytest.fixture
def code(monkeypatch, deployed):
    """A module with a function for each version of the query."""
    module = ModuleType("compared_embedded")
    monkeypatch.setitem(sys.modules, "compared_embedded", module)
    for each in (as_it_is, in_other_words, *CHANGED):
        setattr(module, each.__name__, _query_of(deployed, each))
    module.by_name = _query_of(deployed, as_it_is, by="name")
    module.processor = CentsTally
    module.of_spark = lambda rows: rows.groupBy("key").count()
    return deployed.pipeline.rows


def _query_of(deployed, function, **options):
    def made(rows):
        stream = deployed.pipeline.stream
        deployed.pipeline.stream = lambda: rows
        try:
            return deployed.made(function, **options)
        finally:
            deployed.pipeline.stream = stream

    return made


def planned(deployed, rows, name, **options):
    target = NewCode(f"compared_embedded:{name}", {"rows": rows}, **options)
    return plan(str(deployed.pipeline.checkpoint), target=target, migrations=None)


def named(found):
    return {each.name: each.verdict for each in found.items}


def test_a_plan_reads_the_record(deployed, code):
    found = planned(deployed, code, "in_other_words")
    assert named(found) == {"key": "same", "tally": "same", "processor": "same"}
    assert not found.asks
    for changed, name in CHANGED.items():
        found = planned(deployed, code, changed.__name__)
        verdict = "rewrite" if changed is each_once else "unnoticed"
        assert named(found) == {"key": "same", "tally": "same", name: verdict}
        (step,) = found.steps
        assert name in step.text
        assert step.command == ""


def test_a_plan_compares_with_the_old_code_or_its_lock_file(deployed, code, tmp_path):
    file = tmp_path / "state.lock"
    locked = lock("compared_embedded:with_a_filter", file=file, inputs={"rows": code})
    assert [each.name for each in locked.meaning.operators] == ["processor"]
    for options in (
        {"old_code": "compared_embedded:with_a_filter"},
        {"lock": file},
    ):
        assert not planned(deployed, code, "with_a_filter", **options).asks
        found = planned(deployed, code, "as_it_is", **options)
        assert named(found)["processor filter"] == "unnoticed"


def test_code_is_compared_with_its_lock_file_without_any_checkpoint(code, tmp_path):
    file = str(tmp_path / "state.lock")
    check(code="compared_embedded:as_it_is", write_lock=file, inputs={"rows": code})
    text = (tmp_path / "state.lock").read_text()
    assert (
        check(code="compared_embedded:in_other_words", lock=file, inputs={"rows": code}).changes
        == ()
    )
    found = check(code="compared_embedded:by_another_key", lock=file, inputs={"rows": code})
    assert [each.name for each in found.changes] == ["processor key key"]
    check(code="compared_embedded:as_it_is", write_lock=file, inputs={"rows": code})
    assert (tmp_path / "state.lock").read_text() == text


def test_without_a_record_the_meaning_is_a_question(query, code):
    query.run(as_it_is)
    (query.pipeline.checkpoint / "statemigrate/meaning/0").unlink()
    found = planned(query, code, "as_it_is")
    assert named(found) == {"key": "same", "tally": "same", "processor": "unknown"}
    # The command works as it is, but for the name of the old code.
    command = found.steps[0].command.replace("MODULE:FUNCTION", "compared_embedded:as_it_is")
    done = CliRunner().invoke(main, shlex.split(command)[1:])
    assert done.exit_code == 0, done.output
    arguments = ["check", str(query.pipeline.checkpoint), "--code", "compared_embedded:as_it_is"]
    done = CliRunner().invoke(main, [*arguments, "--record-meaning", "--input", f"rows={code}"])
    assert done.exit_code == 0, done.output
    assert "Next: restart the query" in done.output
    assert named(planned(query, code, "as_it_is"))["processor"] == "same"
    query.refused(with_a_filter)
    query.run(as_it_is)


def test_code_of_another_engine_or_key_is_not_recorded(deployed, code):
    checkpoint = str(deployed.pipeline.checkpoint)
    before = file_hashes(deployed.pipeline.checkpoint)
    with pytest.raises(CodeError) as caught:
        lock("compared_embedded:of_spark", inputs={"rows": code}, checkpoint=checkpoint)
    assert caught.value.code == "SM-CODE-017"
    with pytest.raises(StartupError) as refused:
        lock("compared_embedded:by_name", inputs={"rows": code}, checkpoint=checkpoint)
    assert refused.value.code == "SM-EMBEDDED-005"
    assert file_hashes(deployed.pipeline.checkpoint) == before


def test_what_a_processor_alone_cannot_show_is_refused(deployed, code, tmp_path):
    with pytest.raises(CodeError) as caught:
        planned(deployed, code, "processor", old_code="compared_embedded:as_it_is")
    assert caught.value.code == "SM-CODE-018"
    with pytest.raises(CodeError) as caught:
        planned(deployed, code, "as_it_is", like=str(deployed.pipeline.checkpoint))
    assert caught.value.code == "SM-CODE-016"
    file = tmp_path / "state.lock"
    lock("compared_embedded:of_spark", file=file, inputs={"rows": code})
    with pytest.raises(CodeError) as caught:
        planned(deployed, code, "as_it_is", lock=file)
    assert caught.value.code == "SM-LOCK-004"
