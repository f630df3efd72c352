"""A migrating query ended by SIGKILL in the middle of a batch goes on as if it had not been."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from killed_deployment import PAGES
from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline
from support.waiting import eventually
from tally import (
    AMOUNTS,
    AMOUNTS_DDL,
    CENTS,
    CENTS_DDL,
    FAMILIES,
    AmountsTally,
    CentsTally,
    Expected,
    batch,
)

from statemigrate import backfill, migrated, with_backfill
from statemigrate.commands.current import log
from statemigrate.demo.jobs.native import partitions_written
from statemigrate.demo.stage import ProcessSession
from statemigrate.native.operators import chunk_files

pytestmark = [pytest.mark.spark, pytest.mark.kill]

PROGRAM = Path(__file__).parent / "killed_deployment.py"
SEED = {"PYTHONHASHSEED": "4711"}
FIRST = batch("first", range(120))
LATER = [batch("second", range(0, 130, 3)), batch("third", range(60, 100))]


def newest(checkpoint, folder):
    names = [path.name for path in (checkpoint / folder).glob("[0-9]*")]
    return max((int(name) for name in names if name.isdigit()), default=-1)


def kill_in_the_middle(session, pipeline, output):
    """Wait until a batch is half done, then kill; the batch."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        batch_id = newest(pipeline.checkpoint, "offsets")
        half = partitions_written(pipeline.checkpoint, 2, batch_id) > 0
        if batch_id >= 2 and newest(pipeline.checkpoint, "commits") < batch_id and half:
            session.kill()
            assert newest(pipeline.checkpoint, "commits") < batch_id
            return batch_id
        assert session.exit_code() is None, output.read_text()[-3000:]
        time.sleep(0.005)
    raise AssertionError(f"no batch was caught half done\n{output.read_text()[-3000:]}")


def deployed_and_killed(pipeline, root, *arguments):
    """Run the program until a batch is half done; the batch."""
    output = root / "log"
    session = ProcessSession(
        [sys.executable, str(PROGRAM), str(root), *arguments],
        directory=root,
        environment=dict(os.environ),
        log=output,
    )
    try:
        return kill_in_the_middle(session, pipeline, output)
    finally:
        session.kill()


@pytest.fixture
def pages(spark, scripts, tmp_path):
    """A query on pages that was stopped after its first batch, with a backfill planned."""
    pipeline = PagedPipeline(spark, tmp_path / "pipeline", pages=PAGES)
    pipeline.feed(FIRST)
    pipeline.deploy_natively(CentsTally())
    pipeline.feed(*LATER)
    plan = backfill(pipeline.checkpoint, migrations=scripts.write(), keys_per_chunk=4)
    assert (plan.pages, plan.chunks) == (PAGES, 3)
    return pipeline


@pytest.mark.long
def test_a_backfill_of_pages_beside_live_rows_is_killed_and_resumed(pages, scripts, tmp_path):
    folder = scripts.write()
    killed = deployed_and_killed(pages, tmp_path, str(folder), "pages", "stuck")
    pages.deploy_natively(migrated(AmountsTally(), migrations=folder))
    assert min(dict(pages.handed)) <= killed
    check_pages(pages)


VISITS, EPOCHS = "statemigrate.pages.visit", "statemigrate.checkpoint.epochs"
POINTS = {
    "before the record of the pages": (EPOCHS, "Epoch.leave", "before", 1),
    "after the record of the pages": (EPOCHS, "Epoch.leave", "after", 1),
    "while rows are packed": ("statemigrate.pages.packed_rows", "_packed", "before", 2),
    "in the migration of a page": (
        "statemigrate.pages.page_families",
        "PageStores._migrate_all",
        "after",
        5,
    ),
    "before a page is written": (VISITS, "PagedProcessor._write", "before", 5),
    "after a page was written": (VISITS, "PagedProcessor._write", "after", PAGES + 3),
    "before a task's end": (VISITS, "PagedProcessor.close", "before", 4),
}


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_whatever_is_killed_at_a_point_of_pages_goes_on(pages, scripts, tmp_path, point):
    folder = scripts.write()
    kill_at(POINTS[point], tmp_path, str(folder), "pages")
    # The rows of batch 1 are of every page: what starts after it does without the old format.
    dropped = [("start", 2)] if newest(pages.checkpoint, "commits") == 1 else []
    pages.deploy_natively(migrated(AmountsTally(), migrations=folder))
    check_pages(pages)
    assert told_of_amounts(pages) == [*dropped, ("start", 1)]


LEAVES = {
    "between two leaves": ("statemigrate.pages.value", "LargeValues.put", "after", 4),
    "between leaves and page": ("statemigrate.pages.page", "Page.write_outside", "after", 1),
}


@pytest.mark.long
@pytest.mark.parametrize("point", LEAVES)
def test_a_page_is_killed_while_its_leaves_are_written_and_goes_on(spark, scripts, tmp_path, point):
    pipeline, folder = PagedPipeline(spark, tmp_path / "pipeline", pages=1), scripts.write()
    pipeline.feed(first := batch("first", range(8_000)))
    pipeline.deploy_natively(CentsTally())
    pipeline.feed(*LATER)
    kill_at(LEAVES[point], tmp_path, str(folder), "pages", "1")
    pipeline.deploy_natively(migrated(AmountsTally(), migrations=folder))
    check_pages(pipeline, first)


