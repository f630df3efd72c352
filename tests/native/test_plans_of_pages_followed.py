"""The steps of a plan, run as they are printed: the new code then starts, and has the old state."""

import shlex
import sys
from types import ModuleType

import pandas as pd
import pytest
from click.testing import CliRunner
from native_pipeline import NativePipeline
from pyspark.sql import functions as f
from tally import CENTS_DDL, CentsTally, batch
from two_paged import Counts, Tally

from statemigrate import NewCode, RewriteError, init, paged, plan, rewrite, stateful
from statemigrate.cli import main

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
KEYS = range(6)
LIFE = 100 * 86_400_000  # milliseconds


class Living(CentsTally):
    """Its values expire."""

    def init(self, handle):
        self.state = handle.getValueState("tally", self.ddl, ttlDurationMs=LIFE)


def plain(processor=CentsTally, key="key", mode="None"):
    def made(rows, deployed):
        grouped = rows.withColumn("key", f.expr(key)).groupBy("key")
        return grouped.transformWithState(processor(), deployed.pipeline.output, "Update", mode)

    return made


def on_pages(processor=CentsTally, key="key", call=paged, **options):
    def made(rows, deployed):
        given = {"by": "key", "output": deployed.pipeline.output, "checkpoint": deployed.checkpoint}
        if call is stateful:
            given["migrations"] = deployed.migrations
        rows = rows.withColumn("key", f.expr(key))
        return call(rows, processor=processor(), **{**given, **options})

    return made


TIMED = {"timeMode": "ProcessingTime"}
CODE = {
    "plain": plain(),
    "4 pages": on_pages(pages=4),
    "9 pages": on_pages(pages=9),
    "4 pages named a": on_pages(pages=4, operator="a"),
    "9 pages named b": on_pages(pages=9, operator="b"),
    "pages": on_pages(),
    "stateful with 4 pages": on_pages(call=stateful, pages=4),
    "4 pages in time": on_pages(pages=4, **TIMED),
    "4 pages of values that expire": on_pages(Living, pages=4, **TIMED),
    "plain in time": plain(mode="ProcessingTime"),
    "plain values that expire": plain(Living, mode="ProcessingTime"),
}
PAIRS = [
    *(("plain", each) for each in ("4 pages", "4 pages named a", "pages", "4 pages in time")),
    *(("4 pages", each) for each in list(CODE)[:8]),
    *(("4 pages named a", each) for each in ("plain", "4 pages", "4 pages named a")),
    ("4 pages named a", "9 pages named b"),
]


class Deployed:
    """A query of some code, and that of other code on the same input."""

    def __init__(self, spark, folder, monkeypatch):
        self.pipeline = NativePipeline(spark, folder)
        self.checkpoint = self.pipeline.checkpoint
        self.migrations = folder / "migrations"
        init(migrations=self.migrations)
        self.module = ModuleType("planned_code")
        monkeypatch.setitem(sys.modules, "planned_code", self.module)
        self.inputs = ("rows",)
        self.pipeline.result = self.made

    def made(self, processor, stream=None):
        return self.module.new(*(self.pipeline.stream() for _ in self.inputs))

    def set(self, made, name="new"):
        setattr(self.module, name, lambda rows: made(rows, self))

    def run(self, batch_of_rows):
        """The rows that the code gives out for a batch."""
        self.pipeline.feed(batch_of_rows)
        self.pipeline.checkpoint_directory = self.checkpoint
        self.pipeline.handed.clear()
        self.pipeline.deploy_natively(None)
        return sorted(row for _, rows in self.pipeline.handed for row in rows)

    def code(self, **options):
        inputs = dict.fromkeys(self.inputs, self.pipeline.rows)
        return NewCode("planned_code:new", inputs, "update", **options)

    def planned(self, **options):
        return plan(str(self.checkpoint), target=self.code(**options), migrations=None)

    def follow(self, found, *more):
        """Run the commands that make a checkpoint, and go on with the last one.

        ``more`` are options of the first of them.
        """
        for step in found.steps:
            if step.command.endswith(("--apply", "--verify")):
                words = shlex.split(step.command)
                assert words[0] == "statemigrate"
                ran = CliRunner().invoke(main, [*words[1:], *more])
                assert ran.exit_code == 0, (step.command, ran.output)
                more = ()
            if step.text.startswith("Start the new code on "):
                self.checkpoint = step.text.removeprefix("Start the new code on ")

    def answer(self, found, code):
        """The same where a person writes code for once, and answers what is asked for it."""
        answers = []
        for step in found.steps:
            words = [
                code if word == "MODULE:FUNCTION" else word for word in shlex.split(step.command)
            ]
            if words[1:2] != ["rewrite"]:
                continue
            for_code = ["--input", f"rows={self.pipeline.rows}", "--output-mode", "update"]
            own = [*for_code, *answers] if "--code" in words else []
            ran = CliRunner().invoke(main, [*words[1:], *own])
            if own and not answers:
                # As they are printed below the questions; the first where there are several.
                lines = [line for line in ran.output.splitlines() if line.startswith("    --")]
                answers = [word for each in lines for word in shlex.split(each.split(", or ")[0])]
            else:
                assert ran.exit_code == 0, (words, ran.output)
        self.checkpoint = found.steps[-1].text.removeprefix("Start the new code on ")


