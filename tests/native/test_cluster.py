"""The demonstration on a cluster of two single-core workers, one executor killed on the way."""

import json
import threading
import time

import pytest
from click.testing import CliRunner
from standalone import Cluster

from statemigrate.cli import main

pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.long]

EVENTS, KEYS = 3_600, 1_200


def kill_while_migrating(cluster, folder, killed):
    """Once the second deployment has reported a batch, end one of its executors."""
    report = folder / "after.progress.jsonl"
    while not killed.is_set():
        if report.exists() and report.read_text().count("\n") >= 1 and cluster.executors():
            cluster.kill_one_executor()
            killed.set()
        time.sleep(0.02)


@pytest.mark.parametrize("engine", ["native", "paged"])
def test_every_key_is_right_though_an_executor_was_killed(tmp_path, engine):
    folder, killed = tmp_path / "demo", threading.Event()
    with Cluster(tmp_path / "cluster") as cluster:
        watching = threading.Thread(target=kill_while_migrating, args=(cluster, folder, killed))
        watching.start()
        arguments = ["demo", "--json", "--engine", engine, "--master", cluster.master]
        arguments += ["--directory", str(folder), "--partitions", "2"]
        arguments += ["--events", str(EVENTS), "--keys", str(KEYS)]
        try:
            result = CliRunner().invoke(main, arguments)
            was_killed = killed.is_set()
        finally:
            killed.set()
            watching.join()
    assert result.exit_code == 0, result.output
    assert was_killed
    figures = json.loads(result.stdout)
    assert figures["equal"] is True
    right = {"missing": 0, "unexpected": 0, "differing": 0, "counted_twice": 0}
    assert figures["state"] == {"keys": KEYS, **right, "examples": [], "equal": True}
    assert figures["output"] == figures["state"]
    assert figures["migration"]["retired"] == ["auctions"]
    assert figures["migration"]["left"] == 0
