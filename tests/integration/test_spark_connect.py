"""The live way over Spark Connect, from plain code to a migrated query and back."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.integration]

LIFE = Path(__file__).parent / "connect_life.py"


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    """What each step of the life found, by its name."""
    ran = subprocess.run(
        [sys.executable, str(LIFE), str(tmp_path_factory.mktemp("connect"))],
        env={name: value for name, value in os.environ.items() if name != "SPARK_HOME"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-5000:]
    lines = [line for line in ran.stdout.splitlines() if line.startswith("[")]
    return dict(map(json.loads, lines))


def test_a_query_is_adopted_migrated_and_retired(life):
    assert life["plain"]
    assert life["planned"] == 40
    assert life["migrated"], "by touch and by backfill, each key once"
    assert life["retired"], "the old family is gone"


def test_the_way_back_is_open(life):
    assert life["older code"] == "StartupError", "it would forget the migrated values"
    assert life["back by touch"]
    assert life["taken back"]


def test_what_only_looks_works_too(life):
    assert life["dry run"] == [40, 0]
    assert life["status"] == ["tally", "migrated", 40]
    assert life["listened"][0]
