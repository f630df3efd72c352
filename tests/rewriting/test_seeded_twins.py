"""A query begun from tables that Spark SQL made of a history has the state of one that read it.

Nothing in these tables comes from a checkpoint: each is a batch query over the history's files.
"""

from dataclasses import dataclass, field

import pytest
import rewritten_code as code
import variables_code
from pyspark.sql import functions as F  # noqa: N812
from rewritten_queries import DDL, Feed, accepting, raw_state, rows_of, run, session_with
from seeding_code import Log

import statemigrate
from statemigrate.checkpoint.shape import describe
from statemigrate.checkpoint.stores.provider import PROVIDERS
from statemigrate.commands.new_code import NewCode
from statemigrate.commands.rewrite import verify
from statemigrate.commands.seed import seed
from statemigrate.files import LocalFiles
from statemigrate.rewrite.questions import RewriteAnswers
from statemigrate.rewrite.sources import RewriteOptions

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
TIMERS = "transform-with-state-0.timers"


def history(batches=4, step=40, pace=2):
    """Rows of each batch, on time: seven keys for ever, and one that is seen at first only."""
    return [
        rows_of(
            *[(f"k{n % 7}", b * 20 + n, b * step + n * pace) for n in range(20)],
            *([("gone", 3, 10)] if b == 0 else []),
        )
        for b in range(batches)
    ]


def later(number):
    """Rows that are on time, late, too late, and there twice."""
    start = 160 + number * 40
    on_time = [(f"k{n % 9}", 200 + number * 30 + n, start + n * 2) for n in range(20)]
    late = [(f"k{n}", n, start - 25 + n) for n in range(4)]
    once = (f"n{number}", 7, start + 5)
    return rows_of(*on_time, *late, *on_time[:3], ("k1", 1000, 0), ("gone", 1, start), once)


def windowed_totals(events):
    rows = events.withWatermark("at", "30 seconds")
    return rows.groupBy(F.window("at", "1 minute"), "k").agg(
        F.count("*").alias("n"), F.sum("v").alias("total"), F.max("v").alias("largest")
    )


def overlapping_totals(events):
    rows = events.withWatermark("at", "30 seconds")
    by = rows.groupBy(F.window("at", "1 minute", "20 seconds"), "region")
    return by.agg(F.count("*").alias("n"), F.sum("v").alias("total"))


@dataclass(frozen=True)
class Case:
    """A query, and the tables of its state as SQL over the view ``events``, or two of them.

    ``{watermark}`` is a timestamp: what it is past, the query has given out and forgotten.
    """

    function: object
    mode: str
    tables: dict[str, str]
    rows: list = field(default_factory=history)
    feeds: tuple[str, ...] = ("events",)
    delay: int = 30
    answers: RewriteAnswers = field(default_factory=RewriteAnswers)
    least: int = 10


WINDOWS = """
    SELECT w.start, w.end, k, count(*) AS count, sum(v) AS sum, max(v) AS max
    FROM (SELECT *, window(at, '1 minute') AS w FROM events) GROUP BY w, k
    HAVING w.end > {watermark}
"""
OVERLAPPING = """
    SELECT w AS window, region, count(*) AS count, sum(v) AS sum
    FROM (SELECT region, v, window(at, '1 minute', '20 seconds') AS w FROM events)
    GROUP BY w, region HAVING w.end > {watermark}
"""
# Spark 4.3 takes a condition on session_window.end to the rows before they are sessions.
SESSIONS = """
    SELECT session_window.start, session_window.end, k, count(*) AS count, sum(v) AS sum
    FROM events GROUP BY k, session_window(at, '20 seconds')
    HAVING max(at) + INTERVAL 20 SECONDS > {watermark}
"""
CASES = {
    "windows": Case(windowed_totals, "append", {"aggregation-0": WINDOWS}),
    "windows that overlap": Case(overlapping_totals, "update", {"aggregation-0": OVERLAPPING}),
    "sessions": Case(
        code.sessions,
        "append",
        {"": SESSIONS},
        # Every session of the history is longer than the gap, so that is asked.
        answers=accepting(
            "session-window-0.session_window:meaning",
            take={"session-window-0.sessionStartTime": "start"},
        ),
    ),
    "distinct": Case(
        code.distinct_rows,
        "append",
        {"": "SELECT DISTINCT k, v, at FROM events WHERE at > {watermark}"},
    ),
    "distinct for a while": Case(
        code.distinct_for_a_while,
        "append",
        {"": "SELECT k, unix_micros(min(at)) + 30000000 AS expiresAtMicros FROM events GROUP BY k"},
        history(batches=3, step=10, pace=1),
    ),
    "variables": Case(
        variables_code.variables,
        "update",
        {
            "count": "SELECT k, int(count(*)) AS n FROM events GROUP BY k",
            "last": "SELECT k, transform(slice(vs, greatest(-3, -size(vs)), 3), "
            "x -> struct(x AS v)) AS last "
            "FROM (SELECT k, sort_array(collect_list(v)) AS vs FROM events GROUP BY k)",
            "regions": "SELECT k, region, count(*) AS n FROM events GROUP BY k, region",
        },
    ),
    "timers": Case(
        variables_code.alarms,
        "append",
        {
            "seen": "SELECT k, int(count(*)) AS n, unix_millis(max(at)) + 60000 AS due "
            "FROM events GROUP BY k HAVING max(at) + INTERVAL 60 SECONDS > {watermark}",
            TIMERS: "SELECT k, max(at) + INTERVAL 60 SECONDS AS expires "
            "FROM events GROUP BY k HAVING max(at) + INTERVAL 60 SECONDS > {watermark}",
        },
        delay=10,
        least=2,
    ),
    "two sources": Case(
        code.totals_of_both,
        "update",
        {
            "": "SELECT k, count(*) AS count, sum(v) AS sum "
            "FROM (TABLE events UNION ALL TABLE others) GROUP BY k"
        },
        feeds=("events", "others"),
    ),
    "a join of two sources": Case(
        code.pairs,
        "append",
        {
            "join-0.left": "SELECT k AS field0, k, v, at, EXISTS (SELECT * FROM others AS b WHERE "
            "a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 40 SECONDS) AS matched "
            "FROM events AS a WHERE at + INTERVAL 40 SECONDS >= {watermark}",
            "join-0.right": "SELECT k AS field0, k, v, at, EXISTS (SELECT * FROM events AS a WHERE "
            "a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 40 SECONDS) AS matched "
            "FROM others AS b WHERE at >= {watermark}",
        },
        feeds=("events", "others"),
    ),
}


