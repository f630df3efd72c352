"""Values taken through transforms, against a plain computation of what must be found."""

import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.formats import Avro, Struct
from statemigrate.inspect.trial.effects import shown
from statemigrate.inspect.trial.findings import Findings
from statemigrate.inspect.trial.trial import Trial
from statemigrate.migration import Path
from statemigrate.migration.path import Step
from statemigrate.state.values import Share

OLD = Struct("n BIGINT, text STRING, tags MAP<STRING, BIGINT>")
NEW = Struct("n INT, label STRING, tags MAP<STRING, BIGINT>, item STRUCT<size: INT>")


def upgrade(value: Any) -> Any:
    if value["text"] == "bad":
        raise ValueError(value["n"])
    text = value.pop("text")
    return {**value, "label": text, "item": {"size": len(text)}}


def downgrade(value: Any) -> Any:
    text = value["label"].strip()
    return {"n": value["n"], "text": text, "tags": dict(reversed(value["tags"].items()))}


UP = Path("a", "b", (Step("s", "a", "b", upgrade, NEW, "up.py"),))
DOWN = Path("b", "a", (Step("s", "b", "a", downgrade, OLD, "up.py"),))
VALUES = st.fixed_dictionaries(
    {
        "n": st.sampled_from([0, 5, 2**31 - 1, 2**31, -(2**40)]),
        "text": st.sampled_from(["", "fine", "bad", " padded "]),
        "tags": st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)),
    }
)


def tried(values: Sequence[Any], back: Path | None = DOWN) -> Findings:
    trial = Trial(OLD, NEW, UP, back, lambda key: (key,))
    for number, value in enumerate(values):
        data = OLD.encode(value)
        trial.run(number, data, OLD.decode(data))
    return trial.finished(len(values))


@given(st.lists(VALUES, max_size=40))
def test_what_is_found_is_what_a_plain_loop_finds(values: Any) -> None:
    found = tried(values)
    raising = [v for v in values if v["text"] == "bad"]
    too_big = [v for v in values if v["text"] != "bad" and not -(2**31) <= v["n"] < 2**31]
    passed = [v for v in values if v not in raising and v not in too_big]
    padded = [v for v in passed if v["text"] == " padded "]
    assert (found.stored, found.tried) == (len(values), len(values))
    assert found.failed == len(raising) + len(too_big)
    by_cause = Counter({name.split(":")[0]: g.values for name, g in found.failures.items()})
    assert (
        by_cause
        == Counter({"a to b": len(raising), "the new format cannot hold n": len(too_big)})
        - Counter()
    )
    assert found.differing == len(padded)
    assert {name: g.values for name, g in found.differences.items()} == (
        {"text": len(padded)} if padded else {}
    )
    upgraded = [upgrade(dict(v)) for v in passed]
    assert found.bytes_before == sum(len(OLD.encode(v)) for v in passed)
    assert found.bytes_after == sum(len(NEW.encode(v)) for v in upgraded)
    assert found.sizes_after == Counter(_power(len(NEW.encode(v))) for v in upgraded)
    assert found.sizes_before == Counter(_power(len(OLD.encode(v))) for v in passed)


def _power(size: int) -> int:
    return next(1 << power for power in range(33) if size <= 1 << power)


@given(st.lists(VALUES, max_size=30), st.integers(0, 30))
def test_partitions_add_up_whatever_way_they_are_cut(values: Any, cut: int) -> None:
    together = Findings()
    for part in (values[:cut], values[cut:]):
        travelled = json.loads(json.dumps(tried(part).to_json()))
        together.add(Findings.from_json(travelled))
    whole = tried(values)
    for name in ("stored", "tried", "failed", "differing", "bytes_before", "bytes_after"):
        assert getattr(together, name) == getattr(whole, name)
    assert together.sizes_before == whole.sizes_before
    assert {n: g.values for n, g in together.failures.items()} == {
        n: g.values for n, g in whole.failures.items()
    }


def test_causes_name_the_line_and_give_one_message() -> None:
    value = {"n": 41, "text": "bad", "tags": {}}
    report = tried([value]).described("s", "a", reversible=True)
    (failure,) = report.failures
    assert failure.cause.startswith("a to b: ValueError in line ")
    assert failure.cause.endswith('raise ValueError(value["n"]); for example: ValueError: 41')
    assert failure.keys == ("[0]",)


def test_the_first_value_has_its_fields_compared() -> None:
    found = tried([{"n": 1, "text": "x", "tags": {"a": 1}}] * 17)
    assert found.looked_at == 2
    fields = {
        (each.effect, each.field): [(e.before, e.after) for e in each.examples]
        for each in found.described("s", "a", reversible=True).fields
    }
    assert fields == {
        ("kept", "n"): [],
        ("removed", "text"): [('"x"', None)] * 2,
        ("kept", "tags"): [],
        ("added", "label"): [(None, '"x"')] * 2,
        ("added", "item"): [(None, '{"size": 1}')] * 2,
    }


def test_a_way_back_that_fails_is_a_difference() -> None:
    def broken(value: Any) -> Any:
        raise KeyError("gone")

    back = Path("b", "a", (Step("s", "b", "a", broken, OLD, "up.py"),))
    found = tried([{"n": 1, "text": "x", "tags": {}}], back)
    (name,) = found.differences
    assert (found.failed, found.differing) == (0, 1)
    assert name.startswith("the way back fails: b to a: KeyError in line ")


def test_more_causes_than_can_be_read_are_put_together() -> None:
    def many(value: Any) -> Any:
        raise type(f"Error{value['n']}", (Exception,), {})

    path = Path("a", "b", (Step("s", "a", "b", many, NEW, "up.py"),))
    trial = Trial(OLD, NEW, path, None, lambda key: (key,))
    for number in range(80):
        value = {"n": number, "text": "", "tags": {}}
        trial.run(number, OLD.encode(value), value)
    found = trial.finished(80)
    assert len(found.failures) == 51
    assert found.failures["other causes"].values == 30


@given(st.integers(1, 200), st.data())
def test_a_share_is_exact_and_even(of: int, data: Any) -> None:
    take = data.draw(st.integers(0, of))
    picked = [index for index in range(of) if Share(take, of).picks(index)]
    assert len(picked) == take
    gaps = {b - a for a, b in pairwise(picked)}
    assert len(gaps) <= 2


@pytest.mark.parametrize("value", [b"\x01", 1.5, "x" * 1000, None, {"a": [1]}])
def test_examples_are_short_text(value: Any) -> None:
    assert len(shown(value)) <= 160


def test_avro_lists_of_records_are_compared_whole() -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "xs", "type": {"type": "array", "items": "long"}}],
    }
    fmt = Avro(schema)

    def reverse(value: Any) -> Any:
        return {"xs": value["xs"][::-1]}

    path = Path("a", "b", (Step("s", "a", "b", reverse, fmt, "up.py"),))
    trial = Trial(fmt, fmt, path, path, lambda key: (key,))
    trial.run(0, fmt.encode({"xs": [1, 2]}), {"xs": [1, 2]})
    (field,) = trial.finished(1).described("s", "a", reversible=True).fields
    assert (field.effect, field.field) == ("changed", "xs")
    assert [(e.before, e.after) for e in field.examples] == [("[1, 2]", "[2, 1]")]
