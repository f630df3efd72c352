"""Nothing is lost or made up by a generated script without a question in it."""

import pytest

from statemigrate.formats import Struct
from statemigrate.scripts.inference import infer_transforms


def asked(old: str, new: str) -> list[str]:
    """The questions of the upgrade, without their last sentence."""
    upgrade = infer_transforms(Struct(old), Struct(new)).source.partition("def downgrade")[0]
    lines = (line.strip() for line in upgrade.splitlines())
    return [
        line.removeprefix("# QUESTION: ").partition(" Delete")[0]
        for line in lines
        if line.startswith("# QUESTION:")
    ]


def test_one_field_for_one_other_that_can_hold_it_is_taken_for_a_rename() -> None:
    assert asked("n INT", "count BIGINT") == ["was `n` renamed to `count`?"]
    source = infer_transforms(Struct("n INT"), Struct("count BIGINT")).source
    assert '"count": value["n"]' in source


GOES_NOWHERE = "`{}` goes nowhere: is it meant to be lost? Then add it to `drops`."
IS_NEW = "`{}` is new: is {} right?"
LOSSES = {
    "a field": ("n INT", "label STRING", [IS_NEW.format("label", "None"), "n"]),
    "required": ("n INT", "d DATE NOT NULL", [IS_NEW.format("d", "date(1970, 1, 1)"), "n"]),
    "in a struct": (
        "s STRUCT<a: INT, b: STRING>",
        "s STRUCT<a: INT, c: DATE>",
        [IS_NEW.format("s.c", "None"), "s.b"],
    ),
    "in a list": (
        "l ARRAY<STRUCT<a: INT, b: STRING>>",
        "l ARRAY<STRUCT<a: INT>>",
        ["l[].b"],
    ),
    "in a map": (
        "m MAP<STRING, STRUCT<a: INT, b: STRING>>",
        "m MAP<STRING, STRUCT<a: INT, c: DATE>>",
        [IS_NEW.format("m{}.c", "None"), "m{}.b"],
    ),
    "beside what moved out of its struct": (
        "s STRUCT<a: INT, b: STRING>, x INT",
        "a INT, x INT",
        ["did `s.a` move to `a`?", "s.b"],
    ),
    "in a list within a map": (
        "m MAP<STRING, ARRAY<STRUCT<a: INT, b: STRING>>>",
        "m MAP<STRING, ARRAY<STRUCT<a: INT>>>",
        ["m{}[].b"],
    ),
}


@pytest.mark.parametrize(("old", "new", "expected"), LOSSES.values(), ids=LOSSES)
def test_what_is_new_and_what_goes_nowhere_is_asked(
    old: str, new: str, expected: list[str]
) -> None:
    paths = [GOES_NOWHERE.format(each) if " " not in each else each for each in expected]
    assert asked(old, new) == paths


def test_what_the_way_back_has_no_place_for_is_declared_without_a_question() -> None:
    old, new = Struct("a INT"), Struct("a INT, b STRING, s STRUCT<x: INT>")
    source = infer_transforms(old, new).source
    assert source.endswith(
        '# Fields of `new` that `downgrade` has no place for.\ndrops = ("b", "s")'
    )
    assert "drops" not in infer_transforms(new, new).source
