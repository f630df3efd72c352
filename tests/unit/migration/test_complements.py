"""Values that go along a chain of scripts with their complements, in any order."""

from __future__ import annotations

import random
from typing import Any

import pytest

from statemigrate.errors import CheckpointError
from statemigrate.formats import Struct
from statemigrate.lenses import Change, Complement, add, cast, drop, lens, rename
from statemigrate.migration import Lineage, Migration

_BASE = Struct("name STRING, note STRING, total BIGINT")


def _declared(revision: str, before: Migration | None, old: Struct, *lenses: Any) -> Migration:
    change = Change.of(lens(*lenses), old)
    return Migration(
        revision,
        None if before is None else before.revision,
        "totals",
        old,
        change.new,
        change.upgrade,
        change.downgrade,
        change=change,
    )


def _by_hand(revision: str, before: Migration) -> Migration:
    """Two functions by hand, the way back of which loses more than it has to."""
    new = Struct("title STRING, total STRING, seen STRING, words ARRAY<STRING>")

    def upgrade(value: Any) -> Any:
        value["words"] = (value["title"] or "").split()
        return value

    def downgrade(value: Any) -> Any:
        value["title"] = " ".join(value.pop("words"))
        return value

    return Migration(revision, before.revision, "totals", before.new, new, upgrade, downgrade)


_FIRST = _declared("aaa", None, _BASE, rename("name", "title"), drop("note"))
_SECOND = _declared("bbb", _FIRST, _FIRST.new, add("seen", "STRING"), cast("total", "STRING"))
_LINEAGE = Lineage.build("totals", [_FIRST, _SECOND, _by_hand("ccc", _SECOND)])
_REVISIONS = _LINEAGE.revisions


def _stored(complement: Complement) -> Complement:
    return Complement.from_bytes(complement.to_bytes())


def test_every_field_comes_back_through_lenses_and_functions_by_hand() -> None:
    value = {"name": "  two  words ", "note": "oak", "total": 7}
    there, left = _LINEAGE.path("base", "ccc").carry(value, Complement())
    assert there["words"] == ["two", "words"]
    assert _LINEAGE.path("ccc", "base").carry(there, _stored(left))[0] == value


def test_a_complement_of_one_script_waits_while_the_value_goes_through_others() -> None:
    value, left = _LINEAGE.path("base", "bbb").carry(
        {"name": "a", "note": "oak", "total": 7}, Complement()
    )
    value["seen"] = "today"
    value, left = _LINEAGE.path("bbb", "aaa").carry(value, _stored(left))
    assert set(left.entries) == {"aaa", "bbb"}
    value["total"] = 8
    value, left = _LINEAGE.path("aaa", "ccc").carry(value, _stored(left))
    assert value == {"title": "a", "total": "8", "seen": "today", "words": ["a"]}
    value, left = _LINEAGE.path("ccc", "base").carry(value, _stored(left))
    assert value == {"name": "a", "note": "oak", "total": 8}


@pytest.mark.parametrize("seed", range(40))
def test_values_that_go_anywhere_are_those_of_a_twin_that_never_went(seed: int) -> None:
    """Each field that code writes at any revision is there whenever a revision has the field."""
    rng = random.Random(seed)
    at, left = "base", Complement()
    value: Any = {"name": "lamp", "note": "oak", "total": 1}
    twin = {"title": "lamp", "note": "oak", "total": 1, "seen": None}
    for number in range(25):
        to = rng.choice(_REVISIONS[:3])
        value, left = _LINEAGE.path(at, to).carry(value, _stored(left))
        at = to
        names = {"base": {"name": "title", "note": "note"}, "aaa": {"title": "title"}}.get(
            at, {"title": "title", "seen": "seen"}
        )
        assert {own: value[own] for own in names} == {own: twin[n] for own, n in names.items()}
        assert int(value["total"]) == twin["total"]
        for own, name in names.items():
            if rng.random() < 0.3:
                value[own] = twin[name] = rng.choice(["x", "y", None, f"n{number}"])
        if rng.random() < 0.3:
            twin["total"] = number
            value["total"] = str(number) if at == "bbb" else number


def test_a_list_goes_with_one_complement_and_new_elements_go_as_they_are() -> None:
    values = [{"name": f"n{n}", "note": f"note {n}", "total": n} for n in range(3)]
    there, left = _LINEAGE.path("base", "bbb").carry(values, Complement())
    there = [there[2], {"title": "new", "total": "9", "seen": "x"}, there[0]]
    back, left = _LINEAGE.path("bbb", "base").carry(there, _stored(left))
    assert back == [values[2], {"name": "new", "note": None, "total": 9}, values[0]]
    again, _ = _LINEAGE.path("base", "bbb").carry(back, _stored(left))
    assert again == there


def test_a_complement_of_a_script_with_other_formats_is_named() -> None:
    _, left = _LINEAGE.path("base", "aaa").carry(
        {"name": "a", "note": "oak", "total": 7}, Complement()
    )
    edited = _declared("aaa", None, _BASE, rename("name", "heading"), drop("note"))
    path = Lineage.build("totals", [edited]).path("aaa", "base")
    with pytest.raises(CheckpointError) as caught:
        path.carry({"heading": "a", "total": 7}, left)
    assert caught.value.code == "SM-LENS-012"
