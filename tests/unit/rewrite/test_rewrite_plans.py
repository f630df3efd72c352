"""What a plan takes by itself, what it asks, and what it refuses."""

from dataclasses import replace

import pytest
from rewrite_shapes import aggregation, buffers, checkpoint, operator, struct

from statemigrate.errors import RewriteError
from statemigrate.rewrite.questions import RewriteAnswers
from statemigrate.rewrite.rewrite_plan import make_plan, plan_document
from statemigrate.rewrite.sources import RewriteOptions

KEY = struct("k STRING")
COUNT_SUM = buffers(("count", "long"), ("sum", "long"))


def planned(old_value, new_value, answers=None, old_key=KEY, new_key=KEY):
    old = checkpoint(aggregation(old_key, old_value))
    return make_plan(old, [aggregation(new_key, new_value)], answers=answers)


def asked(plan):
    return {each.name: each.proposal for each in plan.questions}


def test_the_same_code_on_more_partitions_keeps_everything_and_asks_nothing():
    plan = make_plan(checkpoint(aggregation(KEY, COUNT_SUM)), None, RewriteOptions(partitions=5))
    assert [each.change for each in plan.operators] == ["kept"]
    assert plan.questions == ()
    assert plan.new.conf["spark.sql.shuffle.partitions"] == "5"
    assert plan.new.operators[0].stores[0].partitions == 5


def test_one_more_maximum_is_asked_to_start_at_null():
    plan = planned(COUNT_SUM, buffers(("count", "long"), ("sum", "long"), ("max", "long")))
    assert asked(plan) == {"aggregation-0.max": "null"}
    assert plan.operators[0].change == "values"


def test_an_average_starts_as_spark_starts_it():
    plan = planned(
        buffers(("max", "long")), buffers(*[("max", "long"), ("sum", "double"), ("count", "long")])
    )
    assert asked(plan) == {"aggregation-0.sum": "0", "aggregation-0.count": "0"}


def test_what_a_collecting_function_starts_with_is_not_guessed():
    plan = planned(buffers(("max", "long")), buffers(("max", "long"), ("buf", "binary")))
    assert asked(plan) == {"aggregation-0.buf": None}
    with pytest.raises(RewriteError, match="nothing to say about"):
        planned(
            buffers(("max", "long")),
            buffers(("max", "long")),
            RewriteAnswers(frozenset({"aggregation-0.bug"})),
        )


MAX = "aggregation-0.max:0644a2"
"""How the start of a new maximum at null is accepted, in every checkpoint and release."""


def test_what_is_accepted_or_given_is_no_question_any_more():
    new = buffers(("count", "long"), ("sum", "long"), ("max", "long"), ("min", "long"))
    answers = RewriteAnswers(frozenset({MAX}), start={"aggregation-0.min": 7})
    plan = planned(COUNT_SUM, new, answers)
    assert plan.questions == ()
    assert plan.starts == {"aggregation-0.max": None, "aggregation-0.min": 7}
    assert [each.answer for each in plan.answered] == ["null", "7"]


def test_what_was_accepted_of_one_question_is_not_taken_for_another():
    """A name is the same for a field that is new and one that goes: so are the words to type."""
    longer = buffers(("count", "long"), ("sum", "long"), ("max", "long"))
    shown = planned(COUNT_SUM, longer).questions[0]
    gone = planned(longer, COUNT_SUM).questions[0]
    assert shown.name == gone.name == "aggregation-0.max"
    assert (shown.acceptance, gone.answer) == (MAX, f"--accept {gone.acceptance}")
    said = RewriteAnswers(frozenset({shown.acceptance}))
    assert planned(COUNT_SUM, longer, said).questions == ()
    with pytest.raises(RewriteError, match="belongs to another question") as raised:
        planned(longer, COUNT_SUM, said)
    assert gone.text in raised.value.summary
    assert (raised.value.expected, raised.value.found) == (gone.acceptance, MAX)
    assert f"--accept {gone.acceptance}" in raised.value.next_action


