"""Starts that are compared with what the checkpoint's state means, before the first batch."""

import json
from types import SimpleNamespace

import planned_code as code
import pytest
from fed_queries import Feed
from rewritten_queries import rows_of, session_with
from support.file_hashes import file_hashes

from statemigrate import NewCode, RewriteAnswers, fork, guarded, plan, rewrite
from statemigrate.commands.current import log
from statemigrate.commands.lock import lock
from statemigrate.errors import CodeError, CorruptFileError, StartupError, UnsupportedError

pytestmark = pytest.mark.spark
ROWS = rows_of(*((f"k{n % 7}", n - 3, n) for n in range(60)))


@pytest.fixture(scope="module")
def session(spark):
    return session_with(spark, "rocksdb")


class Query:
    """A query with a checkpoint, whose starts are guarded unless asked otherwise."""

    def __init__(self, session, folder):
        self.session, self.checkpoint = session, folder / "checkpoint"
        self.feed = Feed(folder / "input")

    def writer(self, function, mode="update"):
        writer = function(self.feed.stream(self.session)).writeStream.format("noop")
        return writer.outputMode(mode).option("checkpointLocation", str(self.checkpoint))

    def run(self, function, *, accept=None, guard=True, sink=None, mode="update"):
        self.feed.add(ROWS)
        writer = self.writer(function, mode)
        if sink is not None:
            writer = writer.foreachBatch(sink)
        writer = guarded(writer, accept=accept) if guard else writer
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(180)
        assert not query.isActive

    def accepting(self, function, reason):
        """What accepts the change to a function, as the error names it."""
        with pytest.raises(StartupError) as caught:
            guarded(self.writer(function))
        return dict.fromkeys(caught.value.data["accept"], reason)

    @property
    def records(self):
        folder = self.checkpoint / "statemigrate" / "meaning"
        found = {int(each.name): json.loads(each.read_text())["body"] for each in folder.iterdir()}
        return dict(sorted(found.items()))


@pytest.fixture(scope="module")
def deployed(session, tmp_path_factory):
    query = Query(session, tmp_path_factory.mktemp("deployed"))
    query.run(code.deployed)
    return query


@pytest.fixture
def query(session, tmp_path):
    return Query(session, tmp_path)


def named(function):
    return f"{function.__module__}:{function.__qualname__}"


@pytest.mark.long(weight=1 / 2)
def test_the_same_code_starts_again_however_it_is_written(query):
    query.run(code.deployed)
    query.run(code.written_in_another_way)
    query.run(code.deployed)
    assert list(query.records) == [0]
    (operator,) = query.records[0]["meaning"]["operators"].values()
    assert [each["text"] for each in operator["functions"]] == ["min(v)", "count(1)"]
    assert [each["expression"] for each in operator["keys"]] == ["k"]


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (code.with_max, ["aggregation-0 low"]),
        (code.with_another_argument, ["aggregation-0 low"]),
        (code.with_another_key, ["aggregation-0 key k"]),
        (code.with_another_filter, ["aggregation-0 filter"]),
        (code.without_filter, ["aggregation-0 filter"]),
        (code.deduplicated, ["operator 0"]),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_code_that_means_something_else_does_not_start_and_leaves_no_trace(
    deployed, function, names
):
    before = file_hashes(deployed.checkpoint)
    with pytest.raises(StartupError) as caught:
        deployed.run(function)
    assert caught.value.code == "SM-MEANING-001"
    assert [each["name"] for each in caught.value.data["changes"]] == names
    assert file_hashes(deployed.checkpoint) == before


@pytest.mark.long
def test_a_stream_that_is_joined_with_itself_starts_again_and_no_other_join_does(query):
    append = {"mode": "append"}
    query.run(code.joined_with_itself, **append)
    query.run(code.joined_with_itself, **append)
    before = file_hashes(query.checkpoint)
    with pytest.raises(StartupError) as caught:
        query.run(code.joined_with_itself_outer, **append)
    assert [each["name"] for each in caught.value.data["changes"]] == ["join-0 join type"]
    assert file_hashes(query.checkpoint) == before


@pytest.mark.long(weight=1 / 3)
def test_a_start_refuses_a_processor_whose_variable_spark_would_delete(query):
    query.run(code.visited)
    query.run(code.visited)
    assert list(query.records) == [0]
    (operator,) = query.records[0]["meaning"]["operators"].values()
    assert {name: each["value"] for name, each in operator["state"].items()} == {"one": "v BIGINT"}
    with pytest.raises(StartupError) as caught:
        query.run(code.visited_by_another_name)
    assert [each["rule"] for each in caught.value.data["changes"]] == ["variable"]


