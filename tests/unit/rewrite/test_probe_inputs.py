"""Where the schemas of a function's streams are said."""

from typing import Annotated

import pytest

from statemigrate.errors import CodeError
from statemigrate.rewrite.probe import input_schemas

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
