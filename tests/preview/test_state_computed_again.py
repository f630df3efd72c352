"""Damaged state of a query that its code computes again, from the last batch that is whole."""

import json
import shutil
from importlib import import_module
from pathlib import Path

import previewed_code as code
import pytest
from click.testing import CliRunner
from previewed_query import Query, damaged, events, named
from support.file_hashes import file_hashes

from statemigrate import CheckpointError, NewCode, StatemigrateError, doctor, open_state
from statemigrate.checkpoint.logs.entries import FILE_IDS, HDFS_PROVIDER, PROVIDER
from statemigrate.cli.main import main
from statemigrate.commands.current import log
from statemigrate.formats.arrow_values import plain_rows

fork = import_module("statemigrate.rewrite.fork")
pytestmark = [pytest.mark.spark, pytest.mark.long]
HDFS = {PROVIDER: HDFS_PROVIDER}
IDS = {FILE_IDS: "2"}
QUERIES = {
    "windows": (code.minutes, "append", 1, {}),
    "windows-hdfs": (code.minutes, "append", 1, HDFS),
    "windows-ids": (code.minutes, "append", 1, IDS),
    "processor": (code.processed, "update", 1, {}),
    "join": (code.joined, "append", 2, {}),
}


@pytest.fixture(scope="module", params=list(QUERIES))
def query(spark, tmp_path_factory, request):
    function, mode, count, conf = QUERIES[request.param]
    session = spark.newSession()
    for name, value in conf.items():
        session.conf.set(name, value)
    return Query(session, tmp_path_factory.mktemp(request.param), function, mode, count)


def repaired(query, checkpoint, function=None, **options):
    target = NewCode(named(function or query.function), mode=query.mode)
    return doctor(
        checkpoint, repair=True, target=target, wait=0, spark=query.spark,
        **options,
    )  # fmt: skip


def rows(checkpoint):
    state = open_state(checkpoint, migrations=None)
    return state.batch, {
        name: sorted(map(repr, plain_rows(state[name].to_arrow()))) for name in state.stores
    }


def run(query, checkpoint):
    """Run what the query has not read yet, on another checkpoint."""
    other = Query(query.spark, query.folder, query.function, query.mode, query.count, batches=0)
    other.checkpoint = Path(checkpoint)
    other.run()


def test_the_damage_and_the_way_out_of_it_are_named_and_nothing_is_written(query, tmp_path):
    checkpoint = damaged(query.checkpoint, tmp_path / "checkpoint", 2)
    before = file_hashes(checkpoint)
    found = doctor(checkpoint, repair=True, spark=query.spark)
    newest = found.batch
    subjects = [each.subject for each in found.findings]
    assert subjects == [f"state of batch {newest}", f"state of batch {newest - 1}"]
    assert all(f"batch {newest - 2} is whole" in each.remedy for each in found.findings)
    assert "--code MODULE:FUNCTION" in found.next_action
    assert not found.is_whole
    options = ["--code", named(query.function), "--output-mode", query.mode]
    ran = CliRunner().invoke(main, ["doctor", str(checkpoint), "--repair", *options])
    assert ran.exit_code == 1
    assert f"state of batch {newest}" in ran.stdout
    assert f"--code {named(query.function)} --apply" in " ".join(ran.stdout.split())
    planned = repaired(query, checkpoint)
    assert "--apply" in planned.next_action
    assert not planned.is_whole
    assert file_hashes(checkpoint) == before


