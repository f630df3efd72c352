"""`new --edit REVISION --lens`: lenses that do what functions do, and the proof of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from support import checkpoints
from support.random_lenses import fitting_changes

from statemigrate import LensEdit, check, new
from statemigrate.errors import ScriptError
from statemigrate.lenses import Change, lens
from statemigrate.scripts.lens_proposal import HandWrittenPair, proposal
from statemigrate.scripts.loading import load

SCRIPT = '''"""Change {message}."""

from decimal import Decimal

from statemigrate.formats import Struct, Value

revision = "a1"
down_revision = None
branch_labels = ("sales",)
store = "sales"

# Above is who it is.
old = Struct("{old}")
new = Struct("{new}")


{functions}
'''


def script(folder: Any, old: str, new_ddl: str, functions: str) -> Path:
    path: Path = folder.versions / "a1_change.py"
    path.write_text(
        SCRIPT.format(message="it", old=old, new=new_ddl, functions=functions.strip("\n"))
    )
    return path


def declared(folder: Any, **how: Any) -> LensEdit:
    return new(edit="a1", lens=True, migrations=folder.directory, **how)


MONEY = """
def upgrade(value: Value) -> Value:
    return {"item": {"name": value["title"]}, "total": Decimal(value["total"]).scaleb(-2)}


def downgrade(value: Value) -> Value:
    return {"title": value["item"]["name"], "total": int(value["total"].scaleb(2))}
"""
MONEY_FORMATS = "title STRING, total BIGINT", "item STRUCT<name: STRING>, total DECIMAL(18,2)"


def test_a_pair_by_hand_becomes_lenses_only_when_it_is_asked_for(folder):
    path = script(folder, *MONEY_FORMATS, MONEY)
    before = path.read_text()
    found = declared(folder)
    assert found.is_proven
    assert not found.written
    assert path.read_text() == before
    assert declared(folder, apply=True).written
    made = load(path)
    assert made.get("change").words == ("moves title to item.name", "scales total by 2 places")
    assert "Decimal" not in made.source
    assert "Value" not in made.source
    assert "# Above is who it is." in made.source
    assert check(migrations=folder.directory).passed


WORDS = """
STATES = {"o": "open", "c": "closed", "done": "closed"}
BACK = {"open": "o", "closed": "c"}


def upgrade(value):
    first, last = value["full"].split(" ", 1)
    return {
        "first": first,
        "last": last,
        "state": STATES[value["state"]],
        "n": value["n"],
        "seen": None,
        "currency": "EUR" if value["currency"] is None else value["currency"],
        "lines": [{"title": each["name"], "n": each["n"]} for each in value["lines"]],
        "rooms": {key: {"of": each["in"]} for key, each in value["rooms"].items()},
    }


def downgrade(value):
    return {
        "full": value["first"] + " " + value["last"],
        "state": BACK[value["state"]],
        "n": value["n"],
        "note": "none",
        "currency": value["currency"],
        "lines": [{"name": each["title"], "n": each["n"]} for each in value["lines"]],
        "rooms": {key: {"in": each["of"]} for key, each in value["rooms"].items()},
    }
"""
LINES = "ARRAY<STRUCT<{}: STRING, n: INT>> NOT NULL"
ROOMS = "MAP<STRING, STRUCT<`{}`: INT>> NOT NULL"
WORDS_FORMATS = (
    "full STRING, state STRING, n INT, note STRING NOT NULL, currency STRING, "
    f"lines {LINES.format('name')}, rooms {ROOMS.format('in')}",
    "first STRING, last STRING, state STRING, n BIGINT, seen TIMESTAMP, currency STRING, "
    f"lines {LINES.format('title')}, rooms {ROOMS.format('of')}",
)


def test_tables_parts_defaults_lists_and_maps_are_found(folder):
    path = script(folder, *WORDS_FORMATS, WORDS)
    found = declared(folder, apply=True)
    assert found.open_fields == {}
    assert found.written
    assert set(load(path).get("change").words) == {
        "drops note",
        "splits full into first and last",
        "maps 3 values of state",
        "casts n to long",
        "adds seen",
        "fills currency",
        "renames name to title in each of lines",
        "renames in to of in each value of rooms",
    }
    change = load(path).get("change")
    assert change.downgrade(change.upgrade({
        "full": "Ada King", "state": "done", "n": 1, "note": "x", "currency": None,
        "lines": [], "rooms": {},
    })) == {
        "full": "Ada King", "state": "c", "n": 1, "note": "none", "currency": "EUR",
        "lines": [], "rooms": {},
    }  # fmt: skip
    # The functions fail for text without a space, and for a state that is in no table.
    assert found.taken > 0


def test_what_no_lens_says_of_one_field_is_a_function_of_it(folder):
    path = script(
        folder,
        "name STRING, risk INT NOT NULL",
        "title STRING, risk INT NOT NULL",
        """
