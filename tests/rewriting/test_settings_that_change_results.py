"""A setting of the session under which the same expression has other results is a change.

Spark has the same plan under either. Each expression is compared at three places: as a key, in a
filter, and as what an aggregate function is given.
"""

import json

import pandas as pd
import pytest
from pyspark.sql import functions as F  # noqa: N812
from rewritten_queries import Feed, rows_of, session_with
from support.file_hashes import file_hashes

from statemigrate import guarded
from statemigrate.checkpoint import MEANINGS
from statemigrate.errors import StartupError
from statemigrate.files import sealed
from statemigrate.meaning import compare_code
from statemigrate.meaning.guard import stream_meaning
from statemigrate.rewrite.plan_settings import without_settings

pytestmark = [pytest.mark.spark, pytest.mark.long(weight=1 / 20)]
DDL = (
    "n BIGINT, i INT, s STRING, j STRING, a ARRAY<INT>, m DECIMAL(38,18), d DECIMAL(10,2), "
    "f DOUBLE, t TIMESTAMP, tn TIMESTAMP_NTZ, dt DATE, mp MAP<STRING, INT>"
)
ANSI = ("spark.sql.ansi.enabled", "true", "false")
ZONE = ("spark.sql.session.timeZone", "UTC", "America/Los_Angeles")
PRECISION = ("spark.sql.decimalOperations.allowPrecisionLoss", "true", "false")
PARSER = ("spark.sql.legacy.timeParserPolicy", "CORRECTED", "LEGACY")
MAP_KEYS = ("spark.sql.mapKeyDedupPolicy", "EXCEPTION", "LAST_WIN")
NULL_FIELDS = ("spark.sql.jsonGenerator.ignoreNullFields", "true", "false")
CORRUPT = ("spark.sql.columnNameOfCorruptRecord", "_corrupt_record", "c")
COMPLEX_TEXT = ("spark.sql.legacy.castComplexTypesToString.enabled", "false", "true")


def as_key(rows, column):
    return rows.groupBy(column.alias("key")).count()


def in_filter(rows, column):
    return rows.where(F.hash(column) > 7).groupBy("n").count()


def as_value(rows, column):
    return rows.groupBy("n").agg(F.max(F.hash(column)).alias("most"))


PLACES = (as_key, in_filter, as_value)


@pytest.fixture(scope="module")
def session(spark):
    made = {}

    def of(**conf):
        name = json.dumps(conf, sort_keys=True)
        if name not in made:
            made[name] = session_with(spark, "rocksdb", **conf)
        return made[name]

    return of


@pytest.fixture(scope="module")
def changes(session, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("input"))

    def between(setting, old, new=None):
        """What differs, by operator, from ``old`` under one value to ``new`` under another."""
        name, *values = setting
        meanings = []
        for value, code in zip(values, (old, new or old), strict=True):
            rows = session(**{name: value}).readStream.schema(DDL).json(folder)
            meanings.append(stream_meaning(code(rows), "update"))
        return [(each.name.split(" ", 1)[1], each.verdict) for each in compare_code(*meanings)]

    return between


def hours(times: pd.Series) -> pd.Series:
    return times.dt.hour


def following(numbers: pd.Series) -> pd.Series:
    return numbers + 1


def hour_by_pandas():
    return F.pandas_udf(hours, "int")("t")


def next_by_pandas():
    return F.pandas_udf(following, "bigint")("n")


def expression(code):
    return F.expr(code) if isinstance(code, str) else code()