def test_a_name_alone_accepts_nothing_unless_the_caller_says_so():
    longer = buffers(("count", "long"), ("sum", "long"), ("max", "long"))
    alone = RewriteAnswers(frozenset({"aggregation-0.max"}))
    with pytest.raises(RewriteError, match="does not say which question it is about") as raised:
        planned(COUNT_SUM, longer, alone)
    assert "does it start at null?" in raised.value.summary
    assert (raised.value.expected, raised.value.found) == (MAX, "aggregation-0.max")
    assert planned(COUNT_SUM, longer, replace(alone, by_name=True)).questions == ()


def test_what_nothing_is_proposed_for_cannot_be_accepted():
    new = buffers(("max", "long"), ("buf", "binary"))
    said = RewriteAnswers(frozenset({"aggregation-0.buf"}))
    with pytest.raises(RewriteError, match="nothing is proposed") as raised:
        planned(buffers(("max", "long")), new, said)
    assert raised.value.expected == "--start aggregation-0.buf=JSON"


@pytest.mark.parametrize(
    ("kind", "said"),
    [("long", "seven"), ("long", 1.5), ("long", 2**63), ("date", "soon"), ("boolean", 1)],
)
def test_a_start_that_the_field_cannot_hold_is_refused(kind, said):
    answers = RewriteAnswers(start={"aggregation-0.max": said})
    with pytest.raises(RewriteError, match=r"aggregation-0\.max cannot start at") as raised:
        planned(COUNT_SUM, buffers(("count", "long"), ("sum", "long"), ("max", kind)), answers)
    assert f"the field's type, {kind}" in raised.value.expected


def test_which_of_several_sums_is_which_is_asked_where_they_are_not_as_many():
    two = buffers(("sum", "long"), ("sum", "long"))
    plan = planned(buffers(("sum", "long")), two)
    assert asked(plan) == {"aggregation-0.sum": "sum", "aggregation-0.sum_2": "null"}
    other = RewriteAnswers(take={"aggregation-0.sum_2": "sum"}, start={"aggregation-0.sum": None})
    plan = planned(buffers(("sum", "long")), two, other)
    assert plan.questions == ()
    value = plan.operators[0].families[0].value
    assert [each.place for each in value.fields] == [None, 0]


@pytest.mark.parametrize(
    ("said", "sources"),
    [
        (RewriteAnswers(frozenset({"aggregation-0.count"}), by_name=True), [0, 1, 0]),
        (RewriteAnswers(take={"aggregation-0.count": "count"}), [0, 1, 0]),
        (RewriteAnswers(start={"aggregation-0.count": 0}), [None, 1, 0]),
    ],
    ids=["accepted", "taken", "started"],
)
def test_a_field_that_another_one_takes_goes_on_in_its_own_name_too(said, sources):
    more = buffers(("count", "long"), ("sum", "long"), ("count", "long"))
    taken = {"aggregation-0.count_2": "count"}
    plan = planned(COUNT_SUM, more, RewriteAnswers(take=taken))
    assert asked(plan) == {"aggregation-0.count": "count"}
    assert "count_2 has the old count" in plan.questions[0].text
    answers = replace(said, take={**taken, **said.take})
    plan = planned(COUNT_SUM, more, answers)
    assert plan.questions == ()
    assert [each.place for each in plan.operators[0].families[0].value.fields] == sources


def test_as_many_of_a_name_with_the_same_types_are_the_same():
    same = buffers(("sum", "long"), ("sum", "double"), ("count", "long"))
    plan = planned(same, same)
    assert plan.questions == ()
    assert plan.operators[0].change == "kept"


def test_a_buffer_that_goes_must_be_confirmed():
    plan = planned(COUNT_SUM, buffers(("count", "long")))
    assert asked(plan) == {"aggregation-0.sum": "gone"}


def test_a_type_that_holds_every_old_value_is_taken_and_another_is_refused():
    plan = planned(buffers(("max", "integer")), buffers(("max", "long")))
    assert plan.questions == ()
    assert plan.operators[0].families[0].value.fields[0].change == "widened"
    with pytest.raises(RewriteError, match="max cannot become max by itself") as caught:
        planned(buffers(("max", "long")), buffers(("max", "string")))
    assert "statemigrate new aggregation-0" in caught.value.next_action


def test_a_key_with_another_column_needs_a_script():
    with pytest.raises(RewriteError, match="the key has a new column region"):
        planned(COUNT_SUM, COUNT_SUM, new_key=struct("k STRING, region STRING"))


