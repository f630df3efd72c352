"""What `demo --keep` copies is there, and so is the code that its last lines name."""

import importlib
import re
from pathlib import Path

import pytest

from statemigrate.demo import jobs
from statemigrate.demo.demo_size import DemoOptions
from statemigrate.demo.paths import DemoFolder
from statemigrate.demo.run import _JOBS, keep, next_commands


@pytest.mark.parametrize("engine", _JOBS)
def test_every_file_of_a_demonstration_is_there(engine):
    missing = [name for name in _JOBS[engine] if not Path(jobs.__file__).with_name(name).exists()]
    assert missing == []


def test_the_commands_of_a_preview_name_functions_of_what_is_kept(tmp_path):
    folder = DemoFolder.create(tmp_path / "demo", DemoOptions(engine="preview"))
    keep(folder)
    named = {
        each for line in next_commands(folder) for each in re.findall(r"jobs\.(\w+):(\w+)", line)
    }
    assert {function for _, function in named} == {"in_production", "with_a_fault", "corrected"}
    for module, function in named:
        assert (folder.jobs / f"{module}.py").exists()
        assert callable(getattr(importlib.import_module(f"{jobs.__name__}.{module}"), function))
