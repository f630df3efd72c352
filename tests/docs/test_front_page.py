"""The README is for a newcomer: its first screen, its commands, its picture."""

import re
import runpy
import shlex
from xml.etree import ElementTree

import click
import pytest
from support.pages import TOP

from statemigrate.cli import main
from statemigrate.demo.stage import BatchOutcome, Crash
from statemigrate.demo.story import ActBegun, BatchDone, Killed

README = (TOP / "README.md").read_text()
PICTURE = TOP / "docs" / "demo.svg"
SCRIPT = TOP / "scripts" / "picture_of_demo.py"
RECORDED = [
    ActBegun("Act 2: the second deployment, migrating", "what is told at length"),
    Killed(Crash(6, 4, 3)),
    BatchDone(BatchOutcome(7, 25_000, 38_485, 4_011, 8_000, 1966.0, 1786.0, ()), migrating=True),
    BatchDone(BatchOutcome(8, 25_000, 0, 0, 0, 1383.0, None, ("auctions",)), migrating=True),
]


def shown(picture: str) -> str:
    """The text of a drawn terminal, a line a line."""
    parts = ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")  # noqa: S314
    rows: dict[float, str] = {}
    for each in parts:
        if "matrix" not in each.get("class", "") and each.get("clip-path"):
            row = float(each.get("y", "0"))
            rows[row] = rows.get(row, "") + (each.text or "").replace("\xa0", " ")
    return "\n".join(rows[row] for row in sorted(rows))


def test_the_first_screen_is_the_question_the_command_and_its_answer():
    first = README.splitlines()[:24]
    question = next(n for n, line in enumerate(first) if line.startswith("**") and "?" in line)
    command = next(n for n, line in enumerate(first) if line.startswith("statemigrate plan "))
    assert question < command < first.index("```text")
    assert any(" live: " in line for line in first)
    for engine in ("RocksDB", "embedded", "pages", "transformWithState"):
        assert engine not in "\n".join(first), engine


def test_what_it_installs_with_works_in_a_clone():
    for target in ("demo", "test", "wheel"):
        assert f"\nmake {target} " in README
        assert f"\n{target}: " in (TOP / "Makefile").read_text()
    assert 'pip install "$(ls dist/*.whl)[spark]"' in README
    for word in ("**live**", "**rewrite**", "`transformWithState`", "dropDuplicates"):
        assert word in README
    assert "](docs/demo.svg)" in README


def test_what_it_links_to_is_there():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(links) > 20
    assert [link for link in links if not (TOP / link).exists()] == []


def test_its_commands_exist_with_their_options():
    lines = re.findall(r"^statemigrate .*$", README.replace("\\\n", " "), re.MULTILINE)
    assert len(lines) >= 10
    for line in lines:
        _, name, *words = shlex.split(line, comments=True)
        command = main.get_command(click.Context(main), name)
        assert command is not None, line
        command.make_context(name, words, parent=click.Context(main))


def test_a_run_is_drawn_without_its_explanations():
    drawn = runpy.run_path(str(SCRIPT))["picture"](RECORDED)
    text = shown(drawn)
    assert "what is told at length" not in text
    for words in (
        ["$", "statemigrate", "demo"],
        ["Act", "2:", "the", "second", "deployment,", "migrating"],
        ["7", "25,000", "38,485", "4,011", "8,000", "1,966", "1,786"],
        ["dropped:", "auctions"],
    ):
        assert words in [line.split() for line in text.splitlines()]
    assert "SIGKILL in batch 6: 3 of 4 partitions" in text


@pytest.mark.parametrize("where", ["drawn", "kept"])
def test_the_picture_is_small_and_fetches_nothing(where):
    drawn = PICTURE.read_text()
    if where == "drawn":
        drawn = runpy.run_path(str(SCRIPT))["picture"](RECORDED)
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "").replace(
        "https://www.textualize.io", ""
    )
    assert len(drawn) < 60_000


def test_the_picture_in_the_documentation_is_of_a_run_that_went_well():
    text = shown(PICTURE.read_text())
    assert "SIGKILL in batch" in text
    assert "dropped: auctions" in text
    assert "Every key is right: no value was lost" in text
