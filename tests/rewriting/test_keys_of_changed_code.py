"""Another key: `plan` names commands, and with them the query goes on as one that always had it."""

import re
import shlex
import unicodedata
from collections import Counter
from datetime import UTC, datetime

import pyarrow as pa
import pytest
import rekeyed_code as code
from click.testing import CliRunner
from fed_queries import Feed, rows_of, run
from rewritten_queries import session_with

from statemigrate import NewCode, autogenerate_for, plan
from statemigrate.checkpoint.operators.catalogue import operator_stores
from statemigrate.cli import main
from statemigrate.commands.new_code import probed
from statemigrate.meaning.key_sources import key_sources
from statemigrate.scripts import ScriptFolder

pytestmark = [pytest.mark.spark, pytest.mark.long]
KEYS = ["anna", "Anna", "ben", "BEN", "ß", "straße", "x"]
BEFORE = [
    rows_of(*((KEYS[n % 7], n - 9, n * 7) for n in range(number, 60, 2))) for number in (0, 1)
]
AFTER = rows_of(*((KEYS[n % 7], n * 3, n * 7 + 1) for n in range(60)), ("new", 4, 400))


_SUM = '{"n": first["n"] + second["n"]}'


@pytest.fixture(scope="module")
def rocksdb(spark):
    return session_with(spark, "rocksdb")


def named(function):
    return f"{function.__module__}:{function.__qualname__}"


class Changed:
    """A query that ran ``old`` code, and a twin that ran ``new`` code on the same rows."""

    def __init__(self, session, folder, old, new, mode="update"):
        self.session, self.old, self.new, self.mode = session, old, new, mode
        self.checkpoint, self.twin = folder / "checkpoint", folder / "twin"
        self.feed = Feed(folder / "input")
        self.feed.add(*BEFORE)
        run(session, self.feed, old, self.checkpoint, mode)
        run(session, self.feed, new, self.twin, mode)

    def plan(self):
        target = NewCode(named(self.new), mode=self.mode, old_code=named(self.old))
        return plan(str(self.checkpoint), target=target, spark=self.session)

    def follow(self, found):
        """Run each command of a plan as it is printed."""
        for step in found.steps:
            if step.command:
                done = CliRunner().invoke(main, shlex.split(step.command)[1:])
                assert done.exit_code == 0, f"{step.command}\n{done.output}"

    def go_on(self, rows=AFTER):
        """What both queries return of further rows."""
        self.feed.add(rows)
        return [
            sum(run(self.session, self.feed, self.new, place, self.mode).values(), Counter())
            for place in (f"{self.checkpoint}-2", self.twin)
        ]