@pytest.fixture
def deployed(spark, tmp_path, monkeypatch, without_empty_batches):
    return Deployed(spark, tmp_path, monkeypatch)


def asking(found):
    return {each.name: each.verdict for each in found.items if each.asks}


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_plan_that_is_followed_ends_with_the_new_code_on_the_old_state(deployed, one, other):
    deployed.set(CODE[one])
    deployed.set(CODE[one], "old")
    deployed.run(batch("first", KEYS))
    deployed.set(CODE[other])
    if (one, other) == ("plain", "pages"):
        found = deployed.planned(old_code="planned_code:old")
        assert any("--pages N" in each.command for each in found.steps)
        # The number is nobody's but the user's.
        deployed.set(on_pages(pages=3))
    found = deployed.planned(old_code="planned_code:old")
    deployed.follow(found)
    again = [each for each in found.steps if each.text == "Look at what is left to do"]
    if again:
        deployed.checkpoint = shlex.split(again[0].command)[2]
        deployed.follow(deployed.planned())
    names = {name.partition("-0 ")[2] for name in asking(found)}
    is_same = one == other or (one == "4 pages" and other in ("pages", "stateful with 4 pages"))
    is_timed = [each.endswith("in time") for each in (one, other)]
    wanted = {"time mode"} if is_timed[0] != is_timed[1] else set()
    in_pages = is_same or (one, other) == ("4 pages", "4 pages in time")
    assert names == wanted | (set() if in_pages else {"pages"})
    rows = deployed.run(batch("second", KEYS))
    assert [(key, n, last) for key, n, _, last, _ in rows] == [
        (f"k{number}", 2, "second") for number in KEYS
    ]


EXPIRING = ("4 pages in time", "4 pages of values that expire")


@pytest.mark.parametrize(
    ("one", "other", "between", "changed"),
    [
        (EXPIRING[0], EXPIRING[1], "plain values that expire", "tally time to live"),
        (EXPIRING[1], EXPIRING[0], "plain in time", "tally time to live"),
        ("plain in time", EXPIRING[1], "plain values that expire", "tally time to live"),
        (EXPIRING[0], "4 pages", "plain", "transform-with-state-0 time mode"),
    ],
)
def test_values_that_are_to_expire_or_no_longer_leave_their_pages_for_it(
    deployed, one, other, between, changed
):
    deployed.set(CODE[one])
    deployed.run(batch("first", KEYS))
    deployed.set(CODE[other])
    found = deployed.planned()
    assert asking(found)[changed] == "rewrite"
    deployed.set(CODE[between], "between")
    deployed.answer(found, "planned_code:between")
    rows = deployed.run(batch("second", KEYS))
    assert [(key, n) for key, n, *_ in rows] == [(f"k{number}", 2) for number in KEYS]


def test_a_rewrite_for_code_with_other_pages_is_refused_with_the_command_to_run_first(deployed):
    deployed.set(CODE["plain"])
    deployed.run(batch("first", KEYS))
    deployed.set(CODE["4 pages named a"])
    new = f"{deployed.checkpoint}-2"
    with pytest.raises(RewriteError) as raised:
        rewrite(deployed.checkpoint, new, target=deployed.code(), migrations=None)
    assert raised.value.code == "SM-PAGES-042"
    command = raised.value.next_action.split("`")[1]
    words = [new if word == "NEW" else word for word in shlex.split(command)]
    assert CliRunner().invoke(main, words[1:]).exit_code == 0
    deployed.checkpoint = new
    assert [row[1] for row in deployed.run(batch("second", KEYS))] == [2] * len(KEYS)


