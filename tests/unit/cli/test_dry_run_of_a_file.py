"""`dry-run` on values in a file, from the generated script to its answer in `drops`."""

import json
import sys
from pathlib import Path

import pytest

PIPELINE = """
from pyspark.sql.streaming import StatefulProcessor


class Counts(StatefulProcessor):
    def init(self, handle):
        self.counts = handle.getValueState("counts", "label STRING, count BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        yield from ()

    def close(self):
        pass
"""


@pytest.fixture
def generated(run, monkeypatch) -> Path:
    """A script that autogenerate wrote for n DATE to count BIGINT, and 400 values of before."""
    monkeypatch.setattr("sys.path", list(sys.path))
    Path("pipeline_of_lost_counts.py").write_text(PIPELINE)
    run("init")
    run("new", "counts", "-m", "as is", "--to", "label STRING, n DATE", "--baseline")
    run(
        "new",
        "counts",
        "-m",
        "count",
        "--functions",
        "--autogenerate",
        "pipeline_of_lost_counts:Counts",
    )
    values = [{"label": f"l{number}", "n": "2024-02-29"} for number in range(400)]
    Path("values.jsonl").write_text("\n".join(map(json.dumps, values)))
    (script,) = Path("migrations/versions").glob("*_count.py")
    return script


def dry_run(run, *, code: int) -> dict:
    return json.loads(
        run("dry-run", "counts", "--from-file", "values.jsonl", "--json", code=code).stdout
    )


def test_what_is_lost_fails_until_the_script_says_that_it_is_meant(run, generated):
    text = run("check", code=1).stdout
    assert "open question: `count` is new: is None right?" in text
    assert "open question: `n` goes nowhere: is it meant to be lost?" in text
    report = dry_run(run, code=1)
    (loss,) = report["families"][0]["losses"]
    assert (report["passed"], report["failed"], report["lost"]) == (400, 0, 1)
    assert (report["checkpoint"], report["batch"]) == ("values.jsonl", None)
    assert (loss["field"], loss["direction"], loss["meant"]) == ("n", "upgrade", False)
    assert loss["script"] == str(generated)
    said = run("dry-run", "counts", "--from-file", "values.jsonl", code=1).stdout
    assert "All 400 values migrate, but n would be lost." in said
    assert f"Next: correct `upgrade` in {generated} so that it keeps n" in said

    generated.write_text(
        generated.read_text().replace('drops = ("count",)', 'drops = ("count", "n")')
    )
    report = dry_run(run, code=0)
    assert (report["lost"], report["questions"]) == (0, 3)
    lines = run("dry-run", "counts", "--from-file", "values.jsonl").stdout.splitlines()
    assert lines[-2] == "Migrates, but 3 questions are open in the scripts."

    answered = [line for line in generated.read_text().splitlines() if "# QUESTION" not in line]
    generated.write_text("\n".join(answered) + "\n")
    assert dry_run(run, code=0)["questions"] == 0
    assert run("check").stdout == "2 scripts of 1 store are in order\n"
