"""What a kept demonstration leaves to look at, and what to type in its folder.

The folder is a project like a user's own: scripts, a checkpoint that the project's file names, and
the code of its deployments.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from statemigrate.demo import jobs
from statemigrate.demo.stage.options import Engine
from statemigrate.demo.stage.places import DemoFolder, example_migrations

_LIVE = ("before.py", "after.py")
_JOBS: dict[Engine, tuple[str, ...]] = {
    "embedded": (*_LIVE, "embedded.py"),
    "native": (*_LIVE, "native.py"),
    "paged": (*_LIVE, "paged.py"),
    "rewrite": ("rewriting.py",),
}
_CHECKPOINT = '[tool.statemigrate]\ncheckpoint = "checkpoint"\n'
_CHECKPOINTS = """[tool.statemigrate]
checkpoint = "new"

[tool.statemigrate.checkpoints]
old = "checkpoint"
new = "checkpoint-2"
"""


def keep(folder: DemoFolder) -> None:
    """Put scripts, code and a project's file beside what the demonstration wrote."""
    is_rewrite = folder.options.engine == "rewrite"
    if not is_rewrite:
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(example_migrations(), folder.migrations, ignore=unwanted)
    folder.project.write_text(_CHECKPOINTS if is_rewrite else _CHECKPOINT)
    folder.jobs.mkdir()
    for name in _JOBS[folder.options.engine]:
        shutil.copy(Path(jobs.__file__).with_name(name), folder.jobs)
    for passing in (folder.working, folder.temporary, folder.generated):
        shutil.rmtree(passing, ignore_errors=True)
    if not any(folder.new_output.iterdir()):
        folder.new_output.rmdir()


def next_commands(folder: DemoFolder) -> tuple[str, ...]:
    """What is worth typing in the folder, each a whole command."""
    key = _some_auction(folder)
    if folder.options.engine == "rewrite":
        return (
            "statemigrate history",
            f"statemigrate get aggregation-0 {key}",
            "statemigrate verify old new",
        )
    return (
        "statemigrate status",
        f"statemigrate get auctions {key}",
        "statemigrate history auctions",
    )


def _some_auction(folder: DemoFolder) -> str:
    entities = pq.read_table(folder.expected, columns=["entity"])["entity"]
    auctions = pc.filter(entities, pc.starts_with(entities, "auction"))
    return str(pc.min(auctions).as_py())
