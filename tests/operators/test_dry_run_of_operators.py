"""`dry-run` takes every row of an operator's state through scripts that only a rewrite can run."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from queries import ORDERS

from statemigrate import baseline, dry_run, get
from statemigrate.errors import StartupError
from statemigrate.formats import Struct
from statemigrate.inspect.dry_run_report import Meetings
from statemigrate.inspect.report_text import meetings, verdict
from statemigrate.scripts import ScriptFolder

pytestmark = [pytest.mark.spark, pytest.mark.long]

CUSTOMERS = len({each["customer"] for each in ORDERS})
PAIRS = len({(each["customer"], each["region"]) for each in ORDERS})


def script(folder, store, new, body):
    """A script on the baseline, its functions ``body``."""
    path = folder.new(store, "another format", new=Struct(new))
    text = path.read_text()
    path.write_text(f"{text[: text.index('def upgrade')]}\n{body}")


@pytest.fixture
def folder(tmp_path):
    return ScriptFolder.create(tmp_path / "m")


def tried(folder, checkpoint, spark, store, **how):
    return dry_run(store, checkpoint, migrations=folder.directory, spark=spark, **how)


BY_LETTER = """
new_key = Struct("first STRING")


def rekey(key, value):
    return {"first": key["customer"][:1]}
"""
MERGED = """

def merge(first, second):
    return {name: first[name] + second[name] for name in first}
"""
SUMS = "count BIGINT, sum BIGINT, sum_2 DOUBLE, count_2 BIGINT, max BIGINT"
TO_TABLE = """

def upgrade_table(table):
    import pyarrow as pa
    values = table["value"].to_pylist()
    rows = pa.array([{**each, "mean": each["sum_2"] / each["count_2"]} for each in values])
    return pa.table({"key": table["key"], "value": rows})
"""


@pytest.fixture
def aggregation(checkpoint_of, folder):
    checkpoint = checkpoint_of("aggregation")
    baseline(checkpoint, migrations=folder.directory)
    return checkpoint


def test_entries_that_would_meet_are_counted_and_stop_it_without_merge(aggregation, folder, spark):
    script(folder, "aggregation-0", SUMS, BY_LETTER)
    report = tried(folder, aggregation, spark, "aggregation-0")
    assert (report.tried, report.failed, report.backfill) == (CUSTOMERS, 0, None)
    met = (('{"first": "c"}', CUSTOMERS),)
    assert report.meetings == Meetings(CUSTOMERS, 1, 1, merges=False, examples=met)
    assert (
        f"{CUSTOMERS} entries under 1 key; {CUSTOMERS} of them meet under 1 key without `merge`, "
        f'such as {{"first": "c"}} ({CUSTOMERS} entries).'
    ) in meetings(report)
    assert not report.in_order
    assert "write `merge`" in verdict(report).next_action


def test_entries_that_are_merged_are_in_order(aggregation, folder, spark):
    script(folder, "aggregation-0", SUMS, BY_LETTER + MERGED)
    report = tried(folder, aggregation, spark, "aggregation-0")
    assert replace(report.meetings, examples=()) == Meetings(CUSTOMERS, 1, 1, merges=True)
    assert meetings(report).endswith(f"and are merged, {CUSTOMERS - 1} less.")
    assert report.in_order
    assert "`statemigrate rewrite" in verdict(report).next_action
    assert json.loads(json.dumps(report.to_json()))["meetings"]["met"] == 1


def test_get_says_that_such_a_script_is_for_a_rewrite(aggregation, folder, spark):
    script(folder, "aggregation-0", SUMS, BY_LETTER)
    with pytest.raises(StartupError, match="has `new_key` and `rekey`"):
        get("aggregation-0", aggregation, "c", migrations=folder.directory, spark=spark)


def test_rows_may_be_dropped_and_split_by_their_keys(checkpoint_of, folder, spark):
    checkpoint = checkpoint_of("duplicates")
    baseline(checkpoint, migrations=folder.directory)
    body = """