def state_of(session, checkpoint):
    """Every row of every store as its bytes; those of a join without their numbers in a key."""
    found = {}
    for operator in describe(LocalFiles(checkpoint)).operators:
        for store in operator.stores:
            options = {"operatorId": operator.number, "storeName": store.name}
            if store.name.endswith("keyWithIndexToValue"):
                reader = session.read.format("statestore").options(**options)
                rows = reader.load(str(checkpoint)).select("key.field0", "value.*")
                found[operator.number, store.name] = sorted(map(str, rows.collect()))
            else:
                rows = raw_state(session, checkpoint, **options)
                found[operator.number, store.name] = rows
    return found


def tables_of(session, case, feeds, folder):
    """The tables of a case, made by batch queries; and the watermark of the stream, in ms."""
    last = None
    for name, feed in feeds.items():
        rows = session.read.schema(DDL).json(str(feed.folder))
        rows.createOrReplaceTempView(name)
        (newest,) = rows.selectExpr("unix_millis(max(at))").first()
        last = newest if last is None else min(last, newest)
    watermark = last - case.delay * 1000
    made = {}
    for number, (store, sql) in enumerate(case.tables.items()):
        text = sql.replace("{watermark}", f"timestamp_millis({watermark})")
        session.sql(text).write.parquet(str(folder / str(number)))
        made[store] = str(folder / str(number))
    return made, watermark


def begun(session, new, tables, function, inputs, answers=None, **options):
    said = tables if list(tables) != [""] else tables[""]
    made = seed(
        new,
        said,
        target=NewCode(f"{function.__module__}:{function.__qualname__}", inputs),
        options=RewriteOptions(3, {PROVIDER: PROVIDERS["rocksdb"].class_name}, **options),
        answers=answers,
        apply=True,
        spark=session,
    )
    assert verify(None, new, spark=session).problems == ()
    return made


@pytest.mark.parametrize("name", list(CASES))
def test_state_from_history_is_that_of_its_twin_key_by_key(spark, tmp_path, name):
    case = CASES[name]
    session = session_with(spark, "rocksdb")
    feeds = {each: Feed(tmp_path / each) for each in case.feeds}
    twin, new, forked = (tmp_path / each for each in ("twin", "new", "forked"))
    for number, feed in enumerate(feeds.values()):
        feed.add(*case.rows[number:])
    both = list(feeds.values())
    run(session, both, case.function, twin, case.mode)
    tables, watermark = tables_of(session, case, feeds, tmp_path / "tables")
    shape = describe(LocalFiles(twin))
    options = {"taken": {each: str(feed.folder) for each, feed in feeds.items()}}
    if shape.commits[shape.batch].watermark:
        assert shape.commits[shape.batch].watermark == watermark
        options["watermark"] = watermark
    begun(
        session,
        new,
        tables,
        case.function,
        dict.fromkeys(feeds, DDL),
        answers=case.answers,
        **options,
    )
    state = state_of(session, twin)
    assert sum(map(len, state.values())) > 3
    assert state_of(session, new) == state
    given = 0
    for number in range(3):
        for feed in both:
            feed.add(later(number))
        expected = list(run(session, both, case.function, twin, case.mode).values())
        assert list(run(session, both, case.function, new, case.mode).values()) == expected
        assert state_of(session, new) == state_of(session, twin)
        if forked.exists():
            found = run(session, both, case.function, forked, case.mode)
            assert list(found.values()) == expected
            assert state_of(session, forked) == state_of(session, twin)
        else:
            statemigrate.fork(new, forked)
        given += sum(map(len, expected))
    assert given >= case.least


def test_files_and_offsets_each_begin_where_the_table_ends(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    twin, new = tmp_path / "twin", tmp_path / "new"
    feed.add(*history())
    rows = session.read.schema(DDL).json(str(feed.folder))
    rows.createOrReplaceTempView("events")
    table = str(tmp_path / "table")
    # Row n of the log is (k<n mod 3>, n); the table has eight of its ten.
    session.sql(
        "SELECT k, count(*) AS count, sum(v) AS sum FROM (SELECT k, v FROM events UNION ALL "
        "SELECT concat('k', id % 3), id FROM range(8)) GROUP BY k"
    ).write.parquet(table)
    run(session, [feed, Log()], code.totals_of_both, twin)
    options = {"taken": {"events": str(feed.folder)}, "offsets": {"others": {"log": {"0": 8}}}}
    inputs = {"events": DDL, "others": DDL}
    begun(session, new, {"": table}, code.totals_of_both, inputs, **options)
    before = dict(state_of(session, twin))
    assert state_of(session, new) != before
    for number in range(2):
        feed.add(later(number))
        run(session, [feed, Log()], code.totals_of_both, twin)
        run(session, [feed, Log()], code.totals_of_both, new)
        assert state_of(session, new) == state_of(session, twin) != before
