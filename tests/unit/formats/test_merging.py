"""The fields of two branches in one format: none of either side is lost without being named."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemigrate.errors import FormatError
from statemigrate.formats import Avro, Struct
from statemigrate.formats.merging import FieldDifference, merge
from statemigrate.formats.stored_formats import struct_from_json

BASE = "id BIGINT, name STRING, total BIGINT, item STRUCT<a: INT, b: INT>, tags ARRAY<STRING>"


def merged(ours: str, theirs: str, base: str = BASE) -> tuple[str, dict[str, str]]:
    found = merge(Struct(base), Struct(ours), Struct(theirs))
    return found.format.ddl, {each.name: each.outcome for each in found.differences}


CASES = {
    "nothing": (BASE, BASE, BASE, {}),
    "theirs alone": (BASE, f"{BASE}, n INT", f"{BASE}, n INT", {}),
    "ours alone": (f"{BASE}, n INT", BASE, f"{BASE}, n INT", {"n": "added"}),
    "each one": (f"{BASE}, m INT", f"{BASE}, n INT", f"{BASE}, n INT, m INT", {"m": "added"}),
    "both the same one": (f"{BASE}, n INT", f"{BASE}, n INT", f"{BASE}, n INT", {"n": "both"}),
    "both another one": (f"{BASE}, n INT", f"{BASE}, n DATE", f"{BASE}, n DATE", {"n": "both"}),
    "a field that ours removed": (
        BASE.replace("name STRING, ", ""),
        BASE,
        BASE.replace("name STRING, ", ""),
        {"name": "removed"},
    ),
    "a field that theirs removed": (
        BASE,
        BASE.replace("name STRING, ", ""),
        BASE.replace("name STRING, ", ""),
        {"name": "dropped"},
    ),
    "a field that theirs removed and ours changed": (
        BASE.replace("name STRING", "name BINARY"),
        BASE.replace("name STRING, ", ""),
        BASE.replace("name STRING, ", "") + ", name BINARY",
        {"name": "kept"},
    ),
    "a field that ours removed and theirs changed": (
        BASE.replace("name STRING, ", ""),
        BASE.replace("name STRING", "name BINARY"),
        BASE.replace("name STRING", "name BINARY"),
        {"name": "both"},
    ),
    "a type that ours changed": (
        BASE.replace("total BIGINT", "total DECIMAL(18,2)"),
        BASE,
        BASE.replace("total BIGINT", "total DECIMAL(18,2)"),
        {"total": "changed"},
    ),
    "a type that both changed alike": (
        BASE.replace("total BIGINT", "total DECIMAL(18,2)"),
        BASE.replace("total BIGINT", "total DECIMAL(18,2)"),
        BASE.replace("total BIGINT", "total DECIMAL(18,2)"),
        {"total": "both"},
    ),
    "fields of one struct": (
        BASE.replace("b: INT", "b: INT, c: INT"),
        BASE.replace("a: INT", "a: DATE"),
        BASE.replace("a: INT, b: INT", "a: DATE, b: INT, c: INT"),
        {"item.c": "added"},
    ),
    "elements of one array": (
        BASE.replace("ARRAY<STRING>", "ARRAY<STRUCT<a: INT>>"),
        BASE.replace("ARRAY<STRING>", "ARRAY<BINARY>"),
        BASE.replace("ARRAY<STRING>", "ARRAY<BINARY>"),
        {"tags[]": "both"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_two_changes_of_one_format_are_in_the_merged_one(case):
    ours, theirs, expected, fates = CASES[case]
    ddl, found = merged(ours, theirs)
    assert (ddl, found) == (Struct(expected).ddl, fates)


def test_values_of_maps_and_elements_of_arrays_are_merged_too():
    base = "m MAP<STRING, STRUCT<a: INT>>, l ARRAY<STRUCT<a: INT>>"
    ours, theirs = (
        base.replace("a: INT", "a: INT, b: INT"),
        base.replace("a: INT", "a: INT, c: INT"),
    )
    both = base.replace("a: INT", "a: INT, c: INT, b: INT")
    assert merged(ours, theirs, base) == (
        Struct(both).ddl,
        {"m[].b": "added", "l[].b": "added"},
    )


def test_avro_is_merged_as_avro():
    def record(*fields):
        return Avro({"type": "record", "name": "r", "fields": list(fields)})

    a = {"name": "a", "type": "long"}
    b = {"name": "b", "type": "string", "default": "none"}
    c = {"name": "c", "type": ["null", "int"], "default": None}
    found = merge(record(a), record(a, b), record(a, c))
    assert found.format == record(a, c, b)
    assert found.differences == (FieldDifference(("b",), "added"),)
    with pytest.raises(FormatError):
        merge(record(a), Struct("a BIGINT"), record(a, c))


names = st.sampled_from(["a", "b", "c", "d", "e"])
leaves = st.sampled_from(["integer", "long", "string", "date", "double"])


def structs(types):
    return st.dictionaries(names, types, min_size=1, max_size=4).map(
        lambda found: {
            "type": "struct",
            "fields": [
                {"name": name, "type": each, "nullable": True, "metadata": {}}
                for name, each in found.items()
            ],
        }
    )


types = st.recursive(
    leaves,
    lambda inner: st.one_of(
        structs(inner),
        inner.map(lambda e: {"type": "array", "elementType": e, "containsNull": True}),
        inner.map(
            lambda e: {
                "type": "map", "keyType": "string", "valueType": e, "valueContainsNull": True,
            }
        ),
    ),
    max_leaves=6,
)  # fmt: skip


@st.composite
def changed(draw, base):
    """The same format after some changes, anywhere in it."""
    document = copy.deepcopy(base)
    for _ in range(draw(st.integers(0, 3))):
        change(draw, document)
    return document


def change(draw, struct):
    fields = struct["fields"]
    field = draw(st.sampled_from(fields)) if fields else None
    what = draw(st.sampled_from(["add", "remove", "type", "inside"]))
    if what == "add" or field is None:
        name = draw(names)
        if name not in {each["name"] for each in fields}:
            fields.append({"name": name, "type": draw(types), "nullable": True, "metadata": {}})
    elif what == "remove" and len(fields) > 1:
        fields.remove(field)
    elif what == "type":
        field["type"] = draw(types)
    elif what == "inside":
        inner = field["type"]
        while isinstance(inner, dict) and "fields" not in inner:
            inner = inner.get("elementType", inner.get("valueType"))
        if isinstance(inner, dict):
            change(draw, inner)


@st.composite
def histories(draw):
    base = draw(structs(types))
    return base, draw(changed(base)), draw(changed(base))


def leaves_of(type_, path=()):
    """By path the type of every leaf; a struct without fields is one too."""
    if not isinstance(type_, dict):
        return {path: type_}
    if "fields" in type_:
        return {
            key: value
            for field in type_["fields"]
            for key, value in leaves_of(field["type"], (*path, field["name"])).items()
        }
    return leaves_of(type_.get("elementType", type_.get("valueType")), (*path, "[]"))


def nodes_of(type_, path=()):
    """By path the type of everything, structs and what they are in too."""
    found = {path: type_} if path else {}
    if isinstance(type_, dict) and "fields" in type_:
        for field in type_["fields"]:
            found |= nodes_of(field["type"], (*path, field["name"]))
    elif isinstance(type_, dict):
        inner = type_.get("elementType", type_.get("valueType"))
        found |= nodes_of(inner, (*path, "[]"))
    return found


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(histories())
def test_no_field_of_either_side_is_lost_without_being_named(history):
    base, ours, theirs = history
    found = merge(*map(struct_from_json, history))
    there = leaves_of(found.format.to_json()["schema"])
    asked = [each.path for each in found.differences]
    was, (old, mine, yours) = leaves_of(base), map(nodes_of, history)
    for side in (ours, theirs):
        for path, leaf in leaves_of(side).items():
            is_asked = any(path[: len(each)] == each for each in asked)
            # The script itself changes what ours has left as it was.
            above = [path[: length + 1] for length in range(len(path))]
            is_told = any(old.get(p) == mine.get(p) and p in yours for p in above if p in old)
            assert there.get(path) == leaf or is_asked or (side is ours and is_told)
    # What only ours has done is named, also where it is kept: its author is another one.
    for path, leaf in leaves_of(ours).items():
        if was.get(path) != leaf:
            assert any(path[: len(each)] == each for each in asked)
    # And nothing is in it that neither side has.
    for path, leaf in there.items():
        assert leaf in (leaves_of(ours).get(path), leaves_of(theirs).get(path))


@settings(max_examples=70, deadline=None)
@given(histories())
def test_what_is_merged_with_what_did_not_change_is_itself(history):
    base, _, theirs = map(struct_from_json, history)
    found = merge(base, base, theirs)
    assert found.format == theirs
    assert {each.outcome for each in found.differences} <= {"dropped"}