@pytest.mark.long(weight=1 / 3)
def test_variables_of_a_processor_that_begins_nowhere_but_in_spark_are_not_compared(query, caplog):
    query.run(code.visited)
    caplog.clear()
    query.run(code.visited_with_a_question)
    assert any("its init raised AttributeError" in each.message for each in caplog.records)


@pytest.mark.long(weight=1 / 3)
def test_a_change_that_is_accepted_starts_and_the_record_has_the_reason(query):
    query.run(code.deployed)
    accept = query.accepting(code.with_another_filter, "small orders were noise")
    (changed,) = [each.partition(":")[0] for each in accept]
    assert changed == "aggregation-0 filter"
    query.run(code.with_another_filter, accept=accept)
    assert list(query.records) == [0, 1]
    assert [(each["name"], each["reason"]) for each in query.records[1]["accepted"]] == [
        ("aggregation-0 filter", "small orders were noise")
    ]
    query.run(code.with_another_filter, accept=accept)
    assert list(query.records) == [0, 1]
    (entry,) = log(query.checkpoint).entries
    assert (entry.verb, entry.batch, entry.outcome) == ("found", 1, "done")
    assert entry.details.pop("step") == "and accepted"
    (text,) = entry.details.values()
    assert (list(entry.details), "small orders were noise" in text) == ([changed], True)
    # What was accepted holds for that change, and for no later one of the same name.
    for other in (code.deployed, code.without_filter):
        with pytest.raises(StartupError) as caught:
            query.run(other, accept=accept)
        assert caught.value.code == "SM-MEANING-001"


@pytest.mark.long
def test_a_start_that_commits_nothing_leaves_what_the_state_means(query):
    def fails(rows, number):
        raise RuntimeError(f"batch {number} fails")

    query.run(code.deployed)
    accept = query.accepting(code.with_another_filter, "tried")
    for _ in range(2):
        with pytest.raises(Exception, match="batch 1 fails"):
            query.run(code.with_another_filter, accept=accept, sink=fails)
    assert list(query.records) == [0, 1]
    assert [each.outcome for each in log(query.checkpoint).entries] == ["no batch yet"]
    query.run(code.deployed)
    assert list(query.records) == [0]
    with pytest.raises(StartupError):
        query.run(code.with_another_filter)


@pytest.mark.long
def test_after_a_first_start_that_commits_nothing_other_code_may_start(query):
    def fails(rows, number):
        raise RuntimeError(f"batch {number} fails")

    with pytest.raises(Exception, match="batch 0 fails"):
        query.run(code.deployed, sink=fails)
    query.run(code.with_max)
    assert list(query.records) == [0]
    (operator,) = query.records[0]["meaning"]["operators"].values()
    assert [each["text"] for each in operator["functions"]] == ["max(v)", "count(1)"]
    with pytest.raises(StartupError) as caught:
        query.run(code.deployed)
    assert [each["name"] for each in caught.value.data["changes"]] == ["aggregation-0 low"]


@pytest.mark.long
def test_state_without_a_record_is_a_question_until_it_is_answered(query, session):
    query.run(code.deployed, guard=False)
    with pytest.raises(StartupError) as caught:
        query.run(code.deployed)
    assert caught.value.code == "SM-MEANING-002"
    with pytest.raises(CodeError) as wrong:
        lock(named(code.with_a_key_more), checkpoint=query.checkpoint, mode="update", spark=session)
    assert wrong.value.code == "SM-LOCK-004"
    with pytest.raises(CodeError) as both:
        lock(named(code.deployed), checkpoint=query.checkpoint, check=True, spark=session)
    assert both.value.code == "SM-LOCK-001", "there is no lock file to compare with"
    lock(named(code.deployed), checkpoint=query.checkpoint, mode="update", spark=session)
    query.run(code.deployed)
    with pytest.raises(StartupError) as other:
        query.run(code.with_max)
    assert other.value.code == "SM-MEANING-001"


@pytest.mark.long
def test_a_first_guarded_start_may_say_that_its_code_wrote_the_state(query):
    query.run(code.deployed, guard=False)
    query.run(code.deployed, accept={"unrecorded": "the guard is new, the code is not"})
    (record,) = query.records.values()
    assert [each["name"] for each in record["accepted"]] == ["unrecorded"]
    query.run(code.deployed)
    with pytest.raises(StartupError):
        query.run(code.with_max, accept={"unrecorded": "the guard is new, the code is not"})


