"""Scripts that declare their change: what is derived, and what is refused where they are loaded."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from statemigrate.cli import main
from statemigrate.commands.script_verbs import check
from statemigrate.errors import ScriptError
from statemigrate.formats import Struct
from statemigrate.scripts import ScriptFolder
from statemigrate.scripts.loading import load
from statemigrate.scripts.script_reader import read

_SCRIPT = """\
'''Money as decimals.

Create Date: 2026-01-01
'''

from statemigrate.formats import Struct
from statemigrate.lenses import *

revision = "5d0c6e1f7a24"
down_revision = None
branch_labels = ("auctions",)
store = "auctions"
old = {old}
{more}
change = {change}
"""
_OLD = 'Struct("name STRING, total BIGINT, note STRING NOT NULL, items ARRAY<STRUCT<n: INT>>")'


def _script(folder: Path, change: str, more: str = "", old: str = _OLD) -> Path:
    path = ScriptFolder.create(folder).versions / "5d0c6e1f7a24.py"
    path.write_text(_SCRIPT.format(old=old, change=change, more=more))
    return path


def test_new_and_all_functions_are_derived(tmp_path: Path) -> None:
    change = (
        'lens(move("name", "item.name"), scale("total", 2), drop("note", back=""), '
        'each("items", lens(cast("n", "BIGINT"))))'
    )
    migration = read(load(_script(tmp_path, change)))
    assert migration.new == Struct(
        "total DECIMAL(19,2), items ARRAY<STRUCT<n: BIGINT>>, item STRUCT<name: STRING> NOT NULL"
    )
    value = {"name": "lamp", "total": 105, "note": "x", "items": [{"n": 1}, None]}
    assert migration.upgrade is not None
    assert migration.downgrade is not None
    made = migration.upgrade(value)
    assert made == {
        "total": Decimal("1.05"),
        "items": [{"n": 1}, None],
        "item": {"name": "lamp"},
    }
    assert migration.downgrade(made) == {**value, "note": ""}
    assert migration.drops == ("note",)
    assert migration.change is not None
    assert migration.change.words[0] == "moves name to item.name"


def test_a_written_new_may_have_another_order(tmp_path: Path) -> None:
    more = 'new = Struct("items ARRAY<STRUCT<n: INT>>, note STRING, title STRING, total BIGINT")'
    migration = read(load(_script(tmp_path, 'rename("name", "title")', more)))
    assert migration.upgrade is not None
    value = {"name": "a", "total": 1, "note": "", "items": None}
    assert list(migration.upgrade(value)) == ["items", "note", "title", "total"]


def test_check_tries_a_declared_change(tmp_path: Path) -> None:
    _script(tmp_path, 'lens(rename("name", "title"), scale("total", 2))')
    assert check(migrations=tmp_path).passed


@pytest.mark.parametrize(
    ("change", "more", "code"),
    [
        ('rename("nam", "title")', "", "SM-LENS-001"),
        ('lens(rename("name", "title"), drop("name"))', "", "SM-LENS-001"),
        ('each("items", lens(rename("m", "k")))', "", "SM-LENS-001"),
        ('rename("name", "total")', "", "SM-LENS-002"),
        ('add("name", "INT")', "", "SM-LENS-002"),
        ('lens(wrap("item", "name"), add("item", "INT"))', "", "SM-LENS-002"),
        ('unwrap("name")', "", "SM-LENS-003"),
        ('each("name", lens())', "", "SM-LENS-003"),
        ('cast("items", "INT")', "", "SM-LENS-003"),
        ('scale("name", 2)', "", "SM-LENS-003"),
        ('add("n", "INT", "text")', "", "SM-LENS-003"),
        ('cast("total", "INT")', "", "SM-LENS-004"),
        ('cast("name", "INT")', "", "SM-LENS-004"),
        ('scale("total", 2, type="DECIMAL(18,2)")', "", "SM-LENS-004"),
        ('map_values("name", {"a": 1}, type="INT")', "", "SM-LENS-004"),
        ('map_values("name", {"a": "c", "b": "c"})', "", "SM-LENS-005"),
        ('drop("note")', "", "SM-LENS-005"),
        ('split("name", ("a",), " ")', "", "SM-LENS-006"),
        ('default("name", None)', "", "SM-LENS-006"),
        ('cast("total", "INT", unfit="none")', "", "SM-LENS-006"),
        ('cast("total", "STRING", unfit="")', "", "SM-LENS-006"),
        ('scale("total", 2, unfit="Null")', "", "SM-LENS-006"),
        ('rename("name", "title")', 'new = Struct("title STRING")', "SM-LENS-007"),
        ("[1]", "", "SM-LENS-008"),
        ('rename("name", "title")', "def upgrade(value):\n    return value", "SM-LENS-010"),
    ],
)
def test_what_does_not_fit_is_refused_where_the_script_is_loaded(
    tmp_path: Path, change: str, more: str, code: str
) -> None:
    path = _script(tmp_path, change, more)
    with pytest.raises(ScriptError) as raised:
        load(path)
    assert raised.value.code == code
    assert raised.value.data["path"] == str(path)
    assert (
        raised.value.data["line"]
        == path.read_text().count("\n", 0, path.read_text().index("change =")) + 1
    )


def test_derived_functions_travel_to_workers(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    more = "def double(n):\n    return n * 2\n\ndef half(n):\n    return n // 2\n"
    change = 'lens(rename("name", "title"), function("total", double, half), scale("total", 2))'
    migration = read(load(_script(tmp_path, change, more)))
    found = pickle.loads(  # noqa: S301  # what was just pickled
        cloudpickle.dumps((migration.upgrade, migration.downgrade, migration.upgrade_table))
    )
    value = {"name": "a", "total": 3, "note": "", "items": None}
    made = {"title": "a", "total": Decimal("0.06"), "note": "", "items": None}
    assert found[0](value) == made
    assert found[1](made) == value
    table = pa.table({"key": [{"k": 1}], "value": [value]})
    assert found[2](table)["value"].to_pylist() == [made]


def test_a_baseline_declares_no_change(tmp_path: Path) -> None:
    with pytest.raises(ScriptError) as raised:
        load(_script(tmp_path, 'rename("name", "title")', old="None"))
    assert raised.value.code == "SM-LENS-009"


def test_history_shows_what_the_lenses_do_and_lose(tmp_path):
    _script(tmp_path / "migrations", 'lens(rename("name", "title"), drop("note", back="none"))')
    words = ["--migrations", str(tmp_path / "migrations"), "history", "--show", "auctions@head"]
    shown = CliRunner().invoke(main, words)
    assert shown.exit_code == 0, shown.output
    assert "change:   renames name to title; drops note" in shown.stdout
    assert "loses:    note " in shown.stdout
    found = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)
    assert found["lenses"] == ["renames name to title", "drops note"]
    assert len(found["losses"]) == 1
    assert found["drops"] == ["note"]
