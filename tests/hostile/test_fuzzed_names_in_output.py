"""Names and texts of a checkpoint in reports, on terminals and in commands: seen, never acting."""

import ast
import dataclasses
import io
import itertools
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import CodeType
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import statemigrate
from statemigrate import status_page
from statemigrate.cli.dry_run_command import print_report
from statemigrate.cli.options import Settings
from statemigrate.cli.output import (
    print_error,
    print_json,
    print_line,
    print_parts,
    print_rows,
    print_sentence,
    progress_bar,
)
from statemigrate.cli.watching import fleet_parts
from statemigrate.errors import CheckpointError
from statemigrate.formats.avro import generated
from statemigrate.formats.stored_formats import struct_from_json
from statemigrate.formats.struct.ddl import ddl_of, parse_ddl, quoted, words_of
from statemigrate.inspect.report_html import html_page
from statemigrate.inspect.report_junit import junit_xml
from statemigrate.processor.rows import dictionary_maker, tuple_maker
from statemigrate.quoting import argument, is_visible, visible
from tests.support.dry_runs import GOOD, LOSING, NASTY, REPORT
from tests.support.fleets import FLEET, NASTY_FLEET
from tests.support.hostile import EXAMPLES, fuzzed
from tests.support.hostile_names import CANARY, PAYLOADS, names

