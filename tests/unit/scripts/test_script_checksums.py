"""What an edit of an applied script may change: comments, formatting and docstrings alone."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest
from support.script_files import script

import statemigrate
from statemigrate.deployment import DeploymentSettings, StoredStore
from statemigrate.deployment.deployment_checks import check_scripts
from statemigrate.errors import StartupError
from statemigrate.scripts import ScriptFolder
from statemigrate.scripts.checksums import code_checksum
from statemigrate.scripts.loading import load

CODE = '''"""Money as decimals.

Create Date: 2026-01-01
"""

from decimal import Decimal

old = {"total": 'BIGINT', "by": "STRING"}  # as it was


def upgrade(value):
    """Cents to money."""
    total, rate = value["total"], 1_000
    del value["total"], value["by"]
    if total > 0x10 and (rate):
        return {"total": Decimal(total) / 100, "text": f"a{total:>{rate}}" "b"}
    return {**value, "total": Decimal("0")}
'''

FORMATTED = '''# Copyright: somebody
"""Money, as decimals."""
from decimal import (Decimal)
old = {
    'total': """BIGINT""",
    'by': "STR" 'ING',
}


# Two blank lines, and a comment.
def upgrade( value ):
    (total, rate) = value['total'], 1000
    del (
        value["total"],
        value["by"],
    )
    if (total > 16) and rate:
        return {"total": Decimal(total) / 100,
                u"text": f'a{total:>{rate}}b',}
    return {**value, "total": (Decimal("0"))}
'''

OTHER = {
    "a constant": ("/ 100", "/ 1000"),
    "a type of a constant": ("/ 100", "/ 100.0"),
    "a truth for a number": ("1_000", "True"),
    "bytes for text": ('"0"', 'b"0"'),
    "a name": ("rate", "factor"),
    "a key of a value": ('value["total"]', 'value["totals"]'),
    "an operator": ("total > 0x10", "total >= 0x10"),
    "what is negative": ("/ 100", "/ -100"),
    "another order": ('{"total": Decimal(total) / 100, "text"', '{"text": "", "total"'),
    "the format": ("'BIGINT'", "'INT'"),
    "a space within text": ('"b"', '" b"'),
    "an f-string that is none": ('f"a', '"a'),
    "a format of text": (":>{rate}", ":<{rate}"),
    "a parenthesis that groups": ("Decimal(total) / 100", "Decimal(total / 100)"),
    "an indentation": ("\n    return {**value", "\n        return {**value"),
    "what is not spread": ("{**value, ", '{"value": value, '),
    "a dead statement": ("    return {**value", "    pass\n    return {**value"),
}


def test_comments_formatting_and_docstrings_are_no_part_of_the_checksum():
    assert code_checksum(FORMATTED) == code_checksum(CODE)


@pytest.mark.parametrize("change", OTHER)
def test_all_else_is(change):
    before, now = OTHER[change]
    assert before in CODE
    assert code_checksum(CODE.replace(before, now, 1)) != code_checksum(CODE)


@pytest.mark.parametrize("reads", ["upgrade.__doc__", "inspect.getdoc(upgrade)", "'__doc__'"])
def test_docstrings_count_where_the_script_reads_them(reads):
    code = f"{CODE}\n\ndef downgrade(value):\n    return {reads}\n"
    assert code_checksum(code.replace("Cents", "Pence")) != code_checksum(code)
    assert code_checksum(code.replace("# as it was", "# now")) == code_checksum(code)


def test_a_deep_expression_and_a_large_number_have_a_checksum():
    deep = "x = " + " + ".join(["1"] * 900)
    assert code_checksum(f"{deep} + 2") != code_checksum(f"{deep} + 3")
    large = f"x = 0x{'f' * 9000}"
    assert code_checksum(large) != code_checksum(f"{large}f")


def test_what_cannot_be_encoded_has_a_checksum():
    assert code_checksum(r"x = '\ud800'") != code_checksum(r"x = '\ud801'")


def test_every_release_of_python_here_gives_the_same_checksum():
    known = code_checksum(CODE)
    source = Path(statemigrate.__file__).parent / "scripts/checksums.py"
    program = (
        "import runpy, sys; code_checksum = runpy.run_path(sys.argv[1])['code_checksum']; "
        "print(code_checksum(sys.stdin.read()))"
    )
    for python in filter(runs, (f"python3.{minor}" for minor in (11, 12, 13, 14))):
        ran = subprocess.run(
            [python, "-c", program, str(source)],
            input=CODE,
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout.strip() == known, python


def runs(python: str) -> bool:
    """Whether it is there and starts: of pyenv's names some lead nowhere."""
    return shutil.which(python) is not None and not subprocess.call(
        [python, "-c", ""], stderr=subprocess.DEVNULL
    )


def test_the_checksum_of_a_release_is_the_checksum_of_the_next():
    assert code_checksum(CODE) == GOLDEN


GOLDEN = "75c1523a8e08e326933804ae45fe0c983adaf38d3a1b18a3a50f1b54f283a04c"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return script(Path("m"), "a1")


def start(recorded: str) -> None:
    lineage = ScriptFolder("m").lineage("auctions")
    check_scripts(lineage, StoredStore("value", (), {"a1": recorded}), DeploymentSettings())


def test_a_comment_in_an_applied_script_does_not_stop_the_query(path: Path):
    recorded = load(path).checksum
    path.write_text(f"# A licence.\n{path.read_text()}\n# The end.\n")
    start(recorded)
    path.write_text(path.read_text().replace("BIGINT", "INT"))
    with pytest.raises(StartupError) as raised:
        start(recorded)
    assert raised.value.data["revision"] == "a1"


def test_what_an_earlier_release_recorded_is_taken_for_the_same_text(path: Path):
    lines = [line.rstrip() for line in path.read_text().split("\n")]
    recorded = hashlib.sha256("\n".join(lines).rstrip("\n").encode()).hexdigest()
    assert recorded == load(path).text_checksum != load(path).checksum
    start(recorded)
    path.write_text(f"{path.read_text()}\n# The end.\n")
    with pytest.raises(StartupError):
        start(recorded)
