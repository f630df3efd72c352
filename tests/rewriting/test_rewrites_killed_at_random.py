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
from support.new_checkpoints import is_published, is_shut

from statemigrate.commands.rewrite import verify

pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.rewrites]

LIVES = int(os.environ.get("STATEMIGRATE_LIVES", "3"))
MORE = 4 * LIVES
"""So many lives at most, where all runs were killed too early or too late to see anything."""
KILLS = 3
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
    """Let the command end; how many seconds it took from here."""
    start = time.monotonic()
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return time.monotonic() - start


def killed(process, after, *, alone):
    """End the command after so many seconds; return whether it was still there."""
    try:
        process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        # The driver alone, whose Java ends a moment later, or all at once.
        (os.kill if alone else os.killpg)(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    return process.returncode == -signal.SIGKILL


def rows_in(spark, checkpoint):
    """Every row of state, with its operator and its partition."""
    found = []
    for operator in (0, 1):
        reader = spark.read.format("statestore").option("operatorId", operator)
        rows = reader.load(str(checkpoint)).collect()
        found += [(operator, row.partition_id, str(row.key), str(row.value)) for row in rows]
    return sorted(found)


def files_in(folder):
    return {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def refuses(session, feed, checkpoint, copy):
    """Start the query on a copy of what is unfinished: Spark says so, and writes nothing."""
    shutil.copytree(checkpoint, copy)
    before = files_in(copy)
    with pytest.raises(Exception, match="unfinished_checkpoint_of_statemigrate"):
        run(session, feed, code.distinct_then_windows, copy, "append")
    assert files_in(copy) == before


def test_however_often_it_is_killed_it_goes_on_to_the_same(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    old, whole = tmp_path / "old", tmp_path / "whole"
    feed.add(late_batch(1), late_batch(2), late_batch(3))
    run(session, feed, code.distinct_then_windows, old, "append")
    seconds = ended(begun(old, whole))
    expected = rows_in(spark, whole)
    assert expected
    moments = random.Random(SEED)
    kills = refused = lives = 0
    while lives < LIVES or (not refused and lives < MORE):
        life, lives = lives, lives + 1
        new = tmp_path / f"new-{life}"
        told = f"seed {SEED}, life {life}:"
        for kill in range(KILLS):
            # What comes before the first file is written is of less interest.
            after = moments.uniform(0.4, 1.0) * seconds
            alone = moments.random() < 0.5
            start = time.monotonic()
            with begun(old, new) as process:
                if not killed(process, after, alone=alone):
                    assert process.returncode == 0, told
                    # The machine is faster than it was: the next moments are earlier.
                    seconds = time.monotonic() - start
                    break
            kills += 1
            told += f" kill after {after:.2f} s, alone: {alone}, whole: {is_published(new)};"
            if is_published(new):
                break
            assert is_shut(new), told
            if (new / "metadata").exists():
                refuses(session, feed, new, tmp_path / f"copy-{life}-{kill}")
                refused += 1
        if not is_published(new):
            seconds = ended(begun(old, new))
        assert rows_in(spark, new) == expected, told
        assert verify(old, new, spark=spark).problems == (), told
    assert kills
    assert refused
    feed.add(late_batch(4), late_batch(5))
    shutil.copytree(old, tmp_path / "twin")
    outputs = run(session, feed, code.distinct_then_windows, tmp_path / "twin", "append")
    state = rows_in(spark, tmp_path / "twin")
    for life in range(lives):
        checkpoint = tmp_path / f"new-{life}"
        assert run(session, feed, code.distinct_then_windows, checkpoint, "append") == outputs
        # In other partitions, for there are three.
        assert without_partitions(rows_in(spark, checkpoint)) == without_partitions(state)


def without_partitions(rows):
    return sorted((operator, key, value) for operator, _, key, value in rows)
