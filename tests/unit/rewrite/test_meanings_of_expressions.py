"""What an expression of a plan means, also by expressions that are in its fields alone."""

from statemigrate.rewrite.plan_expressions import PlanExpression, parse_tree
from statemigrate.rewrite.probe_functions import _comparable

PACKAGE = "org.apache.spark.sql.catalyst.expressions"


def column(name, number):
    return {
        "class": f"{PACKAGE}.AttributeReference",
        "num-children": 0,
        "name": name,
        "exprId": {"id": number},
    }


def listed(order):
    """A list in an order that Spark keeps in a field, as a tree of its own."""
    own = {"class": f"{PACKAGE}.aggregate.ListAgg", "num-children": 1, "child": 0}
    ordered = {"class": f"{PACKAGE}.SortOrder", "num-children": 1, "child": 0}
    return parse_tree([{**own, "orderExpressions": [[ordered, order]]}, column("a", 1)])


def test_an_expression_in_a_field_goes_by_what_it_is_computed_from():
    inputs = {1: "input", 2: "input", 3: "input"}
    same = _comparable(listed(column("b", 2)), inputs)
    assert same == _comparable(listed(column("b", 3)), inputs)
    doubled = PlanExpression("UnaryMinus", (parse_tree([column("b", 3)]),))
    other = _comparable(listed(column("b", 2)), {**inputs, 2: doubled})
    assert "UnaryMinus" in other
    assert other != same


def test_one_that_nothing_is_known_of_is_comparable_with_none():
    assert _comparable(listed(column("b", 2)), {1: "input"}) == ""


def test_releases_of_spark_name_one_function_in_one_way():
    python = {"class": f"{PACKAGE}.PythonUDF", "num-children": 0, "code": "ab"}
    plain, in_arrow, in_pandas = ({**python, "evalType": each} for each in (100, 101, 200))
    assert parse_tree([plain]).text == parse_tree([in_arrow]).text != parse_tree([in_pandas]).text
    listing = {"class": f"{PACKAGE}.aggregate.CollectList", "num-children": 0}
    earlier, later, with_nulls = (
        _comparable(parse_tree([{**listing, **more}]), {})
        for more in ({}, {"ignoreNulls": True}, {"ignoreNulls": False})
    )
    assert earlier == later != with_nulls
