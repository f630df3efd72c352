"""States that two versions of a query's code keep, compared where there is no checkpoint."""

from dataclasses import replace

import pytest

from statemigrate.meaning.code_meaning import OperatorMeaning
from statemigrate.meaning.states import compare_states
from statemigrate.rewrite.state_schemas import StateSchema, schemas_by_init

TOTAL = StateSchema("total BIGINT", "key STRUCT<k: STRING>")
VARIABLES, GROUPS, AGGREGATION = (
    "transformWithStateInPySparkExec",
    "flatMapGroupsWithState",
    "stateStoreSave",
)


def operator(kind, **states):
    return OperatorMeaning("operator-0", 0, kind, states)


def verdicts(old, new, *, of_one_release=True):
    found = compare_states(old, new, of_one_release=of_one_release)
    return [(each.name, each.verdict) for each in found]


@pytest.mark.parametrize(
    ("new", "verdict"),
    [
        (replace(TOTAL, value="total DOUBLE"), "live"),
        (replace(TOTAL, value="total BIGINT, n INT"), "live"),
        (replace(TOTAL, value="cents BIGINT"), "unnoticed"),
        (replace(TOTAL, is_list=True), "rewrite"),
        (replace(TOTAL, user_key="region STRING"), "rewrite"),
        (replace(TOTAL, key="key STRUCT<k: INT>"), "rewrite"),
        (replace(TOTAL, expires=True, lives=5), "live"),
    ],
)
def test_a_variable_that_is_kept_otherwise_has_a_verdict(new, verdict):
    assert verdicts(operator(VARIABLES, sum=TOTAL), operator(VARIABLES, sum=new)) == [
        ("sum", verdict)
    ]


def test_variables_that_one_version_alone_has_begin_empty_or_are_deleted():
    old, new = operator(VARIABLES, sum=TOTAL), operator(VARIABLES, total=TOTAL)
    assert verdicts(old, new) == [("total", "goes on"), ("sum", "unnoticed")]
    assert verdicts(operator(AGGREGATION, a=TOTAL), operator(AGGREGATION, b=TOTAL)) == [
        ("b", "rewrite"),
        ("a", "rewrite"),
    ]


def test_a_store_whose_scripts_lead_further_migrates_live():
    old = operator(VARIABLES, tally=TOTAL)
    new = operator(VARIABLES, **{"tally@0002": replace(TOTAL, value="cents STRING")})
    assert verdicts(old, new) == [("tally", "live")]
    assert verdicts(new, new) == []


def test_values_that_live_longer_go_on_and_unknown_times_are_not_compared():
    short, long = (replace(TOTAL, expires=True, lives=each) for each in (5, 50))
    assert verdicts(operator(VARIABLES, sum=short), operator(VARIABLES, sum=long)) == [
        ("sum", "goes on")
    ]
    unknown = replace(TOTAL, expires=True)
    assert verdicts(operator(VARIABLES, sum=unknown), operator(VARIABLES, sum=long)) == []


def test_names_count_for_what_code_alone_fills_and_not_for_aggregates():
    other = replace(TOTAL, value="cents BIGINT")
    for kind, expected in ((GROUPS, [("sum", "unnoticed")]), (AGGREGATION, [])):
        assert verdicts(operator(kind, sum=TOTAL), operator(kind, sum=other)) == expected


def test_what_was_not_looked_at_is_not_compared():
    assert verdicts(operator(VARIABLES), operator(VARIABLES, sum=TOTAL)) == []
    declared = StateSchema("total BIGINT NOT NULL")
    assert verdicts(operator(VARIABLES, sum=TOTAL), operator(VARIABLES, sum=declared)) == []


def test_a_state_is_the_same_after_it_was_a_document():
    for each in (
        TOTAL,
        StateSchema("struct<>", user_key="a INT", lives=3, expires=True, is_list=True),
    ):
        assert StateSchema.from_json(each.to_json()) == each
    with pytest.raises(ValueError, match="SM-FORMAT"):
        StateSchema.from_json({**TOTAL.to_json(), "value": "no ddl of any kind <"})


def test_a_processor_says_what_it_keeps_when_it_is_begun():
    from pyspark.sql.types import LongType, StructType

    class Processor:
        def init(self, handle):
            handle.getValueState("sum", StructType().add("total", LongType()), 0)
            handle.getListState("all", "total BIGINT", ttlDurationMs=7)
            handle.getMapState("each", "k STRING", "v INT")
            handle.getValueState("gone", "v INT")
            handle.deleteIfExists("gone")

    assert schemas_by_init(Processor()) == {
        "sum": StateSchema("total BIGINT"),
        "all": StateSchema("total BIGINT", is_list=True, expires=True, lives=7),
        "each": StateSchema("v INT", user_key="k STRING"),
    }
