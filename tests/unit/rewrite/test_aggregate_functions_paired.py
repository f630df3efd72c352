"""Aggregate functions are paired whole, and nothing that may be another one without a question.

The lists are drawn from all of Spark's functions; what a function keeps is Spark's own word, in
``tests/support/aggregate_functions.json``. What is true is known: a function goes on with the one
that computes the same.
"""

import random
from collections import Counter
from dataclasses import replace

import pytest
from rewrite_shapes import aggregation, buffers, checkpoint, struct
from support.aggregate_functions import known_functions, pair_of

from statemigrate.errors import RewriteError
from statemigrate.rewrite.aggregates import KnownFunctions
from statemigrate.rewrite.questions import RewriteAnswers
from statemigrate.rewrite.record import check_functions
from statemigrate.rewrite.rewrite_plan import make_plan
from statemigrate.rewrite.run import _answers

KNOWN = known_functions()
POOL = sorted(KNOWN)
KEY = struct("k STRING")
some = pytest.mark.parametrize("cases", [400, pytest.param(4000, marks=pytest.mark.rewrites)])
"""How many lists are tried; `make rewrites` tries many."""


def drawn(seed):
    """A pair of lists, what each keeps, and where the fields of each function begin."""
    pair = pair_of(random.Random(seed), POOL)
    return pair, *([KNOWN[text] for text in each] for each in (pair.old, pair.new))


def kept(functions):
    return buffers(*[field for each in functions for field in each.fields])


def planned(old, new, answers=None, *, old_code=False, code=True, by_fields=False):
    known = KnownFunctions({0: tuple(old)} if old_code else {}, {0: tuple(new)} if code else {})
    return make_plan(
        checkpoint(aggregation(KEY, kept(old))),
        [aggregation(KEY, kept(new))],
        answers=answers,
        functions=None if by_fields else known,
    )


def sources(plan):
    """The old field of each new one, by their places."""
    return [each.place for each in plan.operators[0].families[0].value.fields]


def true_sources(pair, old, new):
    begins, at = {}, 0
    for text, each in zip(pair.old, old, strict=True):
        begins[text] = at
        at += len(each.fields)
    return [
        None if text not in begins else begins[text] + n
        for text, each in zip(pair.new, new, strict=True)
        for n in range(len(each.fields))
    ]


@some
def test_with_both_codes_every_function_goes_on_with_itself_and_no_other(cases):
    for seed in range(cases):
        pair, old, new = drawn(seed)
        plan = planned(old, new, RewriteAnswers(accept_new=True), old_code=True)
        found = plan.operators[0].families[0].functions.pairs
        computed = [each for each in found if each.how == "derived"]
        assert all(each.new.function.uncast == each.old.function.uncast for each in computed)
        wanted, at = true_sources(pair, old, new), 0
        for each in found:
            size = len(each.new.function.fields)
            if each.how != "derived":
                assert sources(plan)[at : at + size] == wanted[at : at + size], (seed, pair)
            at += size
        gone = {q.text.split("keep ")[1].split(" of aggregation")[0] for q in plan.questions}
        taken = {each.old.function.text for each in computed}
        assert gone == {*pair.old} - {*pair.new} - taken, (seed, pair)
        assert {q.kind for q in plan.questions} <= {"drop"}
        check_functions(plan.operators[0].families[0], plan.starts, _answers(plan))


@some
def test_without_the_old_code_nothing_is_taken_without_a_question(cases):
    """What a question proposes is another function only where one of its very fields has gone."""
    asked, wrong = Counter(), 0
    for seed in range(cases):
        pair, old, new = drawn(seed)
        plan = planned(old, new)
        assert plan.questions, (seed, pair)
        wanted = true_sources(pair, old, new)
        for each in plan.operators[0].families[0].functions.pairs:
            asked[each.how] += 1
            if each.how == "shape" and each.old.at != wanted[each.new.at]:
                gone = [f for text, f in zip(pair.old, old, strict=True) if text not in pair.new]
                assert any(f.fields == each.new.function.fields for f in gone), (seed, pair)
                wrong += 1
            assert each.how in ("shape", "open", "empty"), (seed, pair)
            if each.how == "empty":
                assert wanted[each.new.at] is None, (seed, pair)
    assert asked["shape"] > 0
    assert asked["open"] > 0
    assert wrong < asked["shape"] / 5


