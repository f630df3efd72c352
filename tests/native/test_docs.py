"""The page that takes a plain Spark query through a change does what it says, step by step."""

import re
import shlex
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "spark-state.md"
BLOCK = re.compile(r"^```(\w+)(?: (\w+)=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = {
    "python": [sys.executable],
    "statemigrate": [sys.executable, "-m", "statemigrate.cli"],
}


def run(command, folder):
    program, *arguments = shlex.split(command)
    done = subprocess.run(
        [*PROGRAMS[program], *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}\n{done.stderr[-4000:]}"
    return done.stdout


def fill_in(script, functions):
    """What the page tells the reader to write: everything from `upgrade` on."""
    text = script.read_text()
    script.write_text(text[: text.index("def upgrade")] + functions)


def follow(folder):
    """Do what the page says, block by block; what each console block printed."""
    printed = []
    for language, what, name, text in BLOCK.findall(PAGE.read_text()):
        if what == "file":
            (folder / name).write_text(text)
        elif what == "script":
            (newest,) = (folder / "migrations/versions").glob("*money*.py")
            fill_in(newest, text)
        elif language == "console":
            commands = [line.removeprefix("$ ") for line in text.splitlines()]
            printed.append("".join(run(command, folder) for command in commands))
    return printed


def total(auction, *days):
    return sum((Decimal(f"{auction + day}.25") for day in days), Decimal(0))


def days_of(auction):
    return [day for day, auctions in ((1, 100), (2, 10), (3, 5), (4, 20)) if auction < auctions]


def test_the_page_takes_a_plain_query_through_the_whole_change(spark, pipeline, tmp_path):
    _, _, written, adopted, touched, backfilled, _, back = follow(tmp_path)
    assert "money as decimals" in written
    assert "adopt" in adopted.lower()
    assert "90 keys are left" in touched
    assert "0 keys are left" in backfilled
    pipeline.checkpoint_directory = tmp_path / "checkpoint"
    older = pipeline.state("totals")
    (newer_name,) = pipeline.variables() - {"totals"}
    newer = pipeline.state(newer_name)
    assert older == {
        n: {"name": f"lot {n}", "total": int(total(n, *days_of(n)) * 100)} for n in range(20)
    }
    assert newer == {
        n: {"item": {"name": f"lot {n}"}, "total": total(n, *days_of(n))} for n in range(20, 100)
    }
    assert "80 keys are left" in back
    outputs = spark.read.json(str(tmp_path / "totals")).collect()
    seen = {row.auction: row.total for row in outputs if row.auction >= 20}
    assert seen == {n: str(int(total(n, 1) * 100)) for n in range(20, 100)}
