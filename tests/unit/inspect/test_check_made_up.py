"""`check` tries each script on values made up from its formats, without examples or state."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.script_files import script

from statemigrate.inspect.script_check import check

NEXT = "next: correct `upgrade`, or give `examples` of values that it takes"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("m")


def told(folder: Path) -> tuple[list[str], list[str]]:
    """The findings and the notes."""
    report = check(folder)
    assert report.passed == (not report.findings)
    return [str(each) for each in report.findings], [str(each) for each in report.notes]


def test_an_upgrade_that_raises_on_every_value_fails_without_examples(folder: Path) -> None:
    script(folder, "a1", upgrade="return {'a': value['cents']}")
    findings, notes = told(folder)
    assert notes == []
    assert findings == [
        "m/versions/a1.py: `upgrade` fails on every one of 6 values made up from `old`, such as "
        "{\"a\": 7} (found base to a1: KeyError in line 17: return {'a': value['cents']}; "
        f"KeyError: 'cents'); {NEXT}"
    ]


def test_an_upgrade_whose_values_never_fit_fails(folder: Path) -> None:
    script(folder, "a1", upgrade="return {'a': str(value['a'])}")
    (finding,), notes = told(folder)
    assert notes == []
    assert "`upgrade` fails on every one of 6 values made up from `old`" in finding
    assert "the new format cannot hold a: expected long, an int" in finding


def test_one_that_fails_on_some_is_noted_with_what_fails(folder: Path) -> None:
    script(folder, "a1", upgrade="return {'a': value['a'] + 0}")
    findings, (note,) = told(folder)
    assert findings == []
    assert note.startswith(
        "m/versions/a1.py: note: `upgrade` fails on 1 of 6 values made up from `old`, such as "
        "{\"a\": null} (found base to a1: TypeError in line 17: return {'a': value['a'] + 0}; "
        "TypeError: "
    )
    assert note.endswith(NEXT)


def test_examples_say_which_values_there_are(folder: Path) -> None:
    known = "examples = [{'a': 1}]\n"
    script(folder, "a1", upgrade="return {'a': value['a'] + 0}", more=known)
    assert told(folder) == ([], [])
    script(folder, "a1", upgrade="return {'a': {1: 2}[value['a']]}", more=known)
    findings, (note,) = told(folder)
    assert findings == []
    assert "note: `upgrade` fails on every one of 6 values made up from `old`" in note


def test_a_downgrade_that_fails_on_every_upgraded_value_fails(folder: Path) -> None:
    path = script(folder, "a1")
    path.write_text(f"{path.read_text()}\n\ndef downgrade(value):\n    return value['x']\n")
    (finding,), notes = told(folder)
    assert notes == []
    assert "`downgrade` fails on every one of 6 values made up from `old`" in finding
    assert "KeyError in line 21: return value['x']" in finding


def test_what_a_script_loses_is_noted_until_it_says_so(folder: Path) -> None:
    wide = 'Struct("a BIGINT, n INT")'
    lose = "return {'a': value['a']}"
    script(folder, "a1", old=wide, upgrade=lose)
    assert told(folder) == (
        [],
        [
            "m/versions/a1.py: note: `upgrade` keeps nothing of n; next: correct `upgrade`, or, if "
            "that is meant, add 'n' to `drops`"
        ],
    )
    script(folder, "a1", old=wide, upgrade=lose, more="drops = ('n',)\n")
    assert told(folder) == ([], [])


def test_empty_lists_and_nulls_are_among_what_is_tried(folder: Path) -> None:
    formats = 'Struct("l ARRAY<INT>, t TIMESTAMP, d DECIMAL(9,2)")'
    for field, function in {
        "l": "value['l'][0] if value['l'] is not None else 0",
        "t": "value['t'].replace(year=value['t'].year + 1) if value['t'] else 0",
        "d": "1 / value['d'] if value['d'] is not None else 0",
    }.items():
        upgrade = f"{function}\n    return value"
        script(folder, "a1", old=formats, new=formats, upgrade=upgrade)
        findings, notes = told(folder)
        assert (findings, len(notes)) == ([], 1), field


def test_it_can_be_left_out(folder: Path) -> None:
    script(folder, "a1", upgrade="raise KeyError")
    assert not check(folder).passed
    assert check(folder, made_up=False).passed


def test_nothing_is_noted_while_questions_are_open(folder: Path) -> None:
    question = "# QUESTION: like this?\n"
    script(folder, "a1", upgrade="return {'a': value['a'] + 0}", more=question)
    report = check(folder)
    assert ([each.kind for each in report.findings], report.notes) == (["question"], ())
    script(folder, "a1", upgrade="return {'a': value['cents']}", more=question)
    assert [each.kind for each in check(folder).findings] == ["made-up", "question"]
