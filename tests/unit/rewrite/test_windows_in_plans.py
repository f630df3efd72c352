"""The windows of key columns, read from trees as Catalyst's JSON has them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.rewrite.plan_tree import Definitions, PlanNode
from statemigrate.rewrite.probe_facts import rows_text
from statemigrate.rewrite.probe_keys import keys_in
from statemigrate.rewrite.windows import SessionWindow, TimeWindow, differs

PACKAGE = "org.apache.spark.sql.catalyst.expressions"


def node(kind, *children, **fields):
    """A tree as a list of nodes, each before those within it."""
    own = {"class": f"{PACKAGE}.{kind}", "num-children": len(children), **fields}
    return [own, *(each for child in children for each in child)]


def literal(value, kind="long"):
    return node("Literal", value=str(value), dataType=kind)


def column(number, name):
    return node("AttributeReference", name=name, exprId={"id": number}, qualifier=[])


def alias(number, name, child):
    return node("Alias", child, name=name, exprId={"id": number})


def as_number(time):
    return node("PreciseTimestampConversion", time, fromType="timestamp", toType="long")


def as_time(number):
    made = node("PreciseTimestampConversion", number, fromType="long", toType="timestamp")
    return node("KnownNullable", made)


def struct(start, end):
    names = literal("start", "string"), literal("end", "string")
    return node("CreateNamedStruct", names[0], start, names[1], end)


def window_struct(time, length, slide, offset, number, bound=None):
    """What Spark's `TimeWindowing` makes: the window that begins ``number`` slides before."""

    def remainder():
        return node("Remainder", node("Subtract", as_number(time), literal(offset)), literal(slide))

    case = node(
        "CaseWhen",
        node("LessThan", remainder(), literal(0)),
        node("Add", remainder(), literal(bound or slide)),
        remainder(),
    )
    last = node("Subtract", as_number(time), case)
    start = node("Subtract", last, literal(number * slide))
    return struct(as_time(start), as_time(node("Add", start, literal(length))))


def plan(name, nodes, keys, **fields):
    """An operator over what computes its keys, and over the scan of its source."""
    save = {"class": f"org.apache.spark.{name}", "num-children": 1, "keyExpressions": keys}
    scan = {"class": "Scan", "num-children": 0, "output": [column(1, "at"), column(2, "k")]}
    root = PlanNode(scan)
    for each in reversed(nodes):
        root = PlanNode(each, (root,))
    root = PlanNode({**save, **fields}, (root,), number=0)
    return keys_in(root, Definitions(root, rows_text))


def of_struct(made):
    project = {"class": "ProjectExec", "num-children": 1, "projectList": [alias(9, "w", made)]}
    (key,) = plan("StateStoreSaveExec", [project], [column(9, "w")])[0]
    return key.window


@st.composite
def parameters(draw):
    length = draw(st.integers(2, 10**12))
    slide = draw(st.integers(max(2, length // 9), length))
    return length, slide, draw(st.integers(-slide + 1, slide - 1))


@given(parameters())
def test_a_window_has_the_length_slide_and_offset_of_its_expression(said):
    length, slide, offset = said
    time, number = column(1, "at"), -(-length // slide)
    if number == 1:
        found = of_struct(window_struct(time, length, slide, offset, 0))
    else:
        made = [[window_struct(time, *said, each), column(2, "k")] for each in range(number)]
        expand = {
            "class": "ExpandExec",
            "num-children": 1,
            "projections": made,
            "output": [column(9, "w"), column(2, "k")],
        }
        keys = [column(9, "w"), column(2, "k")]
        found = plan("StateStoreSaveExec", [expand], keys)[0][0].window
    assert found == TimeWindow(length, slide, offset)
    assert found.offset == offset % slide


@given(parameters(), st.integers(1, 100))
def test_a_struct_that_computes_something_else_is_no_window(said, other):
    length, slide, offset = said
    time = column(1, "at")
    wrong = window_struct(time, length, slide, offset, 0, bound=slide + other)
    assert of_struct(wrong) is None
    # Of windows that overlap one alone is not all of them.
    if length > slide:
        assert of_struct(window_struct(time, length, slide, offset, 0)) is None


def test_a_struct_of_two_columns_is_no_window():
    assert of_struct(struct(column(1, "at"), column(3, "until"))) is None


@pytest.mark.parametrize(
    ("gap", "zone", "found"),
    [
        ("20 seconds", "Asia/Tokyo", 20_000_000),
        ("1 hours 30 minutes", "Europe/Paris", 5_400_000_000),
        ("1.5 seconds", "UTC", 1_500_000),
        ("1 days", "UTC", 86_400_000_000),
        ("1 days", "Europe/Paris", None),
        ("1 months", "UTC", None),
    ],
)
def test_a_session_has_the_gap_of_its_expression(gap, zone, found):
    time = column(1, "at")
    until = node("TimestampAddInterval", time, literal(gap, "interval"), timeZoneId=zone)
    made = struct(as_time(as_number(time)), as_time(as_number(until)))
    assert of_struct(made) == SessionWindow(found)


def test_a_gap_of_each_row_is_not_known():
    time = column(1, "at")
    own = node("If", column(2, "k"), literal("5 minutes", "interval"), literal("9", "interval"))
    until = node("TimestampAddInterval", time, own, timeZoneId="UTC")
    assert of_struct(struct(as_time(as_number(time)), as_time(as_number(until)))) == SessionWindow(
        None
    )


def keys_of(computed, number):
    project = {
        "class": "ProjectExec",
        "num-children": 1,
        "projectList": [alias(number, "key", computed), column(2, "k")],
    }
    return plan("StateStoreSaveExec", [project], [column(number, "key"), column(2, "k")])[0]


def test_keys_of_one_name_differ_where_they_are_computed_from_something_else():
    upper, again = (keys_of(node("Upper", column(2, "k")), each) for each in (7, 8))
    lower = keys_of(node("Lower", column(2, "k")), 7)
    assert [differs(*each) for each in zip(upper, again, strict=True)] == [False, False]
    assert [differs(*each) for each in zip(upper, lower, strict=True)] == [True, False]
    assert [each.name for each in upper] == ["key", "k"]
