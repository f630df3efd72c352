"""What `plan` says of changed code; each kind of change is in the catalogue of changes."""

import json
from functools import partial
from pathlib import Path

import planned_code as code
import pytest
from fed_queries import Feed
from rewritten_queries import rows_of, session_with
from support.file_hashes import file_hashes

from statemigrate import NewCode, RewriteOptions, guarded, plan, rewrite
from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.cli.plan_command import print_items
from statemigrate.commands.lock import lock
from statemigrate.errors import CodeError, StartupError
from statemigrate.files import open_files
from statemigrate.meaning import VERDICTS, recorded_meaning, recorded_settings

pytestmark = [pytest.mark.spark, pytest.mark.long]
ROWS = rows_of(*((f"k{n % 7}", n - 3, n) for n in range(60)))


class Deployed:
    """A query's checkpoint, its input, and the lock file of its code."""

    def __init__(self, spark, folder, function, mode, sources=1):
        self.session, self.mode, self.checkpoint = spark, mode, folder / "checkpoint"
        self.feeds = [Feed(folder / f"input-{n}") for n in range(sources)]
        self.lock = str(folder / "state.lock")
        self.run(function)
        lock(named(function), file=self.lock, mode=mode, spark=spark)

    def run(self, function):
        for feed in self.feeds:
            feed.add(ROWS)
        result = function(*(feed.stream(self.session) for feed in self.feeds))
        writer = result.writeStream.format("noop").outputMode(self.mode)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(180)
        assert not query.isActive

    def plan(self, function, **known):
        known = known or {"lock": self.lock}
        target = NewCode(named(function), mode=self.mode, **known)
        before = file_hashes(self.checkpoint)
        found = plan(str(self.checkpoint), target=target, migrations=None, spark=self.session)
        assert file_hashes(self.checkpoint) == before, "a plan writes nothing"
        return found


def named(function):
    return f"{function.__module__}:{function.__qualname__}"


def asked(found):
    return [(each.name, each.verdict) for each in found.items if each.asks]


@pytest.fixture(scope="module")
def rocksdb(spark):
    return session_with(spark, "rocksdb")


@pytest.fixture(scope="module")
def totals(rocksdb, tmp_path_factory):
    return Deployed(rocksdb, tmp_path_factory.mktemp("totals"), code.deployed, "update")


def test_without_the_old_code_what_the_state_means_is_not_known(totals):
    found = totals.plan(code.deployed, old_code=None)
    assert asked(found) == [("aggregation-0 meaning", "unknown")]
    assert found.steps[0].command.endswith("--old-code MODULE:FUNCTION")
    known = totals.plan(code.with_another_filter, old_code=named(code.deployed))
    assert asked(known) == [("aggregation-0 filter", "unnoticed")]


def test_another_setting_of_the_session_is_to_be_set_back_and_no_rewrite_helps(rocksdb, tmp_path):
    days = Deployed(rocksdb, tmp_path, code.by_day, "update")
    assert asked(days.plan(code.by_day)) == []
    zone = "spark.sql.session.timeZone"
    days.session = session_with(rocksdb, "rocksdb", **{zone: "America/Los_Angeles"})
    found = days.plan(code.by_day)
    assert asked(found) == [(f"aggregation-0 {zone}", "unnoticed")]
    (step,) = found.steps
    assert step.text.startswith(f"Give {zone} the value that it had, in the code or in ")
    assert (found.stops, step.command) == (False, "")


RESTART = "Restart the query with the new code on the same checkpoint"


