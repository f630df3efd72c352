"""Scripts may import what lies beside them; it travels with their functions."""

import pickle
import subprocess
import sys

import pytest
from pyspark import cloudpickle
from support.script_files import script

from statemigrate.errors import ScriptError
from statemigrate.migration.migration import imported_inside
from statemigrate.scripts import ScriptFolder

MONEY = "from decimal import Decimal\n\n\ndef doubled(n):\n    return n * FACTOR\n\n\nFACTOR = 2\n"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "migrations"


def upgraded(folder, number=21):
    (migration,) = ScriptFolder(folder).lineage("auctions").migrations
    return migration.upgrade({"a": number})


def travelled(folder):
    """What a process says that has none of the folders and runs the pickled function."""
    (migration,) = ScriptFolder(folder).lineage("auctions").migrations
    payload = cloudpickle.dumps(migration.upgrade)
    run = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read())({'a': 21}))"
    command = [sys.executable, "-c", run]
    return (
        subprocess.run(command, input=payload, capture_output=True, check=True, cwd="/")
        .stdout.decode()
        .strip()
    )


@pytest.mark.parametrize(
    ("name", "more", "upgrade"),
    [
        ("money.py", "from money import doubled", "return {'a': doubled(value['a'])}"),
        ("money.py", "import money", "return {'a': money.doubled(value['a'])}"),
        ("versions/_money.py", "import _money as m", "return {'a': m.doubled(value['a'])}"),
        ("shop/__init__.py", "import shop", "return {'a': shop.doubled(value['a'])}"),
        ("shop/money.py", "import shop.money", "return {'a': shop.money.doubled(value['a'])}"),
        ("shop/money.py", "from shop import money", "return {'a': money.doubled(value['a'])}"),
    ],
)
def test_a_module_beside_scripts_is_imported_and_travels(folder, name, more, upgrade):
    script(folder, "aaaa11112222", more=more, upgrade=upgrade)
    at = folder / name
    at.parent.mkdir(exist_ok=True)
    (at.parent / "__init__.py").touch() if at.parent.name == "shop" else None
    at.write_text(MONEY)
    assert upgraded(folder) == {"a": 42}
    assert travelled(folder) == "{'a': 42}"
    assert not list(folder.rglob("__pycache__"))


def test_it_travels_with_what_it_imports_from_beside_itself(folder):
    script(folder, "aaaa11112222", more="import money", upgrade="return money.both(value)")
    (folder / "money.py").write_text(
        "from factors import FACTOR\nimport factors\n\n\n"
        "def both(value):\n    return {'a': value['a'] * FACTOR + factors.none()}\n"
    )
    (folder / "factors.py").write_text("FACTOR = 2\n\n\ndef none():\n    return 0\n")
    assert travelled(folder) == "{'a': 42}"


def test_two_folders_may_have_modules_of_one_name(tmp_path, monkeypatch):
    for number in (2, 3):
        folder = tmp_path / str(number)
        script(
            folder, "aaaa11112222", more="import money", upgrade="return money.times(value['a'])"
        )
        (folder / "money.py").write_text(f"def times(n):\n    return n * {number}\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "money.py").write_text("mine = True\n")
    monkeypatch.syspath_prepend(str(elsewhere))
    import money

    path = sys.path[:]
    assert [upgraded(tmp_path / str(number)) for number in (2, 3, 2)] == [42, 63, 42]
    assert sys.modules["money"] is money
    assert money.mine
    assert sys.path == path
    monkeypatch.delitem(sys.modules, "money")


def test_what_a_script_adds_to_the_path_stays(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", sys.path[:])
    own = str(tmp_path / "own")
    script(folder, "aaaa11112222", more=f"import sys\nsys.path.insert(0, {own!r})")
    before = sys.path[:]
    ScriptFolder(folder).lineages()
    assert sys.path == [own, *before]


def test_an_edited_module_is_read_again(folder):
    script(folder, "aaaa11112222", more="import money", upgrade="return money.doubled(value['a'])")
    (folder / "money.py").write_text(MONEY)
    assert upgraded(folder) == 42
    (folder / "money.py").write_text(MONEY.replace("= 2", "= 3"))
    assert upgraded(folder) == 63


def test_an_import_inside_the_function_would_fail_on_every_machine_and_is_refused(folder):
    inside = "import money; return money.doubled(value['a'])"
    path = script(folder, "aaaa11112222", upgrade=inside)
    (folder / "money.py").write_text(MONEY)
    with pytest.raises(ScriptError, match="upgrade imports money") as caught:
        ScriptFolder(folder).lineages()
    assert caught.value.data["path"] == str(path)
    assert caught.value.next_action == "move the import to the top of the script"


def test_a_module_that_looks_like_a_script_is_told_where_to_go(folder):
    script(folder, "aaaa11112222")
    (folder / "versions" / "money.py").write_text(MONEY)
    with pytest.raises(ScriptError) as caught:
        ScriptFolder(folder).lineages()
    assert f"to import goes into {folder}" in caught.value.next_action


def test_what_a_function_imports_when_it_runs_is_known_but_what_may_be_missing_is_not():
    def plainly(value):
        import json
        from xml import sax

        def inner():
            import csv

            return csv

        return json, sax, inner

    def carefully(value):
        try:
            import orjson
        except ImportError:
            return value
        return orjson

    assert imported_inside(plainly) == {"json", "xml", "csv"}
    assert imported_inside(carefully) == set()
    assert pickle.loads(cloudpickle.dumps(plainly))  # noqa: S301