@pytest.mark.long
def test_a_record_tells_plan_and_rewrite_what_the_state_means(query, session, tmp_path):
    query.run(code.deployed)

    def planned(function):
        target = NewCode(named(function), mode="update")
        found = plan(query.checkpoint, target=target, migrations=None, spark=session)
        return [(each.name, each.verdict) for each in found.items if each.asks]

    assert planned(code.deployed) == []
    assert planned(code.with_another_filter) == [("aggregation-0 filter", "unnoticed")]
    new = tmp_path / "new"
    target = NewCode(named(code.with_one_column_more), mode="update")
    made = rewrite(query.checkpoint, new, target=target, migrations=None, spark=session)
    assert [each.name for each in made.plan.questions] == ["aggregation-0.max"]


@pytest.mark.long
def test_a_rewritten_checkpoint_records_the_new_code(query, session, tmp_path):
    query.run(code.deployed)
    new = tmp_path / "new"
    given = {
        "target": NewCode(named(code.without_the_count), mode="update"),
        "migrations": None,
        "spark": session,
    }
    (asked,) = rewrite(query.checkpoint, new, **given).plan.questions
    answers = RewriteAnswers(accept=frozenset({asked.acceptance}))
    rewrite(query.checkpoint, new, answers=answers, apply=True, **given)
    query.checkpoint = new
    with pytest.raises(StartupError) as caught:
        query.run(code.with_max_without_the_count)
    assert [each["name"] for each in caught.value.data["changes"]] == ["aggregation-0 low"]
    query.run(code.without_the_count)


@pytest.mark.long
def test_a_fork_of_an_earlier_batch_has_the_record_of_that_batch(query, tmp_path):
    query.run(code.deployed)
    query.run(code.deployed)
    accept = query.accepting(code.with_another_filter, "small orders were noise")
    query.run(code.with_another_filter, accept=accept)
    assert list(query.records) == [0, 2]
    copy = tmp_path / "fork"
    fork(query.checkpoint, copy, at_batch=1)
    query.checkpoint = copy
    assert list(query.records) == [0]
    query.run(code.deployed)


def test_a_record_that_was_altered_is_named(query):
    query.run(code.deployed)
    path = query.checkpoint / "statemigrate" / "meaning" / "0"
    path.write_text(path.read_text().replace("GreaterThan", "LessThan"))
    with pytest.raises(CorruptFileError) as caught:
        query.run(code.deployed)
    assert caught.value.code == "SM-CHECKPOINT-024"


@pytest.mark.long
def test_complete_results_lack_what_a_watermark_has_removed_and_a_start_says_so(query):
    query.feed.add(ROWS, rows_of(("late", 1, 1000)), rows_of(("last", 1, 2000)))

    def start(mode, *, guard):
        groups = []

        def collect(frame, _):
            groups[:] = [row["k"] for row in frame.collect()]

        writer = query.writer(code.minutes, mode).foreachBatch(collect)
        writer = guarded(writer) if guard else writer
        started = writer.trigger(availableNow=True).start()
        started.awaitTermination(180)
        assert not started.isActive
        return {*groups}

    start("update", guard=True)
    query.feed.add(rows_of(("new", 1, 2001)))
    with pytest.raises(StartupError) as caught:
        start("complete", guard=True)
    (change,) = caught.value.data["changes"]
    assert change["rule"] == "output-mode"
    # Any spelling of the mode is the mode.
    start("Update", guard=True)
    query.feed.add(rows_of(("newest", 1, 2002)))
    # A query that was complete from its beginning would have k1 and late, too.
    assert start("complete", guard=False) == {"last", "new", "newest"}


def test_the_checkpoint_is_the_writers_own(query, tmp_path):
    writer = query.writer(code.deployed)
    with pytest.raises(StartupError) as caught:
        guarded(writer, tmp_path / "other")
    assert caught.value.code == "SM-MEANING-004"
    plain = code.deployed(query.feed.stream(query.session)).writeStream.outputMode("update")
    with pytest.raises(StartupError) as caught:
        guarded(plain)
    assert caught.value.code == "SM-MEANING-004"
    assert guarded(plain, query.checkpoint) is plain
    assert not query.checkpoint.exists(), "nothing has started"


def test_a_session_without_plans_is_refused():
    with pytest.raises(UnsupportedError) as caught:
        guarded(SimpleNamespace(outputMode=None), "checkpoint")
    assert caught.value.code == "SM-MEANING-003"
