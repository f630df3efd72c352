"""`check` runs what only a rewrite runs: on examples with their keys, and on made-up entries."""

from __future__ import annotations

from pathlib import Path

import pytest

from statemigrate.inspect.script_check import check
from statemigrate.scripts import ScriptFolder

BASELINE = """\
'''What there is.'''
from statemigrate.formats import Struct

revision = "b0"
down_revision = None
branch_labels = ("aggregation-0",)
store = "aggregation-0"
old = None
new = Struct("count BIGINT")
new_key = Struct("customer STRING, day INT")
"""
SCRIPT = """\
'''Something else.'''
from statemigrate.formats import Struct

revision = "c1"
down_revision = "b0"
branch_labels = None
store = "aggregation-0"
old = Struct("count BIGINT")
new = Struct("count BIGINT")
new_key = Struct("customer STRING")


def rekey(key, value):
    return {"customer": key["customer"]}
"""
MERGE = """

def merge(first, second):
    return {"count": (first["count"] or 0) + (second["count"] or 0)}
"""
TABLE = """

def upgrade_table(table):
    import pyarrow as pa

    keys = [{"customer": each["customer"]} for each in table["key"].to_pylist()]
    return pa.table({"key": pa.array(keys), "value": table["value"]})
"""
KEY = "{'customer': 'a', 'day': 1}"


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write a script after a baseline of the state; give findings and notes."""
    monkeypatch.chdir(tmp_path)
    versions = ScriptFolder.create(tmp_path / "m").versions

    def tell(
        text: str, baseline: str = BASELINE, *, made_up: bool = True
    ) -> tuple[list[str], list[str]]:
        (versions / "b0.py").write_text(baseline)
        (versions / "c1.py").write_text(text)
        report = check(tmp_path / "m", made_up=made_up)
        return [str(each) for each in report.findings], [str(each) for each in report.notes]

    return tell


def test_a_script_that_takes_every_entry_is_in_order(told):
    assert told(SCRIPT + MERGE) == ([], [])
    assert told(SCRIPT + TABLE + MERGE) == ([], [])


def test_a_rekey_that_fails_on_every_entry_is_wrong_and_its_line_is_told(told):
    (finding,), notes = told(SCRIPT.replace('key["customer"]', 'key["name"]'))
    assert notes == []
    assert "c1.py: `rekey` fails on" in finding
    assert 'KeyError in line 14: return {"customer": key["name"]}' in finding
    assert "next: correct `rekey`, or give `examples` of entries that it takes" in finding


def test_a_key_that_does_not_fit_is_told(told):
    (finding,), _ = told(SCRIPT.replace('key["customer"]', "1"))
    assert "`rekey` fails on" in finding
    assert "the new format cannot hold customer: expected string" in finding


def test_a_rekey_that_fails_on_some_is_noted_unless_examples_say_what_there_is(told):
    text = SCRIPT.replace('key["customer"]', 'key["customer"][0]')
    findings, (note,) = told(text)
    assert findings == []
    assert "note: `rekey` fails on" in note
    assert told(f"{text}\n\nexamples = [({{'count': 1}}, None, {KEY})]\n") == ([], [])


def test_an_example_on_which_rekey_fails_is_wrong(told):
    text = SCRIPT.replace('key["customer"]', 'key["customer"][1]')
    (finding,), _ = told(f"{text}\n\nexamples = [({{'count': 1}}, None, {KEY})]\n", made_up=False)
    assert "c1.py: `rekey` fails on example 1 (found b0 to c1: IndexError in line 14" in finding


def test_an_example_whose_key_is_none_of_the_state_is_wrong(told):
    (finding,), _ = told(f"{SCRIPT}\n\nexamples = [({{'count': 1}}, None, {{'day': 1}})]\n")
    assert "the key of example 1 is no key" in finding


def test_an_example_without_a_key_is_noted(told):
    findings, (note,) = told(f"{SCRIPT}\n\nexamples = [{{'count': 1}}]\n")
    assert findings == []
    assert "example 1 has no key, so `rekey` was not tried on it" in note


def test_without_a_format_of_the_keys_it_is_noted_that_nothing_was_tried(told):
    baseline = BASELINE.replace('new_key = Struct("customer STRING, day INT")\n', "")
    findings, (note,) = told(SCRIPT, baseline)
    assert findings == []
    assert "`rekey` was not tried, as no script says what the keys are before it" in note


def test_a_merge_that_fails_is_told_with_its_line(told):
    (finding,), _ = told(SCRIPT + MERGE.replace('first["count"]', 'first["n"]'))
    assert "`merge` fails on" in finding
    assert "pairs of values made up from `new`" in finding
    assert "KeyError in line 18" in finding


def test_a_merge_that_fails_on_what_examples_become_is_wrong(told):
    examples = f"\n\nexamples = [({{'count': 1}}, None, {KEY}), ({{'count': None}}, None, {KEY})]\n"
    merge = MERGE.replace(" or 0", "")
    (finding,), _ = told(SCRIPT + merge + examples)
    assert "`merge` fails on 1 of 2 what examples become" in finding
    assert "TypeError in line 18" in finding


def test_a_merge_whose_result_depends_on_the_order_is_noted(told):
    findings, (note,) = told(SCRIPT + "\n\ndef merge(first, second):\n    return first\n")
    assert findings == []
    assert "`merge` makes something else with its arguments changed about" in note


def test_both_forms_of_a_script_must_do_the_same(told):
    other = TABLE.replace('each["customer"]}', '"x"}')
    upgrade = "\n\ndef upgrade(value):\n    return value\n"
    assert told(SCRIPT + upgrade + TABLE + MERGE) == ([], [])
    (finding,), _ = told(SCRIPT + upgrade + other + MERGE)
    assert "`upgrade_table` makes something else than the functions for plain values" in finding


def test_a_table_function_by_itself_is_tried(told):
    text = SCRIPT[: SCRIPT.index("\n\ndef rekey")] + TABLE
    assert told(text) == ([], [])
    (finding,), _ = told(text.replace('"key": pa.array(keys), ', ""))
    assert "`upgrade_table` fails on" in finding


def test_an_upgrade_that_takes_the_key_is_tried_on_made_up_entries(told):
    text = SCRIPT[: SCRIPT.index("new_key")]
    good = "\n\ndef upgrade(value, key):\n    return {'count': key['day']}\n"
    assert told(text + good) == ([], [])
    (finding,), _ = told(text + good.replace("'day'", "'days'"))
    assert "`upgrade` fails on" in finding
    assert "return {'count': key['days']}; KeyError" in finding