@pytest.fixture
def changed(rocksdb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rocksdb.conf.set("spark.sql.shuffle.partitions", "2")

    def make(old, new, mode="update"):
        # The commands take the active session.
        rocksdb._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(
            rocksdb._jsparkSession
        )
        return Changed(rocksdb, tmp_path, old, new, mode)

    return make


@pytest.mark.parametrize(
    ("old", "new", "mode"),
    [
        (code.by_name, code.by_upper_case, "update"),
        (code.by_name, code.by_initial, "update"),
        (code.by_name_and_region, code.by_region, "update"),
        (code.by_name, code.in_all, "update"),
        (code.once, code.once_in_upper_case, "append"),
    ],
)
def test_the_commands_of_a_plan_lead_to_a_query_like_one_that_always_had_the_key(
    changed, old, new, mode
):
    query = changed(old, new, mode)
    found = query.plan()
    commands = [each.command.split()[1] for each in found.steps if each.command]
    assert commands == ["new", "dry-run", "rewrite", "rewrite"]
    query.follow(found)
    first, second = ScriptFolder("migrations").survey().scripts
    assert (*first.questions, *second.questions) == ()
    again = query.plan()
    assert [each.command for each in again.steps if each.command] == [
        each.command for each in found.steps[1:] if each.command
    ]
    gone_on, twin = query.go_on()
    assert gone_on == twin
    assert sum(twin.values())


def test_a_longer_window_is_made_of_shorter_ones_and_the_open_one_is_asked_about(changed):
    query = changed(code.in_minutes, code.in_hours_by_initial)
    found = query.plan()
    new, dry_run, ask, apply, verify = [each.command for each in found.steps if each.command]
    for command in (new, dry_run):
        assert CliRunner().invoke(main, shlex.split(command)[1:]).exit_code == 0
    script = ScriptFolder("migrations").survey().scripts[-1]
    assert "windows of 1 minute" in script.path.read_text()
    later = query.plan()
    assert [each.command for each in later.steps if each.command] == [dry_run, ask, apply, verify]
    asked = CliRunner().invoke(main, shlex.split(ask)[1:]).output
    (again,) = re.findall(r"--accept (\S+)", asked)
    for command in (f"{apply} --accept {again}", verify):
        done = CliRunner().invoke(main, shlex.split(command)[1:])
        assert done.exit_code == 0, done.output
    gone_on, twin = query.go_on()
    assert gone_on == twin


@pytest.mark.parametrize(
    ("old", "new", "mode", "merged"),
    [
        (code.words, code.words_in_upper_case, "update", {"count": _SUM, "regions": _SUM}),
        (
            code.alarmed,
            code.alarmed_by_longer_names,
            "append",
            {"seen": '{"n": first["n"] + second["n"], "due": max(first["due"], second["due"])}'},
        ),
    ],
)
def test_the_variables_of_a_processor_get_its_new_keys(changed, old, new, mode, merged):
    query = changed(old, new, mode)
    found = query.plan()
    (item,) = [each for each in found.items if each.asks]
    assert (item.verdict, item.rule) == ("unnoticed", "key")
    commands = [shlex.split(each.command)[1:] for each in found.steps if each.command]
    writing = [each for each in commands if each[0] == "new"]
    assert [each[1] for each in writing] == [each[1] for each in commands if each[0] == "dry-run"]
    for command in writing:
        assert CliRunner().invoke(main, command).exit_code == 0
    for script in ScriptFolder("migrations").survey().scripts:
        if script.questions:
            text = script.path.read_text()
            assert text.count("# QUESTION: what do two values make") == 1
            text = text.replace("# QUESTION: ", "# ").replace(
                'raise NotImplementedError("return one value in the format `new`")',
                f"return {merged.pop(script.get('store'))}",
            )
            script.path.write_text(text)
    assert not merged
    apply, verify = commands[-2:]
    asks = mode == "append"
    for command in commands[len(writing) : -2]:
        done = CliRunner().invoke(main, command)
        assert done.exit_code == (command[0] == "rewrite"), done.output
    # A timer has no value of which a script could make another key.
    accepted = re.findall(r"--accept (\S+)", done.output)
    assert [each.partition(":")[0] for each in accepted] == ["transform-with-state-0.timers"] * asks
    answers = [word for each in accepted for word in ("--accept", each)]
    for command in ([*apply, *answers], verify):
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0, done.output
    # Every key has rows that come in time, and registers a timer.
    gone_on, twin = query.go_on(rows_of(*((KEYS[n % 7], n, 500 + n) for n in range(60))))
    later, twin_later = query.go_on(rows_of(("x", 1, 3500)))
    assert (gone_on, later) == (twin, twin_later)
    assert sum(twin.values()) + sum(twin_later.values())


def test_columns_in_another_order_need_no_script(changed):
    query = changed(code.by_name_and_region, code.by_region_and_name)
    found = query.plan()
    assert [each.command.split()[1] for each in found.steps if each.command] == ["rewrite"] * 2
    query.follow(found)
    gone_on, twin = query.go_on()
    assert gone_on == twin


def test_what_no_code_tells_is_one_marked_place(changed):
    query = changed(code.by_name, code.by_name_and_region)
    found = query.plan()
    new = next(each.command for each in found.steps if each.command)
    done = CliRunner().invoke(main, shlex.split(new)[1:])
    assert done.exit_code == 0, done.output
    scripts = ScriptFolder("migrations").survey().scripts
    (script,) = [each for each in scripts if each.get("old") is not None]
    (question,) = script.questions
    assert "region" in question.text
    assert script.get("rekey")({"k": "a"}, {}) == {"k": "a", "region": None}
    assert script.get("merge") is None


def test_a_value_that_two_rows_do_not_tell_is_asked_for(changed):
    query = changed(code.first_of_name, code.first_of_upper_case)
    target = NewCode(named(query.new), mode="update", old_code=named(query.old))
    _, written = autogenerate_for(query.checkpoint, target, "upper", spark=query.session)
    assert len(written.questions) == 2
    assert all("first" in each.text or "valueSet" in each.text for each in written.questions)


def test_without_the_old_code_a_key_is_taken_for_its_name_with_a_question(changed):
    query = changed(code.by_name, code.by_initial)
    target = NewCode(named(query.new), mode="update")
    _, written = autogenerate_for(query.checkpoint, target, "initial", spark=query.session)
    (question,) = written.questions
    assert "substring(k" in question.text


# What Spark computes, and what a script does.


DDL = "k STRING, region STRING, v BIGINT, at TIMESTAMP"


def sources(spark, old, new):
    """What is known of each new key, in the order of the code."""
    codes = [probed(NewCode(named(each), mode="update"), None, spark, ".") for each in (old, new)]
    stores = [operator_stores(each.shape)["aggregation-0"] for each in codes]
    keys, fields = [each.keys[0] for each in codes], [each.key["fields"] for each in stores]
    found = key_sources(*keys, *fields)
    return [found[each["name"]] for each in fields[1]]


def values_of_keys():
    texts = ["", " ", "  a b ", "ß", "ŉ", "İstanbul", "ΑΣ", "ΑΣΑ", "Σ", "ς", "ǆ", "ﬁne", "\tx\t"]
    texts += ["e\u0301", "\U0001f600 a", "\u00a0x\u00a0", "'\"\\", "a\nb", None]
    numbers = [0, 1, -1, 6, 7, -7, -8, 2**63 - 1, -(2**63), None]
    times = [datetime(2026, 1, 1, 23, 59, 59, 999999, UTC), datetime(1969, 12, 31, 1, tzinfo=UTC)]
    times += [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, tzinfo=UTC), None]
    for n, text in enumerate(texts):
        yield {
            "k": text,
            "region": texts[(n * 5 + 2) % len(texts)],
            "v": numbers[n % len(numbers)],
            "at": times[n % len(times)],
        }


