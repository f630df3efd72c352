"""A processor that is a frozen dataclass is marked like any other, class or instance."""

import dataclasses

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from tally import Scripts

from statemigrate import migrated

tws_tester = pytest.importorskip("pyspark.sql.streaming.tws_tester")

REVISION = "abab00000001"
SCRIPT = f'''"""Counts get a name."""
from statemigrate.formats import Struct

revision = "{REVISION}"
down_revision = None
branch_labels = ("counter",)
store = "counter"
old = Struct("n BIGINT")
new = Struct("n BIGINT, name STRING")


def upgrade(value):
    return {{"n": value["n"], "name": "old"}}
'''


@dataclasses.dataclass(frozen=True)
class Frozen(StatefulProcessor):
    start: int = 0
    state: list = dataclasses.field(default_factory=list, compare=False)

    def init(self, handle):
        self.state.append(handle.getValueState("counter", "n BIGINT, name STRING"))

    def handleInputRows(self, key, rows, timer_values):
        n, name = self.state[-1].get() or (self.start, "new")
        n += sum(1 for _ in rows)
        self.state[-1].update((n, name))
        yield Row(key=key[0], n=n, name=name)

    def close(self):
        pass


@pytest.fixture
def folder(tmp_path):
    scripts = Scripts(tmp_path / "migrations")
    path = scripts.write(amounts=None)
    (scripts.folder.versions / "counter.py").write_text(SCRIPT)
    return path


@dataclasses.dataclass(frozen=True)
class OnTheClass(Frozen):
    pass


@pytest.mark.parametrize("on_the_class", [True, False])
def test_a_frozen_dataclass_is_migrated(folder, on_the_class):
    make = migrated(OnTheClass, migrations=folder) if on_the_class else OnTheClass
    made = make(5)
    processor = made if on_the_class else migrated(made, migrations=folder)
    tester = tws_tester.TwsTester(processor)
    tester.updateValueState("counter", "a", (7,))
    rows = [Row(key="a"), Row(key="a")]
    assert tester.test("a", rows) == [Row(key="a", n=9, name="old")]
    assert tester.test("b", rows) == [Row(key="b", n=7, name="new")]
    assert tester.peekValueState("counter", "a") is None
    assert tester.peekValueState(f"counter@{REVISION}", "a") == (9, "old")
    assert processor.start == 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        processor.start = 6