RECORDED = {
    f"{when} the record of the deployment": (EPOCHS, "Epoch.leave", when, 1)
    for when in ("before", "after")
}


@pytest.mark.long
@pytest.mark.parametrize("point", RECORDED)
def test_a_start_that_is_killed_beside_its_record_is_logged_once(spark, scripts, tmp_path, point):
    pipeline, folder = NativePipeline(spark, tmp_path / "pipeline"), scripts.write()

    def stream():
        return with_backfill(pipeline.stream(), by="key", checkpoint=pipeline.checkpoint)

    pipeline.feed(FIRST)
    place = {"migrations": folder, "checkpoint": pipeline.checkpoint}
    pipeline.deploy_natively(migrated(CentsTally(), targets={"tally": CENTS}, **place), stream())
    pipeline.feed(*LATER)
    kill_at(RECORDED[point], tmp_path, str(folder))
    assert told_of_amounts(pipeline, "no batch yet") == [("start", 1)]
    assert told_of_amounts(pipeline) == []
    pipeline.deploy_natively(migrated(AmountsTally(), **place), stream())
    assert told_of_amounts(pipeline) == [("start", 1)]
    expected = Expected()
    expected.process(FIRST, CENTS)
    for rows in LATER:
        expected.process(rows, AMOUNTS)
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)


def told_of_amounts(pipeline, outcome="done"):
    """What the log has with the outcome of deployments in the new format."""
    return [
        (each.verb, each.batch)
        for each in log(pipeline.checkpoint).entries
        if (each.revision, each.outcome) == (AMOUNTS, outcome)
    ]


def kill_at(point, root, *arguments):
    """Run the program until it is killed, with its whole session, at the point."""
    module, function, when, call = point
    marker = root / "killed"
    order = {"module": module, "function": function, "when": when, "call": call}
    order |= {"argument": "", "marker": str(marker)}
    killing = str(Path(__file__).parents[1] / "spark" / "killing")
    paths = os.pathsep.join([killing, os.environ["PYTHONPATH"]])
    process = subprocess.run(
        [sys.executable, str(PROGRAM), str(root), *arguments],
        # Every run has another order of hashes than the one after it.
        env={**os.environ, **{"KILL_AT": json.dumps(order), "PYTHONPATH": paths}, **SEED},
        # The point ends its whole session.
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert marker.exists(), process.stderr[-3000:]
    assert process.returncode == -signal.SIGKILL


def check_pages(pipeline, first=FIRST):
    """Whether every key has what all batches make of it, in the new format, once."""
    expected = Expected()
    expected.process(first, CENTS)
    for rows in LATER:
        expected.process(rows, AMOUNTS)
    expected.drain(AMOUNTS)
    formats = {FAMILIES[CENTS]: CENTS_DDL, FAMILIES[AMOUNTS]: AMOUNTS_DDL}
    found = {FAMILIES[AMOUNTS]: {}}
    for page in pipeline.entries(formats).values():
        for family, entries in page.items():
            found.setdefault(family, {}).update(entries)
    assert found == expected.stored(AMOUNTS)


RATE = {"share": 0.25, "keys_per_second": 30}


@pytest.mark.long
@pytest.mark.parametrize("pace", [{"keys_per_chunk": 30}, RATE], ids=["fixed", "cut"])
def test_a_backfill_beside_live_rows_is_killed_and_resumed(spark, scripts, tmp_path, pace):
    pipeline = NativePipeline(spark, tmp_path / "pipeline")
    folder = scripts.write()
    expected = Expected()
    pipeline.feed(FIRST)
    stream = with_backfill(pipeline.stream(), by="key", checkpoint=pipeline.checkpoint)
    pipeline.deploy_natively(CentsTally(), stream)
    expected.process(FIRST, CENTS)
    pipeline.feed(*LATER)
    plan = backfill(pipeline.checkpoint, migrations=folder, **pace)
    assert (plan.keys, plan.chunks) == (120, 0 if pace is RATE else 4)
    killed = deployed_and_killed(pipeline, tmp_path, str(folder))
    files = chunk_files(pipeline.checkpoint)
    taken = files.log().taken
    assert taken
    stream = with_backfill(pipeline.stream(), by="key", checkpoint=pipeline.checkpoint)
    processor = migrated(AmountsTally(), migrations=folder, checkpoint=pipeline.checkpoint)
    query = pipeline.start(pipeline.result(processor, stream))
    try:
        query.processAllAvailable()
        eventually(
            lambda: not files.uncut() and all(map(files.log().is_committed, files.written()))
        )
    finally:
        query.stop()
    assert min(dict(pipeline.handed)) <= killed
    assert files.log().taken.items() >= taken.items(), "a batch has the chunk that it had"
    for rows in LATER:
        expected.process(rows, AMOUNTS)
    expected.drain(AMOUNTS)
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)