@some
def test_what_the_author_says_of_every_function_is_what_becomes_of_it(cases):
    for seed in range(cases // 3):
        pair, old, new = drawn(seed)
        wanted = true_sources(pair, old, new)
        plan = planned(old, new)
        pairing, take = plan.operators[0].families[0].functions, {}
        for each in pairing.pairs:
            at = wanted[each.new.at]
            name = f"aggregation-0.{pairing.label(each)}"
            take[name] = "-" if at is None else pairing.before[at]
        plan = planned(old, new, RewriteAnswers(take=take))
        assert sources(plan) == wanted, (seed, pair)
        assert {each.kind for each in plan.questions} <= {"drop"}
        check_functions(plan.operators[0].families[0], plan.starts, _answers(plan))


def test_the_lists_find_fields_that_are_paired_by_name_and_type():
    """The fault put back: many lists are wrong, and nothing is asked."""
    wrong = 0
    for seed in range(500):
        pair, old, new = drawn(seed)
        if sorted(pair.old) == sorted(pair.new):
            plan = planned(old, new, by_fields=True)
            wrong += not plan.questions and sources(plan) != true_sources(pair, old, new)
    assert wrong > 5


SWAPS = [
    (["count(1)", "avg(x)"], ["avg(x)", "count(1)"]),
    (["first(a)", "last(a)"], ["last(a)", "first(a)"]),
    (["sum(a)", "sum(b)"], ["sum(b)", "sum(a)"]),
    (["collect_list(a)", "collect_set(a)"], ["collect_set(a)", "collect_list(a)"]),
]


@pytest.mark.parametrize(("old", "new"), SWAPS, ids=[",".join(old) for old, _ in SWAPS])
def test_two_functions_that_change_places_are_asked_about_or_moved(old, new):
    before, after = ([KNOWN[each] for each in one] for one in (old, new))
    assert planned(before, after).questions != ()
    plan = planned(before, after, old_code=True)
    assert plan.questions == ()
    begins = len(before[0].fields)
    size = begins + len(before[1].fields)
    assert sources(plan) == [*range(begins, size), *range(begins)]
    assert plan.operators[0].change == "values"


def test_code_that_keeps_the_same_fields_is_asked_about_too():
    """``sum(a)`` and ``sum(b)`` keep the same: that nothing seems to change says nothing."""
    plan = planned([KNOWN["sum(a)"]], [KNOWN["sum(b)"]])
    (question,) = plan.questions
    assert (question.name, question.kind) == ("aggregation-0:functions", "function")
    plan = planned([KNOWN["sum(a)"]], [KNOWN["sum(b)"]], old_code=True)
    assert [(each.name, each.kind) for each in plan.questions] == [
        ("aggregation-0.sum", "new function"),
        ("aggregation-0.sum", "drop"),
    ]


def test_state_that_keeps_its_code_is_asked_nothing():
    old = [KNOWN["sum(a)"], KNOWN["sum(b)"]]
    plan = make_plan(checkpoint(aggregation(KEY, kept(old))), None)
    assert (plan.questions, plan.operators[0].change) == ((), "kept")


def test_a_new_function_is_one_question_and_accept_new_answers_all():
    old = [KNOWN["count(1)"]]
    more = ["approx_count_distinct(a)", "collect_list(a)", "mode(a)", "first(a)", "avg(x)"]
    new = [*old, *(KNOWN[each] for each in more)]
    plan = planned(old, new, old_code=True)
    assert [each.kind for each in plan.questions] == ["new function"] * 5
    plan = planned(old, new, RewriteAnswers(accept_new=True), old_code=True)
    assert plan.questions == ()
    assert plan.starts["aggregation-0.MS[51]"] == 0
    assert plan.starts["aggregation-0.buf"] == KNOWN["collect_list(a)"].empty[0]
    assert plan.starts["aggregation-0.valueSet"] is False
    assert (plan.starts["aggregation-0.sum"], plan.starts["aggregation-0.count_2"]) == (0.0, 0)


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("collect_list(a)", "buf", None),
        ("collect_list(a)", "buf", "AAAA"),
        ("bitmap_construct_agg(bitmap_bit_position(a))", "bitmap", None),
        ("count(a)", "count", None),
        ("first(a)", "valueSet", None),
    ],
)
def test_a_start_that_spark_could_not_read_is_refused(text, field, value):
    answers = RewriteAnswers(start={f"aggregation-0.{field}": value})
    with pytest.raises(RewriteError, match="which Spark could not read") as raised:
        planned([KNOWN["max(a)"]], [KNOWN["max(a)"], KNOWN[text]], answers, old_code=True)
    assert raised.value.found == f"--start aggregation-0.{field}=" + (
        "null" if value is None else f'"{value}"'
    )


def test_a_start_of_one_field_leaves_the_others_as_spark_has_them():
    answers = RewriteAnswers(start={"aggregation-0.sum": 1.5})
    plan = planned([KNOWN["max(a)"]], [KNOWN["max(a)"], KNOWN["avg(x)"]], answers, old_code=True)
    assert plan.questions == ()
    assert plan.starts == {"aggregation-0.sum": 1.5, "aggregation-0.count": 0}


LONG, DECIMAL = (
    KNOWN["sum(a)"],
    replace(
        KNOWN["sum(d)"],
        text="sum(CAST(a AS DECIMAL(20,0)))",
        fields=(("sum", "decimal(30,0)"), ("isEmpty", "boolean")),
        meaning="sum of a cast",
        uncast=KNOWN["sum(a)"].meaning,
        argument="decimal(20,0)",
        empty=("0", True),
    ),
)