def test_an_aggregation_whose_keys_meet_needs_a_script_that_merges():
    with pytest.raises(RewriteError, match="rows of aggregation-0 meet"):
        planned(COUNT_SUM, COUNT_SUM, old_key=struct("k STRING, region STRING"))


def test_duplicates_by_fewer_columns_keep_one_row_if_that_is_meant():
    dummy = struct("__dummy__ VOID")
    old = checkpoint(operator("dedupe", struct("k STRING, v BIGINT"), dummy))
    plan = make_plan(old, [operator("dedupe", struct("v BIGINT"), dummy)])
    assert asked(plan) == {"deduplicate-0.k": "gone", "deduplicate-0.merge": "one stays"}
    assert plan.operators[0].change == "keys"


def test_fields_of_a_nested_struct_are_matched_within():
    old = struct("groupState STRUCT<n: BIGINT, s: STRING>")
    new = struct("groupState STRUCT<s: STRING, n: BIGINT, since: TIMESTAMP>")
    checkpointed = checkpoint(operator("applyInPandasWithState", KEY, old))
    plan = make_plan(checkpointed, [operator("applyInPandasWithState", KEY, new)])
    assert asked(plan) == {"groups-0.groupState.since": "null"}


def test_an_operator_that_goes_is_asked_about_and_a_new_one_is_empty():
    dedupe = operator("dedupe", KEY, struct("__dummy__ VOID"), 1)
    plan = make_plan(checkpoint(aggregation(KEY, COUNT_SUM), dedupe), [aggregation(KEY, COUNT_SUM)])
    assert asked(plan) == {"deduplicate-1": "gone"}
    plan = make_plan(checkpoint(aggregation(KEY, COUNT_SUM)), [aggregation(KEY, COUNT_SUM), dedupe])
    assert [each.change for each in plan.operators] == ["kept", "new"]
    assert plan.questions == ()


def test_which_of_several_operators_goes_is_not_guessed():
    first, second = aggregation(KEY, COUNT_SUM), aggregation(KEY, COUNT_SUM, 1)
    with pytest.raises(RewriteError, match="which aggregation") as caught:
        make_plan(checkpoint(first, second), [first])
    assert "--operator 0=0" in caught.value.next_action
    plan = make_plan(
        checkpoint(first, second), [first], answers=RewriteAnswers(operators={1: 0, 0: None})
    )
    assert asked(plan) == {"aggregation-0": "gone"}


def test_an_earlier_watermark_is_asked_about_and_written_to_both_logs():
    old = checkpoint(aggregation(KEY, COUNT_SUM), watermark=5000)
    plan = make_plan(old, None, RewriteOptions(watermark=1000))
    assert asked(plan) == {"watermark": "go back"}
    assert plan.new.offsets[4].watermark == plan.new.commits[4].watermark == 1000


def test_an_offset_is_set_in_both_entries_and_only_of_a_source_that_there_is():
    old = checkpoint(aggregation(KEY, COUNT_SUM))
    plan = make_plan(old, None, RewriteOptions(offsets={"0": {"logOffset": 0}}))
    assert [each.offsets.lines for each in plan.new.offsets.values()] == [('{"logOffset":0}',)] * 2
    with pytest.raises(RewriteError, match="no source 1"):
        make_plan(old, None, RewriteOptions(offsets={"1": {}}))


def test_a_plan_has_one_fingerprint_which_an_answer_changes():
    new = buffers(("count", "long"), ("sum", "long"), ("max", "long"))

    def starting(at):
        return planned(COUNT_SUM, new, RewriteAnswers(start={"aggregation-0.max": at})).fingerprint

    assert starting(1) == starting(1) != starting(2)


def test_a_field_that_goes_from_a_struct_within_is_told_with_the_struct():
    old, new = struct("s STRUCT<a: INT, b: STRING>, c INT"), struct("s STRUCT<b: STRING, d: INT>")
    plan = planned(old, new)
    assert asked(plan)["aggregation-0.s.d"] == "null"
    (operator_,) = plan_document(plan)["operators"]
    (family,) = operator_["families"]
    assert [(each["field"], each["change"]) for each in family["value"]] == [
        ("s", "nested"),
        ("s.b", "kept"),
        ("s.d", "new"),
        ("s.a", "gone"),
        ("c", "gone"),
    ]
