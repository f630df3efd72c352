"""Text that is not UTF-8, as the keys of Kafka may be: it goes on byte by byte, and is shown."""

import json
from base64 import b64encode

import bytes_code as code
import pytest
from rewritten_queries import Feed, accepting, rewritten, run, session_with
from support.new_checkpoints import is_shut

from statemigrate import dry_run
from statemigrate.commands.view import export, get
from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.scripts import ScriptFolder

pytestmark = pytest.mark.spark

TEXTS = [
    b"\xff\xfe",
    b"\xfe\xff",
    b"plain",
    b"\xc3\x28",
    "ключ".encode(),
    b"\xed\xa0\x80",
    b"a\x80b",
    b"",
]
SHOWN = {"\\xff\\xfe", "\\xfe\\xff", "plain", "\\xc3(", "ключ", "\\xed\\xa0\\x80", "a\\x80b", ""}


def batch(seed, count=30):
    return [
        {
            "k": b64encode(TEXTS[number * seed % len(TEXTS)]).decode(),
            "region": b64encode(TEXTS[(number + seed) % len(TEXTS)]).decode(),
            "v": number * seed,
            "at": f"2026-01-01T00:{seed:02d}:{number:02d}Z",
        }
        for number in range(count)
    ]


def goes_on_as_its_twin(session, tmp_path, before, after, *, feeds=1, accept=(), **rewriting):
    """Rewrite after two batches; two more give what the new code gives that ran from the start."""
    names = ["events", "others"][:feeds]
    fed = [Feed(tmp_path / name) for name in names]
    old, new, twin = (tmp_path / name for name in ("old", "new", "twin"))
    mode = "append" if feeds > 1 else "update"
    for number, feed in enumerate(fed):
        feed.add(batch(1 + number), batch(3 + number))
    run(session, fed, before, old, mode)
    inputs = dict.fromkeys(names, fed[0].ddl)
    answers = accepting(*accept)
    rewritten(session, old, new, after, before=before, answers=answers, inputs=inputs, **rewriting)
    run(session, fed, after, twin, mode)
    for number, feed in enumerate(fed):
        feed.add(batch(5 + number), batch(7 + number))
    found, expected = run(session, fed, after, new, mode), run(session, fed, after, twin, mode)
    assert found == expected
    assert sum(map(len, found.values()))


@pytest.mark.long
def test_an_aggregation_goes_on_and_its_keys_are_shown(spark, tmp_path):
    session = session_with(spark, "rocksdb")
    goes_on_as_its_twin(
        session,
        tmp_path,
        code.first_regions,
        code.first_regions_and_largest,
        accept=["aggregation-0.max"],
        partitions=3,
    )
    written = tmp_path / "all.jsonl"
    export("aggregation-0", tmp_path / "old", written, migrations=None, spark=session)
    rows = [json.loads(line) for line in written.read_text().splitlines()]
    assert {row["key"]["k"] for row in rows} == SHOWN
    assert {row["value"]["first"] for row in rows} <= SHOWN
    assert get("aggregation-0", tmp_path / "old", "plain", migrations=None, spark=session)


@pytest.mark.rewrites
@pytest.mark.parametrize("provider", ["rocksdb", "hdfs"])
@pytest.mark.parametrize(
    ("before", "feeds", "settings"),
    [
        (code.lists, 1, {}),
        (code.distinct, 1, {}),
        (code.windows, 1, {}),
        (code.pairs, 2, {}),
        (code.pairs, 2, {"spark.sql.streaming.join.stateFormatVersion": "3"}),
    ],
    ids=["lists", "distinct", "windows", "pairs", "pairs of format 3"],
)
def test_other_operators_go_on(spark, tmp_path, provider, before, feeds, settings):
    if settings and provider == "hdfs":
        pytest.skip("format 3 is of RocksDB alone")
    session = session_with(spark, provider, **settings)
    goes_on_as_its_twin(session, tmp_path, before, before, feeds=feeds, partitions=3)


