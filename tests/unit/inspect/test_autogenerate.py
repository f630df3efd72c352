from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from statemigrate import NewScript, autogenerate
from statemigrate.errors import CodeError, FormatError, LineageError, ScriptError, StartupError
from statemigrate.formats import Avro, Struct
from statemigrate.scripts import ScriptFolder

MODULE = """
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import CalendarIntervalType, StructType


class Totals(StatefulProcessor):
    def init(self, handle):
{init}

    def handleInputRows(self, key, rows, timerValues):
        yield from ()

    def close(self):
        pass
"""

Declare = Callable[..., str]


@pytest.fixture
def declare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Declare:
    """Write a processor with these stores in value state; its reference."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    name = f"pipeline_{abs(hash(request.node.nodeid))}"

    def write(*calls: str, **stores: str) -> str:
        lines = [*calls, *(f"handle.getValueState({s!r}, {ddl!r})" for s, ddl in stores.items())]
        init = "\n".join(f"        {line}" for line in lines or ["pass"])
        Path(f"{name}.py").write_text(MODULE.format(init=init))
        return f"{name}:Totals"

    return write


@pytest.fixture
def folder(tmp_path: Path) -> ScriptFolder:
    return ScriptFolder.create(tmp_path / "migrations")


def test_the_head_and_the_code_give_a_script_that_runs(
    folder: ScriptFolder, declare: Declare
) -> None:
    folder.new("totals", "as is", new=Struct("name STRING, cents BIGINT"), baseline=True)
    reference = declare(totals="item STRUCT<name: STRING>, cents BIGINT")
    (written,) = autogenerate(reference, "fold name", store="totals", migrations=folder.directory)
    lineage = folder.lineage("totals")
    migration = lineage.migrations[-1]
    assert (written.store, written.is_baseline) == ("totals", False)
    assert str(written.path) == migration.path
    assert migration.message == "fold name"
    assert migration.old == Struct("name STRING, cents BIGINT")
    assert migration.new == Struct("item STRUCT<name: STRING>, cents BIGINT")
    text = "did `name` move to `item.name`? Delete this line once it is right."
    assert [question.text for question in written.questions] == [text]
    there = lineage.path(lineage.oldest, lineage.head)
    back = lineage.path(lineage.head, lineage.oldest)
    arrived = there.apply({"name": "lamp", "cents": 5})
    assert arrived == {"item": {"name": "lamp"}, "cents": 5}
    assert back.apply(arrived) == {"name": "lamp", "cents": 5}


@pytest.mark.parametrize("store", ["totals", None])
@pytest.mark.parametrize(
    "head",
    [
        Struct("cents BIGINT"),
        Struct("cents BIGINT NOT NULL"),
        Avro({"type": "record", "name": "R", "fields": [{"name": "cents", "type": "long"}]}),
    ],
    ids=["the same", "other nullability", "avro"],
)
def test_nothing_is_written_where_the_code_declares_what_the_head_holds(
    folder: ScriptFolder, declare: Declare, head: Struct | Avro, store: str | None
) -> None:
    folder.new("totals", "as is", new=head, baseline=True)
    before = list(folder.versions.iterdir())
    assert (
        autogenerate(declare(totals="cents BIGINT"), "x", store=store, migrations=folder.directory)
        == ()
    )
    assert list(folder.versions.iterdir()) == before


def test_after_an_avro_head_the_new_format_is_a_struct(
    folder: ScriptFolder, declare: Declare
) -> None:
    fields = [{"name": "cents", "type": "long"}, {"name": "k", "type": ["null", "string"]}]
    head = Avro({"type": "record", "name": "R", "fields": fields})
    folder.new("totals", "as is", new=head, baseline=True)
    autogenerate(declare(totals="cents BIGINT, k STRING, n INT"), "n", migrations=folder.directory)
    lineage = folder.lineage("totals")
    assert lineage.migrations[-1].old == head
    assert lineage.migrations[-1].new == Struct("cents BIGINT, k STRING, n INT")
    there = lineage.path(lineage.oldest, lineage.head)
    assert there.apply({"cents": 1, "k": None}) == {"cents": 1, "k": None, "n": None}


def test_without_a_store_each_one_that_differs_gets_a_script(
    folder: ScriptFolder, declare: Declare
) -> None:
    folder.new("same", "as is", new=Struct("a INT"), baseline=True)
    folder.new("wider", "as is", new=Struct("a INT"), baseline=True)
    reference = declare(same="a INT", wider="a BIGINT", fresh="b STRING")
    written = autogenerate(reference, "change", migrations=folder.directory)
    assert [(each.store, each.is_baseline) for each in written] == [
        ("wider", False),
        ("fresh", True),
    ]
    assert [entry.migration.message for entry in folder.history("wider")] == ["change", "as is"]
    (baseline,) = folder.lineage("fresh").migrations
    assert (baseline.old, baseline.new) == (None, Struct("b STRING"))
    assert written[1] == NewScript("fresh", Path(baseline.path), True, ())


def test_map_and_list_state_are_compared_by_their_values(
    folder: ScriptFolder, declare: Declare
) -> None:
    folder.new("seen", "as is", new=Struct("times INT"), baseline=True)
    call = "handle.getMapState('seen', 'url STRING', 'times BIGINT')"
    (written,) = autogenerate(declare(call), "wider", migrations=folder.directory)
    assert folder.lineage("seen").migrations[-1].new == Struct("times BIGINT")
    assert written.store == "seen"


def test_a_store_the_code_does_not_have_is_an_error_that_names_those_it_has(
    folder: ScriptFolder, declare: Declare
) -> None:
    reference = declare(totals="a INT", seen="b INT")
    with pytest.raises(CodeError, match=r"has no store total \[SM-CODE-001\]") as caught:
        autogenerate(reference, "x", store="total", migrations=folder.directory)
    assert caught.value.found == "totals, seen"
    assert caught.value.data == {"reference": reference, "store": "total"}
    assert list(folder.versions.iterdir()) == []


def test_a_store_declared_twice_is_an_error(folder: ScriptFolder, declare: Declare) -> None:
    reference = declare("handle.getValueState('a', 'x INT')", a="x INT")
    with pytest.raises(StartupError, match="declares the state a twice"):
        autogenerate(reference, "x", store="a", migrations=folder.directory)


def test_code_that_declares_nothing_is_an_error(folder: ScriptFolder, declare: Declare) -> None:
    with pytest.raises(CodeError, match=r"declares no state \[SM-CODE-001\]"):
        autogenerate(declare(), "x", migrations=folder.directory)


def test_nothing_is_written_if_one_of_several_stores_has_no_format(
    folder: ScriptFolder, declare: Declare
) -> None:
    call = "handle.getValueState('b', StructType().add('m', CalendarIntervalType()))"
    reference = declare(call, a="x INT")
    with pytest.raises(FormatError, match="Field m"):
        autogenerate(reference, "x", migrations=folder.directory)
    assert list(folder.versions.iterdir()) == []


def test_broken_scripts_of_other_stores_do_not_matter_to_a_named_one(
    folder: ScriptFolder, declare: Declare
) -> None:
    folder.new("broken", "open")
    reference = declare(totals="a INT", broken="a INT")
    written = autogenerate(reference, "x", store="totals", migrations=folder.directory)
    assert [each.store for each in written] == ["totals"]
    with pytest.raises(ScriptError, match="is not filled in yet"):
        autogenerate(reference, "x", migrations=folder.directory)


def test_an_impossible_name_for_a_store_is_refused(folder: ScriptFolder, declare: Declare) -> None:
    with pytest.raises(LineageError, match="cannot be the name of a store"):
        autogenerate(declare(head="a INT"), "x", migrations=folder.directory)