def test_a_sum_that_becomes_one_of_decimals_is_computed_from_the_old_one():
    """An empty group's ``isEmpty`` would make null of every sum."""
    plan = planned([LONG], [DECIMAL], old_code=True)
    assert plan.questions == ()
    assert plan.starts == {}
    value = plan.operators[0].families[0].value
    assert [(each.change, each.place, each.rule) for each in value.fields] == [
        ("derived", 0, "zero if null"),
        ("derived", 0, "is null"),
    ]
    assert not value.is_identity
    # Nothing says without the old code that it is the sum of the same.
    (question,) = planned([LONG], [DECIMAL]).questions
    assert (question.kind, question.proposal) == ("take", None)
    said = RewriteAnswers(take={"aggregation-0.sum": "sum"})
    plan = planned([LONG], [DECIMAL], said)
    assert plan.questions == ()
    assert plan.operators[0].families[0].value == value


@pytest.mark.parametrize(
    "other",
    [
        replace(DECIMAL, fields=(("sum", "decimal(15,0)"), ("isEmpty", "boolean"))),
        replace(DECIMAL, argument="decimal(5,0)"),
        replace(DECIMAL, uncast="of another column"),
        replace(DECIMAL, function="Average"),
    ],
    ids=["narrower", "cast to less", "of another column", "another function"],
)
def test_a_sum_that_is_not_proven_to_be_the_same_is_new(other):
    plan = planned([LONG], [other], old_code=True)
    assert [each.kind for each in plan.questions] == ["new function", "drop"]


def test_digits_of_decimals_do_not_become_a_sum_of_whole_numbers_unasked():
    """A small decimal is summed by its digits, in a long, which has no point."""
    scaled = replace(DECIMAL, fields=(("sum", "decimal(30,2)"), ("isEmpty", "boolean")))
    said = RewriteAnswers(take={"aggregation-0.sum": "sum"})
    with pytest.raises(RewriteError, match="cannot go on with the old sum by itself"):
        planned([LONG], [scaled], said)


def test_a_part_of_a_function_goes_nowhere_by_itself():
    said = RewriteAnswers(take={"aggregation-0.count": "count"})
    with pytest.raises(RewriteError, match="is a part of avg"):
        planned([KNOWN["count(1)"]], [KNOWN["avg(x)"]], said)
    said = RewriteAnswers(take={"aggregation-0.count": "valueSet"})
    with pytest.raises(RewriteError, match="cannot go on with the old valueSet by itself"):
        planned([KNOWN["first(a)"]], [KNOWN["count(1)"]], said)
    said = RewriteAnswers(take={"aggregation-0.count": "nothing"})
    with pytest.raises(RewriteError, match="which aggregation-0 does not have"):
        planned([KNOWN["first(a)"]], [KNOWN["count(1)"]], said)


def test_old_code_that_does_not_keep_what_the_checkpoint_has_is_refused():
    old = checkpoint(aggregation(KEY, kept([KNOWN["sum(a)"]])))
    known = KnownFunctions({0: (KNOWN["sum(x)"],)}, {0: (KNOWN["sum(a)"],)})
    with pytest.raises(RewriteError, match="the old code does not keep") as raised:
        make_plan(old, [aggregation(KEY, kept([KNOWN["sum(a)"]]))], functions=known)
    assert (raised.value.expected, raised.value.found) == ("sum long", "sum double")


def test_a_plan_that_mixes_two_functions_up_is_found_by_the_second_pairing():
    """The planner's fault put back: it takes two fields from one another's function."""
    old = [KNOWN["sum(a)"], KNOWN["sum(b)"]]
    plan = planned(old, old, old_code=True)
    family = plan.operators[0].families[0]
    check_functions(family, plan.starts, ())
    first, second = family.value.fields
    swapped = (
        replace(first, place=1, source="sum_2"),
        replace(second, place=0, source="sum"),
    )
    wrong = replace(family, value=replace(family.value, fields=swapped))
    with pytest.raises(RewriteError, match="would be taken from another function"):
        check_functions(wrong, plan.starts, ())


def test_what_is_written_alike_and_computed_from_something_else_is_asked_about():
    """As a column that has come to be of another input, or an expression that a plan hides."""
    old = KNOWN["sum(a)"]
    other = replace(old, meaning="of another input", uncast="of another input")
    (question,) = planned([old], [other], old_code=True).questions
    assert (question.kind, question.proposal) == ("take", None)
    # Where the old one goes on with itself, it is not meant.
    plan = planned([old], [other, old], old_code=True)
    assert [(each.name, each.kind) for each in plan.questions] == [
        ("aggregation-0.sum", "new function")
    ]


def test_what_a_plan_does_not_say_is_asked_about_with_both_codes():
    hidden = replace(KNOWN["sum(a)"], meaning="", uncast="")
    (question,) = planned([hidden], [hidden], old_code=True).questions
    assert (question.name, question.kind) == ("aggregation-0:functions", "function")
    assert "--old-code" not in question.answer
    assert "--old-code" in planned([hidden], [hidden]).questions[0].answer
    plan = planned([hidden, hidden], [hidden, hidden], old_code=True)
    assert [each.kind for each in plan.questions] == ["take", "take"]
