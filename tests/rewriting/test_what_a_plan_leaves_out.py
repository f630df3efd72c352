"""What Spark's plans leave out of expressions is looked at: each change is noticed, and no other.

Each pair of codes is compared at three places: as a key, in a filter, and as what an aggregate
function is given.
"""

import logging

import pyarrow
import pytest
from pyspark.sql import functions as F  # noqa: N812
from rewritten_queries import session_with
from support.file_hashes import file_hashes

from statemigrate import guarded
from statemigrate.checkpoint import MEANINGS
from statemigrate.meaning import compare_code, with_levels
from statemigrate.meaning.guard import stream_meaning

pytestmark = [pytest.mark.spark, pytest.mark.long(weight=1 / 20)]
DDL = (
    "n BIGINT, i INT, s STRING, j STRING, b BINARY, a ARRAY<INT>, m DECIMAL(10,2), "
    "st STRUCT<x: INT, y: STRING>, t TIMESTAMP"
)
FEW, MANY = list(range(1, 12)), list(range(1, 400))


@pytest.fixture(scope="module")
def stream(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("input")
    (folder / "rows.json").write_text('{"n": 1, "i": 2}')
    session = session_with(spark, "rocksdb")
    return lambda: session.readStream.schema(DDL).json(str(folder))


def column(code):
    return code() if callable(code) else F.expr(code)


def as_key(rows, code):
    return rows.groupBy(column(code).alias("key")).count()


def in_filter(rows, code):
    return rows.where(F.hash(column(code)) > 7).groupBy("n").count()


def as_value(rows, code):
    return rows.groupBy("n").agg(F.max(F.hash(column(code))).alias("most"))


PLACES = [as_key, in_filter, as_value]


def differences(stream, place, old, new):
    meanings = [stream_meaning(place(stream(), code), "update") for code in (old, new)]
    return [each for each in compare_code(*meanings) if each.verdict != "goes on"]


def is_one_of(values):
    return lambda: F.col("i").isin(*values)


def texts(values):
    return lambda: F.col("s").isin(*map(str, values))


def element(ddl, path, options=None):
    return lambda: F.from_json("j", ddl, options or {}).getField(path)


def in_lambda(number):
    return lambda: F.transform("a", lambda value: F.transform("a", lambda x: x - value * number))


class Factor:
    def __init__(self, number):
        self.number = number

    def __call__(self, value):
        return None if value is None else value * self.number


class Shifted(Factor):
    def __call__(self, value):
        return None if value is None else value + self.number


LOG = logging.getLogger(__name__)


def logged(value):
    LOG.debug("called")
    return value


def logged_otherwise(value):
    LOG.debug("called")
    return value + 1


def python(function):
    return lambda: F.udf(function, "bigint")("n")


def called(thing):
    def calling(value):
        return thing(value)

    return python(calling)


CHANGED = {
    "one of many values": (is_one_of(FEW), is_one_of([*FEW[:-1], 99])),
    "one value of many more": (is_one_of(MANY), is_one_of([*MANY[:-1], 999])),
    "a value more": (is_one_of(FEW), is_one_of([*FEW, 99])),
    "one of many texts": (texts(FEW), texts([*FEW[:-1], 99])),
    "one of many bytes": (
        "b in (" + ", ".join(f"X'{n:02x}'" for n in FEW) + ")",
        "b in (" + ", ".join(f"X'{n + 1:02x}'" for n in FEW) + ")",
    ),
    "bytes": ("b = X'0102'", "b = X'0103'"),
    "bytes within an array": ("array_contains(array(X'01'), b)", "array_contains(array(X'02'), b)"),
    "the type of an array's values": (
        "to_json(struct(cast(a as array<string>)))",
        "to_json(struct(cast(a as array<bigint>)))",
    ),
    "another field of JSON": (
        element("p BIGINT, q BIGINT", "p"),
        element("p BIGINT, q BIGINT", "q"),
    ),
    "the type of a field of JSON": (
        lambda: F.from_json("j", "p INT").getField("p").cast("string"),
        lambda: F.from_json("j", "p DOUBLE").getField("p").cast("string"),
    ),
    "the fields of JSON as a whole": (
        "to_json(from_json(j, 'p INT, q INT'))",
        "to_json(from_json(j, 'p INT, r INT'))",
    ),
    "how JSON is read": (
        element("p BIGINT", "p"),
        element("p BIGINT", "p", {"allowSingleQuotes": "false"}),
    ),
    "what separates a line's parts": (
        "from_csv(s, 'p INT, q INT').q",
        "from_csv(s, 'p INT, q INT', map('sep', '|')).q",
    ),
    "the place in a line": (
        "from_csv(s, 'p INT, q INT').q",
        "from_csv(s, 'q INT, p INT').q",
    ),
    "how a line is written": ("to_csv(st)", "to_csv(st, map('sep', '|'))"),
    "what escapes in a pattern": (
        "s like 'a|%_b%' escape '|'",
        "s like 'a|%_b%' escape '!'",
    ),
    "what is computed from a table": (
        "n > (select max(id) from range(5))",
        "n > (select max(id) from range(6))",
    ),
    "how it is computed from a table": (
        "n > (select max(id) from range(5))",
        "n > (select min(id) from range(5))",
    ),
    "which rows of a table it is computed from": (
        "n > (select max(id) from range(5) where id % 2 = 0)",
        "n > (select max(id) from range(5) where id % 2 = 1)",
    ),
    "what is in a lambda": (in_lambda(1), in_lambda(2)),
    "which variable a lambda takes": (
        "transform(a, x -> aggregate(a, 0, (l, r) -> l - r))",
        "transform(a, x -> aggregate(a, 0, (l, r) -> r - l))",
    ),
    "the code of a lambda of Python": (
        python(lambda value: value),
        python(lambda value: -value),
    ),
    "an attribute of an object": (called(Factor(2)), called(Factor(3))),
    "the class of an object": (called(Factor(2)), called(Shifted(2))),
    "a function with a logger": (python(logged), python(logged_otherwise)),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("old", "new"), CHANGED.values(), ids=list(CHANGED))
def test_what_has_changed_is_noticed(stream, place, old, new):
    found = differences(stream, place, old, new)
    assert [each.verdict for each in found] == ["unnoticed"], found


UNCHANGED = {
    "many values in another order": (is_one_of(FEW), is_one_of(FEW[::-1])),
    "many texts in another order": (texts(MANY), texts(MANY[::-1])),
    "bytes": ("b = X'0102'", "b = X'0102'"),
    "a name in a lambda": (
        "filter(a, x -> exists(a, y -> x > y))",
        "filter(a, y -> exists(a, x -> y > x))",
    ),
    "a lambda of PySpark": (in_lambda(2), in_lambda(2)),
    "one more field of JSON": (
        element("p BIGINT, q BIGINT", "q"),
        element("p BIGINT, q BIGINT, r STRING", "q"),
    ),
    "a field of JSON in front": (
        element("p BIGINT, q BIGINT", "q"),
        element("r STRING, p BIGINT, q BIGINT", "q"),
    ),
    "what is computed from a table": (
        "n > (select max(id) from range(5) where id % 2 = 0)",
        "n > (select max(id) from range(5) where id % 2 = 0)",
    ),
    "an object like another": (called(Factor(2)), called(Factor(2))),
    "a function with a logger": (python(logged), python(logged)),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("old", "new"), UNCHANGED.values(), ids=list(UNCHANGED))
def test_what_has_not_changed_is_the_same(stream, place, old, new):
    assert differences(stream, place, old, new) == []


@pytest.mark.parametrize("place", PLACES)
def test_a_field_more_in_a_struct_of_json_changes_none_of_the_others(stream, place):
    """All fields are taken out of one parsed value, as code that reads Kafka does it."""

    def parsed(ddl):
        def code(rows):
            return place(rows.select(F.from_json("j", ddl).alias("j")).select("j.*"), "o.p + q")

        return code

    old = parsed("n BIGINT, q BIGINT, o STRUCT<p: BIGINT>")
    new = parsed("z STRING, n BIGINT, q BIGINT, o STRUCT<before: INT, p: BIGINT, more: STRING>")
    meanings = [stream_meaning(code(stream()), "update") for code in (old, new)]
    assert list(compare_code(*meanings)) == []
    renamed = parsed("n BIGINT, q BIGINT, o STRUCT<p: INT>")
    meanings = [stream_meaning(code(stream()), "update") for code in (old, renamed)]
    assert [each.verdict for each in compare_code(*meanings)] == ["unnoticed"]


def opaque(number):
    compiled = pyarrow.array([number])
    return lambda value: value * compiled[0].as_py()


@pytest.mark.parametrize("place", PLACES)
def test_what_nothing_shows_is_a_warning_and_another_name_of_it_a_question(stream, place):
    (found,) = differences(stream, place, python(opaque(1)), python(opaque(2)))
    assert (found.verdict, found.rule, found.asks) == ("unknown", "hidden", False)
    asked = differences(stream, place, python(opaque(1)), lambda: F.udf(opaque(1), "bigint")("i"))
    expected = "unknown" if place is as_value else "unnoticed"
    assert [each.verdict for each in asked if each.asks] == [expected]
    (level,) = {each.level for each in with_levels([found], {"hidden": "error"})}
    assert level == "error"


def test_a_guarded_start_reports_what_nothing_shows_and_goes_on(stream, tmp_path, caplog):
    """It is no change, so that no start writes another record."""
    checkpoint = tmp_path / "checkpoint"

    def start(number):
        rows = as_key(stream(), python(opaque(number)))
        writer = rows.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
        query = guarded(writer, checkpoint).option("checkpointLocation", str(checkpoint)).start()
        query.awaitTermination()

    start(1)
    records = file_hashes(checkpoint / MEANINGS)
    caplog.clear()
    start(2)
    assert "aggregation-0 hidden code" in caplog.text
    assert file_hashes(checkpoint / MEANINGS) == records != {}
