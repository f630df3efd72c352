"""Looks at a running query that keeps two batches, with maintenance every 300 milliseconds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from overtaken_looks import KEYS

pytestmark = [pytest.mark.spark, pytest.mark.long]

PROGRAM = Path(__file__).parent / "overtaken_looks.py"


def test_a_look_that_was_overtaken_is_taken_at_a_newer_batch(scripts, tmp_path):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path), str(scripts.write())],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    looks = json.loads(done.stdout.splitlines()[-1])
    assert set(looks) == {"status", "export", "backfill"}
    for verb, look in looks.items():
        assert look["found"] == KEYS, (verb, look)
        # The first read was of a version that is gone; what counted came of a later one.
        assert look["batches"][-1] > look["batches"][0], (verb, look)
