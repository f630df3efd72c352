"""One value of a thousand that loses a field is found, counted, named, and fails the dry run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support import checkpoints
from support.dry_runs import REPORT
from test_lost_fields import step, tried

from statemigrate.cli import main
from statemigrate.formats import Struct
from statemigrate.inspect.report_text import verdict
from statemigrate.migration import Step

ODD = 777
NUMBERED = [{"k": number, "x": number * 2} for number in range(1000)]


def odd(change: Any, usual: Any = lambda v: v) -> Any:
    return lambda value: change(value) if value["k"] == ODD else usual(value)


PARTLY = {
    "under its own name": ("x BIGINT", "x BIGINT", 5, odd(lambda v: {**v, "x": None}), "x"),
    "in a struct": (
        "s STRUCT<a: INT, b: INT>",
        "s STRUCT<a: INT, b: INT>",
        {"a": 1, "b": 2},
        odd(lambda v: {**v, "s": {"a": 1, "b": None}}),
        "s.b",
    ),
    "a whole struct": (
        "s STRUCT<a: INT, b: INT>",
        "s STRUCT<a: INT, b: INT>",
        {"a": 1, "b": 2},
        odd(lambda v: {**v, "s": None}),
        "s",
    ),
    "in a list of structs": (
        "l ARRAY<STRUCT<a: INT, b: INT>>",
        "l ARRAY<STRUCT<a: INT, b: INT>>",
        [{"a": 1, "b": 2}, {"a": 3, "b": None}, {"a": 5, "b": 6}],
        odd(lambda v: {**v, "l": [{**each, "b": None} for each in v["l"][:1]] + v["l"][1:]}),
        "l[].b",
    ),
    "an item of a list": (
        "l ARRAY<INT>", "l ARRAY<INT>", [1, 2], odd(lambda v: {**v, "l": [1, None]}), "l",
    ),
    "all items of a list": (
        "l ARRAY<INT>", "l ARRAY<INT>", [1, 2], odd(lambda v: {**v, "l": []}), "l",
    ),
    "changed in place": (
        "l ARRAY<INT>", "l ARRAY<INT>", [1, 2], odd(lambda v: v["l"].clear() or v), "l",
    ),
    "an entry of a map": (
        "m MAP<STRING, INT>",
        "m MAP<STRING, INT>",
        {"p": 1, "q": 2},
        odd(lambda v: {**v, "m": {"p": 1, "q": None}}),
        "m",
    ),
    "in a map of structs": (
        "m MAP<STRING, STRUCT<a: INT, b: INT>>",
        "m MAP<STRING, STRUCT<a: INT, b: INT>>",
        {"p": {"a": 1, "b": 1}, "q": {"a": 2, "b": 2}},
        odd(lambda v: {**v, "m": {**v["m"], "q": {"a": None, "b": 2}}}),
        "m{}.a",
    ),
    "renamed": (
        "x BIGINT",
        "y BIGINT",
        5,
        odd(lambda v: {"k": v["k"], "y": None}, lambda v: {"k": v["k"], "y": v["x"]}),
        "x",
    ),
    "converted into a struct": (
        "x BIGINT",
        "s STRUCT<t: STRING, n: BIGINT>",
        5,
        odd(
            lambda v: {"k": v["k"], "s": {"t": None, "n": v["k"]}},
            lambda v: {"k": v["k"], "s": {"t": f"{v['x']} things", "n": v["k"]}},
        ),
        "x",
    ),
    "renamed within the items of a list": (
        "l ARRAY<STRUCT<a: INT, b: INT>>",
        "l ARRAY<STRUCT<a: INT, c: INT>>",
        [{"a": 1, "b": 2}, {"a": 3, "b": 4}],
        lambda v: {
            "k": v["k"],
            "l": [
                {"a": e["a"], "c": None if v["k"] == ODD and e["a"] == 3 else e["b"]}
                for e in v["l"]
            ],
        },
        "l[].b",
    ),
}  # fmt: skip


def found(old: str, new: str, held: Any, function: Any, drops: Any = ()) -> Any:
    name = old.split(maxsplit=1)[0]
    values = [{"k": number, name: held} for number in range(1000)]
    made = step(function, f"k BIGINT, {new}", drops)
    return tried(f"k BIGINT, {old}", [made], values, cut=400)


@pytest.mark.parametrize(("old", "new", "held", "function", "path"), PARTLY.values(), ids=PARTLY)
def test_one_value_of_a_thousand_is_enough(
    old: str, new: str, held: Any, function: Any, path: str
) -> None:
    report = found(old, new, held, function)
    (loss,) = report.lost
    assert (loss.field, loss.values, loss.keys) == (path, 1, (f"[{ODD - 400}]",))
    assert (loss.script, loss.direction, loss.meant) == ("m/r1.py", "upgrade", False)
    assert verdict(replace(REPORT, families=(report,))).grade == "bad"
    meant = found(old, new, held, function, (path,))
    assert (meant.lost, [each.values for each in meant.losses]) == ((), [1])


KEPT = {
    "a null that was one": (
        "x BIGINT, y BIGINT", "x BIGINT, y BIGINT", lambda v: v,
        lambda k: {"x": None if k % 3 else k, "y": k},
    ),
    "in one of two fields, by the value": (
        "x BIGINT", "small BIGINT, large BIGINT",
        lambda v: {
            "k": v["k"],
            "small": v["x"] if v["x"] < 500 else None,
            "large": v["x"] if v["x"] >= 500 else None,
        },
        lambda k: {"x": k},
    ),
    "a decision that rarely falls": (
        "x BIGINT", "big BOOLEAN", lambda v: {"k": v["k"], "big": v["x"] > 998},
        lambda k: {"x": k},
    ),
    "looked up in known values": (
        "x STRING", "n INT", lambda v: {"k": v["k"], "n": {"a": 1, "b": 2}[v["x"]]},
        lambda k: {"x": "ab"[k % 2]},
    ),
    "an item that leaves its list": (
        "l ARRAY<INT>", "l ARRAY<INT>", lambda v: {**v, "l": v["l"][:1]},
        lambda k: {"l": [k, k]},
    ),
    "lists that were empty": (
        "l ARRAY<STRUCT<a: INT>>", "l ARRAY<STRUCT<a: INT>>", lambda v: v,
        lambda k: {"l": [{"a": None}] * (k % 3)},
    ),
    "a sum of its items": (
        "l ARRAY<INT>", "n BIGINT", lambda v: {"k": v["k"], "n": sum(v["l"])},
        lambda k: {"l": [k] * (k % 4)},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "function", "value"), KEPT.values(), ids=KEPT)
def test_what_is_somewhere_else_or_never_was_is_not_lost(
    old: str, new: str, function: Any, value: Any
) -> None:
    values = [{"k": number, **value(number)} for number in range(1000)]
    made = step(function, f"k BIGINT, {new}")
    assert tried(f"k BIGINT, {old}", [made], values, cut=300).losses == ()


def test_a_step_within_a_path_answers_for_what_the_next_fills_up() -> None:
    nulls = step(odd(lambda v: {**v, "x": None}), "k BIGINT, x BIGINT")
    fills = Step(
        "s", "r1", "r2", lambda v: {**v, "x": v["x"] or 0}, Struct("k BIGINT, x BIGINT"), "m/r2.py"
    )
    report = tried("k BIGINT, x BIGINT", [nulls, fills], NUMBERED)
    assert [(each.field, each.script, each.values) for each in report.lost] == [("x", "m/r1.py", 1)]


CELL = st.none() | st.integers(0, 2)
VALUE = st.fixed_dictionaries({"x": CELL, "l": st.none() | st.lists(CELL, max_size=3)})


@given(st.lists(st.tuples(VALUE, VALUE), max_size=30), st.integers(0, 30))
def test_counts_are_those_of_a_plain_look(pairs: list[Any], cut: int) -> None:
    """Any value may become any other: which of them have less than they had?"""
    ddl = "n INT, x INT, l ARRAY<INT>"
    values = [{"n": number, **before} for number, (before, _) in enumerate(pairs)]
    becomes = step(lambda v: {"n": v["n"], **pairs[v["n"]][1]}, ddl)
    report = tried(ddl, [becomes], values, cut)

    def nulls(items: Any) -> int:
        return (items or []).count(None)

    def held(items: Any) -> bool:
        return any(each is not None for each in items or [])

    less = {
        "x": [p["x"] is not None and q["x"] is None for p, q in pairs],
        "l": [
            held(p["l"]) and (not held(q["l"]) or nulls(q["l"]) > nulls(p["l"])) for p, q in pairs
        ],
    }
    whole = {
        "x": any(p["x"] is not None for p, _ in pairs) and all(q["x"] is None for _, q in pairs),
        "l": any(held(p["l"]) for p, _ in pairs) and not any(held(q["l"]) for _, q in pairs),
    }
    expected = {
        name: None if whole[name] else sum(less[name])
        for name in less
        if whole[name] or any(less[name])
    }
    assert {each.field: each.values for each in report.lost} == expected


def test_the_verb_fails_names_the_field_and_a_key_and_takes_drops(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoints.items(tmp_path, 300)
    loses = checkpoints.SCRIPT.replace(
        '"name": value["name"]}\n\n\ndef downgrade',
        '"name": None if value["cents"] == 231 else value["name"]}\n\n\ndef downgrade',
    ).split("\n\ndef downgrade")[0]
    assert "231" in loses
    folder = checkpoints.scripts(tmp_path, loses)

    def run(*words: str, code: int) -> str:
        done = CliRunner().invoke(main, ["dry-run", "items", "--checkpoint", "checkpoint", *words])
        assert done.exit_code == code, done.output
        return done.stdout

    shown = run(code=1)
    assert "Not ready: name in 1 value would be lost." in shown
    assert "in 1 value, such as that of [77]" in shown
    assert "77" not in run("--no-values", code=1).split("Lost:")[1].split("\n")[0]
    (folder / "versions" / "amounts.py").write_text(f'{loses}\n\ndrops = ("name",)\n')
    assert "Ready to deploy" in run(code=0)
