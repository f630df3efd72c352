"""The command is killed at random moments and run again: it makes what it makes otherwise."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
import rewritten_code as code
from rewritten_queries import late_batch, run, session_with

from statemigrate.commands.rewriting.verify import verify

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]

KILLS = int(os.environ.get("STATEMIGRATE_KILLS", "3"))
SEED = int(os.environ.get("STATEMIGRATE_SEED", "23"))


def begun(old, new):
    """The command, begun in a group of processes of its own."""
    command = [sys.executable, "-m", "statemigrate", "rewrite", str(old), str(new)]
    return subprocess.Popen(
        [*command, "--partitions", "3", "--apply"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def ended(process):
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said


def rows_in(spark, checkpoint):
    """Every row of state, with its operator and its partition."""
    found = []
    for operator in (0, 1):
        reader = spark.read.format("statestore").option("operatorId", operator)
        rows = reader.load(str(checkpoint)).collect()
        found += [(operator, row.partition_id, str(row.key), str(row.value)) for row in rows]
    return sorted(found)


def test_whenever_it_is_killed_it_goes_on_to_the_same(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    old, whole = tmp_path / "old", tmp_path / "whole"
    feed.add(late_batch(1), late_batch(2), late_batch(3))
    run(session, feed, code.distinct_then_windows, old, "append")
    start = time.monotonic()
    ended(begun(old, whole))
    seconds = time.monotonic() - start
    expected = rows_in(spark, whole)
    assert expected
    moments = random.Random(SEED)
    killed = 0
    for number in range(KILLS):
        new = tmp_path / f"new-{number}"
        # What comes before the first file is written is of less interest.
        after = moments.uniform(0.4, 1.0) * seconds
        alone = moments.random() < 0.5
        with begun(old, new) as process:
            try:
                process.communicate(timeout=after)
            except subprocess.TimeoutExpired:
                # The driver alone, whose Java ends a moment later, or all at once.
                (os.kill if alone else os.killpg)(process.pid, signal.SIGKILL)
                process.communicate(timeout=60)
                killed += 1
        told = f"seed {SEED}, kill {number} after {after:.2f} s, alone: {alone}"
        if not (new / "metadata").exists():
            ended(begun(old, new))
        assert rows_in(spark, new) == expected, told
        assert verify(old, new, spark=spark).problems == (), told
    assert killed
    feed.add(late_batch(4), late_batch(5))
    shutil.copytree(old, tmp_path / "twin")
    outputs = run(session, feed, code.distinct_then_windows, tmp_path / "twin", "append")
    for number in range(KILLS):
        checkpoint = tmp_path / f"new-{number}"
        assert run(session, feed, code.distinct_then_windows, checkpoint, "append") == outputs
