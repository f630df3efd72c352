"""Two versions of code whose function has its values in envelopes, of one type for ever."""

import pytest

from statemigrate import ENVELOPE
from statemigrate.meaning import CodeMeaning, OperatorMeaning, compare_code
from statemigrate.rewrite import StateSchema

FUNCTION = "applyInPandasWithState"
MEANS = {"total@aaaa11112222": StateSchema("n BIGINT, mean DOUBLE")}
BASE = {"total": StateSchema("n BIGINT")}
OTHER = {"other": StateSchema("n BIGINT")}
OWN = {"groups-0": StateSchema("n BIGINT")}
ENVELOPES = {"groups-0": StateSchema(ENVELOPE)}
"""What a start sees, and what records of earlier releases have."""
KEPT = "groupState STRUCT<revision: STRING, payload: BINARY, timeout: BIGINT>"
UNMARKED = {"groups-0": StateSchema(KEPT, "k STRING")}
"""What a probe sees of a function that `migrated` does not wrap."""
TIMED = {"groups-0": StateSchema(f"{KEPT}, timeoutTimestamp BIGINT", "k STRING")}


def verdicts(*states):
    both = [
        CodeMeaning("code", "4.1", (), (OperatorMeaning("groups-0", 0, FUNCTION, state),))
        for state in states
    ]
    return [(each.name, each.verdict) for each in compare_code(*both)]


@pytest.mark.parametrize("states", [(BASE, MEANS), (MEANS, BASE)])
def test_another_revision_migrates_live(states):
    assert verdicts(*states) == [("total", "live")]


@pytest.mark.parametrize("state", [BASE, MEANS, ENVELOPES, UNMARKED, OWN])
def test_the_same_revision_is_the_same(state):
    assert verdicts(state, state) == []


@pytest.mark.parametrize("state", [BASE, MEANS, UNMARKED, TIMED])
def test_a_start_knows_no_revision_so_there_is_nothing_to_compare(state):
    assert verdicts(state, ENVELOPES) == verdicts(ENVELOPES, state) == []


@pytest.mark.parametrize("unmarked", [UNMARKED, TIMED])
@pytest.mark.parametrize("state", [BASE, MEANS])
def test_a_function_without_its_scripts_cannot_go_on_with_values_that_have_them(state, unmarked):
    assert verdicts(state, unmarked) == [("groups-0", "cannot")]
    assert verdicts(unmarked, state) == [("groups-0", "unknown")]


def test_values_of_another_store_are_not_taken_for_the_same():
    assert verdicts(BASE, OTHER) == [("groups-0", "cannot")]


@pytest.mark.parametrize("state", [BASE, MEANS, ENVELOPES, UNMARKED])
def test_a_function_that_gets_envelopes_or_loses_them_does_not_start(state):
    for states in ((OWN, state), (state, OWN)):
        found = verdicts(*states)
        assert found
        assert {verdict for _, verdict in found} == {"rewrite"}