def test_the_state_is_computed_again_and_the_query_goes_on_like_one_that_was_never_damaged(
    query, tmp_path
):
    whole = tmp_path / "whole"
    shutil.copytree(query.checkpoint, whole)
    checkpoint = damaged(query.checkpoint, tmp_path / "checkpoint", 2)
    before = file_hashes(checkpoint)
    done = repaired(query, checkpoint, apply=True)
    new = f"{checkpoint}-repaired"
    assert done.is_whole
    assert file_hashes(checkpoint) == before
    assert rows(new) == rows(whole)
    identity = [json.loads((Path(each) / "metadata").read_text()) for each in (new, whole)]
    assert identity[0] == identity[1]
    (entry,) = log(new).entries
    assert (entry.verb, entry.details["step"]) == ("fork", "repair")
    for place in query.inputs:
        (place / "late.json").write_text("\n".join(events(5)))
    try:
        for each in (new, whole):
            run(query, each)
    finally:
        for place in query.inputs:
            (place / "late.json").unlink()
    assert rows(new) == rows(whole)
    assert rows(new)[0] > done.batch
    assert not doctor(new, repair=True, spark=query.spark).findings


def test_a_checkpoint_whose_files_are_gone_in_the_newest_batch_alone(query, tmp_path):
    checkpoint = damaged(query.checkpoint, tmp_path / "checkpoint", 1, partitions=(0, 1))
    done = repaired(query, checkpoint, new=tmp_path / "new", apply=True)
    assert [each.subject for each in done.findings] == [f"state of batch {done.batch}"]
    assert f"batches {done.batch} ran again" in done.did[0]
    assert rows(tmp_path / "new") == rows(query.checkpoint)


def test_a_place_that_changes_what_is_copied_gets_no_checkpoint(spark, tmp_path, monkeypatch):
    query = Query(spark, tmp_path / "query", code.minutes, "append", 1)
    checkpoint = damaged(query.checkpoint, tmp_path / "damaged", 1)
    copy, new = fork._copied, tmp_path / "new"

    def losing(*args):
        total = copy(*args)
        for file in (new / "state").glob("0/1/**/*"):
            if file.is_file():
                file.write_bytes(b"")
        return total

    with monkeypatch.context() as patched:
        patched.setattr(fork, "_copied", losing)
        with pytest.raises(CheckpointError) as refused:
            repaired(query, checkpoint, new=new, apply=True)
    assert (refused.value.code, refused.value.data["path"]) == ("SM-REPAIR-008", str(new))
    with pytest.raises(CheckpointError):
        open_state(new, migrations=None)
    shutil.rmtree(new)
    repaired(query, checkpoint, new=new, apply=True)
    assert rows(new) == rows(query.checkpoint)


def test_code_that_does_not_compute_what_the_query_has_is_refused(spark, tmp_path):
    query = Query(spark, tmp_path, code.minutes, "append")
    checkpoint = damaged(query.checkpoint, tmp_path / "damaged", 3)
    for function in (code.minutes_of_another_field, code.minutes_with_another_delay):
        with pytest.raises(StatemigrateError) as caught:
            repaired(query, checkpoint, function, apply=True)
        assert caught.value.code == "SM-REPAIR-006"
        assert not Path(f"{checkpoint}-repaired").exists()


def test_code_that_computes_something_else_each_time_is_refused(spark, tmp_path):
    query = Query(spark, tmp_path, code.drawn, "update")
    checkpoint = damaged(query.checkpoint, tmp_path / "damaged", 1, partitions=(0, 1))
    with pytest.raises(StatemigrateError) as caught:
        repaired(query, checkpoint, apply=True)
    assert caught.value.code == "SM-REPAIR-006"
    assert "drawn" in str(caught.value)


def test_input_that_is_gone_and_state_that_is_nowhere_whole_are_said_before_anything_runs(
    spark, tmp_path
):
    query = Query(spark, tmp_path, code.minutes, "append")
    checkpoint = damaged(query.checkpoint, tmp_path / "damaged", 3)
    # A batch without rows that comes last has read nothing.
    (query.inputs[0] / "4.json").unlink()
    with pytest.raises(StatemigrateError) as caught:
        repaired(query, checkpoint)
    assert caught.value.code.startswith("SM-PREVIEW-")
    nowhere = damaged(query.checkpoint, tmp_path / "nowhere", 100)
    found = repaired(query, nowhere, apply=True)
    assert not found.is_whole
    assert {each.remedy for each in found.findings} == {None}
    assert "restore the checkpoint from a copy" in found.next_action