def test_a_setting_that_nobody_sets_here_is_a_warning_and_a_rewrite_has_the_recorded_one(
    rocksdb, tmp_path
):
    zone, there = "spark.sql.session.timeZone", "America/Los_Angeles"
    session = session_with(rocksdb, "rocksdb", **{zone: there})
    days = Deployed(session, tmp_path, code.by_day, "update")
    days.session = session_with(rocksdb, "rocksdb")
    days.session.conf.unset(zone)
    assert days.session.conf.get(zone) != there
    name = f"aggregation-0 {zone}"

    def warned(found):
        return [(each.name, each.verdict) for each in found if each.level == "warning"]

    found = days.plan(code.by_day)
    assert (asked(found), warned(found.items)) == ([], [(name, "unknown")])
    assert [each.text for each in found.steps] == [RESTART]
    again = partial(lock, named(code.by_day), file=days.lock, mode=days.mode)
    checked = again(check=True, spark=days.session)
    assert warned(checked.changes) == [(name, "unknown")]
    assert checked.unset == {zone: days.session.conf.get(zone)}
    assert again(check=True, spark=session).unset == {}
    assert asked(days.plan(code.by_day_in_berlin)) == [(name, "unnoticed")]
    made = tmp_path / "new"
    target = NewCode(named(code.by_day), mode=days.mode, lock=days.lock)
    options = RewriteOptions(partitions=3)
    given = {"target": target, "options": options, "migrations": None, "spark": days.session}
    batch = rewrite(days.checkpoint, made, apply=True, **given).report.batch
    record = recorded_meaning(open_files(made), batch).meaning
    assert (zone in record.unset, recorded_settings(record)) == (False, {zone: there})


def test_a_record_of_a_command_refuses_no_start_for_what_nothing_had_set(rocksdb, tmp_path, caplog):
    zone, there = "spark.sql.session.timeZone", "America/Los_Angeles"
    days = Deployed(
        session_with(rocksdb, "rocksdb", **{zone: there}), tmp_path, code.by_day, "update"
    )
    unset = session_with(rocksdb, "rocksdb")
    unset.conf.unset(zone)
    given = {"checkpoint": days.checkpoint, "mode": days.mode, "spark": unset}
    assert lock(named(code.by_day), **given).unset == {zone: unset.conf.get(zone)}

    def start(session):
        days.feeds[0].add(ROWS)
        writer = code.by_day(days.feeds[0].stream(session)).writeStream.format("noop")
        writer = writer.outputMode(days.mode).option("checkpointLocation", str(days.checkpoint))
        query = guarded(writer).trigger(availableNow=True).start()
        query.awaitTermination(180)
        assert not query.isActive

    start(days.session)
    assert f"aggregation-0 {zone}: it was {unset.conf.get(zone)}, and is {there}" in caplog.text
    files = open_files(days.checkpoint)
    record = recorded_meaning(files, CheckpointDirectory(files).last_commit()).meaning
    assert (record.unset, recorded_settings(record)) == (frozenset(), {zone: there})
    with pytest.raises(StartupError):
        start(session_with(rocksdb, "rocksdb", **{zone: "Asia/Tokyo"}))


def test_a_rewrite_doubts_what_it_does_not_ask_about(totals, tmp_path):
    """Another filter, beside a change that needs the rewrite, is shown; and so is not knowing."""

    def doubts(function, **known):
        target = NewCode(named(function), mode=totals.mode, **known)
        new = tmp_path / "new"
        given = {"target": target, "migrations": None, "spark": totals.session}
        return rewrite(totals.checkpoint, new, **given).unasked

    (doubt,) = doubts(code.with_another_filter, lock=totals.lock)
    assert doubt.startswith("aggregation-0 filter: ")
    assert doubts(code.deployed, lock=totals.lock) == ()
    (unknown,) = doubts(code.deployed)
    assert "--old-code" in unknown
    found = totals.plan(code.with_one_column_more, old_code=None)
    assert {("aggregation-0", "rewrite"), ("aggregation-0 meaning", "unknown")} <= {*asked(found)}


def test_a_function_may_take_the_session_too(totals):
    found = totals.plan(code.with_a_session)
    assert "aggregation-0 keys" not in {name for name, _ in asked(found)}


def test_code_that_is_known_by_a_checkpoint_alone_is_never_taken_for_the_same(totals):
    target = NewCode(like=str(totals.checkpoint), lock=totals.lock)
    found = plan(str(totals.checkpoint), target=target, migrations=None, spark=totals.session)
    assert ("aggregation-0 meaning", "unknown") in asked(found)
    assert not any(each.name.endswith("filter") for each in found.items)


