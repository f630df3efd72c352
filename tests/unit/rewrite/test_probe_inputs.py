"""Where the schemas of a function's streams are said."""

from typing import Annotated

import pytest

from statemigrate import NewCode, plan, rewrite
from statemigrate.commands.plan import lock
from statemigrate.commands.seed import seed
from statemigrate.errors import CodeError
from statemigrate.rewrite.probe import input_names, input_schemas

ORDERS = "id string, n int"


class DataFrame:
    """Stands for Spark's."""


def test_a_parameter_is_annotated_with_the_schema_of_its_stream():
    def code(orders: Annotated[DataFrame, "id string, n int"], clicks: "at timestamp"):  # noqa: F722
        return orders, clicks

    assert input_schemas(code, {}, "code") == {
        "orders": "id STRING, n INT",
        "clicks": "at TIMESTAMP",
    }


def test_annotations_may_be_postponed():
    def code(orders, clicks):
        return orders, clicks

    code.__annotations__ = {
        "orders": 'Annotated[DataFrame, "id string"]',
        "clicks": '"at timestamp"',
    }
    assert input_schemas(code, {}, "code") == {"orders": "id STRING", "clicks": "at TIMESTAMP"}


def test_a_postponed_annotation_may_name_its_schema():
    def code(orders, clicks):
        return orders, clicks

    code.__annotations__ = {
        "orders": "Annotated[DataFrame, ORDERS]",
        "clicks": "Annotated[DataFrame, UNKNOWN]",
    }
    with pytest.raises(CodeError, match="does not say what the rows of clicks are"):
        input_schemas(code, {}, "code")
    given = {"clicks": "at timestamp"}
    assert input_schemas(code, given, "code")["orders"] == "id STRING, n INT"


def test_what_is_given_outranks_the_annotation():
    def code(orders: Annotated[DataFrame, "id string"]):
        return orders

    assert input_schemas(code, {"orders": "id BIGINT"}, "code") == {"orders": "id BIGINT"}


def test_a_parameter_with_a_default_is_no_stream():
    def code(orders: Annotated[DataFrame, "id string"], by="id"):
        return orders, by

    assert list(input_schemas(code, {}, "code")) == ["orders"]


class SparkSession:
    """Stands for Spark's."""


def test_a_parameter_for_the_session_is_no_stream():
    def named(spark, orders: "id string"):  # noqa: F722
        return spark, orders

    def annotated(orders: Annotated[DataFrame, "id string"], of: SparkSession):
        return orders, of

    def postponed(orders: Annotated[DataFrame, "id string"], of: "sql.SparkSession"):  # noqa: F821
        return orders, of

    for code in (named, annotated, postponed):
        assert input_schemas(code, {}, "code") == {"orders": "id STRING"}
        assert input_names(code) == {"orders"}


def test_a_stream_may_have_the_name_of_a_session():
    def code(session: Annotated[DataFrame, "id string"], spark):
        return session, spark

    assert input_schemas(code, {"spark": "n int"}, "code") == {
        "session": "id STRING",
        "spark": "n INT",
    }


def test_a_function_of_the_session_alone_opens_its_streams_itself():
    def code(spark):
        return spark

    with pytest.raises(CodeError) as caught:
        input_schemas(code, {}, "jobs:code")
    assert caught.value.code == "SM-CODE-010"


def test_a_stream_without_a_schema_is_refused_with_the_way_to_say_it():
    def code(orders: DataFrame):
        return orders

    with pytest.raises(CodeError, match="does not say what the rows of orders are") as caught:
        input_schemas(code, {}, "jobs:code")
    assert '--input orders="..."' in caught.value.next_action


@pytest.mark.parametrize(
    ("code", "given", "problem"),
    [
        (lambda: None, {}, "takes no input stream"),
        (lambda orders: None, {"order": "id string"}, "has no input order"),
        (lambda orders: None, {"orders": "id strng"}, "input orders whose schema is none"),
        (DataFrame, {}, "is no function"),
    ],
    ids=["no stream", "another name", "no DDL", "a class"],
)
def test_what_is_no_such_function_is_refused(code, given, problem):
    with pytest.raises(CodeError, match=problem):
        input_schemas(code, given, "jobs:code")


@pytest.mark.parametrize("verb", ["plan", "lock", "rewrite", "seed"])
def test_what_a_function_takes_is_compared_before_spark_starts(verb, tmp_path, monkeypatch):
    (tmp_path / "unsaid.py").write_text("def code(events):\n    return events\n")
    (tmp_path / "rows.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    target, places = NewCode("unsaid:code"), ("checkpoint", "new")

    def session():
        raise AssertionError("Spark starts")

    calls = {
        "plan": lambda: plan(places[0], target=target, spark=session),
        "lock": lambda: lock("unsaid:code", spark=session),
        "rewrite": lambda: rewrite(*places, target=target, spark=session),
        "seed": lambda: seed(places[1], "rows.json", target=target, spark=session),
    }
    with pytest.raises(CodeError) as caught:
        calls[verb]()
    assert caught.value.code == "SM-CODE-011"
