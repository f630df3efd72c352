"""Other words for an expression are no change, and another expression in like words is one."""

import pytest

from statemigrate.meaning import CodeMeaning, OperatorMeaning, compare_code
from statemigrate.meaning.changes import in_one_order
from statemigrate.rewrite.probe_facts import OperatorFact
from statemigrate.rewrite.windows import KeyMeaning

BOTH = ", left=0, right=1"
ONE = "'1': integer"
SAME = [
    (f"EqualTo(a, {ONE}{BOTH})", f"EqualTo({ONE}, a{BOTH})"),
    (f"LessThan(a, {ONE}{BOTH})", f"GreaterThan({ONE}, a{BOTH})"),
    (f"LessThanOrEqual(a, b{BOTH})", f"GreaterThanOrEqual(b, a{BOTH})"),
    (
        f"Not(And(EqualTo(b, a{BOTH}), LessThan(a, Abs(b, child=0){BOTH}){BOTH}), child=0)",
        f"Not(And(GreaterThan(Abs(b, child=0), a{BOTH}), EqualTo(a, b{BOTH}){BOTH}), child=0)",
    ),
    (f"Add(a, '1.5': decimal(10,2){BOTH})", f"Add('1.5': decimal(10,2), a{BOTH})"),
    (f"EqualTo(a, ', (b': string{BOTH})", f"EqualTo(', (b': string, a{BOTH})"),
    (f"Add(a, b{BOTH}, try=True)", f"Add(b, a{BOTH}, try=True)"),
    (
        f"HashAggregate(groupBy=a, groupBy='b, c': string, x=Add(a, b{BOTH}))",
        f"HashAggregate(groupBy='b, c': string, groupBy=a, x=Add(b, a{BOTH}))",
    ),
    ("In(a, '2': long, '1': long, value=0)", "In(a, '1': long, '2': long, value=0)"),
]
OTHER = [
    (f"GreaterThan(a, {ONE}{BOTH})", f"GreaterThan({ONE}, a{BOTH})"),
    (f"LessThan(a, b{BOTH})", f"GreaterThan(a, b{BOTH})"),
    (f"Subtract(a, b{BOTH})", f"Subtract(b, a{BOTH})"),
    (f"EqualTo(a, 'b, c': string{BOTH})", f"EqualTo(a, 'c, b': string{BOTH})"),
    ("HashAggregate(groupBy=a, x=b)", "HashAggregate(groupBy=b, x=a)"),
    (f"EqualTo(a, b{BOTH})", f"EqualNullSafe(a, b{BOTH})"),
    # Names of columns may be anything.
    ("EqualTo(a, b, c)", "EqualTo(b, a, c)"),
    ("it's(a, b", "it's(b, a"),
    ("a), EqualTo(a, b", "a), EqualTo(b, a"),
]


def found(old, new, of):
    parts = [(KeyMeaning("k", each),) if of == "key" else () for each in (old, new)]
    facts = [(OperatorFact("filter", each),) if of == "filter" else () for each in (old, new)]
    codes = [
        CodeMeaning("a:b", "4.3", (), (OperatorMeaning("a-0", 0, "", {}, keys, (), fact),))
        for keys, fact in zip(parts, facts, strict=True)
    ]
    return [each.rule for each in compare_code(*codes)]


@pytest.mark.parametrize("of", ["key", "filter"])
@pytest.mark.parametrize("texts", SAME)
def test_other_words_are_no_change(texts, of):
    assert found(*texts, of) == found(*reversed(texts), of) == []
    assert in_one_order(in_one_order(texts[0])) == in_one_order(texts[0])


@pytest.mark.parametrize("of", ["key", "filter"])
@pytest.mark.parametrize("texts", OTHER)
def test_another_expression_is_a_change(texts, of):
    assert found(*texts, of) == found(*reversed(texts), of) == [of]


def test_a_change_is_shown_as_the_code_has_it():
    facts = [
        (OperatorFact("filter", f"LessThan(a, '{number}': integer{BOTH})"),) for number in (1, 2)
    ]
    codes = [
        CodeMeaning("a:b", "4.3", (), (OperatorMeaning("a-0", 0, "", {}, (), (), each),))
        for each in facts
    ]
    (change,) = compare_code(*codes)
    assert change.text.startswith("it was LessThan(a, '1'), and is LessThan(a, '2'): ")
