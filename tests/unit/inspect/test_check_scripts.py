"""`check` on scripts alone: each is complete, and the scripts of a store are one chain."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.script_files import script

from statemigrate.errors import ScriptError
from statemigrate.inspect.check_report import CheckReport
from statemigrate.inspect.script_check import check

WIDE = 'Struct("a BIGINT, b INT")'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `m` below an empty current directory, so that paths are short."""
    monkeypatch.chdir(tmp_path)
    return Path("m")


def lines(folder: Path) -> list[str]:
    # Scripts that follow no other, or not the right one, need not migrate what they say.
    return [str(finding) for finding in check(folder, made_up=False).findings]


def test_scripts_in_order_have_no_findings_and_are_counted(folder: Path) -> None:
    script(folder, "a1")
    script(folder, "a2", "a1")
    script(
        folder, "b1", store="bids", old="None", without="\n\ndef upgrade(value):\n    return value"
    )
    assert check(folder) == CheckReport((), 3, 2)
    assert check(folder).passed


def test_a_script_that_does_not_import_shows_its_line(folder: Path) -> None:
    path = script(folder, "a1", new="(")
    assert lines(folder) == [
        "m/versions/a1.py:13: the script does not import [SM-SCRIPT-009] "
        "(expected a Python file; found "
        "SyntaxError: '(' was never closed (a1.py, line 13)); next: correct that line; `--debug` "
        "shows the traceback"
    ]
    path.write_text(path.read_text().replace("new = (", 'new = Struct("a BIGINT")'))
    assert lines(folder) == []


def test_a_malformed_schema_shows_its_line(folder: Path) -> None:
    script(folder, "a1", new='Struct("a NOTHING")')
    (finding,) = check(folder).findings
    assert (finding.kind, finding.path, finding.line) == ("script", "m/versions/a1.py", 13)
    assert (finding.store, finding.revision) == ("auctions", "a1")
    assert str(finding).startswith("m/versions/a1.py:13: ")
    script(folder, "a1")
    assert lines(folder) == []


def test_every_part_that_is_missing_or_wrong_is_a_finding_of_its_own(folder: Path) -> None:
    script(folder, "a1", old="'a INT'", new="...", upgrade="raise NotImplementedError")
    formats = 'expected Struct("field TYPE, ...") or Avro(schema)'
    assert lines(folder) == [
        f"m/versions/a1.py: `old` is not a format [SM-SCRIPT-016] "
        f"({formats}; found str: 'a INT'); next: write the "
        "format in `old`",
        f"m/versions/a1.py: `new` is not filled in yet [SM-SCRIPT-016] "
        f"({formats}; found ...); next: write the "
        "format in `new`",
        "m/versions/a1.py: `upgrade` is not written yet [SM-SCRIPT-012] "
        "(expected a function `upgrade(value)` that "
        "returns the value in the format `new`; found raise NotImplementedError); next: write "
        "`upgrade`; where only the format is recorded, set `old = None` instead",
    ]
    script(folder, "a1")
    assert lines(folder) == []


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("revision", "revision = 'a1'\n"),
        ("down_revision", "down_revision = None\n"),
        ("store", "store = 'auctions'\n"),
        ("old", 'old = Struct("a BIGINT")\n'),
        ("new", 'new = Struct("a BIGINT")\n'),
        ("upgrade", "def upgrade(value):\n    return value\n"),
    ],
)
def test_a_missing_part_is_one_finding(folder: Path, part: str, text: str) -> None:
    script(folder, "a1", without=text)
    assert lines(folder) == [
        f"m/versions/a1.py: `{part}` missing [SM-SCRIPT-015] "
        "(expected `revision`, `down_revision`, `store`, "
        f"`old`, `new` and `upgrade`; found no `{part}`); next: add `{part}` to the script"
    ]


def test_a_missing_downgrade_is_none(folder: Path) -> None:
    script(folder, "a1")
    assert lines(folder) == []


def test_two_heads_and_an_open_joint_are_both_found(folder: Path) -> None:
    script(folder, "a1")
    script(folder, "a2", "a1")
    script(folder, "a3", "a1", old=WIDE)
    assert lines(folder) == [
        "auctions: Store 'auctions' has two heads: a2 and a3 [SM-LINEAGE-014] "
        "(expected one chain of scripts; found "
        "m/versions/a2.py and m/versions/a3.py both follow a1); next: `statemigrate new "
        "auctions --rebase` shows one branch on top of the other, with the fields of both and "
        "what is to "
        "be asked; --apply writes it",
        "m/versions/a3.py: `old` of m/versions/a3.py is not the `new` of m/versions/a1.py "
        "[SM-LINEAGE-016]"
        "; next: "
        "copy `new` of revision a1 to `old` of a3; a further change needs a script of its own: "
        "`statemigrate new auctions -m MESSAGE`\n  b: found INT, expected no such field",
    ]
    script(folder, "a3", "a2")
    assert lines(folder) == []


