"""The chunk files of a real query: few are left at any time, and a kill beside a removal is none's.

Spark lists the backfill source's directory in every batch, for as long as the query lives.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from control_pipeline import ControlPipeline, StrictAmounts
from support.waiting import eventually
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import backfill, backfill_status, migrated
from statemigrate.native.chunks import CHUNKS, ChunkFiles

pytestmark = pytest.mark.spark

PROGRAM = Path(__file__).parent / "killed_deployment.py"
KEYS, CHUNK, CHUNKS_PLANNED = 60, 4, 15
AT_MOST = 10


@pytest.fixture
def planned(spark, tmp_path, scripts):
    """A query that stopped after one batch, with a backfill of fifteen chunks; what it holds."""
    pipeline = ControlPipeline(spark, tmp_path / "pipeline")
    expected = Expected()
    rows = batch("first", range(KEYS))
    pipeline.feed(rows)
    pipeline.deploy_natively(CentsTally())
    expected.process(rows, CENTS)
    plan = backfill(pipeline.checkpoint, migrations=scripts.write(), keys_per_chunk=CHUNK)
    assert (plan.keys, plan.chunks) == (KEYS, CHUNKS_PLANNED)
    return pipeline, expected


def files_in(pipeline):
    """Everything in the backfill source's directory, checksums too."""
    return list((pipeline.checkpoint / CHUNKS).rglob("*.parquet*"))


@pytest.mark.long
def test_a_backfill_leaves_few_files_and_a_start_none(planned, scripts):
    pipeline, expected = planned
    folder = scripts.directory
    files = ChunkFiles(pipeline.checkpoint)
    pipeline.deploy_natively(migrated(StrictAmounts(), migrations=folder))
    expected.drain(AMOUNTS)
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)
    eventually(lambda: len(files.written()) <= AT_MOST)
    status = backfill_status(pipeline.checkpoint, migrations=folder)
    assert (status.keys_left, status.chunks, status.consumed, status.waiting) == (0, 15, 15, 0)
    assert status.is_finished
    taken = files.log().taken
    assert len(taken) == 15

    # The files of the last committed batch are gone when Spark goes on after it.
    for number in range(2):
        rows = batch(f"live {number}", range(10 * number, 10 * number + 15))
        pipeline.feed(rows)
        expected.process(rows, AMOUNTS)
        pipeline.deploy_natively(migrated(StrictAmounts(), migrations=folder))
        assert files_in(pipeline) == []
    assert files.log().taken == taken, "nothing is taken twice"
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)
    assert pipeline.handed_rows == expected.output
    status = backfill_status(pipeline.checkpoint, migrations=folder)
    assert (status.keys_left, status.chunks, status.consumed, status.waiting) == (0, 15, 15, 0)

    # A plan that comes after it is taken like the first one: all goes back.
    plan = backfill(
        pipeline.checkpoint, migrations=folder, keys_per_chunk=40, targets={"tally": CENTS}
    )
    assert (plan.keys, plan.chunks) == (KEYS, 2)
    back = migrated(CentsTally(), migrations=folder, targets={"tally": CENTS})
    pipeline.deploy_natively(back)
    expected.drain(CENTS)
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)


POINTS = {
    "before a removal": ("chunk_files", "ChunkFiles.remove_committed", "before", 2, ""),
    "in the middle of a removal": ("confined", "ConfinedPath.unlink", "after", 12, "'chunks'"),
    "after a removal": ("chunk_files", "ChunkFiles.remove_committed", "after", 2, ""),
}
MODULES = {
    "chunk_files": "statemigrate.native.chunks",
    "confined": "statemigrate.files.confined",
}


@pytest.mark.long
@pytest.mark.kill
@pytest.mark.parametrize("point", POINTS)
def test_a_query_killed_beside_a_removal_gives_each_key_once(planned, scripts, tmp_path, point):
    pipeline, expected = planned
    folder = scripts.directory
    kill_at(POINTS[point], tmp_path, str(folder))
    files = ChunkFiles(pipeline.checkpoint)
    log, there = files.log(), files.written()
    assert 10 <= len(log.taken) < 15
    uncommitted = {name for name in log.taken if not log.is_committed(name)}
    assert uncommitted <= there, "what is not committed is read again"
    removed = {"before a removal": 0, "in the middle of a removal": 1, "after a removal": 10}[point]
    assert len(log.taken.keys() - there) >= removed
    pipeline.deploy_natively(migrated(AmountsTally(), migrations=folder))
    assert files.log().taken.items() >= log.taken.items()
    assert len(files.log().taken) == 15
    expected.drain(AMOUNTS)
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)
    eventually(lambda: len(files.written()) <= AT_MOST)


def kill_at(point, root, folder):
    """Run the program until it is killed, with its whole session, at the point."""
    module, function, when, call, argument = point
    marker = root / "killed"
    order = {"module": MODULES[module], "function": function, "when": when, "call": call}
    order |= {"argument": argument, "marker": str(marker)}
    killing = str(Path(__file__).parents[1] / "spark" / "killing")
    paths = os.pathsep.join([killing, os.environ["PYTHONPATH"]])
    process = subprocess.run(
        [sys.executable, str(PROGRAM), str(root), folder],
        env={**os.environ, "KILL_AT": json.dumps(order), "PYTHONPATH": paths},
        # The point ends its whole session.
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert marker.exists(), process.stderr[-3000:]
    assert process.returncode == -signal.SIGKILL
