"""Pseudonyms: equal values stay equal, others stay different, and nothing else changes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemigrate.errors import UnsupportedError
from statemigrate.formats.masking import Mask
from statemigrate.preview.pseudonyms import Pseudonyms, Unmasked, UnmaskedValues

LEAVES = st.sampled_from(
    [
        (pa.string(), st.text(max_size=12)),
        (pa.binary(), st.binary(max_size=12)),
        (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
        (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.float64(), st.floats(allow_nan=False)),
        (pa.decimal128(9, 2), st.decimals(-9999, 9999, places=2)),
    ]
)


def nested(children):
    lists = children.map(lambda c: (pa.list_(c[0]), st.lists(c[1] | st.none(), max_size=3)))
    maps = children.map(
        lambda c: (
            pa.map_(pa.string(), c[0]),
            st.dictionaries(st.text(max_size=3), c[1] | st.none(), max_size=3).map(
                lambda found: list(found.items())
            ),
        )
    )
    names = st.lists(st.sampled_from(["a", "b", "hidden", "Hidden", "c"]), min_size=1, unique=True)
    structs = names.flatmap(
        lambda found: st.tuples(*(children for _ in found)).map(
            lambda parts: (
                pa.struct([(n, p[0]) for n, p in zip(found, parts, strict=True)]),
                st.fixed_dictionaries(
                    {n: p[1] | st.none() for n, p in zip(found, parts, strict=True)}
                ),
            )
        )
    )
    return lists | maps | structs


COLUMNS = st.recursive(LEAVES, nested, max_leaves=6)


@st.composite
def arrays(draw):
    kind, values = draw(COLUMNS)
    rows = draw(st.lists(values | st.none(), max_size=8))
    whole = pa.array([{"a": each} for each in rows], pa.struct([("a", kind)]))
    start = draw(st.integers(0, len(rows)))
    return whole.slice(start)


def leaves(value, kind, hidden=False, place=()):
    """Each leaf of a value, where it is, its type, and whether it is hidden."""
    if value is None:
        yield place, None, kind, hidden
    elif pa.types.is_struct(kind):
        for each in kind:
            below = hidden or each.name.casefold() == "hidden"
            yield from leaves(value[each.name], each.type, below, (*place, each.name))
    elif pa.types.is_list(kind):
        for number, each in enumerate(value):
            yield from leaves(each, kind.value_type, hidden, (*place, number))
    elif pa.types.is_map(kind):
        for number, (key, each) in enumerate(value):
            yield (*place, number, "key"), key, kind.key_type, hidden
            yield from leaves(each, kind.item_type, hidden, (*place, number, "value"))
    else:
        yield place, value, kind, hidden


@settings(deadline=None, max_examples=70)
@given(arrays())
def test_hidden_leaves_have_pseudonyms_and_all_else_is_as_it_was(array):
    made = Pseudonyms(Mask.of(["hidden"])).replaced(array, "rows")
    made.validate(full=True)
    assert made.type == array.type
    pairs = {}
    for before, after in zip(array.to_pylist(), made.to_pylist(), strict=True):
        old, new = (list(leaves(each, array.type)) for each in (before, after))
        assert [each[0] for each in old] == [each[0] for each in new]
        for (_, one, kind, hidden), (_, other, _, _) in zip(old, new, strict=True):
            assert (one is None) == (other is None)
            if not hidden:
                assert repr(one) == repr(other)
            elif one is not None:
                assert type(one) is type(other)
                assert pairs.setdefault((kind, repr(one)), other) == other


@pytest.mark.parametrize("kind", [np.int8, np.int16])
def test_every_integer_has_a_pseudonym_of_its_own(kind):
    bounds = np.iinfo(kind)
    every = np.arange(bounds.min, int(bounds.max) + 1).astype(kind)
    rows = pa.StructArray.from_arrays([pa.array(every)], ["id"])
    made = Pseudonyms(Mask.of(["id"])).replaced(rows, "rows").field(0)
    assert sorted(made.to_pylist()) == every.tolist()
    assert (made.to_numpy() == every).mean() < 0.05


def test_a_text_has_the_hash_that_a_mask_shows_of_it():
    mask = Mask.of(["email"])
    rows = pa.array([{"email": "a@b.example"}])
    (made,) = Pseudonyms(mask).replaced(rows, "rows").to_pylist()
    assert made == {"email": mask.hashed("a@b.example")}


def test_a_field_is_named_with_its_place_too():
    pseudonyms = Pseudonyms(Mask.of(["aggregation-0.Max"]))
    rows = pa.array([{"max": "somebody", "sum": 1}])
    assert pseudonyms.replaced(rows, "groups-0") == rows
    (made,) = pseudonyms.replaced(rows, "aggregation-0").to_pylist()
    assert made["max"] != "somebody"
    assert pseudonyms.places == {"aggregation-0.max"}


@pytest.mark.parametrize("value", [dt.date(2026, 1, 1), dt.datetime(2026, 1, 1), True])
def test_a_type_without_pseudonyms_is_refused(value):
    with pytest.raises(UnsupportedError) as refused:
        Pseudonyms(Mask.of(["at"])).replaced(pa.array([{"at": value}]), "rows")
    assert (refused.value.code, refused.value.data["column"]) == ("SM-PREVIEW-025", "rows.at")


def unmasked(*values):
    pseudonyms = Pseudonyms(Mask.of(["x"]))
    pseudonyms.replaced(pa.array([{"x": each} for each in values]), "rows")
    return UnmaskedValues(pseudonyms)


def test_a_value_is_found_wherever_it_still_is():
    found = unmasked("ann@mail.example", "bob@mail.example", "x.y+z")
    assert found.where(pa.array([{"y": "ann@mail.example"}]), "s") == Unmasked("s.y")
    assert found.where(pa.array([{"y": ["<bob@mail.example>"]}]), "s") == Unmasked("s.y")
    encoded = pa.array([{"y": b"\xff\x20bob@mail.example\x00"}])
    assert found.where(encoded, "s") == Unmasked("s.y", is_encoded=True)
    assert found.where(pa.array([{"y": b"bob@mail.example"}]), "s") == Unmasked("s.y")
    entries = pa.array(
        [{"y": [("ann@mail.example", 1)]}], pa.struct([("y", pa.map_("string", "int8"))])
    )
    assert found.where(entries, "s") == Unmasked("s.y.key")
    assert found.where(pa.array([{"y": "xay+z"}]), "s") is None, "a dot is a dot"
    assert found.where(pa.array([{"y": "mail.example", "z": None}]), "s") is None


def test_bytes_that_are_no_text_are_found_too():
    found = unmasked(b"\xff\xfe\x00\x01secret", b"\xc3\x28abcd")
    assert found.where(pa.array([{"y": b"\xc3\x28abcd"}]), "s") == Unmasked("s.y")
    assert found.where(pa.array([{"y": b"\xc3\x28abce"}]), "s") is None


def test_a_name_with_signs_of_patterns_is_found_as_it_is():
    found = unmasked('O\'Neil "x" (a|b)* größer\n\t#~&', "0.1+0.2=?[3]")
    assert found.where(pa.array([{"y": '<O\'Neil "x" (a|b)* größer\n\t#~&>'}]), "s") is not None
    assert found.where(pa.array([{"y": "-0.1+0.2=?[3]-"}]), "s") is not None
    assert found.where(pa.array([{"y": "0x1+0.2=?[3]"}]), "s") is None


def test_integers_are_found_where_most_of_a_column_is_among_them():
    numbers = [4_000_000_000_000 + 7 * each for each in range(40)]
    found = unmasked(*numbers)
    assert found.where(pa.array([{"y": each} for each in numbers[:20]]), "s") == Unmasked("s.y")
    other = [{"y": each} for each in (*numbers[:12], *range(2**30, 2**30 + 40))]
    assert found.where(pa.array(other), "s") is None
    few = unmasked(*range(40))
    assert few.where(pa.array([{"y": each} for each in range(40)]), "s") is None


def test_a_decimal_stays_within_its_precision():
    rows = pa.array([{"x": Decimal("1.25")}], pa.struct([("x", pa.decimal128(3, 2))]))
    (made,) = Pseudonyms(Mask.of(["x"])).replaced(rows, "rows").to_pylist()
    assert made["x"] != Decimal("1.25")
    assert abs(made["x"]) < 10