def test_every_open_joint_of_a_chain_is_found(folder: Path) -> None:
    script(folder, "a1")
    script(folder, "a2", "a1", old=WIDE)
    script(folder, "a3", "a2", old=WIDE)
    assert [finding.path for finding in check(folder, made_up=False).findings] == [
        "m/versions/a2.py",
        "m/versions/a3.py",
    ]


def test_a_missing_parent_is_found(folder: Path) -> None:
    script(folder, "a1")
    script(folder, "a3", "a2")
    assert lines(folder) == [
        "m/versions/a3.py: follows a revision that does not exist [SM-LINEAGE-013] "
        "(expected a script of the same "
        "store with revision 'a2'; found only a1, a3); next: restore the missing script, or "
        "correct `down_revision`"
    ]
    script(folder, "a2", "a1")
    assert lines(folder) == []


def test_a_copied_revision_is_found_once_even_in_another_store(folder: Path) -> None:
    text = script(folder, "a1").read_text()
    (folder / "versions" / "copy.py").write_text(text)
    (folder / "versions" / "other.py").write_text(text.replace("auctions", "bids"))
    found = "(expected a revision of its own for every script; found m/versions/a1.py and"
    todo = "next: remove the copy, or give one of them another `revision`"
    assert lines(folder) == [
        f"m/versions/{name}.py: Two scripts have the revision a1 [SM-LINEAGE-012] "
        f"{found} m/versions/{name}.py); "
        f"{todo}"
        for name in ("copy", "other")
    ]


def test_a_script_that_follows_one_of_another_store_is_found_once(folder: Path) -> None:
    script(folder, "a1")
    script(folder, "b1", "a1", store="bids")
    (finding,) = check(folder, made_up=False).findings
    assert finding.summary == "is for another store than the script it follows"
    assert (finding.kind, finding.store, finding.revision) == ("lineage", "bids", "b1")


def test_one_broken_script_is_not_blamed_on_those_that_follow_it(folder: Path) -> None:
    script(folder, "a1")
    script(folder, "a2", "a1", upgrade="return (")
    script(folder, "a3", "a2")
    assert [finding.revision for finding in check(folder).findings] == ["a2"]


def test_broken_stores_and_a_syntax_error_hide_nothing_of_each_other(folder: Path) -> None:
    script(folder, "a1")
    script(folder, "a2", "a1")
    script(folder, "a3", "a1")
    script(folder, "b1", store="bids")
    script(folder, "b2", "b1", store="bids", old=WIDE)
    script(folder, "c1", store="clicks", new="(")
    script(folder, "c2", "c1", store="clicks", more="# QUESTION: Which one?\n")
    script(folder, "d1", store="deals", without='new = Struct("a BIGINT")\n')
    script(folder, "e1", store="events", more="examples = [{'a': 'x'}]\n")
    report = check(folder, made_up=False)
    assert [(each.kind, each.store, each.path) for each in report.findings] == [
        ("script", "clicks", "m/versions/c1.py"),
        ("script", "deals", "m/versions/d1.py"),
        ("lineage", "auctions", None),
        ("lineage", "bids", "m/versions/b2.py"),
        ("example", "events", "m/versions/e1.py"),
        ("question", "clicks", "m/versions/c2.py"),
    ]
    assert (report.scripts, report.stores) == (9, 5)


def test_questions_are_comments_and_each_is_found_with_its_line(folder: Path) -> None:
    text = 'text = """\n# QUESTION: not this one\n"""\n'
    script(
        folder,
        "a1",
        more=f"{text}# QUESTION: Is it cents?\n",
        upgrade="# QUESTION: Or euros?\n    return value  # no QUESTION: here",
    )
    todo = "next: answer it in the script, then remove the comment"
    assert lines(folder) == [
        f"m/versions/a1.py:17: open question: Is it cents?; {todo}",
        f"m/versions/a1.py:21: open question: Or euros?; {todo}",
    ]
    script(folder, "a1", more=text)
    assert lines(folder) == []


def test_what_is_no_folder_of_scripts_is_an_error(folder: Path) -> None:
    with pytest.raises(ScriptError, match="m is not a folder of migration scripts"):
        check(folder)
