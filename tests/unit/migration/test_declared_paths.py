"""Several declared changes on one path: one function, and an error that names the step."""

from __future__ import annotations

from decimal import Decimal

import pytest

from statemigrate.errors import TransformError
from statemigrate.formats import Format, Struct
from statemigrate.lenses import Change, Lens, add, cast, drop, function, join, lens, rename, scale
from statemigrate.migration import MigrationPath, Step

_OLD = Struct("f0 STRING, total INT")


def _path(*lenses: Lens, old: Format = _OLD, first: Format | None = None) -> MigrationPath:
    """The path of scripts with a lens each; ``first`` is the `new` that the first one writes."""
    steps = []
    for number, each in enumerate(lenses):
        change = Change.of(lens(each), old, None if number else first)
        step = Step(
            "totals", f"r{number}", f"r{number + 1}", change.upgrade, change.new, change=change
        )
        steps.append(step)
        old = change.new
    return MigrationPath("r0", f"r{len(steps)}", tuple(steps))


def test_thirty_lenses_are_one_function_with_their_result() -> None:
    renames = [rename(f"f{n}", f"f{n + 1}") for n in range(28)]
    path = _path(*renames, scale("total", 2), add("currency", "STRING", "EUR"))
    value = {"f0": "lamp", "total": 105}
    made = {"f28": "lamp", "total": Decimal("1.05"), "currency": "EUR"}
    assert path._composed is not None
    assert path.apply(dict(value)) == made
    for step in path.steps:
        value = step.run(value)
    assert value == made


def test_a_value_that_lenses_do_not_take_is_an_error_of_its_step() -> None:
    path = _path(rename("f0", "name"), cast("total", "TINYINT", unfit="fail"), rename("name", "n"))
    assert path.apply({"f0": "a", "total": 100}) == {"n": "a", "total": 100}
    with pytest.raises(TransformError) as raised:
        path.apply({"f0": "a", "total": 1000})
    assert raised.value.code == "SM-TRANSFORM-007"
    assert raised.value.data["source"] == "r1"


def test_lenses_that_fit_their_own_format_fit_as_one_function() -> None:
    # The first script writes fields as nullable that it never leaves empty, and a way back of the
    # second one needs that.
    old, new = Struct("a STRING NOT NULL, b STRING"), Struct("x STRING, b STRING")
    path = _path(rename("a", "x"), join("full", of=("x", "b"), at=" "), old=old, first=new)
    assert path._composed is not None
    assert path.apply({"a": "one", "b": "two"}) == {"full": "one two"}
    assert path.apply({"a": "one", "b": None}) == {"full": "one"}


def _back(path: MigrationPath, old: Format = _OLD) -> MigrationPath:
    """The way back along a path."""
    steps = []
    for number in range(len(path.steps), 0, -1):
        change = path.steps[number - 1].change
        assert change is not None
        assert change.downgrade is not None
        steps.append(
            Step(
                *("totals", f"r{number}", f"r{number - 1}", change.downgrade, change.old),
                direction="downgrade",
                change=change,
            )
        )
    return MigrationPath(f"r{len(steps)}", "r0", tuple(steps))


def test_thirty_ways_back_are_one_function_with_their_result() -> None:
    renames = [rename(f"f{n}", f"f{n + 1}") for n in range(28)]
    path = _back(_path(*renames, scale("total", 2), add("currency", "STRING", "EUR")))
    value = {"f28": "lamp", "total": Decimal("1.05"), "currency": "USD"}
    assert path._composed is not None
    assert path.apply(dict(value)) == {"f0": "lamp", "total": 105}
    with pytest.raises(TransformError) as raised:
        path.apply({**value, "total": Decimal("99999999.99")})
    assert raised.value.data["source"] == "r29"


def test_lenses_that_do_not_take_every_value_are_one_function_too() -> None:
    path = _path(cast("total", "TINYINT", unfit="fail"), rename("total", "n"))
    assert path._composed is not None
    assert path.apply({"f0": "a", "total": 7}) == {"f0": "a", "n": 7}


def test_a_value_that_one_lens_does_not_take_fails_though_a_later_one_drops_it() -> None:
    path = _path(cast("total", "TINYINT", unfit="fail"), drop("total"))
    assert path._composed is None
    assert path.apply({"f0": "a", "total": 7}) == {"f0": "a"}
    with pytest.raises(TransformError):
        path.apply({"f0": "a", "total": 1000})


def test_what_a_function_makes_is_checked_before_the_next_lens_has_it() -> None:
    path = _path(function("f0", len), rename("f0", "n"))
    assert path._composed is None
    with pytest.raises(TransformError) as raised:
        path.apply({"f0": "a", "total": 1})
    assert raised.value.code == "SM-TRANSFORM-008"
    last = _path(rename("f0", "n"), function("n", str.upper))
    assert last._composed is not None
    assert last.apply({"f0": "a", "total": 1}) == {"n": "A", "total": 1}
