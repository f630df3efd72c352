from itertools import chain

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from statemigrate.demo.demo_size import DemoOptions
from statemigrate.demo.events import SCHEMA, make_events, write_files
from statemigrate.errors import StatemigrateError

OPTIONS = DemoOptions(events=30_000, keys=10_000)


@pytest.fixture(scope="module")
def events():
    return make_events(OPTIONS)


def of_kind(events, kind):
    return events.filter(pc.field("kind") == kind)


def test_every_person_and_every_auction_has_exactly_one_row(events):
    persons = of_kind(events, "person")["entity"].to_pylist()
    auctions = of_kind(events, "auction")["entity"].to_pylist()
    assert sorted(persons) == sorted(f"person-{number}" for number in range(2_000))
    assert sorted(auctions) == sorted(f"auction-{number}" for number in range(8_000))
    assert of_kind(events, "bid").num_rows == 20_000


def test_the_columns_are_those_of_the_schema(events):
    assert events.column_names == [part.split()[0] for part in SCHEMA.split(", ")]
    assert events["event"].to_pylist() == list(range(30_000))


def test_each_kind_fills_its_own_columns(events):
    filled = {
        "person": {"name", "city"},
        "auction": {"name", "category", "seller"},
        "bid": {"bidder", "price"},
    }
    for kind, columns in filled.items():
        rows = of_kind(events, kind)
        for column in ("name", "city", "category", "seller", "bidder", "price"):
            nulls = 0 if column in columns else rows.num_rows
            assert rows[column].null_count == nulls, (kind, column)


def test_bids_name_auctions_that_exist_and_cost_something(events):
    bids = of_kind(events, "bid")
    auctions = set(of_kind(events, "auction")["entity"].to_pylist())
    assert set(bids["entity"].to_pylist()) <= auctions
    assert pc.min(bids["price"]).as_py() > 0


def test_some_bids_come_before_their_auction(events):
    opened = dict(
        zip(*(of_kind(events, "auction")[name].to_pylist() for name in ("entity", "event")),
            strict=True)
    )  # fmt: skip
    bids = of_kind(events, "bid")
    early = [
        entity
        for entity, event in zip(bids["entity"].to_pylist(), bids["event"].to_pylist(), strict=True)
        if event < opened[entity]
    ]
    assert 0 < len(early) < bids.num_rows / 20


def test_half_of_the_bids_go_to_few_auctions(events):
    counts = of_kind(events, "bid")["entity"].value_counts()
    largest = sorted((each["counts"].as_py() for each in counts), reverse=True)[:80]
    assert 0.4 < sum(largest) / 20_000 < 0.6


def test_the_same_seed_gives_the_same_events_and_another_seed_others(events):
    assert make_events(OPTIONS).equals(events)
    assert not make_events(DemoOptions(events=30_000, keys=10_000, seed=8)).equals(events)


def test_files_hold_all_events_in_order(events, tmp_path):
    paths = write_files(events, tmp_path / "generated", 7)
    numbers = [pq.read_table(path)["event"].to_pylist() for path in paths]
    assert list(chain(*numbers)) == list(range(30_000))
    assert max(map(len, numbers)) - min(map(len, numbers)) <= 1


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"keys": 99}, "at least 100"),
        ({"keys": 1_000, "events": 1_999}, "at least 2000"),
        ({"partitions": 0}, "1 or more"),
    ],
)
def test_sizes_that_show_nothing_are_refused(sizes, expected):
    with pytest.raises(StatemigrateError) as raised:
        DemoOptions(**sizes)
    assert expected in str(raised.value)