HEAD = '''"""One."""
from statemigrate.formats import Struct

revision = "aaaa00000001"
down_revision = None
branch_labels = ("aggregation-0",)
store = "aggregation-0"
old = Struct("count BIGINT, sum BIGINT")
new = Struct("count BIGINT, sum BIGINT")
'''
OF_VALUES = """
def upgrade(value):
    return {**value, "sum": value["sum"] + 1000}
"""
OF_KEYS = """
def upgrade(value, key):
    return value
"""
OF_TABLES = """
def upgrade_table(table):
    return table
"""


def scripted(tmp_path, body):
    folder = ScriptFolder.create(tmp_path / "migrations")
    (folder.versions / "aaaa00000001.py").write_text(HEAD + body)
    return folder.directory


@pytest.mark.rewrites
@pytest.mark.parametrize(
    ("body", "more"), [(OF_VALUES, 1000), (OF_TABLES, 0)], ids=["values", "tables"]
)
def test_a_script_that_does_not_see_the_keys_leaves_them_as_they_are(
    spark, feed, tmp_path, body, more
):
    session = session_with(spark, "rocksdb")
    feed.add(batch(1))
    old, new, twin = (tmp_path / name for name in ("old", "new", "twin"))
    run(session, feed, code.counted, old)
    rewritten(session, old, new, code.counted, migrations=scripted(tmp_path, body), partitions=3)
    run(session, feed, code.counted, twin)
    feed.add(batch(3))
    (found,), (expected,) = (
        run(session, feed, code.counted, each).values() for each in (new, twin)
    )
    totals = {row.partition("total=")[0]: row.partition("total=")[2] for row in expected}
    assert {row.partition("total=")[0]: row.partition("total=")[2] for row in found} == {
        key: f"{int(total.rstrip(')')) + more})" for key, total in totals.items()
    }


@pytest.mark.rewrites
def test_a_script_that_would_see_such_a_key_is_refused_by_name(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    feed.add(batch(1))
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, code.counted, old)
    with pytest.raises(TransformError, match=r"not UTF-8, in key\.k") as raised:
        rewritten(session, old, new, code.counted, migrations=scripted(tmp_path, OF_KEYS))
    assert raised.value.data["path"] == "key.k"
    assert raised.value.data["key"]["k"] in SHOWN
    assert "upgrade_table" in raised.value.next_action
    assert is_shut(new)


@pytest.mark.rewrites
@pytest.mark.parametrize(("body", "failed"), [(OF_VALUES, 0), (OF_TABLES, 0), (OF_KEYS, 5)])
def test_a_dry_run_says_what_the_rewrite_will_do(spark, feed, tmp_path, body, failed):
    session = session_with(spark, "rocksdb")
    feed.add(batch(1))
    old = tmp_path / "old"
    run(session, feed, code.counted, old)
    folder = scripted(tmp_path, body)
    report = dry_run("aggregation-0", old, migrations=folder, spark=session)
    assert (report.tried, report.failed) == (len(TEXTS), failed)
    (family,) = report.families
    keys = {json.loads(key)[0] for each in family.failures for key in each.keys}
    assert keys <= SHOWN
    assert bool(keys) == bool(failed)
    str(report.to_json()).encode()


@pytest.mark.rewrites
def test_a_dry_run_stops_by_name_at_a_value_that_no_script_can_be_given(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    feed.add(batch(1))
    old = tmp_path / "old"
    run(session, feed, code.first_regions, old)
    text = HEAD.replace("sum BIGINT", "first STRING, valueSet BOOLEAN")
    folder = ScriptFolder.create(tmp_path / "migrations")
    (folder.versions / "aaaa00000001.py").write_text(
        text + "def upgrade(value):\n    return value\n"
    )
    with pytest.raises(ValueMismatchError, match="first is text that is not UTF-8") as raised:
        dry_run("aggregation-0", old, migrations=folder.directory, spark=session)
    assert "upgrade_table" in raised.value.next_action
