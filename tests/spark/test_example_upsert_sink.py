"""The upserting sink: killed between its write and Spark's commit, replayed, and late."""

import importlib.util
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from killing.sitecustomize import processes

pytestmark = [pytest.mark.spark, pytest.mark.kill]

EXAMPLE = Path(__file__).parents[2] / "examples" / "upsert_sink"
KILLING = Path(__file__).parent / "killing"
Table = list[tuple[int, int, int]]


@pytest.fixture
def example(monkeypatch):
    """Loads a module of the example, which finds the one beside it as if it ran as a program."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield load
    sys.modules.pop("sink", None)


def load(name: str):
    # Under a name that is not importable, so that Spark's workers are sent the processor's code.
    spec = importlib.util.spec_from_file_location(f"upsert_{name}", EXAMPLE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bids() -> list[list[tuple[int, int]]]:
    """Three files of bids; each leaves out some of the auctions."""
    chance = random.Random(3)
    return [
        [(auction, chance.randrange(1, 10_000)) for auction in range(first, 60) for _ in range(2)]
        for first in (0, 20, 40)
    ]


def expected(files: list[list[tuple[int, int]]]) -> Table:
    """Each auction's total, and the last batch that had a bid on it: file n is batch n."""
    table: dict[int, tuple[int, int]] = {}
    for batch, file in enumerate(files):
        for auction, cents in file:
            table[auction] = (table.get(auction, (0, 0))[0] + cents, batch)
    return [(auction, *rest) for auction, rest in sorted(table.items())]


def feed(folder: Path, files: list[list[tuple[int, int]]]) -> None:
    (folder / "bids").mkdir()
    for number, file in enumerate(files):
        path = folder / "bids" / f"{number}.json"
        rows = [{"auction": auction, "cents": cents} for auction, cents in file]
        path.write_text("\n".join(map(json.dumps, rows)))
        # Spark takes the oldest file first.
        os.utime(path, (1_700_000_000 + number,) * 2)


def run_until_killed(folder: Path, batches: int) -> None:
    """Run the example as a user would; SIGKILL after its sink has written so many batches."""
    marker = folder / f"killed-{batches}"
    point = {
        "module": "statemigrate.embedded.batches",
        "function": "Batches._after", "when": "before",
        "call": batches, "argument": "", "marker": str(marker),
    }  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(KILLING), "KILL_AT": json.dumps(point)}
    environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLE / "pipeline.py"), str(folder)], env=environment,
        start_new_session=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=300)
        assert marker.is_file(), output[-3000:]
        assert process.returncode == -signal.SIGKILL, output[-3000:]
    finally:
        for pid in processes(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.communicate()


def table(folder: Path) -> Table:
    with closing(sqlite3.connect(folder / "totals.db")) as database:
        rows = database.execute("SELECT auction, cents, batch FROM totals ORDER BY auction")
        return rows.fetchall()


def committed(folder: Path) -> set[str]:
    return {path.name for path in (folder / "checkpoint" / "commits").glob("[0-9]*")}


@pytest.mark.long
def test_batches_that_were_written_but_not_committed_are_written_once(spark, tmp_path, example):
    files = bids()
    feed(tmp_path, files)
    run_until_killed(tmp_path, batches=2)
    assert committed(tmp_path) == {"0"}
    assert table(tmp_path) == expected(files[:2]), "batch 1 is in the table already"

    run_until_killed(tmp_path, batches=1)
    assert committed(tmp_path) == {"0"}
    assert table(tmp_path) == expected(files[:2]), "and changes nothing when it comes again"

    query = example("pipeline").start(str(tmp_path))
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert [batch.batch for batch in query.progress] == [1, 2]
    assert committed(tmp_path) == {"0", "1", "2"}
    assert table(tmp_path) == expected(files)


def test_a_replayed_batch_changes_nothing_and_an_older_one_neither(spark, tmp_path, example):
    write = example("sink").upsert_into(str(tmp_path / "totals.db"))
    schema = "auction BIGINT, cents BIGINT"
    newer = spark.createDataFrame([(1, 10), (2, 20)], schema)
    write(newer, 7)
    once = table(tmp_path)
    assert once == [(1, 10, 7), (2, 20, 7)]
    write(newer, 7)
    write(newer, 7)
    assert table(tmp_path) == once
    write(spark.createDataFrame([(2, 5), (3, 30)], schema), 6)
    assert table(tmp_path) == [(1, 10, 7), (2, 20, 7), (3, 30, 6)]
    write(spark.createDataFrame([(2, 25)], schema), 8)
    assert table(tmp_path) == [(1, 10, 7), (2, 25, 8), (3, 30, 6)]


def test_a_write_that_fails_half_way_leaves_nothing(spark, tmp_path, example):
    write = example("sink").upsert_into(str(tmp_path / "totals.db"))
    schema = "auction BIGINT, cents BIGINT"
    write(spark.createDataFrame([(1, 10)], schema), 1)
    with pytest.raises(sqlite3.IntegrityError, match="NOT NULL"):
        write(spark.createDataFrame([(1, 11), (2, None)], schema).coalesce(1), 2)
    assert table(tmp_path) == [(1, 10, 1)]
