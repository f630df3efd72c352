"""The demonstration on Spark's own state: plain Spark, a crash, adoption, migration, retirement."""

import json

import pytest
from click.testing import CliRunner
from support.typed import typed

from statemigrate.cli import main
from statemigrate.demo.paths import DemoFolder
from statemigrate.demo.run import next_commands

pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.long]

EVENTS, KEYS = 6_000, 2_000


@pytest.mark.parametrize("engine", ["native", "paged"])
def test_every_key_is_right_on_sparks_own_state(tmp_path, engine):
    arguments = ["demo", "--json", "--engine", engine, "--directory", str(tmp_path / "demo")]
    arguments += ["--partitions", "2", "--events", str(EVENTS), "--keys", str(KEYS)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["equal"] is True
    assert figures["engine"] == engine
    right = {"missing": 0, "unexpected": 0, "differing": 0, "counted_twice": 0}
    assert figures["state"] == {"keys": KEYS, **right, "examples": [], "equal": True}
    assert figures["output"] == figures["state"]
    assert figures["rerun_batch"] == figures["killed"]["batch"]
    assert figures["killed"]["partitions_written"] >= 1
    migration = figures["migration"]
    assert migration["touched"] > 0
    assert migration["backfilled"] > 0
    assert migration["touched"] + migration["backfilled"] == migration["old_values"]
    assert (migration["left"], migration["retired"]) == (0, ["auctions"])
    times = figures["batch_milliseconds"]
    assert times["before"]["rows"] + times["after"]["rows"] == EVENTS
    commands = next_commands(DemoFolder(tmp_path / "demo"))
    status, one, _ = (typed(each, tmp_path / "demo") for each in commands)
    assert status.count("every value has the target's format") == 2
    assert set(json.loads(one)) == {"seller", "item", "price"}


def test_a_directory_that_sparks_readers_cannot_open_is_refused_at_once(tmp_path):
    arguments = ["demo", "--engine", "native", "--directory", str(tmp_path / "a b")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert "Spark's state readers cannot open" in result.stderr
    assert not (tmp_path / "a b").exists()
