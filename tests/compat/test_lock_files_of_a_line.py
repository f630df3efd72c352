"""A lock file that one line of Spark has written says the same to another."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from statemigrate.meaning import compare_code, read_lock

pytestmark = [pytest.mark.spark, pytest.mark.compat]

TOP = Path(__file__).parents[2]
LINES = ("4.1", "4.2", "4.3")


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """The folders of lock files by line, for those lines whose environment is there."""
    tables = tmp_path_factory.mktemp("tables")
    found, running = {}, []
    for line in LINES:
        python = TOP / f".venv-{line}" / "bin" / "python"
        assert python.exists(), f"no {python}\n  next: make compat"
        found[line] = tmp_path_factory.mktemp("locks")
        command = [str(python), str(TOP / "tests/compat/locked_queries.py"), str(found[line])]
        environment = {**os.environ, "STATEMIGRATE_TABLES": str(tables)}
        running.append(subprocess.Popen(command, env=environment, stdout=sys.stderr))
    assert [each.wait() for each in running] == [0, 0, 0]
    return found


@pytest.mark.parametrize("other", LINES[:-1])
def test_lock_files_of_two_lines_differ_in_nothing(locked, other):
    names = sorted(each.name for each in locked[LINES[-1]].iterdir())
    assert len(names) > 150
    differing = {}
    for name in names:
        both = [read_lock(locked[line] / name) for line in (other, LINES[-1])]
        for old, new in (both, both[::-1]):
            changes = [each.to_json() for each in compare_code(old, new)]
            if changes:
                differing[name] = changes
    assert differing == {}
