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
from statemigrate.inspect.field_effects import shown
from statemigrate.inspect.trial import Findings, ValueTrial, added
from statemigrate.migration import MigrationPath
from statemigrate.migration.path import Step
from statemigrate.state.protocol import Share

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


UP = MigrationPath("a", "b", (Step("s", "a", "b", upgrade, NEW, "up.py"),))
DOWN = MigrationPath("b", "a", (Step("s", "b", "a", downgrade, OLD, "up.py"),))
VALUES = st.fixed_dictionaries(
    {
        "n": st.sampled_from([0, 5, 2**31 - 1, 2**31, -(2**40)]),
        "text": st.sampled_from(["", "fine", "bad", " padded "]),
        "tags": st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)),
    }
)


def tried(values: Sequence[Any], back: MigrationPath | None = DOWN) -> Findings:
    trial = ValueTrial(OLD, NEW, UP, back, lambda key: (key,))
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


def effects(found: Findings) -> set[tuple[str, str]]:
    fields = found.described("s", "a", reversible=True).fields
    return {(each.effect, each.label) for each in fields}


def values(*texts: str) -> list[Any]:
    """As many values that each one has its fields compared."""
    return [{"n": 1, "text": text, "tags": {}} for text in texts for _ in range(16)]


def test_a_field_that_is_the_same_under_another_name_is_renamed() -> None:
    found = tried(values("x", "yy", "x"))
    (renamed,) = [
        each
        for each in found.described("s", "a", reversible=True).fields
        if each.effect == "renamed"
    ]
    assert (renamed.field, renamed.becomes, renamed.values) == ("text", "label", 3)
    assert [(each.before, each.after) for each in renamed.examples] == [
        ('"x"', '"x"'),
        ('"yy"', '"yy"'),
        ('"x"', '"x"'),
    ]
    arrow = "text \N{RIGHTWARDS ARROW} label"
    assert effects(found) == {
        ("renamed", arrow), ("kept", "n"), ("kept", "tags"), ("added", "item"),
    }  # fmt: skip


def test_what_differs_only_between_partitions_is_renamed_too() -> None:
    parts = [tried(values("x")).to_json(), tried(values("y")).to_json()]
    together = added(("f", json.loads(json.dumps(each))) for each in parts)["f"]
    assert ("renamed", "text \N{RIGHTWARDS ARROW} label") in effects(together)
    same = added(("f", tried(values("x")).to_json()) for _ in range(2))["f"]
    assert ("removed", "text") in effects(same)


def test_what_could_have_gone_to_two_fields_is_no_rename() -> None:
    def twice(value: Any) -> Any:
        text = value.pop("text")
        return {**value, "label": text, "item": {"size": len(text), "copy": text}}

    new = Struct(NEW.ddl.replace("size: INT", "size: INT, copy: STRING"))
    path = MigrationPath("a", "b", (Step("s", "a", "b", twice, new, "up.py"),))
    trial = ValueTrial(OLD, new, path, None, lambda key: (key,))
    for number, value in enumerate(values("x", "y")):
        trial.run(number, OLD.encode(value), value)
    found = effects(trial.finished(32))
    assert {("removed", "text"), ("added", "label"), ("added", "item")} <= found
    assert not [label for effect, label in found if effect == "renamed"]


def test_a_field_that_went_into_a_struct_is_renamed_by_its_path() -> None:
    def into(value: Any) -> Any:
        text = value.pop("text")
        return {**value, "item": {"size": len(text), "copy": text}}

    new = Struct("n INT, tags MAP<STRING, BIGINT>, item STRUCT<size: INT, copy: STRING>")
    path = MigrationPath("a", "b", (Step("s", "a", "b", into, new, "up.py"),))
    trial = ValueTrial(OLD, new, path, None, lambda key: (key,))
    for number, value in enumerate(values("x", "y")):
        trial.run(number, OLD.encode(value), value)
    found = effects(trial.finished(32))
    assert {("renamed", "text \N{RIGHTWARDS ARROW} item.copy"), ("added", "item")} <= found
    assert ("removed", "text") not in found


SPLIT = Struct("first STRING, second STRING, n INT, deep STRUCT<kept: INT, last: STRING>")
WHOLE = Struct(
    "name STRUCT<first: STRING, second: STRING>, deep STRUCT<kept: INT>, last STRING, n INT"
)


