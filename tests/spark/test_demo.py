"""The whole demonstration, small: it must hold, and it must notice when something does not."""

import json

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support.typed import typed

from statemigrate.cli import main
from statemigrate.demo.paths import DemoFolder
from statemigrate.demo.run import compare_outcomes, next_commands
from statemigrate.demo.stage import FILES, KILL_FROM

pytestmark = [pytest.mark.spark, pytest.mark.kill]

EVENTS, KEYS = 6_000, 2_000


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run it by its command; the folder and the figures."""
    root = tmp_path_factory.mktemp("demo") / "a b"
    arguments = ["demo", "--engine", "embedded", "--json", "--keep", str(root), "--partitions", "2"]
    arguments += ["--events", str(EVENTS), "--keys", str(KEYS)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return DemoFolder(root), json.loads(result.stdout)


def test_every_key_is_right_after_the_crash_and_the_migration(run):
    _, figures = run
    assert figures["equal"] is True
    right = {"missing": 0, "unexpected": 0, "differing": 0, "counted_twice": 0}
    assert figures["state"] == {"keys": KEYS, **right, "examples": [], "equal": True}
    assert figures["output"] == figures["state"]


def test_the_interrupted_batch_was_run_again_and_no_event_twice(run):
    _, figures = run
    killed = figures["killed"]["batch"]
    assert killed >= KILL_FROM
    assert figures["killed"]["partitions_written"] >= 1
    assert figures["rerun_batch"] == killed
    times = figures["batch_milliseconds"]
    # Each batch is one file; those before the kill and those after it are all of them.
    assert times["before"]["rows"] == killed * EVENTS // FILES
    assert times["before"]["rows"] + times["after"]["rows"] == EVENTS


def test_values_were_migrated_by_touch_and_by_backfill_until_none_was_left(run):
    _, figures = run
    migration = figures["migration"]
    assert migration["touched"] > 0
    assert migration["backfilled"] > 0
    assert migration["touched"] + migration["backfilled"] == migration["old_values"]
    assert migration["left"] == 0
    assert migration["retired"] == ["auctions"]


@pytest.mark.long(weight=1 / 3)
def test_what_it_says_to_type_next_works(run):
    folder, _ = run
    status, one, history = (typed(each, folder.root) for each in next_commands(folder))
    assert "every value has the target's format" in status
    assert set(json.loads(one)) == {"seller", "item", "price"}
    assert "money as decimals" in history


def test_a_bid_too_much_or_a_lost_key_is_noticed(run):
    folder, _ = run
    right = pq.read_table(folder.expected)
    entities = right["entity"].to_pylist()
    first = next(entity for entity in entities if entity.startswith("auction"))
    is_first = pc.equal(right["entity"], first)
    fewer = pc.if_else(is_first, pc.subtract(right["bids"], 1), right["bids"])
    extra = right.slice(0, 1).set_column(0, "entity", pa.array(["auction-lost"]))
    wrong = right.set_column(right.column_names.index("bids"), "bids", fewer)
    pq.write_table(pa.concat_tables([wrong, extra.cast(wrong.schema)]), folder.expected)
    try:
        for comparison in compare_outcomes(folder):
            assert (comparison.missing, comparison.differing) == (1, 1)
            assert comparison.counted_twice == 1
            assert not comparison.is_equal
    finally:
        pq.write_table(right, folder.expected)
