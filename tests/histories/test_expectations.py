"""What a history takes for a refusal with a reason."""

from dataclasses import replace

import pytest
from corners import EXOTIC, KEYS, VALUES
from expectations import (
    NO_SCRIPTS,
    Ledger,
    declared,
    is_by_spark,
    may_forget,
    must_be_refused,
    oddities,
)
from generate import keys_for
from history import History, Life

MADE = History({"profile": "BIGINT"}, "string", [])


def life(**given):
    return Life({"profile": 1}, {"profile": 1}, **given)


def ledger(**given):
    return Ledger(newest={"profile": 1}, variants={"profile": {False}}, **given)


def test_where_plain_code_forgot_values_the_next_deployment_must_be_refused():
    assert must_be_refused(life(), ledger(is_tainted=True))
    assert oddities(MADE, life(), ledger(is_tainted=True), 1) == {"forgotten values"}


def test_where_nothing_was_forgotten_a_refusal_has_no_excuse():
    assert not must_be_refused(life(), ledger())
    assert oddities(MADE, life(), ledger(), 1) == set()


@pytest.mark.parametrize(("given", "why"), [({"checkpoint": "none"}, set()), ({"code": "plain"}, {
    "plain code after another format", "plain code in another format"})])  # fmt: skip
def test_code_that_does_not_look_at_the_checkpoint_cannot_know_what_was_forgotten(given, why):
    assert not must_be_refused(life(**given), ledger(is_tainted=True))
    assert oddities(MADE, life(**given), ledger(is_tainted=True), 1) == why


def test_another_format_of_a_store_without_scripts_is_for_spark_to_refuse():
    odd = Life({"profile": 1}, {"profile": 0})
    excuses = oddities(MADE, odd, Ledger(), 1)
    assert excuses == {"code and scripts differ", NO_SCRIPTS}
    assert is_by_spark("[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] ...", odd, excuses)
    assert not is_by_spark("[INTERNAL_ERROR] ...", odd, excuses)
    assert not is_by_spark(
        "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] ...", odd, {"code and scripts differ"}
    )


def test_the_families_that_were_written_to_last_are_remembered():
    known = Ledger()
    known.committed(
        Life({"profile": 2, "events": 0, "totals": 1}, {"profile": 3, "events": 1, "totals": 0})
    )
    assert known.targets == {"profile@aaaa11110002"}
    known.committed(Life({"profile": 0}, {"profile": 3}, code="plain"), is_rerun=True)
    assert known.is_rerun
    assert known.targets == {"profile@aaaa11110002"}


def test_no_value_is_of_a_type_that_spark_refuses_in_any_state():
    types = {**VALUES, **EXOTIC}
    assert any("MAP<" in each for each in types)
    assert all("MAP<" not in each.replace("MAP<STRING", "") for each in types)
    assert not any("INTERVAL" in each for each in types)


def test_no_key_is_one_that_pandas_has_no_place_for():
    made = replace(MADE, key="timestamp", in_pandas=True)
    kept = [KEYS["timestamp"][1][at][0] for at in keys_for(made)]
    assert [each.year for each in kept] == [1970, 1969, 2024, 2025]


def test_migrated_code_that_looks_at_nothing_forgets_what_its_scripts_do_not_name():
    gone = Life({"profile": 0}, {"profile": 0}, checkpoint="none")
    excuses = oddities(MADE, gone, ledger(), 1)
    assert excuses == {"scripts gone"}
    assert may_forget(gone, excuses)
    assert not may_forget(Life({"profile": 0}, {"profile": 0}), excuses)
    assert not may_forget(life(checkpoint="none"), set())
    assert declared(gone) == {"profile"}
    assert declared(life()) == {"profile", "profile@aaaa11110001"}
    assert declared(life(code="plain")) == {"profile"}
