"""Which stateful operator of a query is meant."""

import json
from unittest.mock import Mock

import pytest

from statemigrate.checkpoint.operators.metadata import OperatorEntry
from statemigrate.errors import CheckpointError, StartupError
from statemigrate.native.checkpoint import SparkCheckpoint
from statemigrate.native.operators import FUNCTION, check_names, check_operator, only, operators_in


def row(number, name, *variables):
    kinds = {"stateVariableType": "ValueState", "ttlEnabled": False}
    properties = json.dumps({"stateVariables": [{"stateName": v, **kinds} for v in variables]})
    return OperatorEntry(number, name, (), properties)


DEDUPE = row(0, "dedupe")
TOTALS = row(1, "transformWithStateInPySparkExec", "totals", "totals@aaaa11112222")
NAMES = row(2, "transformWithStateInPySparkExec", "names")


def chosen(rows, operator=None):
    found = operators_in(rows)
    return only("/c", found, [each for each in found if each.is_processor], operator)


def test_ours_is_found_beside_others_whatever_its_number():
    assert chosen([TOTALS, DEDUPE]).id == 1
    assert chosen([row(0, "stateStoreSave"), NAMES]).id == 2


def test_two_are_named_with_their_variables_and_one_is_chosen_by_number():
    with pytest.raises(CheckpointError) as caught:
        chosen([NAMES, DEDUPE, TOTALS])
    assert "operator 1 (transformWithStateInPySparkExec with totals," in caught.value.found
    assert "operator 2 (transformWithStateInPySparkExec with names)" in caught.value.found
    assert "--operator 1 or 2" in caught.value.next_action
    assert caught.value.data["operators"] == [1, 2]
    assert chosen([NAMES, DEDUPE, TOTALS], 2).id == 2


PAGED = row(3, "transformWithStateInPySparkExec", "statemigrate_pages", "statemigrate_large")


def reader(monkeypatch, rows, **parts):
    """A reader of a checkpoint whose metadata have these rows."""
    monkeypatch.setattr("statemigrate.native.checkpoint.entries_at", lambda *_: rows)
    return SparkCheckpoint("/c", Mock(), batch=0, files=Mock(), **parts)


@pytest.mark.parametrize("rows", [[TOTALS, PAGED], [PAGED, DEDUPE, NAMES, TOTALS], [PAGED]])
def test_pages_are_found_by_their_variable_whatever_runs_beside_them(monkeypatch, rows):
    found = reader(monkeypatch, rows)
    assert (found.processor().id, found.is_paged) == (3, True)


def test_code_that_keeps_no_pages_never_means_the_operator_that_does(monkeypatch):
    found = reader(monkeypatch, [PAGED, TOTALS], paged=False)
    assert (found.processor().id, found.is_paged) == (1, False)
    by_number = reader(monkeypatch, [PAGED, TOTALS], operator=1)
    assert (by_number.processor().id, by_number.is_paged) == (1, False)


def test_two_operators_with_pages_are_named(monkeypatch):
    other = row(4, "transformWithStateInPySparkExec", "statemigrate_pages")
    with pytest.raises(CheckpointError) as caught:
        reader(monkeypatch, [PAGED, other, TOTALS]).processor()
    assert caught.value.data["operators"] == [3, 4]


@pytest.mark.parametrize("number", [0, 7])
def test_a_number_that_is_none_of_ours_is_refused(number):
    with pytest.raises(CheckpointError, match=f"operator {number} of /c is no transformWithState"):
        chosen([NAMES, DEDUPE, TOTALS], number)


def test_a_query_without_one_is_refused_with_what_it_has():
    with pytest.raises(CheckpointError, match=r"operator 0 \(dedupe\)"):
        chosen([DEDUPE])
    with pytest.raises(CheckpointError, match="no stateful operator"):
        chosen([])


def test_a_function_is_no_processor():
    found = operators_in([row(0, FUNCTION), TOTALS])
    assert [each.is_function for each in found] == [True, False]
    assert [each.is_processor for each in found] == [False, True]


def test_two_stores_of_one_name_are_refused():
    again = row(4, "transformWithStateInPySparkExec", "totals")
    found = operators_in([TOTALS, again, NAMES])
    check_names("/c", found[0], found, ["names"][:0])
    with pytest.raises(StartupError, match="have a store totals"):
        check_names("/c", found[0], found, ["totals"])
    check_names("/c", found[1], found, ["names"])


def test_a_wrong_number_is_told_from_two_stores_of_one_name():
    found = operators_in([NAMES, TOTALS])
    mine = next(each for each in found if "totals" in each.variables)
    other = next(each for each in found if each is not mine)
    check_operator("/c", mine, found, ["totals"])
    with pytest.raises(StartupError) as raised:
        check_operator("/c", other, found, ["totals", "fresh"])
    assert raised.value.data["operator"] == other.id
    assert raised.value.data["operators"] == [mine.id]
    # A variable that no operator has yet may be a new one of either.
    check_operator("/c", other, found, ["fresh"])
    # What is in both is no wrong number.
    check_operator("/c", other, found, [*other.variables, "totals"])


def test_a_family_of_a_revision_tells_the_operator_as_its_store_does():
    moved = row(4, "transformWithStateInPySparkExec", "totals@5d0c6e1f7a24")
    found = operators_in([moved, NAMES])
    with pytest.raises(StartupError) as raised:
        check_operator("/c", found[0 if found[1].id == 4 else 1], found, ["totals"])
    assert raised.value.data["operators"] == [4]
