"""A field that had values and keeps none is found in every value, at any depth, in both ways."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.errors import HIDDEN
from statemigrate.formats import Struct
from statemigrate.inspect.dry_run_report import FamilyTrial
from statemigrate.inspect.trial import Findings, ValueTrial
from statemigrate.migration import MigrationPath, Step

Transform = Callable[[Any], Any]


def step(function: Transform, new: str, drops: tuple[str, ...] = ()) -> Step:
    return Step("s", "base", "r1", function, Struct(new), "m/r1.py", drops=drops)


def tried(old: str, steps: Sequence[Step], values: Sequence[Any], cut: int = 0) -> FamilyTrial:
    """A dry run of the values, in two partitions if there is a ``cut``."""
    total, written = Findings(), Struct(old)
    for part in (values[:cut], values[cut:]) if cut else (values,):
        trial = ValueTrial(
            written,
            steps[-1].format,
            MigrationPath("base", "r1", tuple(steps)),
            None,
            lambda key: (key,),
        )
        for number, value in enumerate(part):
            data = written.encode(value)
            trial.run(number, data, written.decode(data))
        found = json.loads(json.dumps(trial.finished(len(part)).to_json()))
        total.add(Findings.from_json(found))
    return total.described("s", "base", reversible=False, steps=steps)


def lost(old: str, new: str, function: Transform, *values: Any) -> list[str]:
    return [each.field for each in tried(old, [step(function, new)], values).lost]


def test_a_value_that_a_new_name_does_not_get_is_lost() -> None:
    values = [{"n": number} for number in range(400)]
    report = tried("n INT", [step(lambda v: {"count": None}, "count BIGINT")], values)
    (loss,) = report.losses
    assert (report.tried, report.failed) == (400, 0)
    assert (loss.field, loss.direction, loss.revision, loss.meant) == ("n", "upgrade", "r1", False)
    assert (loss.script, loss.before) == ("m/r1.py", "0")


LOST = {
    "null under its own name": ("a INT, b INT", lambda v: {"a": None, "b": v["b"]}, ["a"]),
    "in a struct": (
        "s STRUCT<a: INT, b: INT>",
        lambda v: {"s": {"a": v["s"]["a"], "b": None}},
        ["s.b"],
    ),
    "a whole struct": ("s STRUCT<a: INT, b: INT>, c INT", lambda v: {"c": v["c"]}, ["s"]),
    "in a list": (
        "l ARRAY<STRUCT<a: INT, b: INT>>",
        lambda v: {"l": [{"a": each["a"], "b": None} for each in v["l"]]},
        ["l[].b"],
    ),
    "in a map": (
        "m MAP<STRING, STRUCT<a: INT, b: INT>>",
        lambda v: {"m": {k: {"a": each["a"], "b": None} for k, each in v["m"].items()}},
        ["m{}.b"],
    ),
    "the items of a list": ("l ARRAY<INT>, a INT", lambda v: {**v, "l": []}, ["l"]),
    "None in place of the items": (
        "l ARRAY<INT>, a INT",
        lambda v: {**v, "l": [None for _ in v["l"]]},
        ["l"],
    ),
}
FILLED = {
    "a": 1,
    "b": 2,
    "c": 3,
    "s": {"a": 1, "b": 2},
    "l": [{"a": 1, "b": 2}],
    "m": {"k": {"a": 1, "b": 2}},
}


@pytest.mark.parametrize(("old", "function", "expected"), LOST.values(), ids=LOST)
def test_a_field_is_lost_wherever_it_is(old: str, function: Transform, expected: list[str]) -> None:
    names = [field.name for field in Struct(old).schema.fields]
    value = {name: FILLED[name] for name in names}
    if old.startswith("l ARRAY<INT>"):
        value["l"] = [1, 2]
    new = "c INT" if expected == ["s"] else old
    assert lost(old, new, function, value) == expected


KEPT = {
    "renamed": ("n INT", "count INT", lambda v: {"count": v["n"]}),
    "converted": ("n INT", "text STRING", lambda v: {"text": f"{v['n']} items"}),
    "moved into a struct": ("n INT", "s STRUCT<n: INT>", lambda v: {"s": {"n": v["n"]}}),
    "used for a decision": ("n INT", "big BOOLEAN", lambda v: {"big": v["n"] > 100}),
    "looked up in known values": ("n INT", "word STRING", lambda v: {"word": {1: "one"}[v["n"]]}),
    "counted": ("l ARRAY<INT>", "n INT", lambda v: {"n": len(v["l"] or [])}),
    "no struct any more": ("s STRUCT<n: INT>", "s STRING", lambda v: {"s": str(v["s"])}),
    "changed in place": ("n INT", "count INT", lambda v: {"count": v.pop("n")}),
}


@pytest.mark.parametrize(("old", "new", "function"), KEPT.values(), ids=KEPT)
def test_a_field_that_something_new_depends_on_is_not_lost(
    old: str, new: str, function: Transform
) -> None:
    samples = {"n": [1, 1], "l": [[1], [1, 2]], "s": [{"n": 1}, {"n": 2}]}
    values = [{old[0]: value} for value in samples[old[0]]]
    assert lost(old, new, function, *values) == []


def test_what_had_no_value_is_not_lost() -> None:
    assert lost("a INT, b INT", "a INT", lambda v: {"a": v["a"]}, {"a": 1, "b": None}) == []
    keeps = {"a": 1, "b": None}
    assert lost("a INT, b INT", "a INT, b INT", lambda v: v, keeps) == []


def test_one_value_of_many_is_enough_to_be_lost() -> None:
    values = [{"a": number, "b": 5 if number == 777 else None} for number in range(1000)]
    drops_all = [step(lambda v: {"a": v["a"], "b": None}, "a INT, b INT")]
    assert [each.field for each in tried("a INT, b INT", drops_all, values).lost] == ["b"]
    removes = [step(lambda v: {"a": v["a"]}, "a INT")]
    assert [each.field for each in tried("a INT, b INT", removes, values).lost] == ["b"]


def test_what_changes_by_itself_is_no_sign_that_a_field_is_used() -> None:
    turns = iter(range(1000))
    assert lost("n INT", "x INT", lambda v: {"x": next(turns)}, {"n": 1}, {"n": 2}) == ["n"]


def test_a_transform_that_fails_on_another_value_has_looked_at_it() -> None:
    def picky(value: Any) -> Any:
        if value["n"] != 1:
            raise ValueError(value)
        return {"x": 5}

    assert lost("n INT", "x INT", picky, {"n": 1}) == []


def test_values_that_do_not_migrate_do_not_count() -> None:
    def failing(value: Any) -> Any:
        if value["b"] is not None:
            raise ValueError(value)
        return {"a": value["a"]}

    values = [{"a": 1, "b": None}, {"a": 2, "b": 5}]
    report = tried("a INT, b INT", [step(failing, "a INT")], values)
    assert (report.failed, report.losses) == (1, ())


@pytest.mark.parametrize("drops", [("s",), ("s.a", "s.b")])
def test_what_the_script_drops_is_said_to_be_meant(drops: tuple[str, ...]) -> None:
    remove = step(lambda v: {"c": v["c"]}, "c INT", drops)
    value = {"s": {"a": 1, "b": 2}, "c": 3}
    report = tried("s STRUCT<a: INT, b: INT>, c INT", [remove], [value])
    assert [(each.field, each.meant) for each in report.losses] == [("s", True)]
    assert report.lost == ()


def test_a_part_that_is_not_named_is_still_lost() -> None:
    remove = step(lambda v: {"c": v["c"]}, "c INT", ("s.a",))
    value = {"s": {"a": 1, "b": 2}, "c": 3}
    report = tried("s STRUCT<a: INT, b: INT>, c INT", [remove], [value])
    assert [(each.field, each.meant) for each in report.losses] == [("s.b", False), ("s.a", True)]


def test_each_step_of_a_path_answers_for_itself() -> None:
    rename = Step("s", "base", "r1", lambda v: {"b": v["a"]}, Struct("b INT"), "m/r1.py")
    lose = Step("s", "r1", "r2", lambda v: {"c": 0}, Struct("c INT"), "m/r2.py")
    report = tried("a INT", [rename, lose], [{"a": 1}, {"a": 2}])
    told = [(each.field, each.revision, each.script) for each in report.losses]
    assert told == [("b", "r2", "m/r2.py")]


def test_on_the_way_back_it_is_downgrade_and_the_revision_it_leaves() -> None:
    back = Step(
        "s", "r1", "base", lambda v: {"a": v["a"]}, Struct("a INT"), "m/r1.py", "keep", "downgrade"
    )
    report = tried("a INT, b INT", [back], [{"a": 1, "b": 2}])
    (loss,) = report.losses
    told = (report.direction, loss.direction, loss.revision, loss.field)
    assert told == ("downgrade", "downgrade", "r1", "b")


def test_values_that_become_one_and_the_same_are_told() -> None:
    reset = step(lambda v: {"n": 0, "m": v["m"]}, "n INT, m INT")
    values = [{"n": number, "m": number} for number in range(20)]
    report = tried("n INT, m INT", [reset], values)
    (constant,) = report.constants
    assert (constant.field, constant.direction, constant.after) == ("n", "upgrade", "0")
    assert report.losses == ()
    same = [{"n": 4, "m": number} for number in range(20)]
    assert tried("n INT, m INT", [reset], same).constants == ()


NULLABLE = st.fixed_dictionaries(
    {"a": st.none() | st.integers(0, 2), "b": st.none() | st.integers(0, 2)}
)


@given(st.lists(NULLABLE, max_size=40), st.integers(0, 40), st.booleans(), st.booleans())
def test_partitions_and_values_together_tell_what_a_plain_look_tells(
    values: list[Any], cut: int, keep_a: bool, fill_b: bool
) -> None:
    def function(value: Any) -> Any:
        return {"a": value["a"] if keep_a else None, "b": 7 if fill_b else value["b"]}

    report = tried("a INT, b INT", [step(function, "a INT, b INT")], values, cut)
    after = [function(value) for value in values]
    expected = [
        name
        for name in ("a", "b")
        if any(v[name] is not None for v in values) and all(v[name] is None for v in after)
    ]
    assert [each.field for each in report.lost] == expected
    constant = ["b"] if fill_b and len({value["b"] for value in values}) > 1 else []
    assert [each.field for each in report.constants if each.field == "b"] == constant


def test_no_value_is_kept_where_none_is_to_be_shown() -> None:
    def function(value: Any) -> Any:
        return {"a": None, "b": 0}

    trial = ValueTrial(
        Struct("a INT, b INT"),
        Struct("a INT, b INT"),
        MigrationPath("base", "r1", (step(function, "a INT, b INT"),)),
        None,
        lambda key: (key,),
        examples=False,
    )
    for number in range(20):
        value = {"a": 4711, "b": 8150 + number}
        trial.run(number, Struct("a INT, b INT").encode(value), value)
    found = trial.finished(20)
    text = json.dumps(found.to_json())
    assert "4711" not in text
    assert "8150" not in text
    report = found.described("s", "base", reversible=False, steps=[step(function, "a INT, b INT")])
    assert [each.before for each in report.losses] == [""]
    assert [each.after for each in report.constants] == [HIDDEN]