def computed(source, key):
    return eval(source, {"key": key})  # noqa: S307 - what is tested


def test_every_expression_that_is_translated_gives_what_spark_gives(rocksdb):
    found = sources(rocksdb, code.by_columns, code.by_expressions)
    keys = [*values_of_keys()]
    assert all(each.source and not each.asked for each in found), found
    frame = rocksdb.createDataFrame(
        [tuple(each.values()) for each in keys], "k STRING, region STRING, v BIGINT, at TIMESTAMP"
    )
    rows = frame.selectExpr(
        *(f"{each} AS c{n}" for n, each in enumerate(code.EXPRESSIONS))
    ).toArrow()
    for n, expression in enumerate(code.EXPRESSIONS):
        made = [computed(found[n].source, key) for key in keys]
        assert made == rows[f"c{n}"].to_pylist(), expression


def test_every_expression_that_is_not_translated_is_a_question(rocksdb):
    found = sources(rocksdb, code.by_columns, code.by_unknown)
    assert [each.source for each in found] == [""] * len(code.UNKNOWN)
    assert all(each.asked for each in found)


@pytest.mark.parametrize(("function", "method"), [("upper", str.upper), ("lower", str.lower)])
def test_letters_of_every_script_become_what_spark_makes_of_them(rocksdb, function, method):
    """Python knows fewer: four of its letters have capitals that only a newer Unicode has."""
    points = (chr(n) for n in range(0x110000) if not 0xD800 <= n < 0xE000)
    texts = [each for each in points if is_known(each)]
    frame = rocksdb.createDataFrame(pa.table({"t": texts}))
    made = frame.selectExpr(f"{function}(t) AS made").toArrow()["made"].to_pylist()
    wrong = [(t, m) for t, m in zip(texts, made, strict=True) if method(t) != m]
    assert not any(is_known(m) for _, m in wrong)
    assert len(wrong) <= 4


def is_known(letter):
    return unicodedata.category(letter[0]) != "Cn"
