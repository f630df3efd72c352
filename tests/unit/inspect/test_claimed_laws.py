"""Scripts that claim to be undone, on values that show whether they are."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.formats import Struct
from statemigrate.formats.examples import made_up_values
from statemigrate.inspect.laws import inverses_of, shrunk
from statemigrate.inspect.trial import Findings, ValueTrial
from statemigrate.lenses import Change, add, cast, default, function, lens, rename, split
from statemigrate.migration import Lineage, Migration

OLD = Struct("n BIGINT, text STRING, tags ARRAY<STRING>, inner STRUCT<a: STRING, b: INT>")
NEW = Struct("n BIGINT, label STRING, tags ARRAY<STRING>, inner STRUCT<a: STRING, b: INT>")
ORDINARY = {"n": 7, "text": "fine", "tags": ["x", "y"], "inner": {"a": "z", "b": 1}}


def up(value: Any) -> Any:
    value["label"] = value.pop("text").strip()
    return value


def down(value: Any) -> Any:
    value["text"] = value.pop("label")
    return value


def tried(
    *migrations: Migration, values: Any, back: bool = False, examples: bool = True
) -> tuple[Any, Findings]:
    lineage = Lineage.build("s", migrations)
    source, target = (lineage.head, "base") if back else ("base", lineage.head)
    path = lineage.path(source, target)
    old = lineage.format_of(source)
    trial = ValueTrial(
        old,
        lineage.format_of(target),
        path,
        None,
        lambda key: (key,),
        inverses=inverses_of(lineage, path),
        examples=examples,
    )
    for number, value in enumerate(values):
        data = old.encode(value)
        trial.run(number, data, old.decode(data))
    found = Findings.from_json(json.loads(json.dumps(trial.finished(len(values)).to_json())))
    return found.described("s", source, reversible=True, steps=path.steps), found


def script(upgrade: Any = up, downgrade: Any = down, **more: Any) -> Migration:
    return Migration("a", None, "s", OLD, NEW, upgrade, downgrade, path="a.py", **more)


def declared(chain: Any, old: Struct = OLD, **more: Any) -> Migration:
    change = Change.of(chain, old)
    return Migration(
        "a", None, "s", old, change.new, change.upgrade, change.downgrade, change=change, **more
    )


def test_a_pair_that_claims_to_be_undone_and_is_not_is_found_with_the_smallest_value():
    padded = {**ORDINARY, "text": "  much text "}
    family, _ = tried(script(lossless=True), values=[ORDINARY, padded, padded])
    assert family.failed == 0
    assert family.lawless == 2
    (law,) = family.broken_laws
    assert (law.law, law.field, law.cause) == (
        "downgrade(upgrade(value)) == value", "text", None
    )  # fmt: skip
    assert (law.revision, law.script, law.values) == ("a", "a.py", 2)
    assert law.examples[0].key == "[1]"
    assert (law.examples[0].before, law.examples[0].after) == ('"  much text "', '"much text"')
    assert (law.smallest.before, law.smallest.after) == ('{"text": " "}', '{"text": ""}')


def test_a_pair_that_claims_nothing_is_not_found():
    padded = {**ORDINARY, "text": " padded "}
    family, _ = tried(script(), values=[padded])
    assert (family.lawless, family.broken_laws) == (0, ())


def test_what_a_function_fails_on_breaks_the_law_too():
    def failing(value: Any) -> Any:
        return {**down(value), "n": 1 // value["n"]}

    family, _ = tried(script(downgrade=failing, lossless=True), values=[{**ORDINARY, "n": 0}])
    (law,) = family.broken_laws
    assert law.field is None
    assert "ZeroDivisionError" in law.cause
    assert law.smallest.after is None


def test_the_law_of_new_values_is_tried_too():
    made = iter(range(10_000))

    def counting(value: Any) -> Any:
        return {**up(value), "label": f"{value['label']}|{next(made)}"}

    def counted(value: Any) -> Any:
        return {**down(value), "text": value["text"].partition("|")[0]}

    both = script(upgrade=counting, downgrade=counted, lossless=True)
    family, _ = tried(both, values=[ORDINARY])
    (law,) = family.broken_laws
    assert (law.law, law.field) == ("upgrade(downgrade(value)) == value", "label")
    assert law.smallest.before.startswith('{"label": "|')


def test_fields_in_drops_may_differ():
    padded = {**ORDINARY, "text": " padded "}
    family, _ = tried(script(lossless=True, drops=("text", "label")), values=[padded])
    assert family.broken_laws == ()


def test_new_values_are_tried_on_the_way_back():
    new = {"n": 1, "label": " from new code", "tags": [], "inner": None}
    family, _ = tried(script(lossless=True), values=[new], back=True)
    (law,) = family.broken_laws
    assert law.law == "upgrade(downgrade(value)) == value"
    assert law.field == "label"
    assert law.smallest.before == '{"label": " "}'


def test_lenses_that_lose_nothing_claim_it_and_those_that_lose_something_do_not():
    wrong = function("text", str.strip, str)
    assert tried(declared(wrong), values=[{**ORDINARY, "text": " a "}])[0].lawless == 1
    denied = declared(wrong, lossless=False)
    assert tried(denied, values=[{**ORDINARY, "text": " a "}])[0].lawless == 0
    filled = declared(lens(default("text", "none")))
    assert tried(filled, values=[{**ORDINARY, "text": None}])[0].lawless == 0


@pytest.mark.parametrize(
    ("chain", "new", "claims"),
    [
        (lens(rename("text", "label")), {"label": "x"}, True),
        (lens(add("seen", "STRING")), {"text": "x", "seen": "now"}, False),
        (lens(split("text", ("one", "two"), " ")), {"one": "a b", "two": "c"}, False),
    ],
)
def test_what_is_claimed_of_new_values_is_what_the_way_back_keeps(chain, new, claims):
    migration = declared(chain, Struct("text STRING"))
    assert migration.comes_back("upgrade")
    assert migration.comes_back("downgrade") is claims
    assert tried(migration, values=[new], back=True)[0].lawless == 0


@given(st.sampled_from([rename("text", "t"), cast("inner.b", "BIGINT"), add("more", "INT", 1)]))
def test_lenses_keep_their_laws_on_values_that_nobody_chose(each):
    family, _ = tried(declared(lens(each)), values=made_up_values(OLD))
    assert family.broken_laws == ()


def test_each_script_of_several_is_tried_by_itself():
    second = Migration(
        "b", "a", "s", NEW, NEW, lambda value: {**value, "n": value["n"] + 1}, None, path="b.py"
    )
    padded = {**ORDINARY, "text": " padded"}
    family, _ = tried(script(lossless=True), second, values=[padded])
    assert [(law.revision, law.field) for law in family.broken_laws] == [("a", "text")]


def test_no_value_is_noted_where_values_are_hidden():
    padded = {**ORDINARY, "text": " secret"}
    family, found = tried(script(lossless=True), values=[padded], examples=False)
    (law,) = family.broken_laws
    assert (law.examples, law.smallest) == ((), None)
    assert "secret" not in json.dumps(found.to_json())


RECORD = OLD.schema


@given(st.text(max_size=60), st.integers(-(2**63), 2**63 - 1), st.lists(st.text(), max_size=9))
def test_a_shrunk_value_still_shows_the_fault_and_no_more_than_it(text, n, tags):
    value = {"n": n, "text": text + "!", "tags": tags, "inner": {"a": "z", "b": 1}}
    found = shrunk(value, RECORD, lambda v: "!" in (v["text"] or ""))
    assert found == {"n": None, "text": "!", "tags": None, "inner": None}
    big = shrunk({**value, "n": 2**40}, RECORD, lambda v: (v["n"] or 0) > 1000)
    assert 1000 < big["n"] <= 2001
