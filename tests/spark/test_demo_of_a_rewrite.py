"""The demonstration of a rewrite, small: every key is right, and each part shows what it must."""

import json

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support.typed import typed

from statemigrate.cli import main
from statemigrate.demo.paths import DemoFolder
from statemigrate.demo.run import next_commands
from statemigrate.demo.stage import FILES, FIRST_FILES, KILL_FROM
from statemigrate.demo.verdict import compare_rewritten

pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.long]

EVENTS, KEYS = 6_000, 2_000
RIGHT = {"missing": 0, "unexpected": 0, "differing": 0, "counted_twice": 0, "examples": []}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("demo") / "rewritten"
    arguments = ["demo", "--json", "--engine", "rewrite", "--keep", str(root)]
    arguments += ["--events", str(EVENTS), "--keys", str(KEYS)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return DemoFolder(root), json.loads(result.stdout)


def events(folder):
    return pq.read_table(folder.events)


def test_every_auction_is_what_spark_sql_makes_of_all_events(run):
    folder, figures = run
    bids = events(folder).filter(pc.equal(events(folder)["kind"], "bid"))
    auctions = len(pc.unique(bids["entity"]))
    assert figures["equal"] is True
    assert figures["state"] == {"keys": auctions, **RIGHT, "equal": True}
    assert figures["output"] == {**figures["state"], "keys": figures["output"]["keys"]}
    assert 0 < figures["output"]["keys"] < auctions


def test_the_killed_query_is_refused_and_its_batch_finished_first(run):
    _, figures = run
    assert figures["refused"] is True
    assert figures["killed"]["batch"] == figures["rerun_batch"] >= KILL_FROM
    assert figures["last_batch"] == FIRST_FILES - 1
    assert figures["first_batch"] == FIRST_FILES
    times = figures["batch_milliseconds"]
    assert times["after"]["rows"] == EVENTS * (FILES - FIRST_FILES) // FILES


def test_rows_of_one_auction_were_merged_into_three_partitions(run):
    folder, figures = run
    rewrite = figures["rewrite"]
    first = pq.read_table(sorted(folder.events.glob("*.parquet"))[:FIRST_FILES])
    bids = first.filter(pc.equal(first["kind"], "bid"))
    pairs = bids.group_by(["entity", "bidder"]).aggregate([]).num_rows
    auctions = len(pc.unique(bids["entity"]))
    assert (rewrite["read"], rewrite["written"]) == (pairs, auctions)
    assert rewrite["merged"] == pairs - auctions > 0
    assert (rewrite["dropped"], rewrite["problems"]) == (0, [])
    assert len(rewrite["partitions"]) == 3
    assert sum(rewrite["partitions"]) == auctions
    offsets = (folder.new_checkpoint / "offsets" / str(FILES - 1)).read_text()
    assert "RocksDBStateStoreProvider" in offsets


def test_what_it_says_to_type_next_works(run):
    folder, _ = run
    commands = next_commands(folder)
    history, one, verified = (typed(each, folder.root) for each in commands)
    assert "with the mean of its bids" in history
    entity = commands[1].split()[-1]
    (right,) = [
        row for row in pq.read_table(folder.expected).to_pylist() if row["entity"] == entity
    ]
    shown = json.loads(one)
    assert (shown["count"], shown["max"]) == (right["bids"], right["highest"])
    assert "made again from the old rows" in verified


def test_another_mean_is_noticed(run):
    folder, _ = run
    right = pq.read_table(folder.expected)
    wrong = right.set_column(right.column_names.index("mean"), "mean", pc.add(right["mean"], 0.01))
    pq.write_table(wrong, folder.expected)
    try:
        state, output = compare_rewritten(folder, FILES - FIRST_FILES)
        assert state.differing == right.num_rows
        assert not output.is_equal
    finally:
        pq.write_table(right, folder.expected)
