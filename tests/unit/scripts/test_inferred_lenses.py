"""Lenses in place of functions where two formats differ by no more than lenses say."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from statemigrate.commands.script_verbs import check, new
from statemigrate.errors import ScriptError
from statemigrate.formats import Avro, Struct
from statemigrate.lenses import Change
from statemigrate.scripts import ScriptFolder
from statemigrate.scripts.lens_inference import NotDeclarableError, declaration
from statemigrate.scripts.loading import load

OLD = Struct("name STRING, total INT, note STRING NOT NULL, seller STRUCT<id: INT, town: STRING>")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return ScriptFolder.create(tmp_path / "migrations").directory


def written(folder: Path, old: Any, new_format: Any, **how: Any) -> Any:
    script = new("auctions", "change", old=old, new=new_format, migrations=folder, **how)
    return script, load(script.path)


def test_a_difference_that_lenses_say_is_declared(folder: Path) -> None:
    wanted = Struct(
        "title STRING, total BIGINT, seller STRUCT<number: INT, town: STRING>, seen TIMESTAMP"
    )
    renames = {"name": "title", "seller.id": "seller.number"}
    script, found = written(folder, OLD, wanted, rename=renames)
    assert script.is_declared
    assert found.get("change").words == (
        "drops note",
        "renames name to title",
        "casts total to long",
        "renames seller.id to number",
        "adds seen",
    )
    asked = [each.text for each in script.questions]
    assert [each.split("`")[1] for each in asked] == ["note", "seen"]
    report = check(migrations=folder)
    assert {each.kind for each in report.findings} == {"question"}


def test_a_field_that_goes_may_be_the_one_that_comes(folder: Path) -> None:
    _, found = written(folder, Struct("n INT, cents BIGINT"), Struct("n INT, euros DECIMAL(18,2)"))
    assert found.get("change").words == ("drops cents", "adds euros")
    assert "--rename cents=euros" in found.source
    assert len(found.questions) == 2
    declared = declaration(Struct("n INT, `a b` BIGINT"), Struct("n INT, c DECIMAL(18,2)"))
    assert "--rename 'a b=c'" in declared.source


def test_a_rename_is_never_guessed(folder: Path) -> None:
    wanted = Struct("title STRING, total INT, note STRING NOT NULL")
    script, found = written(folder, Struct("name STRING, total INT, note STRING NOT NULL"), wanted)
    assert not script.is_declared
    assert "raise NotImplementedError" in found.source


def test_what_lenses_do_not_say_stays_open_and_is_refused_where_they_have_to(folder: Path) -> None:
    old, wanted = Struct("a STRING"), Struct("a DATE")
    for how in ({"lens": True}, {"rename": {"a": "a"}}):
        with pytest.raises(ScriptError) as caught:
            written(folder, old, wanted, **how)
        assert caught.value.code == "SM-SCRIPT-036"
    assert list((folder / "versions").iterdir()) == []
    assert not written(folder, old, wanted)[0].is_declared


@pytest.mark.parametrize("rename", [{"nam": "title"}, {"name": "titel"}])
def test_a_rename_of_a_field_that_is_not_there_is_refused(folder: Path, rename: Any) -> None:
    with pytest.raises(ScriptError) as caught:
        written(folder, Struct("name STRING"), Struct("title STRING"), rename=rename)
    assert caught.value.code == "SM-SCRIPT-035"


def test_functions_are_written_where_they_are_asked_for(folder: Path) -> None:
    script, found = written(folder, Struct("a INT"), Struct("a BIGINT"), lens=False)
    assert not script.is_declared
    assert found.get("change") is None


@pytest.mark.parametrize(
    ("old", "new", "renames", "words"),
    [
        ("a INT, b INT, c INT", "s STRUCT<a: INT, b: INT>, c INT", {}, ("wraps a, b into s",)),
        ("s STRUCT<a: INT, b: INT>", "b INT, a INT", {}, ("unwraps s",)),
        ("a INT", "s STRUCT<b: INT>", {"a": "s.b"}, ("moves a to s.b",)),
        (
            "a INT",
            "s STRUCT<b: INT, c: INT>",
            {"a": "s.b"},
            ("moves a to s.b", "adds s.c"),
        ),
        (
            "l ARRAY<STRUCT<a: INT>>, m MAP<STRING, STRUCT<a: INT>>",
            "l ARRAY<STRUCT<a: BIGINT>>, m MAP<STRING, STRUCT<a: INT, b: INT>>",
            {},
            ("casts a to long in each of l", "adds b in each value of m"),
        ),
        ("a BIGINT", "a INT", {}, ("casts a to int",)),
    ],
)
def test_structure_and_types_become_lenses(old: str, new: str, renames: Any, words: Any) -> None:
    before, after = Struct(old), Struct(new)
    found = declaration(before, after, renames)
    assert changed(found, before, after).words == words


def changed(found: Any, old: Any, new: Any) -> Change:
    """The change that the source says, run as a script would."""
    scope: dict[str, Any] = {}
    imports = f"from statemigrate.lenses import {', '.join(found.names)}\n{found.imports}"
    exec(f"{imports}\n{found.source}", scope)  # noqa: S102
    return Change.of(scope["change"], old, new)


def test_a_decimal_of_an_integer_asks_whether_it_counts_cents() -> None:
    found = declaration(Struct("total BIGINT"), Struct("total DECIMAL(18,2)"))
    assert "scale(" in found.source
    assert 'cast("total", "DECIMAL(18,2)", unfit="fail")' in found.source


NAMES = st.sampled_from(["a", "b", 'odd"`\n', "größe", "x.y", "def"])
TYPES = st.sampled_from(
    ["INT", "BIGINT", "STRING", "DECIMAL(5,2)", "DOUBLE", "STRUCT<a: INT>", "ARRAY<STRUCT<b: INT>>"]
)


@st.composite
def structs(draw: st.DrawFn) -> Struct:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    quoted = ["`" + name.replace("`", "``") + "`" for name in names]
    null = st.sampled_from(["", " NOT NULL"])
    return Struct(", ".join(f"{name} {draw(TYPES)}{draw(null)}" for name in quoted))


@given(structs(), structs())
def test_what_is_written_makes_the_one_format_of_the_other(old: Struct, new: Struct) -> None:
    try:
        found = declaration(old, new)
    except NotDeclarableError:
        assume(False)
    assert changed(found, old, new).new == new
    assert len(ast.parse(found.source).body) == 1


def test_a_script_imports_what_its_lenses_need(folder: Path) -> None:
    _, found = written(folder, Struct("a DECIMAL(5,2) NOT NULL, b INT"), Struct("b INT"))
    assert found.get("change").drops == ("a",)


def test_an_avro_default_is_what_old_values_get() -> None:
    fields = [{"name": "a", "type": "int"}]
    more = [*fields, {"name": "b", "type": ["string", "null"], "default": "x"}]
    old, new = ({"type": "record", "name": "r", "fields": each} for each in (fields, more))
    change = changed(declaration(Avro(old), Avro(new)), Avro(old), Avro(new))
    assert change.upgrade({"a": 1}) == {"a": 1, "b": "x"}