def put_together(value: Any) -> Any:
    name = {"first": value["first"], "second": value["second"]}
    deep = value["deep"]
    return {"name": name, "deep": {"kept": deep["kept"]}, "last": deep["last"], "n": value["n"]}


def taken_apart(value: Any) -> Any:
    deep = {"kept": value["deep"]["kept"], "last": value["last"]}
    return {**value["name"], "n": value["n"], "deep": deep}


def test_renames_into_and_out_of_structs_are_told_both_ways() -> None:
    up = MigrationPath("a", "b", (Step("s", "a", "b", put_together, WHOLE, "up.py"),))
    down = MigrationPath("b", "a", (Step("s", "b", "a", taken_apart, SPLIT, "up.py"),))
    ways = [("first", "name.first"), ("second", "name.second"), ("deep.last", "last")]
    for path, old, new, turned in ((up, SPLIT, WHOLE, 1), (down, WHOLE, SPLIT, -1)):
        trial = ValueTrial(old, new, path, None, lambda key: (key,))
        for number in range(33):
            deep = {"kept": 1, "last": f"l{number}"}
            split = {"first": f"f{number}", "second": f"s{number}", "n": 1, "deep": deep}
            value = split if old is SPLIT else put_together(split)
            trial.run(number, old.encode(value), value)
        # As partitions send it.
        found = Findings.from_json(json.loads(json.dumps(trial.finished(33).to_json())))
        arrows = {" \N{RIGHTWARDS ARROW} ".join(way[::turned]) for way in ways}
        expected = {("renamed", each) for each in arrows} | {("kept", "n"), ("kept", "deep.kept")}
        assert effects(found) == expected


def test_a_few_whole_values_are_shown_before_and_after() -> None:
    found = tried(values("a", "b", "c", "d")).described("s", "a", reversible=True).examples
    assert [each.key for each in found] == ["[0]", "[16]", "[32]"]
    assert json.loads(found[1].before or "") == {"n": 1, "text": "b", "tags": {}}
    assert json.loads(found[1].after or "") == {
        "n": 1, "label": "b", "tags": {}, "item": {"size": 1},
    }  # fmt: skip
    assert (found[1].before or "").count("\n") == 4
    long = tried(values("x" * 5000)).described("s", "a", reversible=True).examples
    assert len(long[0].before or "") < 2010
    assert (long[0].before or "").endswith("\n...")


def test_hidden_values_are_in_no_rename_and_no_example() -> None:
    trial = ValueTrial(OLD, NEW, UP, None, lambda key: (key,), examples=False)
    for number, value in enumerate(values("secret", "hidden")):
        trial.run(number, OLD.encode(value), value)
    found = trial.finished(32)
    assert ("renamed", "text \N{RIGHTWARDS ARROW} label") in effects(found)
    assert "secret" not in json.dumps(found.to_json())
    assert "secret" not in repr(found.described("s", "a", reversible=True))


def test_a_way_back_that_fails_is_a_difference() -> None:
    def broken(value: Any) -> Any:
        raise KeyError("gone")

    back = MigrationPath("b", "a", (Step("s", "b", "a", broken, OLD, "up.py"),))
    found = tried([{"n": 1, "text": "x", "tags": {}}], back)
    (name,) = found.differences
    assert (found.failed, found.differing) == (0, 1)
    assert name.startswith("the way back fails: b to a: KeyError in line ")


def test_more_causes_than_can_be_read_are_put_together() -> None:
    def many(value: Any) -> Any:
        raise type(f"Error{value['n']}", (Exception,), {})

    path = MigrationPath("a", "b", (Step("s", "a", "b", many, NEW, "up.py"),))
    trial = ValueTrial(OLD, NEW, path, None, lambda key: (key,))
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

    path = MigrationPath("a", "b", (Step("s", "a", "b", reverse, fmt, "up.py"),))
    trial = ValueTrial(fmt, fmt, path, path, lambda key: (key,))
    trial.run(0, fmt.encode({"xs": [1, 2]}), {"xs": [1, 2]})
    (field,) = trial.finished(1).described("s", "a", reversible=True).fields
    assert (field.effect, field.field) == ("changed", "xs")
    assert [(e.before, e.after) for e in field.examples] == [("[1, 2]", "[2, 1]")]