new_key = Struct("customer STRING, half INT")


def rekey(key, value):
    if key["region"] != "asia":
        return [{"customer": key["customer"], "half": half} for half in (1, 2)]
    return []
"""
    script(folder, "deduplicate-0", "struct<>", body)
    report = tried(folder, checkpoint, spark, "deduplicate-0")
    kept = Counter(customer for customer, region in _pairs() if region != "asia")
    assert report.families[0].dropped == PAIRS - sum(kept.values())
    twice = sum(number > 1 for number in kept.values())
    assert report.families[0].several == sum(kept.values())
    counts = Meetings(2 * sum(kept.values()), 2 * len(kept), 2 * twice, False)
    assert replace(report.meetings, examples=()) == counts
    most = sorted(kept.values(), reverse=True)
    numbers = [number for _, number in report.meetings.examples]
    assert numbers == sorted([*most, *most], reverse=True)[:3]


def _pairs():
    return {(each["customer"], each["region"]) for each in ORDERS}


@pytest.mark.parametrize(
    "body",
    [
        "def upgrade(value, key):\n    return {**value, 'mean': len(key['customer']) * 1.0}\n",
        TO_TABLE,
    ],
    ids=["with the key", "on tables"],
)
def test_what_needs_the_key_or_tables_is_tried_too(aggregation, folder, spark, body):
    script(folder, "aggregation-0", f"{SUMS}, mean DOUBLE", body)
    report = tried(folder, aggregation, spark, "aggregation-0")
    assert (report.tried, report.failed, report.lost) == (CUSTOMERS, 0, 0)
    assert report.meetings is None
    assert report.rewrites


def test_a_column_that_is_lost_on_the_way_is_found(aggregation, folder, spark):
    body = "def upgrade(value, key):\n    return {'count': value['count']}\n"
    script(folder, "aggregation-0", "count BIGINT", body)
    report = tried(folder, aggregation, spark, "aggregation-0")
    lost = {loss.field for loss in report.families[0].lost}
    assert lost == {"sum", "sum_2", "count_2", "max"}


def test_a_column_that_goes_into_the_key_is_not_lost(aggregation, folder, spark):
    body = """
new_key = Struct("customer STRING, largest BIGINT")


def upgrade(value):
    del value["max"]
    return value


def rekey(key, value):
    return {**key, "largest": value["max"]}
"""
    script(folder, "aggregation-0", SUMS.removesuffix(", max BIGINT"), body)
    report = tried(folder, aggregation, spark, "aggregation-0")
    assert report.in_order
    assert report.meetings == Meetings(CUSTOMERS, CUSTOMERS, 0, merges=False)


def test_rows_that_fail_are_told_with_their_keys(aggregation, folder, spark):
    body = """
new_key = Struct("customer STRING")


def rekey(key, value):
    return {"customer": None if key["customer"] != "c3" else 1 / 0}
"""
    script(folder, "aggregation-0", SUMS, body)
    report = tried(folder, aggregation, spark, "aggregation-0")
    (failure,) = report.families[0].failures
    assert "ZeroDivisionError" in failure.cause
    assert (failure.values, failure.keys) == (1, ('["c3"]',))


def test_a_side_of_a_join_is_tried_row_by_row(checkpoint_of, folder, spark):
    checkpoint = checkpoint_of("join")
    baseline(checkpoint, store="join-0.left", migrations=folder.directory)
    new = "id BIGINT, region STRING, amount DOUBLE, at TIMESTAMP, matched BOOLEAN"
    body = """
drops = ("customer",)


def upgrade(value):
    del value["customer"]
    return {**value, "amount": value["amount"] / 2}
"""
    script(folder, "join-0.left", new, body)
    report = tried(folder, checkpoint, spark, "join-0.left")
    assert (report.tried, report.failed, report.in_order) == (len(ORDERS), 0, True)