DEPENDENT = {
    ANSI: [
        *("cast(s as int)", "cast(n as int)", "i + i", "n * n", "i div i", "i % i", "d / d"),
        *("-n", "abs(i)", "element_at(a, 5)", "to_date(s)", "m * m", "unix_timestamp(s)"),
    ],
    ZONE: [
        *("cast(t as string)", "cast(t as date)", "hour(t)", "date_trunc('DAY', t)"),
        *("from_json(j, 't TIMESTAMP').t", "cast(s as timestamp)", "cast(t as timestamp_ntz)"),
        *("t + interval 1 day", "t + interval 1 month", "from_unixtime(n)", "concat(t, s)"),
        *("to_json(struct(t))", "to_csv(struct(t))", "cast(tn as timestamp)", "t - tn"),
        hour_by_pandas,
    ],
    PRECISION: ["m / m", "m + m", "m * d"],
    PARSER: [
        *("to_timestamp(s, 'yyyy-MM-dd')", "date_format(t, 'u')", "from_unixtime(n, 'YYYY')"),
        *("from_json(j, 't DATE').t", "to_json(struct(dt))", "to_csv(struct(t))"),
    ],
    MAP_KEYS: ["map_concat(mp, mp)['a']", "map_from_arrays(array(s, s), array(1, 2))[s]"],
    NULL_FIELDS: ["to_json(struct(i))"],
    CORRUPT: [
        "cast(from_json(j, 'p INT, c STRING') as string)",
        "cast(from_csv(s, 'p INT, c STRING') as string)",
    ],
    COMPLEX_TEXT: ["cast(mp as string)", "cast(a as string)"],
}
INDEPENDENT = {
    ANSI: [
        *("cast(i as bigint)", "cast(i as double)", "cast(n as string)", "cast(t as string)"),
        *("cast(i as decimal(12,2))", "cast(d as decimal(12,4))", "f + f", "try_cast(s as int)"),
        *("upper(s)", "n > 5", "window(t, '1 hour')", "window(t, '1 hour', '10 minutes')"),
    ],
    ZONE: [
        *("cast(s as int)", "cast(i as bigint)", "cast(n as string)", "cast(dt as string)"),
        *("from_json(j, 'p INT').p", "from_json(j, 'p INT, t TIMESTAMP').p", "hour(tn)"),
        *("from_csv(s, 'p INT').p", "to_json(struct(i))", "to_csv(struct(i))", "cast(t as bigint)"),
        *("from_json(j, 't TIMESTAMP', map('timeZone', 'UTC')).t", "window(t, '1 day')"),
        *("to_json(struct(t), map('timeZone', 'UTC'))", "t + interval 10 minutes", "upper(s)"),
        next_by_pandas,
    ],
    PRECISION: ["n * n", "cast(d as double)"],
    PARSER: ["from_json(j, 'p INT').p", "to_json(struct(i))", "cast(s as date)"],
    MAP_KEYS: ["mp['a']"],
    NULL_FIELDS: ["to_json(struct(i), map('ignoreNullFields', 'true'))", "to_csv(struct(i))"],
    CORRUPT: [
        "cast(from_json(j, 'p INT') as string)",
        "cast(from_json(j, 'p INT, c STRING', map('columnNameOfCorruptRecord', 'c')) as string)",
    ],
    COMPLEX_TEXT: ["cast(n as string)"],
}


def pairs(cases):
    return [(setting, code) for setting, codes in cases.items() for code in codes]


@pytest.mark.parametrize(("setting", "code"), pairs(DEPENDENT))
def test_a_setting_that_an_expression_depends_on_is_the_one_change(changes, setting, code):
    for place in PLACES:
        found = changes(setting, lambda rows, place=place: place(rows, expression(code)))
        assert found == [(setting[0], "unnoticed")], place


@pytest.mark.parametrize(("setting", "code"), pairs(INDEPENDENT))
def test_a_setting_that_an_expression_does_not_depend_on_is_no_change(changes, setting, code):
    for place in PLACES:
        found = changes(setting, lambda rows, place=place: place(rows, expression(code)))
        assert found == [], place


