"""Nothing that a page shows escapes being run, or says what is not so."""

import importlib
import pkgutil
import re
import shlex

import click
import pytest
from support import pages
from support.pages import DOCS, FENCE, PROGRAMS, TOP, Page, all_pages

import statemigrate.errors
from statemigrate.cli import main
from statemigrate.formats import Struct
from statemigrate.scripts.inference import infer_transforms

LANGUAGES = {"console", "python", "sh", "text"}
INLINE = re.compile(r"`statemigrate\s+([a-z][^`]*)`")
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([\d.]+) \|", re.MULTILINE)


@pytest.fixture(params=all_pages(), ids=lambda page: page.name)
def page(request) -> Page:
    return request.param


def verb(name: str) -> click.Command:
    command = main.get_command(click.Context(main), name)
    assert command is not None, f"there is no command {name}"
    return command


def test_every_fence_is_a_block_that_is_understood(page):
    rest = FENCE.sub("", page.text)
    assert "```" not in rest
    assert {block.language for block in page.blocks} <= LANGUAGES


def test_no_command_hides_in_plain_text(page):
    for block in page.blocks:
        if block.language == "text":
            first = {line.split()[0] for line in block.text.splitlines() if line.strip()}
            assert not first & {"$", *PROGRAMS}, block.text


def test_a_command_to_copy_is_used_as_it_is_meant(page):
    for block in page.blocks:
        for line in block.text.splitlines() if block.language == "sh" else ():
            program, name, *words = shlex.split(line, comments=True)
            assert program == "statemigrate"
            verb(name).make_context(name, words, parent=click.Context(main))


def test_a_command_in_a_sentence_exists_with_its_options(page):
    for text in INLINE.findall(page.text):
        name, *words = shlex.split(text)
        known = {option for each in verb(name).params for option in each.opts}
        used = {word for word in words if word.startswith("-")}
        assert used <= known, f"statemigrate {text}"


def test_figures_are_those_of_the_benchmarks():
    measured = ROW.findall((TOP / "benchmarks" / "README.md").read_text())
    assert ROW.findall(Page(DOCS / "costs.md").text) == measured
    assert len(measured) >= 11


def test_every_public_name_is_in_the_reference():
    listed = re.findall(r"^::: statemigrate\.(\w+)$", Page(DOCS / "reference/python.md").text, re.M)
    assert sorted(set(listed) - {"errors"}) == sorted(statemigrate.__all__)


def test_expected_output_is_compared_to_the_last_line():
    shown = "one\n...\nlast 04cb3bbb72d2 in ... s\n"
    for printed, fits in {
        "one\nlast 5d0c6e1f7a24 in 3 s\n": True,
        "one  \n2\n3\nlast 5d0c6e1f7a24 in 3 s\n": True,
        "one\nlast 5d0c6e1f7a24 in 3 s\nmore\n": False,
        "0\none\nlast 5d0c6e1f7a24 in 3 s\n": False,
        "one\nlast xxxxxxxxxxxx in 3 s\n": False,
    }.items():
        if fits:
            pages.compare("a command", shown, printed)
        else:
            with pytest.raises(AssertionError, match="but the page has"):
                pages.compare("a command", shown, printed)


def kinds_of(error: type[Exception]) -> set[str]:
    return {error.__name__}.union(*map(kinds_of, error.__subclasses__()))


def test_every_error_has_its_line_in_the_index():
    for module in pkgutil.walk_packages(statemigrate.__path__, "statemigrate."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    listed = re.findall(r"^## (\w+Error)$", Page(DOCS / "errors.md").text, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert {"ScriptError", "ExportError"} < set(listed)
    assert set(listed) == kinds_of(statemigrate.errors.StatemigrateError)


def test_what_autogenerate_is_said_to_ask_is_what_it_asks():
    rows = re.findall(
        r"^\| `(.+)` \| `(.+)` \| (.+) \|$", Page(DOCS / "autogenerate.md").text, re.MULTILINE
    )
    assert len(rows) >= 15
    for before, after, said in rows:
        written = infer_transforms(Struct(before), Struct(after)).source
        upgrade = written.partition("def downgrade")[0]
        if said.startswith("nothing to ask"):
            assert "QUESTION" not in upgrade, before
        else:
            assert f"# QUESTION: {said}" in upgrade, before