PLAIN = {"kind", "engine", "effect", "direction", "version", "grade"}
"""What is one of the tool's own words."""
few = settings(fuzzed, max_examples=max(1, EXAMPLES // 4))
BASH = shutil.which("bash") or "/bin/bash"
LINE = "a line of its own"
FORBIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
STYLES = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[0-9]*[AK]|\r")


def texts() -> st.SearchStrategy[str]:
    return names() | names().map(lambda name: f"{name}\n{LINE}")


def some(data: st.DataObject) -> Callable[[], str]:
    """A few texts, one after the other and again."""
    return itertools.cycle(data.draw(st.lists(texts(), min_size=1, max_size=5))).__next__


def renamed(found: Any, draw: Callable[[], str], field: str = "") -> Any:
    """The same report, every text that comes from outside another one."""
    if isinstance(found, CheckpointError):
        return CheckpointError(
            "SM-CHECKPOINT-003", draw(), expected=draw(), found=draw(), next_action="look at it"
        )
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        fields = [each for each in dataclasses.fields(found) if each.init]
        return dataclasses.replace(
            found, **{f.name: renamed(getattr(found, f.name), draw, f.name) for f in fields}
        )
    if isinstance(found, tuple):
        return tuple(renamed(each, draw, field) for each in found)
    return draw() if isinstance(found, str) and field not in PLAIN else found


class Elements(HTMLParser):
    """The elements of a page with their attributes, as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[tuple[str, tuple[str, ...]]] = set()
        self.addresses: set[str] = set()
        self.others: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add((tag, tuple(name for name, _ in attrs)))
        self.addresses |= {str(value) for name, value in attrs if name in ("href", "src")}

    def handle_comment(self, data: str) -> None:
        self.others.append(data)

    def handle_pi(self, data: str) -> None:
        self.others.append(data)


def known_elements(*pages: str) -> set[tuple[str, tuple[str, ...]]]:
    return set().union(*(Elements(page).found for page in pages))


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314  # written by what is tested, without a DTD


DRY_RUNS = known_elements(*map(html_page, (REPORT, GOOD, LOSING, NASTY)))
STATUSES = known_elements(*map(status_page, (FLEET, NASTY_FLEET)))


@fuzzed
@given(data=st.data())
def test_no_element_of_a_page_comes_from_a_name(data):
    draw = some(data)
    for page, known in (
        (html_page(renamed(data.draw(st.sampled_from([REPORT, LOSING])), draw)), DRY_RUNS),
        (status_page(renamed(FLEET, draw)), STATUSES),
    ):
        found = Elements(page)
        assert found.found <= known
        assert not found.others
        assert all(re.fullmatch(r"#checkpoint-\d+", each) for each in found.addresses)
        assert not FORBIDDEN.search(page)


@fuzzed
@given(data=st.data())
def test_a_report_for_ci_is_xml_that_names_what_it_names(data):
    known = {(each.tag, *each.keys()) for each in parsed(junit_xml(LOSING)).iter()}
    known |= {(each.tag, *each.keys()) for each in parsed(junit_xml(NASTY)).iter()}
    report = renamed(data.draw(st.sampled_from([REPORT, LOSING])), some(data))
    text = junit_xml(report)
    assert not FORBIDDEN.search(text)
    root = parsed(text)
    assert {(each.tag, *each.keys()) for each in root.iter()} <= known
    assert root.find("testsuite").get("name") == visible(report.store)  # type: ignore[union-attr]


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, show: Callable[[], None], *, screen: bool) -> str:
    stream = Terminal() if screen else io.StringIO()
    with monkeypatch.context() as patch:
        patch.setenv("COLUMNS", "120")
        patch.setenv("TERM", "xterm-256color")
        patch.setattr(sys, "stdout", stream)
        patch.setattr(sys, "stderr", stream)
        show()
    return stream.getvalue()


def show_all(data: st.DataObject) -> None:
    draw = some(data)
    print_report(renamed(LOSING, draw))
    print_report(renamed(REPORT, draw))
    print_parts(fleet_parts(renamed(FLEET, draw)))
    print_rows((draw(), "b"), [(draw(), draw())])
    print_sentence(draw(), mark=draw(), style="bold red")
    print_line(visible(draw()))
    error = CheckpointError(
        "SM-CHECKPOINT-003", draw(), expected=draw(), found=draw(), next_action=draw()
    )
    print_error(error, Settings())
    print_json({draw(): draw()})


@few
@given(data=st.data())
def test_nothing_acts_on_a_terminal(data):
    with pytest.MonkeyPatch.context() as monkeypatch:
        shown = printed(monkeypatch, lambda: show_all(data), screen=True)
        assert not FORBIDDEN.search(STYLES.sub("", shown))
        # The link of a rich text, and what a name would draw in a colour of its own.
        assert "\x1b]8" not in shown


@few
@given(data=st.data())
def test_no_name_begins_a_line(data):
    with pytest.MonkeyPatch.context() as monkeypatch:
        shown = printed(monkeypatch, lambda: show_all(data), screen=False)
        assert not FORBIDDEN.search(shown)
        begins = [line for line in shown.split("\n") if line.startswith(LINE)]
        assert not begins


def test_markup_in_what_a_bar_is_called_is_text(monkeypatch):
    def show() -> None:
        with progress_bar("Copying [red]x[/red] [link=http://a]b[/link]\n[/]", shown=True) as move:
            move(1, 2)

    shown = STYLES.sub("", printed(monkeypatch, show, screen=True))
    assert r"Copying [red]x[/red] [link=http://a]b[/link]\n[/]" in shown


def _is_an_argument(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name


@fuzzed
@given(st.lists(texts().filter(_is_an_argument), min_size=1, max_size=20))
def test_a_shell_gives_back_each_argument(tmp_path_factory, found):
    written = [argument(each) for each in found]
    line = f"printf '%s\\0' {' '.join(written)}"
    assert is_visible(line)
    plain = [each for each in found if is_visible(each)]
    assert shlex.split(" ".join(argument(each) for each in plain)) == plain
    folder = tmp_path_factory.mktemp("shell")
    answer = subprocess.run([BASH, "-c", line], capture_output=True, check=True, cwd=folder)
    assert answer.stdout.decode().split("\0")[:-1] == found
    assert not (folder / CANARY).exists()


@pytest.mark.parametrize("name", ["\udcff.parquet", "a\udc80\n"])
def test_a_file_name_that_is_no_text_is_the_same_file_in_a_shell(name):
    answer = subprocess.run(
        [BASH, "-c", f"printf %s {argument(name)}"], capture_output=True, check=True
    )
    assert answer.stdout == name.encode(errors="surrogateescape")
    assert is_visible(argument("half \ud800"))


@fuzzed
@given(st.lists(names(), min_size=1, max_size=4, unique=True))
def test_a_name_in_sql_is_one_name(found):
    """By Spark's rule: a name in backticks ends at a backtick that is alone."""
    for name in found:
        (word,) = words_of(quoted(name))
        assert (word.kind, word.text) == ("name", name)
        assert re.fullmatch(r"`([^`]|``)+`", quoted(name), re.DOTALL)
    fields = [{"name": n, "type": "long", "nullable": True, "metadata": {}} for n in found]
    parsed = parse_ddl(ddl_of({"type": "struct", "fields": fields}))
    assert [each["name"] for each in parsed["fields"]] == found


COMMAND = re.compile(r"statemigrate (?:--|[a-z])[^`;,.]*$")


def unquoted(tree: ast.AST) -> list[int]:
    """The lines of f-strings in which something stands in a command as it is."""
    lines = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        text = ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += str(part.value)
                continue
            assert isinstance(part, ast.FormattedValue)
            called = part.value.func if isinstance(part.value, ast.Call) else None
            is_number = part.format_spec is not None
            is_argument = isinstance(called, ast.Name) and called.id == "argument"
            is_own = ast.unparse(part.value) in OWN
            if COMMAND.search(text) and not (is_argument or is_number or is_own):
                lines.append(part.lineno)
            text += "_"
    return lines


OWN = {
    "undo",
    "error.summary",
    "error.headline",
    "words",
    "checkpoint.words",
    "settings.words(checkpoint)",
    "self.option",
    "self._option",
    "self._files.option",
    "self._code",
    "options_of(target)",
    "again",
    "each.options",
    "self._known",
    "self._again",
    "known",
}
"""What stands in a command and is the tool's own option, or a checkpoint and an operator that were
quoted together; or a message behind a command's name."""


def test_every_command_that_is_proposed_quotes_what_comes_from_data():
    root = Path(statemigrate.__file__).parent
    found = {
        f"{path.relative_to(root)}:{number}"
        for path in root.rglob("*.py")
        if "demo" not in path.relative_to(root).parts and b"statemigrate " in path.read_bytes()
        for number in unquoted(ast.parse(path.read_bytes()))
    }
    assert not found
    assert unquoted(ast.parse('f"run `statemigrate new {store}`"'))
    assert not unquoted(ast.parse('f"run `statemigrate new {argument(store)}`: {store}"'))


def test_each_payload_is_shown_on_one_line():
    for name in PAYLOADS:
        assert "\n" not in visible(name)
        assert is_visible(visible(name))


OWN_COLUMNS = {
    "native/session.py: number",
    "rewrite/checksums.py: name",
    "rewrite/partitioning.py: key",
    "rewrite/window_columns.py: part",
    "rewrite/entry_functions.py: name",
}
"""Names of columns that are the tool's own: ``key``, ``value``, and numbers."""


def named_columns(tree: ast.AST) -> set[str]:
    """What stands for a column in SQL without the one writer of names, and is no constant."""
    found = set()
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        if node.func.attr != "col":
            continue
        written, first = ast.unparse(node.args[0]), node.args[0]
        chosen = (first.body, first.orelse) if isinstance(first, ast.IfExp) else (first,)
        is_constant = all(isinstance(e, ast.Constant) for e in chosen) or written.isupper()
        if not (is_constant or written.startswith("quoted(")):
            found.add(written)
    return found


def test_every_column_whose_name_is_data_is_quoted():
    root = Path(statemigrate.__file__).parent
    found = {
        f"{path.relative_to(root)}: {name}"
        for path in root.rglob("*.py")
        if b".col(" in path.read_bytes()
        for name in named_columns(ast.parse(path.read_bytes()))
    }
    assert found == OWN_COLUMNS
    assert named_columns(ast.parse("F.col(name)")) == {"name"}


@fuzzed
@given(st.lists(names(), min_size=1, max_size=4, unique=True))
def test_the_code_of_a_format_is_the_same_whatever_its_names_are(found):
    """What reads and writes values is compiled; names are constants of it, and no part of it."""
    texts: list[list[str]] = []
    for called in (found, [f"f{n}" for n in range(len(found))]):
        written: list[str] = []

        def code(text: str, written: list[str] = written) -> CodeType:
            written.append(text)
            return compile(text, "<made for a format>", "exec")

        inner = [{"name": n, "type": "string", "nullable": True, "metadata": {}} for n in called]
        nested = {"type": "struct", "fields": inner}
        fields = [*inner[1:], {**inner[0], "type": nested}]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(generated, "_code", code)
            format_ = struct_from_json({"type": "struct", "fields": fields})
            value = {each["name"]: "x" for each in fields}
            value[called[0]] = dict.fromkeys(called, "y")  # type: ignore[assignment]
            assert format_.decode(format_.encode(value)) == value
            dictionary_maker(called, [None] * len(called))
            tuple_maker(called, [None] * len(called))
        assert written
        texts.append(written)
    assert texts[0] == texts[1]