def test_steps_of_a_rewrite_are_commands_with_what_was_given(totals):
    found = totals.plan(code.with_one_column_more)
    commands = [each.command for each in found.steps if each.command]
    new = f"{totals.checkpoint}-2"
    rewrite = f"statemigrate rewrite {totals.checkpoint} {new}"
    given = f"--code {named(code.with_one_column_more)} --output-mode update --lock {totals.lock}"
    assert commands == [
        f"{rewrite} {given}",
        f"{rewrite} {given} --apply",
        f"statemigrate rewrite {totals.checkpoint} {new} --verify",
    ]
    assert found.stops
    assert found.undo
    timed = [each.seconds for each in found.steps if each.seconds is not None]
    assert len(timed) == 2
    assert found.seconds_stopped == sum(timed)
    # The rows of every group, which the snapshots or changelogs of two partitions have.
    assert found.basis


def test_a_lock_is_the_same_for_the_same_code_and_says_what_has_changed(totals, tmp_path, capsys):
    text = Path(totals.lock).read_text()
    again = tmp_path / "again.lock"
    lock(named(code.deployed), file=again, mode="update", spark=totals.session)
    assert again.read_text() == text
    found = lock(named(code.with_another_filter), file=again, check=True, spark=totals.session)
    assert [(each.name, each.verdict) for each in found.changes] == [
        ("aggregation-0 filter", "unnoticed")
    ]
    assert again.read_text() == text, "a check writes nothing"
    print_items(found.changes)
    (line,) = capsys.readouterr().out.replace("\n ", " ").splitlines()
    assert VERDICTS["unnoticed"] in line


def test_a_lock_of_another_query_is_refused(totals, tmp_path):
    other = tmp_path / "other.lock"
    lock(named(code.deduplicated), file=other, spark=totals.session)
    with pytest.raises(CodeError) as caught:
        totals.plan(code.deployed, lock=str(other))
    assert caught.value.code == "SM-LOCK-004"
    with pytest.raises(CodeError) as caught:
        totals.plan(code.deployed, lock=totals.lock, old_code=named(code.deployed))
    assert caught.value.code == "SM-LOCK-003"


WINDOWS = {
    code.minutes: [],
    code.later_minutes: [],
    code.hours: [("aggregation-0 key window", "unnoticed")],
}


def test_windows_of_another_length_are_noticed_and_another_delay_goes_on(rocksdb, tmp_path_factory):
    deployed = Deployed(rocksdb, tmp_path_factory.mktemp("windows"), code.minutes, "append")
    for function, expected in WINDOWS.items():
        assert asked(deployed.plan(function)) == expected
    delay = [
        each for each in deployed.plan(code.later_minutes).items if each.name.endswith("delay")
    ]
    assert [each.verdict for each in delay] == ["goes on"]
    # Without the old code the state itself says which windows it has.
    unknown = asked(deployed.plan(code.hours, old_code=None))
    assert ("aggregation-0.window", "unnoticed") in unknown


def test_a_join_of_another_kind_condition_or_order_is_noticed(rocksdb, tmp_path_factory):
    folder = tmp_path_factory.mktemp("joins")
    deployed = Deployed(rocksdb, folder, code.joined, "append", sources=2)
    assert asked(deployed.plan(code.joined)) == []
    assert asked(deployed.plan(code.joined_outer)) == [("join-0 join type", "unnoticed")]
    other = asked(deployed.plan(code.joined_by_another_condition))
    assert other == [("join-0 join condition", "unnoticed")]
    swapped = asked(deployed.plan(code.joined_the_other_way_round))
    assert {("source 0 (right)", "unnoticed"), ("source 1 (left)", "unnoticed")} <= {*swapped}


def test_a_plan_for_machines_has_every_item_and_step(totals):
    found = totals.plan(code.with_max)
    document = json.loads(json.dumps(found.to_json()))
    assert document["asks"] is True
    assert document["batch"] == 0
    assert [each["verdict"] for each in document["items"]] == [each.verdict for each in found.items]
    assert len(document["steps"]) == len(found.steps)