class LivingTally(Tally):
    """Its values expire."""

    def init(self, handle):
        self.state = handle.getValueState(self.store, self.ddl, ttlDurationMs=LIFE)


def two(deployed, names, numbers, tally=Tally, mode="None"):
    """Two operators on pages, or without, on streams of their own."""

    def one(rows, processor, by, name, number):
        if name is None:
            return rows.groupBy(by).transformWithState(
                processor, deployed.pipeline.output, "Update", mode
            )
        given = {"output": deployed.pipeline.output, "checkpoint": deployed.checkpoint}
        given |= {"pages": number, "operator": name, "timeMode": mode}
        return paged(rows, by=by, processor=processor, **given)

    def made(rows, others):
        tallied = one(rows, tally(), "key", names[0], numbers[0])
        return tallied.union(one(others, Counts(), "name", names[1], numbers[1]))

    return made


@pytest.mark.parametrize(
    ("names", "numbers", "more"),
    [
        (("tallies", "others"), (8, 3), ()),
        (("tallies", "counts"), (4, 7), ()),
        # Neither backfill source has taken anything, so that nothing says which is whose.
        ((None, "counts"), (4, 3), ("--source", "1=gone")),
        ((None, None), (4, 3), ("--source", "1=gone")),
    ],
)
def test_each_of_two_operators_is_changed_by_a_rewrite_of_its_own(deployed, names, numbers, more):
    deployed.pipeline.output = "of STRING, key STRING, n BIGINT"
    deployed.inputs = ("rows", "others")
    deployed.module.new = two(deployed, ("tallies", "counts"), (4, 3))
    deployed.run(batch("first", KEYS))
    deployed.module.new = two(deployed, names, numbers)
    found = deployed.planned()
    before = (("tallies", 4), ("counts", 3))
    after = zip(names, numbers, strict=True)
    changed = sum(one != other for one, other in zip(before, after, strict=True))
    assert sum(each.name.endswith(" pages") for each in found.items) == changed
    deployed.follow(found, *more)
    rows = deployed.run(batch("first", KEYS))
    assert sorted(rows) == [
        ("counts", "first", 2 * len(KEYS)),
        *(("tally", f"k{number}", 2) for number in KEYS),
    ]


def test_both_operators_leave_their_pages_where_one_has_to(deployed):
    deployed.pipeline.output = "of STRING, key STRING, n BIGINT"
    deployed.inputs, mode = ("rows", "others"), "ProcessingTime"
    deployed.module.new = two(deployed, ("tallies", "counts"), (4, 3), mode=mode)
    deployed.run(batch("first", KEYS))
    deployed.module.new = two(deployed, ("tallies", "counts"), (4, 7), LivingTally, mode)
    found = deployed.planned()
    assert {name for name, verdict in asking(found).items() if verdict == "rewrite"} == {
        "tally time to live",
        "transform-with-state-1 pages",
    }
    made = [each.command.partition(" --")[2] for each in found.steps if "--apply" in each.command]
    assert sorted(made[:2]) == [
        "no-pages --paged-operator counts --apply",
        "no-pages --paged-operator tallies --apply",
    ]
    assert made[2] == "code MODULE:FUNCTION --apply"
    assert sorted(made[3:]) == [
        "pages 4 --paged-operator 0=tallies --apply",
        "pages 7 --paged-operator 1=counts --apply",
    ]


def groups(rows, deployed):
    """A function whose state has the fields of `CentsTally`."""

    def counted(key, frames, state):
        n = state.get[0] if state.exists else 0
        n += sum(map(len, frames))
        state.update((n, 0, "", 0))
        yield pd.DataFrame({"key": key, "n": n, "cents": 0, "last": "", "moved": 0})

    output = deployed.pipeline.output
    grouped = rows.groupBy("key")
    return grouped.applyInPandasWithState(counted, output, CENTS_DDL, "update", "NoTimeout")


def test_the_state_of_a_function_becomes_variables_before_it_comes_into_pages(deployed):
    deployed.set(groups)
    deployed.run(batch("first", KEYS))
    deployed.set(CODE["plain"], "between")
    deployed.set(CODE["4 pages"])
    with pytest.raises(RewriteError) as raised:
        rewrite(deployed.checkpoint, "new", target=deployed.code(), migrations=None)
    assert raised.value.code == "SM-PAGES-042"
    deployed.answer(deployed.planned(), "planned_code:between")
    rows = deployed.run(batch("second", KEYS))
    assert [(key, n) for key, n, *_ in rows] == [(f"k{number}", 2) for number in KEYS]
