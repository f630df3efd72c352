"""Several declared changes on one path: one function, and an error that names the step."""

from __future__ import annotations

from decimal import Decimal

import pytest

from statemigrate.errors import TransformError
from statemigrate.formats import Format, Struct
from statemigrate.lenses import Change, Lens, add, cast, join, lens, rename, scale
from statemigrate.migration import Path, Step

_OLD = Struct("f0 STRING, total INT")


def _path(*lenses: Lens, old: Format = _OLD, first: Format | None = None) -> Path:
    """The path of scripts with a lens each; ``first`` is the `new` that the first one writes."""
    steps = []
    for number, each in enumerate(lenses):
        change = Change.of(lens(each), old, None if number else first)
        step = Step(
            "totals", f"r{number}", f"r{number + 1}", change.upgrade, change.new, change=change
        )
        steps.append(step)
        old = change.new
    return Path("r0", f"r{len(steps)}", tuple(steps))


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