def _kept(risk):
    return risk ^ 5


def upgrade(value):
    return {"title": value["name"], "risk": _kept(value["risk"])}


def downgrade(value):
    return {"name": value["title"], "risk": _kept(value["risk"])}
""",
    )
    assert declared(folder, apply=True).written
    made = load(path)
    assert made.get("change").words == ("renames name to title", "calls upgrade_risk on risk")
    assert made.get("upgrade")({"name": "a", "risk": 4}) == {"title": "a", "risk": 1}
    assert made.get("downgrade")({"title": "a", "risk": 1}) == {"name": "a", "risk": 4}


@pytest.mark.parametrize(
    ("formats", "functions", "fields"),
    [
        (
            ("a INT NOT NULL, b INT NOT NULL", "a INT NOT NULL, b INT NOT NULL"),
            'def upgrade(value):\n    return {"a": value["a"], "b": value["b"] ^ value["a"]}',
            {"a", "b"},
        ),
        (
            ("a INT", "a INT, b INT"),
            'def upgrade(value):\n    return {"a": value["a"], "b": value["a"]}',
            {"a", "b"},
        ),
        (
            ("a INT NOT NULL", "a INT NOT NULL"),
            'def upgrade(value):\n    value["a"] ^= 5\n    return value',
            {"a"},
        ),
        (
            ("a ARRAY<STRUCT<b: INT>> NOT NULL", "a ARRAY<STRUCT<b: INT>> NOT NULL"),
            'def upgrade(value):\n    return {"a": value["a"] * 2}',
            {"a"},
        ),
    ],
)
def test_a_field_that_no_lens_makes_is_named_and_nothing_is_written(
    folder, formats, functions, fields
):
    path = script(folder, *formats, functions)
    before = path.read_text()
    found = declared(folder, apply=True)
    assert not found.is_proven
    assert {name.partition("[")[0] for name in found.open_fields} <= fields
    assert found.open_fields
    assert path.read_text() == before


def test_a_way_back_that_does_something_else_is_shown_with_the_smallest_value(folder):
    path = script(
        folder,
        *MONEY_FORMATS,
        MONEY.replace('value["item"]["name"]', '(value["item"]["name"] or "")[:3]'),
    )
    before = path.read_text()
    found = declared(folder, apply=True)
    assert not found.is_proven
    assert path.read_text() == before
    ways = {each.way for each in found.unequal}
    assert ways == {"downgrade"}
    (unequal,) = found.unequal
    assert unequal.field == "title"
    assert unequal.values > 1
    assert '"total": "0.00"' in str(unequal.value)
    assert unequal.by_hand != unequal.by_lenses


def test_the_values_of_a_checkpoint_are_compared_too(tmp_path):
    root = checkpoints.items(tmp_path, 20)
    directory = checkpoints.scripts(tmp_path)
    how = {"edit": checkpoints.REVISION, "lens": True, "migrations": directory}
    found = new(from_checkpoint=root, **how)
    assert found.is_proven
    assert found.of_state == 40
    text = checkpoints.SCRIPT.replace(
        '"name": value["name"]}', '"name": "it is 7" if value["name"] == "item " + "7" else '
        'value["name"]}', 1,
    )  # fmt: skip
    checkpoints.scripts(tmp_path / "other", text)
    how["migrations"] = tmp_path / "other" / "migrations"
    assert new(**how).is_proven
    found = new(from_checkpoint=root, **how)
    assert not found.is_proven
    (unequal,) = found.unequal
    assert (unequal.way, unequal.field, unequal.values) == ("upgrade", "name", 1)
    assert "item 7" in str(unequal.value)


@pytest.mark.parametrize(
    "functions",
    [
        "change = lens()",
        "from statemigrate.scripts.source import comment as upgrade",
        "def upgrade(value, key):\n    return value",
        "def upgrade(value):\n    return value\n\n\ndef merge(one, other):\n    return one",
    ],
)
def test_a_script_of_another_form_is_refused(folder, functions):
    path = script(folder, "a INT", "a INT", functions)
    if "lens" in functions:
        path.write_text(path.read_text().replace("import Struct", "import Struct", 1).replace(
            "\nrevision", "\nfrom statemigrate.lenses import lens\n\nrevision", 1))  # fmt: skip
    with pytest.raises(ScriptError) as raised:
        declared(folder)
    assert raised.value.code == "SM-SCRIPT-037"


@given(fitting_changes())
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_lenses_that_are_found_for_functions_nobody_chose_fit_the_formats(change: Change) -> None:
    found = proposal(HandWrittenPair(change.old, change.new, change.upgrade, change.downgrade))
    if not found.open_fields:
        Change.of(lens(*(each.lens for each in found.calls)), change.old, change.new)
