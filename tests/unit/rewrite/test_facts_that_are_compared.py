"""Which facts of two versions of an operator are compared."""

from dataclasses import replace

import pytest

from statemigrate.meaning import CodeMeaning, OperatorMeaning, compare_code
from statemigrate.rewrite.probe_facts import OperatorFact
from statemigrate.rewrite.state_schemas import StateSchema
from statemigrate.rewrite.windows import KeyMeaning


def changes(old, new):
    both = [
        CodeMeaning("a:b", "4.3", (), (OperatorMeaning("join-0", 0, "", {}, (), (), facts),))
        for facts in (tuple(old), tuple(new))
    ]
    return [(each.name, each.verdict, each.rule) for each in compare_code(*both)]


def given(*texts):
    return [OperatorFact("column", text) for text in texts]


def stored(side, *texts):
    return [OperatorFact("column", f"{at}: {each}", side) for at, each in enumerate(texts)]


def test_columns_of_a_processor_are_compared_by_their_names():
    assert changes(given("v = v"), given("v = v", "w = w")) == []
    assert changes(given("v = v", "w = w"), given("v = v")) == []
    found = changes(given("v = v", "w = w"), given("v = Upper(v)"))
    assert found == [("join-0 column", "unnoticed", "column")]


def test_a_column_that_two_steps_get_is_compared_in_both():
    found = changes(given("v = v", "v = Upper(v)"), given("v = v"))
    assert found == [("join-0 column", "unnoticed", "column")]


def test_columns_that_a_join_keeps_are_compared_where_there_are_as_many():
    assert changes(stored("left", "k", "v"), stored("left", "k")) == []
    assert changes(stored("left", "k", "v"), stored("left", "k", "v")) == []
    found = changes(stored("left", "k", "v"), stored("left", "k", "w"))
    assert found == [("join-0 column of the left side", "unnoticed", "column")]


def test_a_step_that_other_rows_are_made_by_is_a_change():
    step = OperatorFact("rows", "Explode(v)")
    twice = OperatorFact("rows", "2 times Explode(v)")
    assert changes([step], [twice]) == [("join-0 rows", "unnoticed", "rows")]
    assert changes([step], []) == [("join-0 rows", "unnoticed", "rows")]
    assert changes([twice], [twice]) == []


def test_bytecode_of_two_releases_of_python_is_not_compared():
    texts = [f"MapInPandas(PythonUDF(v, code=py3.{minor}:{'0' * 32}))" for minor in (11, 12)]
    one, other = ([OperatorFact("rows", text)] for text in texts)
    assert changes(one, other) == [("join-0 Python functions", "unknown", "meaning")]
    assert changes(one, one) == []
    read = [OperatorFact("rows", texts[0].replace("000", "111"))]
    assert changes(one, read) == [("join-0 rows", "unnoticed", "rows")]


def kept(release, value):
    state = {"aggregation-0": StateSchema(value, "`not` STRING NOT NULL")}
    return CodeMeaning(
        "a:b", release, (), (OperatorMeaning("aggregation-0", 0, "stateStoreSave", state),)
    )


@pytest.mark.parametrize("releases", [("4.1", "4.3"), ("4.3", "4.2")])
def test_releases_of_spark_may_declare_state_nullable_or_not(releases):
    texts = (
        "count BIGINT NOT NULL, m STRUCT<a: DOUBLE NOT NULL>",
        "count BIGINT, m STRUCT<a: DOUBLE>",
    )
    both = [kept(*each) for each in zip(releases, texts, strict=True)]
    assert list(compare_code(*both)) == []
    assert list(compare_code(*reversed(both))) == []
    (change,) = compare_code(*(kept("4.1", each) for each in texts))
    assert change.verdict == "rewrite"
    (change,) = compare_code(kept("4.1", "`a NOT NULL` BIGINT"), kept("4.3", "a INT"))
    assert change.verdict == "rewrite"
    # What an aggregation keeps goes by its functions, whatever Spark calls it.
    assert [*compare_code(kept("4.1", "`a NOT NULL` BIGINT"), kept("4.3", "a BIGINT"))] == []


PAGE = "Pmod(Murmur3Hash(Concat(k, '%s': string, left=0), seed=42), '%s': integer, right=1)"


def on_pages(literal, pages, name="statemigrate_page"):
    keys = (KeyMeaning(name, PAGE % (literal, pages)),)
    operator = OperatorMeaning("pages", 0, "", {}, keys)
    return CodeMeaning("a:b", "4.3", (), (operator,))


def test_the_number_of_pages_is_no_meaning_and_a_literal_in_the_key_is():
    assert [*compare_code(on_pages("7", 3), on_pages("7", 7))] == []
    (found,) = compare_code(on_pages("7", 3), on_pages("8", 3))
    assert (found.rule, found.verdict) == ("key", "unnoticed")
    (found,) = compare_code(on_pages("7", 3, name="k"), on_pages("7", 7, name="k"))
    assert found.rule == "key"


def test_documents_of_format_1_do_not_say_that_a_value_must_be_there():
    facts = (
        OperatorFact("filter", "IsNotNull(v, child=0)"),
        OperatorFact("table", "rows made by code, (not shown)"),
    )
    new = OperatorMeaning("join-0", 0, "", {}, (), (), facts)
    old = replace(new, facts=(OperatorFact("table", "rows made by code"),), format=1)
    codes = [CodeMeaning("a:b", "4.3", (), (each,)) for each in (old, new)]
    assert [each.rule for each in compare_code(*codes)] == ["hidden"]
    assert [each.rule for each in compare_code(*reversed(codes))] == []
    later = CodeMeaning("a:b", "4.3", (), (replace(new, facts=facts[1:]),))
    assert [each.rule for each in compare_code(codes[1], later)] == ["filter", "hidden"]
