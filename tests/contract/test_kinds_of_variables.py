"""What engines do with a variable follows from the facts of its kind, whatever that is called."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row
from support.batch_twins import KEY, KINDS, USER_KEY, ByKey, ByTable, Program, Twin
from support.lens_scripts import lineage_of
from support.page_twins import SMALL, PageTwin
from support.spark_variables import SparkVariables

from statemigrate.deployment import VARIABLE_KINDS, DeploymentSettings
from statemigrate.formats import Struct
from statemigrate.lenses import Change, lens, rename, scale
from statemigrate.native.deployed_variables import Deployed
from statemigrate.native.worker import NativeHandle
from statemigrate.processor.keys import TupleKeyCodec
from statemigrate.processor.rows import TupleCodec

OLD = Struct("n INT, t STRING")
CHANGE = Change.of(lens(rename("t", "title"), scale("n", 2)), OLD)
PROGRAMS = [
    Program(fmt, values)
    for fmt, values in (
        (OLD, [{"n": n, "t": f"text {n}"} for n in range(5)]),
        (CHANGE.new, [CHANGE.upgrade({"n": n, "t": f"text {n}"}) for n in range(5)]),
    )
]
ROWS = [
    [(f"key {n}", n % 3, act + n) for n in numbers]
    for act, numbers in ((2, range(9)), (3, range(4, 12)), (11, range(0, 12, 3)), (12, range(12)))
]
OTHER_WORDS = {"value": "register", "list": "queue", "map": "dictionary"}


def of_other_kinds(processor: type) -> type:
    """The processor whose variables are of the kinds with other words."""

    class Other(processor):
        def init(self, handle: Any) -> None:
            struct = self._program.format.struct_type()
            self._codec = TupleCodec(struct)
            self._whole = handle.asked("register", "whole", struct, None)
            self._many = handle.asked("queue", "many", struct, None)
            self._named = handle.asked("dictionary", "named", struct, None, USER_KEY)

    return Other


@contextmanager
def other_words(monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        for word, other in OTHER_WORDS.items():
            patch.setitem(VARIABLE_KINDS, other, VARIABLE_KINDS[word])  # type: ignore[arg-type]
        yield {name: OTHER_WORDS[word] for name, word in KINDS.items()}


class NativeTwin:
    """The program on variables of Spark's own, which any revision may be in."""

    def __init__(self) -> None:
        self.spark = SparkVariables()

    def deploy(self, _: Any, lineages: Any = None, __: Any = None) -> None:
        self._deployed = Deployed(DeploymentSettings(), lineages or {})

    def run(self, processor: Any, rows: Any) -> Any:
        self.spark.begin()
        handle = NativeHandle(self.spark, self._deployed)
        processor.init(handle)
        made = []
        for a, b, act in rows:
            self.spark.key = TupleKeyCodec(KEY).encode((a, b))
            handle.visit((a, b))
            row = Row("a", "b", "act")(a, b, act)
            made += processor.handleInputRows((a, b), iter([row]), None)
            handle.leave()
        self.spark.commit()
        return made

    def contents(self) -> Any:
        return self.spark.committed


TWINS = {
    "embedded": Twin,
    "pages": lambda _: PageTwin(),
    "pages in leaves": lambda _: PageTwin(splitting=SMALL),
    "Spark's own": lambda _: NativeTwin(),
}


def history(twin: Any, processor: type, kinds: Any) -> Any:
    """What a program gives out, and all that is stored, before and after a migration by touch."""
    lineages = {name: lineage_of(CHANGE, store=name) for name in KINDS}
    for program, given, rows in zip(PROGRAMS, (None, lineages), (ROWS[:2], ROWS[2:]), strict=True):
        twin.deploy(program.format, given, kinds)
        for batch in rows:
            yield twin.run(processor(program), batch)
            yield twin.contents()


@pytest.mark.parametrize(
    ("engine", "processor"),
    [
        *((engine, ByKey) for engine in TWINS),
        *((engine, ByTable) for engine in TWINS if engine != "Spark's own"),
    ],
)
def test_variables_of_another_word_with_the_same_facts_are_stored_the_same(
    engine: str, processor: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = list(history(TWINS[engine](tmp_path / "known"), processor, None))
    with other_words(monkeypatch) as kinds:
        found = list(history(TWINS[engine](tmp_path / "other"), of_other_kinds(processor), kinds))
    assert found == expected
    assert "queue" not in VARIABLE_KINDS
    assert any("title" in repr(each) or b"text 4" in repr(each).encode() for each in found)
