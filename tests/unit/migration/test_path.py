from dataclasses import replace

import pytest
from chains import FIRST, SECOND, lineage
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.migration import BASE


def test_the_path_to_the_same_revision_changes_nothing():
    path = lineage().path("a1b2", "a1b2")
    value = {"b": 1}
    assert path.steps == ()
    assert path.apply(value) is value


def test_a_path_up_runs_every_upgrade_in_order():
    path = lineage().path(BASE, "c3d4")
    assert (path.source, path.target) == (BASE, "c3d4")
    assert [(s.source, s.target) for s in path.steps] == [(BASE, "a1b2"), ("a1b2", "c3d4")]
    assert path.apply({"a": 4}) == {"c": "40"}


def test_a_path_down_runs_every_downgrade_in_order():
    path = lineage().path("c3d4", BASE)
    assert [(s.source, s.target) for s in path.steps] == [("c3d4", "a1b2"), ("a1b2", BASE)]
    assert path.apply({"c": "40"}) == {"a": 4}


@given(st.integers(-(2**50), 2**50))
def test_down_undoes_up(number):
    chain = lineage()
    there = chain.path(BASE, "c3d4").apply({"a": number})
    assert chain.path("c3d4", BASE).apply(there) == {"a": number}


@given(st.integers(-(2**50), 2**50))
def test_a_path_is_the_composition_of_its_halves(number):
    chain = lineage()
    half = chain.path(BASE, "a1b2").apply({"a": number})
    assert chain.path("a1b2", "c3d4").apply(half) == chain.path(BASE, "c3d4").apply({"a": number})


def test_a_transform_that_raises_tells_store_key_revisions_and_cause():
    def upgrade(value):
        return {"b": value["missing"]}

    path = lineage(replace(FIRST, upgrade=upgrade), SECOND).path(BASE, "c3d4")
    with pytest.raises(TransformError) as raised:
        path.apply({"a": 1})
    assert raised.value.data == {"store": "auctions", "source": BASE, "target": "a1b2"}
    assert raised.value.summary.startswith("Store 'auctions': the transform from revision base")
    error = raised.value.at(("k", 7))
    assert error.data == {"store": "auctions", "key": ("k", 7), "source": BASE, "target": "a1b2"}
    assert isinstance(error.__cause__, KeyError)
    assert "Store 'auctions', key ('k', 7)" in str(error)
    assert "from revision base to a1b2" in str(error)
    assert error.found == "KeyError: 'missing'"
    assert "versions/a1b2.py" in error.next_action


def test_a_failing_step_names_its_own_revisions():
    def downgrade(value):
        raise ZeroDivisionError("no way")

    path = lineage(replace(FIRST, downgrade=downgrade), SECOND).path("c3d4", BASE)
    with pytest.raises(TransformError) as raised:
        path.apply({"c": "1"})
    assert (raised.value.data["source"], raised.value.data["target"]) == ("a1b2", BASE)
    assert raised.value.found == "ZeroDivisionError: no way"


@pytest.mark.parametrize(
    ("result", "found"), [(None, "None; is a `return` missing?"), ([1], "list"), (7, "int")]
)
def test_a_transform_that_returns_no_dict_fails_at_once(result, found):
    path = lineage(replace(FIRST, upgrade=lambda value: result)).path(BASE, "a1b2")
    with pytest.raises(TransformError, match="returned no dict") as raised:
        path.apply({"a": 1})
    assert raised.value.found == found


def test_a_value_on_its_way_is_checked_against_the_format_it_passes():
    path = lineage(replace(FIRST, upgrade=lambda value: {"b": "text"}), SECOND).path(BASE, "c3d4")
    with pytest.raises(TransformError, match="its new format cannot hold") as raised:
        path.apply({"a": 1})
    assert raised.value.data["target"] == "a1b2"
    assert isinstance(raised.value.__cause__, ValueMismatchError)


def test_the_last_result_is_left_to_the_write_to_check():
    path = lineage(replace(FIRST, upgrade=lambda value: {"b": "text"})).path(BASE, "a1b2")
    assert path.apply({"a": 1}) == {"b": "text"}


def test_an_interrupt_is_not_taken_for_a_failed_transform():
    def upgrade(value):
        raise KeyboardInterrupt

    path = lineage(replace(FIRST, upgrade=upgrade)).path(BASE, "a1b2")
    with pytest.raises(KeyboardInterrupt):
        path.apply({"a": 1})
