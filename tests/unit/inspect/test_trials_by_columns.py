"""A block of values that is tried by columns, against trying each value by itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support.columnar_formats import columnar_values
from support.lens_scripts import lineage_of
from support.random_lenses import fitting_changes

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.formats import Format, Struct, Value
from statemigrate.formats.examples import made_up_values
from statemigrate.inspect.laws import inverses_of
from statemigrate.inspect.trial import Findings, ValueTrial
from statemigrate.lenses import Change, add, cast, drop, lens, map_values, move, rename, scale
from statemigrate.migration import Lineage
from statemigrate.state.protocol import Block

assert pc, "columns are used once Arrow is loaded"
IN_BLOCK = 300


def trial_of(lineage: Lineage, source: str, target: str, *, examples: bool = True) -> ValueTrial:
    path = lineage.path(source, target)
    is_reversible = lineage.missing_downgrade(target, source) is None
    return ValueTrial(
        lineage.format_of(source),
        lineage.format_of(target),
        path,
        lineage.path(target, source) if is_reversible else None,
        lambda key: (key,),
        inverses=inverses_of(lineage, path),
        examples=examples,
    )


def document(found: Findings) -> dict[str, Any]:
    return {name: each for name, each in found.to_json().items() if name != "seconds"}


def both(lineage: Lineage, source: str, target: str, stored: list[bytes]) -> tuple[Any, Any]:
    """What is found one by one, and in blocks."""
    alone, many = (trial_of(lineage, source, target) for _ in range(2))
    fmt = lineage.format_of(source)
    for key, data in enumerate(stored):
        alone.run(key, data, fmt.decode(data))
    for start in range(0, len(stored), IN_BLOCK):
        part = stored[start : start + IN_BLOCK]
        many.run_block(Block(range(start, start + len(part)), part))
    return document(alone.finished(len(stored))), document(many.finished(len(stored)))


def goes(lineage: Lineage, fmt: Format, data: bytes) -> bool:
    """Whether a value gets through all scripts by itself."""
    try:
        lineage.format_of("r1").encode(lineage.path("base", "r1").apply(fmt.decode(data)))
    except (TransformError, ValueMismatchError):
        return False
    return True


def written(fmt: Format, values: list[Value]) -> list[bytes]:
    found = []
    for each in values:
        try:
            found.append(fmt.encode(each))
        except ValueMismatchError:
            continue
    return found


@pytest.mark.long
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(columnar_values(), st.data(), st.randoms(use_true_random=False))
def test_the_findings_are_those_of_every_value_by_itself(
    pair: tuple[Format, list[Value]], data: st.DataObject, random: Any
) -> None:
    fmt, values = pair
    first = data.draw(fitting_changes(fmt))
    assume(first.new.schema.fields)
    second = data.draw(fitting_changes(first.new))
    lineage = lineage_of(first, second)
    pool = written(fmt, [*values, *made_up_values(fmt, 40)])
    if data.draw(st.sampled_from([True, True, True, False])):
        # A block with one that fails goes one by one as a whole.
        pool = [each for each in pool if goes(lineage, fmt, each)]
    assume(pool)
    # Most states have fields that are the same in nearly all values.
    usual = random.choice(pool)
    stored = [usual] * 700
    for each in pool:
        stored[random.randrange(50, 700)] = each
    for target in ("r0", "r1"):
        alone, many = both(lineage, "base", target, stored)
        assert many == alone


ORDER = Struct("id BIGINT NOT NULL, n BIGINT, t STRING, at TIMESTAMP, s STRUCT<x: DOUBLE, y: INT>")
CHANGES = {
    "comes back": lens(rename("t", "title"), scale("n", 2), cast("s.y", "BIGINT"), move("at", "w")),
    "loses a field": lens(drop("at"), add("seen", "TIMESTAMP")),
    "joins values": lens(map_values("t", {"": "none"}, otherwise="keep", back={"none": ""})),
}


@pytest.mark.parametrize("name", CHANGES)
def test_few_values_of_a_block_are_tried_by_themselves_where_most_are_alike(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lineage = lineage_of(Change.of(CHANGES[name], ORDER))
    stored = written(
        ORDER,
        [
            {"id": n, "n": n % 7, "t": f"t{n}", "at": None, "s": {"x": 0.5, "y": n % 3}}
            for n in range(5_000)
        ],
    )
    alone, many = both(lineage, "base", "r0", stored)
    assert many == alone
    runs: list[int] = []
    run = ValueTrial.run

    def counted(self: ValueTrial, key: Any, data: bytes, value: Value) -> None:
        runs.append(key)
        run(self, key, data, value)

    monkeypatch.setattr(ValueTrial, "run", counted)
    trial = trial_of(lineage, "base", "r0")
    trial.run_block(Block(range(len(stored)), stored))
    assert trial.findings.tried == len(stored)
    assert len(runs) < len(stored) / 8


RARE = {
    "fails": (lens(cast("n", "INT", unfit="fail")), {"n": 2**40}),
    "has nothing left": (lens(cast("n", "INT", unfit="null")), {"n": 2**40}),
    "has nothing left of a field of another name": (
        lens(
            rename("t", "title"), map_values("title", {"x": "y"}, otherwise="null", back={"y": "x"})
        ),
        {"t": "z"},
    ),
    "has its value under another name": (
        lens(rename("at", "seen"), add("at", "TIMESTAMP")),
        {"at": datetime.now(UTC)},
    ),
    "has a field that no other has": (lens(rename("at", "seen")), {"at": datetime.now(UTC)}),
    "is not what the others are": (lens(rename("t", "title")), {"t": "another"}),
    "has another struct": (lens(move("s.y", "y")), {"s": {"x": 1.5, "y": 2}}),
}


@pytest.mark.parametrize("name", RARE)
def test_a_few_values_in_the_midst_of_a_block_that_are_not_like_the_others_are_found(
    name: str,
) -> None:
    change, rare = RARE[name]
    lineage = lineage_of(Change.of(change, ORDER))
    plain = {"id": 1, "n": 1, "t": "x", "at": None, "s": None}
    stored = written(ORDER, [plain] * 400 + [{**plain, **rare}, plain] * 9 + [plain] * 400)
    assert len(stored) == 818
    alone, many = both(lineage, "base", "r0", stored)
    assert many == alone
    without, _ = both(lineage, "base", "r0", written(ORDER, [plain] * 818))
    assert many != without
