"""Reading old rows as Spark does, lock files, and what differs between two versions of code."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.checkpoint.operators.shapes import FamilyShape, NoPrefix
from statemigrate.errors import CodeError
from statemigrate.files import document_checksum
from statemigrate.formats.struct.ddl import parse_ddl
from statemigrate.meaning import CodeMeaning, OperatorMeaning, compare_code, lock_text, read_lock
from statemigrate.meaning.plan_items import readable
from statemigrate.meaning.spark_check import reads
from statemigrate.rewrite.aggregates import AggregateFunction
from statemigrate.rewrite.probe_facts import OperatorFact
from statemigrate.rewrite.state_schemas import StateSchema
from statemigrate.rewrite.windows import KeyMeaning, SessionWindow, TimeWindow


def family(key, value):
    return FamilyShape("f", parse_ddl(key), parse_ddl(value), NoPrefix())


READ = [
    ("a INT, b INT", "a INT, b INT", "", ()),
    ("a INT, b INT", "b INT, a INT", "", (("a", "b"), ("b", "a"))),
    ("a INT", "z INT", "", (("a", "z"),)),
    ("a INT", "a BIGINT", "a is kept as integer, and the code has long", ()),
    ("a INT", "a INT, b INT", "1 fields are kept, and the code has 2, with b", ()),
    (
        "a INT, b INT, c INT",
        "a STRING, b INT, c DATE",
        "a is kept as integer, and the code has string; c is kept as integer, and the code has "
        "date",
        (),
    ),
    ("a INT, b INT", "b INT, c INT, d INT", "the code has 3, without a and with c, d", ()),
    ("a DECIMAL(10,2)", "a DECIMAL(10,3)", "kept as decimal(10,2)", ()),
    ("s STRUCT<a: INT, b: INT>", "s STRUCT<b: INT, a: INT>", "", (("s.a", "s.b"), ("s.b", "s.a"))),
    (
        "s STRUCT<a: INT>",
        "s STRUCT<a: STRING>",
        "s.a is kept as integer, and the code has string",
        (),
    ),
    ("a ARRAY<INT>", "a ARRAY<BIGINT>", "a is kept as a array", ()),
    ("m MAP<STRING, INT>", "m MAP<STRING, INT>", "", ()),
    ("a INT NOT NULL", "a INT", "a may be null in the code", ()),
    ("a INT", "a INT NOT NULL", "", ()),
]


@pytest.mark.parametrize(("old", "new", "refused", "as_other"), READ)
def test_values_are_compared_by_type_and_place_as_spark_does(old, new, refused, as_other):
    key, value = reads(family("k STRING", old), family("k STRING", new), evolves=False)
    assert key.is_same
    assert refused in value.refused
    assert bool(refused) == bool(value.refused)
    assert value.as_other == as_other


def test_avro_values_go_by_the_names_of_their_fields():
    old, new = family("k STRING", "a INT, b INT"), family("k STRING", "b BIGINT, c STRING")
    _, value = reads(old, new, evolves=True)
    assert (value.refused, value.dropped, value.empty) == ("", ("a",), ("c",))
    _, value = reads(new, old, evolves=True)
    assert "b is kept as long" in value.refused


def meaning(**changes):
    parts = {
        "name": "aggregation-0",
        "number": 0,
        "kind": "stateStoreSave",
        "state": {"aggregation-0": StateSchema("max BIGINT", "k STRING")},
        "keys": (
            KeyMeaning("k", "Upper(k)"),
            KeyMeaning("window", "w", TimeWindow(60_000_000, 20_000_000, 5)),
            KeyMeaning("session", "s", SessionWindow(None)),
        ),
        "functions": (
            AggregateFunction("max(v)", (("max", "long"),), "Max(v)", "Max(v)", "Max", "long", "h"),
        ),
        "facts": (OperatorFact("filter", "GreaterThan(v, '0': long, left=0, right=1)"),),
    }
    return CodeMeaning("a:b", "4.3", ("events",), (OperatorMeaning(**{**parts, **changes}),))


def test_a_lock_file_gives_back_what_was_written(tmp_path):
    path = tmp_path / "state.lock"
    path.write_text(lock_text(meaning()))
    assert read_lock(path) == meaning()


def test_a_lock_says_once_what_a_function_is_computed_from(tmp_path):
    path = tmp_path / "state.lock"
    cast = AggregateFunction("max(v)", (("max", "long"),), "Max(Cast(v))", "Max(v)", "Max", "long")
    wanted = meaning(functions=(*meaning().operators[0].functions, cast))
    path.write_text(lock_text(wanted))
    (operator,) = json.loads(path.read_text())["operators"].values()
    assert ["uncast" in each for each in operator["functions"]] == [False, True]
    assert read_lock(path) == wanted


@given(st.text(), st.text())
def test_a_lock_holds_any_names(tmp_path_factory, name, expression):
    path = tmp_path_factory.mktemp("locks") / "state.lock"
    wanted = meaning(keys=(KeyMeaning(name, expression),), facts=(OperatorFact("filter", name),))
    path.write_text(lock_text(wanted), encoding="utf-8")
    assert read_lock(path) == wanted


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda text: text.replace("Max(v)", "Min(v)"), "SM-LOCK-002"),
        (lambda text: text.replace('"format": 3', '"format": 4'), "SM-LOCK-002"),
        (lambda text: text[:-40], "SM-LOCK-001"),
        (lambda _: "[]", "SM-LOCK-001"),
        (lambda text: json.dumps({**json.loads(text), "operators": {"x": 1}}), "SM-LOCK-001"),
    ],
)
def test_a_lock_file_that_was_edited_is_refused(tmp_path, spoil, code):
    path = tmp_path / "state.lock"
    path.write_text(spoil(lock_text(meaning())))
    with pytest.raises(CodeError) as caught:
        read_lock(path)
    assert caught.value.code == code
    with pytest.raises(CodeError) as caught:
        read_lock(tmp_path / "missing.lock")
    assert caught.value.code == "SM-LOCK-001"


OTHER = {
    "keys": (
        {"keys": (KeyMeaning("k", "Lower(k)"), *meaning().operators[0].keys[1:])},
        [("aggregation-0 key k", "unnoticed")],
    ),
    "functions": (
        {
            "functions": (
                AggregateFunction(
                    "min(v)", (("min", "long"),), "Min(v)", "Min(v)", "Min", "long", "h"
                ),
            )
        },
        [("aggregation-0 h", "unnoticed")],
    ),
    "facts": ({"facts": ()}, [("aggregation-0 filter", "unnoticed")]),
    "delay": (
        {"facts": (*meaning().operators[0].facts, OperatorFact("delay", "1 minutes"))},
        [("aggregation-0 delay", "goes on")],
    ),
    "state": (
        {"state": {"aggregation-0": StateSchema("max BIGINT, n INT", "k STRING")}},
        [("aggregation-0", "rewrite")],
    ),
    "operator": ({"name": "deduplicate-0"}, [("operator 0", "rewrite")]),
}


@pytest.mark.parametrize("case", OTHER)
def test_what_differs_between_two_versions_has_a_verdict(case):
    changes, expected = OTHER[case]
    found = compare_code(meaning(), meaning(**changes))
    assert [(each.name, each.verdict) for each in found] == expected


def test_the_same_code_differs_in_nothing():
    assert list(compare_code(meaning(), meaning())) == []


@pytest.mark.parametrize("name", ["meaning", "text", "is_opaque", "fields", "empty"])
def test_a_lock_file_whose_function_has_a_value_of_another_type_is_refused(tmp_path, name):
    document = json.loads(lock_text(meaning()))
    (function,) = document["operators"]["aggregation-0"]["functions"]
    function[name] = 7
    del document["checksum"]
    path = tmp_path / "state.lock"
    path.write_text(json.dumps({**document, "checksum": document_checksum(document)}))
    with pytest.raises(CodeError) as raised:
        read_lock(path)
    assert raised.value.code == "SM-LOCK-001"
    assert name in raised.value.found


def test_expressions_are_shown_without_the_places_of_their_parts():
    text = "GreaterThan(0.v, '3': integer, left=0, right=1)"
    assert readable(text) == "GreaterThan(0.v, '3')"


@pytest.mark.parametrize("end", ["", ")"])
def test_a_range_of_numbers_is_shown_with_its_end(end):
    assert readable(f"Range (0, 9, step=-10{end}") == "Range (0, 9, step=-10)"
    subquery = f"ScalarSubquery(rows=table Range (0, 5, step=1{end}; filter v)"
    assert readable(subquery) == "ScalarSubquery(rows=table Range (0, 5, step=1); filter v)"
