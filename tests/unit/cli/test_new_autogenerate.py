"""`new --autogenerate`: what it prints, and its exit codes."""

import json
import sys
from pathlib import Path

import pytest

MODULE = """
from pyspark.sql.streaming import StatefulProcessor


class Totals(StatefulProcessor):
    def init(self, handle):
        self.total = handle.getValueState("totals", "name STRING, amount BIGINT")
        self.seen = handle.getListState("seen", "url STRING")

    def handleInputRows(self, key, rows, timerValues):
        yield from ()

    def close(self):
        pass
"""


@pytest.fixture
def reference(run, monkeypatch, request):
    monkeypatch.setattr("sys.path", list(sys.path))
    name = f"pipeline_{abs(hash(request.node.nodeid))}"
    Path(f"{name}.py").write_text(MODULE)
    run("init")
    return f"{name}:Totals"


def scripts():
    return sorted(Path("migrations/versions").glob("*.py"))


def baseline(run, store, ddl):
    run("new", store, "-m", "as is", "--to", ddl, "--baseline")
    return scripts()


def test_the_path_and_the_open_questions_are_printed(run, reference):
    before = baseline(run, "totals", "name STRING, price BIGINT")
    lines = run("new", "totals", "-m", "price", "--autogenerate", reference).stdout.splitlines()
    (path,) = set(scripts()) - set(before)
    assert lines == [
        f"Wrote {path}",
        "Next: answer 1 question, each a comment `# QUESTION:` in the script",
        "Next: statemigrate history --show totals",
    ]
    document = json.loads(run("history", "--show", "totals", "--json").stdout)
    assert document["reversible"] is True
    (change,) = document["changes"]
    assert (change["source"], change["path"]) == ("price", "amount")


def test_a_store_without_scripts_gets_a_baseline_and_is_told_so(run, reference):
    lines = run("new", "totals", "-m", "as is", "--autogenerate", reference).stdout.splitlines()
    (path,) = scripts()
    assert lines == [
        f"Wrote {path}",
        "Store totals had no script: this one records the format the code declares",
    ]
    assert json.loads(run("history", "--show", "totals", "--json").stdout)["old"] is None


def test_nothing_to_migrate_is_no_error(run, reference):
    before = baseline(run, "totals", "name STRING, amount BIGINT")
    result = run("new", "totals", "-m", "x", "--autogenerate", reference)
    assert result.stdout == "Nothing to migrate: the code declares the head's format\n"
    assert (
        json.loads(run("new", "totals", "-m", "x", "--autogenerate", reference, "--json").stdout)
        == []
    )
    assert scripts() == before


def test_without_a_store_all_that_differ_are_written(run, reference):
    before = baseline(run, "totals", "name STRING, price BIGINT")
    document = json.loads(run("new", "-m", "x", "--autogenerate", reference, "--json").stdout)
    assert sorted(each["path"] for each in document) == sorted(
        str(p) for p in set(scripts()) - set(before)
    )
    assert [(each["store"], each["baseline"]) for each in document] == [
        ("totals", False),
        ("seen", True),
    ]
    (question,) = document[0]["questions"]
    assert question["text"] == (
        "was `price` renamed to `amount`? Delete this line once it is right."
    )
    line = Path(document[0]["path"]).read_text().splitlines()[question["line"] - 1]
    assert line.strip() == f"# QUESTION: {question['text']}"
    assert document[1]["questions"] == []


def test_a_store_that_is_not_declared_names_the_declared_ones(run, reference):
    result = run("new", "total", "-m", "x", "--autogenerate", reference, code=1)
    assert result.stderr == (
        f"Error: {reference} has no store total [SM-CODE-001]\n"
        "  expected: a store that init declares, named total\n"
        "  found: totals, seen\n"
        "  next: name one of totals, seen, or the processor that declares it\n"
    )
    assert scripts() == []


@pytest.mark.parametrize("option", [["--to", "a INT"], ["--from", "a INT"], ["--baseline"]])
def test_formats_are_given_or_found_but_not_both(run, reference, option):
    arguments = ["new", "totals", "-m", "x", "--autogenerate", reference, *option]
    assert "leave out the others" in run(*arguments, code=2).stderr


def test_the_store_may_be_left_out_only_with_code_to_look_at(run, reference):
    assert "Missing argument 'STORE'" in run("new", "-m", "x", code=2).stderr
    assert "Missing option '-m'" in run("new", "--autogenerate", reference, code=2).stderr
