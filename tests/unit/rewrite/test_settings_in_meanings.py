"""What settings of the session are in the texts of expressions, and how they are compared."""

from dataclasses import replace

import pytest

from statemigrate.meaning import CodeMeaning, OperatorMeaning, compare_code
from statemigrate.rewrite.aggregates import AggregateFunction
from statemigrate.rewrite.plan_settings import (
    ANSI,
    ZONE,
    in_any_session,
    settings_in,
    without_settings,
)
from statemigrate.rewrite.probe_facts import OperatorFact
from statemigrate.rewrite.windows import KeyMeaning

DAY = "Cast(at, dataType=date{}, timeZoneId={})"
TOTAL = 'Sum{{{}"child":0}}(input."v")'


def code(*texts, total="", format=3):
    keys = tuple(KeyMeaning(f"k{at}", text) for at, text in enumerate(texts))
    meaning = TOTAL.format(total)
    function = AggregateFunction("sum(v)", (("sum", "long"),), meaning, meaning, "Sum", "long")
    operator = OperatorMeaning("aggregation-0", 0, "", {}, keys, (function,), (), format)
    return CodeMeaning("a:b", "4.3", (), (operator,))


def day(zone, counts=True):
    return DAY.format(f", {ZONE}={zone}" if counts else "", zone)


def found(old, new):
    return [(each.name, each.verdict, each.asks) for each in compare_code(old, new)]


LEGACY = f'"{ANSI}":"false",'
OTHER_ZONE = (f"aggregation-0 {ZONE}", "unnoticed", True)


def test_a_zone_that_counts_is_a_change_and_one_that_does_not_is_none():
    assert found(code(day("UTC")), code(day("Asia/Tokyo"))) == [OTHER_ZONE]
    number = [DAY.format("", zone).replace("date", "long") for zone in ("UTC", "Asia/Tokyo")]
    assert found(*map(code, number)) == []


def test_zones_that_two_keys_exchange_are_changes():
    assert found(code(day("UTC"), day("Asia/Tokyo")), code(day("Asia/Tokyo"), day("UTC"))) == [
        OTHER_ZONE
    ]


def test_a_setting_is_compared_whatever_a_column_is_called_now():
    one, other = code(day("UTC")), code(day("Asia/Tokyo"))
    (operator,) = other.operators
    keys = tuple(replace(each, name="renamed") for each in operator.keys)
    functions = tuple(replace(each, result="renamed") for each in operator.functions)
    renamed = replace(other, operators=(replace(operator, keys=keys, functions=functions),))
    assert found(one, renamed) == [OTHER_ZONE]


def test_a_setting_is_compared_where_values_of_a_list_have_another_order():
    orders = {"UTC": "'1': date, '2': date", "Asia/Tokyo": "'2': date, '1': date"}
    texts = [f"In({day(zone)}, {order}, value=0)" for zone, order in orders.items()]
    assert found(*map(code, texts)) == [OTHER_ZONE]


def test_overflow_is_a_change_of_the_function_by_the_name_of_the_setting():
    name = f"aggregation-0 {ANSI}"
    (change,) = compare_code(code(total=LEGACY), code())
    assert (change.name, change.rule) == (name, "setting")
    assert change.text.startswith("it was false, and is true: ")
    assert change.text.endswith(" (sum(v))")
    assert found(code(total=LEGACY), code(total=LEGACY)) == []


def test_both_fields_of_one_setting_are_one_change():
    texts = [
        f"Abs(v, child=0, failOnError={value}{mode})"
        for value, mode in (("False", f", {ANSI}=false"), ("True", ""))
    ]
    assert found(*map(code, texts)) == [(f"aggregation-0 {ANSI}", "unnoticed", True)]
    # Without a setting that differs, it is what the code asks for.
    texts = [text.replace(f", {ANSI}=false", "") for text in texts]
    assert [each[0] for each in found(*map(code, texts))] == ["aggregation-0 key k0"]


@pytest.mark.parametrize("old", [1, 2])
def test_what_an_earlier_release_did_not_look_at_is_no_change(old):
    """A default is not mentioned; another value is, and asks for nothing."""
    assert found(code(format=old), code()) == []
    assert found(code(format=old), code(total='"try":true,')) == []
    name = f"aggregation-0 {ANSI}"
    assert found(code(format=old), code(total=LEGACY)) == [(name, "unknown", False)]


@pytest.mark.parametrize("old", [1, 2])
def test_a_zone_that_an_earlier_release_wrote_is_compared_where_it_counts(old):
    before = day("UTC", counts=False)
    assert found(code(before, format=old), code(day("UTC"))) == []
    assert found(code(before, format=old), code(day("Asia/Tokyo"))) == [OTHER_ZONE]
    needless = day("Asia/Tokyo", counts=False)
    assert found(code(before, format=old), code(needless)) == []


def test_facts_are_compared_by_their_settings_too():
    codes = []
    for zone in ("UTC", "Asia/Tokyo"):
        (operator,) = code().operators
        facts = (OperatorFact("filter", f"Hour(at, {ZONE}={zone}, timeZoneId={zone})"),)
        codes.append(CodeMeaning("a:b", "4.3", (), (replace(operator, facts=facts),)))
    assert found(*codes) == [OTHER_ZONE]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (f"F(a, x=1, {ZONE}=UTC, timeZoneId=UTC)", "F(a, x=1)"),
        (f"F({ZONE}=UTC, x=1)", "F(x=1)"),
        (f'F{{"{ANSI}":"false","x":1}}(a)', 'F{"x":1}(a)'),
        (f'F{{"x":1,"{ANSI}":"false"}}(a)', 'F{"x":1}(a)'),
        (
            f'F{{"of":["G{{\\"{ANSI}\\":\\"false\\",\\"x\\":1}}(b)"]}}',
            'F{"of":["G{\\"x\\":1}(b)"]}',
        ),
        (
            "'StructsToJsonEvaluator(Map(),StructType(i),Some(UTC))': object",
            "'StructsToJsonEvaluator(Map(),StructType(i))': object",
        ),
    ],
)
def test_settings_are_taken_out_of_any_text(text, same):
    assert in_any_session(text, of_any_mode=False, with_try=True) == same
    assert without_settings(same) == same


def test_settings_are_listed_in_their_order():
    text = f"F(G(a, {ZONE}=UTC), H(b, {ZONE}=Asia/Tokyo), {ANSI}=false)"
    assert list(settings_in(text)) == [(ZONE, "UTC"), (ZONE, "Asia/Tokyo"), (ANSI, "false")]