@pytest.mark.parametrize(
    ("total", "found"),
    [
        ("sum(n)", [(ANSI[0], "unnoticed")]),
        ("avg(m)", [(ANSI[0], "unnoticed")]),
        ("sum(f)", []),
        ("avg(i)", []),
        ("count(s)", []),
    ],
)
def test_a_total_depends_on_what_becomes_of_an_overflow_if_it_can_overflow(changes, total, found):
    assert changes(ANSI, lambda rows: rows.groupBy("s").agg(F.expr(total))) == found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cast(s as int)", "try_cast(s as int)"),
        ("i + i", "try_add(i, i)"),
        ("element_at(a, 5)", "try_element_at(a, 5)"),
    ],
)
def test_null_instead_of_a_failure_is_a_change_of_the_code(changes, old, new):
    same = (*ANSI[:2], ANSI[1])
    for place in PLACES:
        codes = [lambda rows, p=place, c=code: p(rows, F.expr(c)) for code in (old, new)]
        ((name, verdict),) = changes(same, *codes)
        assert (name.startswith("spark.sql"), verdict) == (False, "unnoticed")


def test_a_change_of_the_code_is_noticed_under_another_setting_too(changes):
    codes = [lambda rows, c=code: as_key(rows, F.expr(c)) for code in ("hour(t)", "minute(t)")]
    ((name, verdict),) = changes(ZONE, *codes)
    assert (name.startswith("key"), verdict) == (True, "unnoticed")


def test_the_condition_of_a_join_with_a_table_depends_on_settings_too(changes):
    def joined(rows):
        table = rows.sparkSession.range(9).withColumnRenamed("id", "k")
        return rows.join(table, F.expr("n = k AND i + i > k"), "left").groupBy("n").count()

    assert changes(ANSI, joined) == [(ANSI[0], "unnoticed")]
    assert changes((*ANSI[:2], ANSI[1]), joined) == []


def by_day(rows):
    return rows.groupBy(F.expr("date(at)").alias("day")).agg(F.sum("v"))


def with_texts_of(found):
    """A document with the texts of an earlier release."""
    if isinstance(found, dict):
        return {name: with_texts_of(each) for name, each in found.items()}
    if isinstance(found, list):
        return [with_texts_of(each) for each in found]
    return without_settings(found) if isinstance(found, str) else found


@pytest.mark.parametrize("setting", [ZONE, ANSI])
def test_a_start_under_another_setting_is_refused_until_it_is_accepted(
    session, tmp_path, setting, caplog
):
    name, *values = setting
    feed, checkpoint = Feed(tmp_path / "input"), tmp_path / "checkpoint"

    def start(value, accept=None):
        feed.add(rows_of(("k", 1, 1)))
        writer = by_day(feed.stream(session(**{name: value}))).writeStream.format("noop")
        writer = writer.outputMode("update").option("checkpointLocation", str(checkpoint))
        query = guarded(writer, accept=accept).trigger(availableNow=True).start()
        query.awaitTermination(180)
        assert not query.isActive

    def record():
        return max((checkpoint / MEANINGS).iterdir(), key=lambda each: int(each.name))

    start(values[1])
    files = file_hashes(checkpoint)
    with pytest.raises(StartupError) as caught:
        start(values[0])
    (change,) = caught.value.data["changes"]
    assert (change["name"], change["rule"]) == (f"aggregation-0 {name}", "setting")
    assert change["text"].startswith(f"it was {values[1]}, and is {values[0]}: ")
    assert file_hashes(checkpoint) == files
    # A record of an earlier release has no such settings.
    first = record()
    document = json.loads(first.read_text())["body"]
    document["meaning"]["format"] = 2
    first.write_bytes(sealed(with_texts_of(document)))
    caplog.clear()
    start(values[1])
    assert (f"aggregation-0 {name}: it is {values[1]}" in caplog.text) == (setting is ANSI)
    assert json.loads(record().read_text())["body"]["meaning"]["format"] == 3
    with pytest.raises(StartupError) as caught:
        start(values[0])
    start(values[0], accept=dict.fromkeys(caught.value.data["accept"], "it is meant"))
