from __future__ import annotations

import sys
from pathlib import Path

import pytest

from statemigrate.errors import CodeError
from statemigrate.inspect.declared_code import declared_in

MODULE = """
from pyspark.sql.streaming import StatefulProcessor
from statemigrate import migrated


class Plain(StatefulProcessor):
    def init(self, handle):
        self.total = handle.getValueState("totals", "cents BIGINT")
        self.seen = handle.getMapState("seen", "url STRING", "times INT", 5000)
        handle.deleteIfExists("gone")

    def handleInputRows(self, key, rows, timerValues):
        yield from ()

    def close(self):
        pass


@migrated(migrations="nowhere", checkpoint="/no/such/checkpoint")
class Marked(Plain):
    def __init__(self):
        self.made = True

    def init(self, handle):
        assert self.made
        super().init(handle)


class NeedsArguments(Plain):
    def __init__(self, factor):
        self.factor = factor


ready = NeedsArguments(3)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    name = f"pipeline_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    return name


@pytest.mark.parametrize("name", ["Plain", "Marked", "ready"])
def test_what_init_declares_is_found_without_a_query(module: str, name: str) -> None:
    total, seen = declared_in(f"{module}:{name}")
    assert (total.store, total.kind, total.ttl) == ("totals", "value", None)
    assert total.schema.simpleString() == "struct<cents:bigint>"
    assert (seen.store, seen.kind, seen.ttl) == ("seen", "map", 5000)
    assert seen.schema.simpleString() == "struct<times:int>"
    assert seen.user_key is not None
    assert seen.user_key.simpleString() == "struct<url:string>"


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("{module}", "{module}"),
        ("{module}:", "{module}:"),
        ("no_such_module:Totals", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("{module}:Missing", "AttributeError: module '{module}' has no attribute 'Missing'"),
        ("{module}:MODULES.deep", "AttributeError: module '{module}' has no attribute 'MODULES'"),
    ],
)
def test_what_cannot_be_imported_is_said(module: str, reference: str, found: str) -> None:
    with pytest.raises(CodeError) as caught:
        declared_in(reference.format(module=module))
    assert caught.value.found == found.format(module=module)
    assert caught.value.data == {"reference": reference.format(module=module)}


def test_a_class_that_needs_arguments_asks_for_an_instance(module: str) -> None:
    with pytest.raises(CodeError, match="name an instance that the module makes") as caught:
        declared_in(f"{module}:NeedsArguments")
    assert "missing 1 required positional argument: 'factor'" in str(caught.value.found)
