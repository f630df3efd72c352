"""Two versions of code whose processor has a store that scripts migrate, in several families."""

import pytest

from statemigrate.meaning import CodeMeaning, OperatorMeaning, compare_code, lock_text, read_lock
from statemigrate.rewrite import StateSchema

PROCESSOR = "transformWithStateExec"
MEANS = "total@aaaa11112222"
BASE = StateSchema("n BIGINT", "k STRING")
NEW = StateSchema("n BIGINT, mean DOUBLE", "k STRING")
BOTH = {"total": BASE, MEANS: NEW}


def code(state, **targets):
    operator = OperatorMeaning("processor-0", 0, PROCESSOR, state, targets=targets)
    return CodeMeaning("code", "4.3", ("events",), (operator,))


def verdicts(was, now):
    return [(each.name, each.verdict) for each in compare_code(was, now)]


FORWARD, BACK, UNKNOWN = code(BOTH, total=MEANS), code(BOTH, total="total"), code(BOTH)
"""The last is of a lock file that an earlier release wrote."""
PLAIN = code({"total": BASE})


@pytest.mark.parametrize("both", [(FORWARD, BACK), (BACK, FORWARD), (PLAIN, FORWARD)])
def test_another_family_that_is_written_migrates_live(both):
    assert verdicts(*both) == [("total", "live")]


@pytest.mark.parametrize("was", [FORWARD, BACK, UNKNOWN])
def test_code_without_its_scripts_loses_families(was):
    assert verdicts(was, PLAIN) == [("total", "unnoticed")]


@pytest.mark.parametrize("now", [FORWARD, BACK, UNKNOWN])
def test_of_a_target_that_is_not_known_nothing_is_said(now):
    assert verdicts(UNKNOWN, now) == []


def test_a_store_that_begins_to_have_scripts_is_the_same_at_its_first_revision():
    assert verdicts(PLAIN, BACK) == [(MEANS, "goes on")]


@pytest.mark.parametrize("meaning", [FORWARD, BACK, UNKNOWN, PLAIN])
def test_a_lock_file_gives_back_the_targets(tmp_path, meaning):
    file = tmp_path / "state.lock"
    file.write_text(lock_text(meaning))
    assert read_lock(file) == meaning
