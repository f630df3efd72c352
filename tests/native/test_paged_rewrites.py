"""State goes into pages, into others and out of them, and a query goes on as if it never had."""

import pytest
from click.testing import CliRunner
from everything import BEGINNING, KEYS, OUTPUT, ROWS, Everything, by_batch, event
from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline, StoredAsGiven
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from support.new_checkpoints import is_shut
from tally import AMOUNTS, CENTS, FAMILIES, AmountsTally, CentsTally, batch
from timed_sums import TIMED_ROWS
from watermarked import LIVES, Paged, Plain, Watching
from watermarked import OUTPUT as WATCHED

from statemigrate import RewriteError, get, migrated, status
from statemigrate.cli import main
from statemigrate.commands.new_code import NewCode
from statemigrate.commands.rewrite import rewrite_checkpoint, verify
from statemigrate.pages.record import LARGE
from statemigrate.rewrite.sources import RewriteOptions

pytestmark = pytest.mark.spark
WAYS = pytest.mark.parametrize(
    ("before", "after"), [(0, 3), (3, 0), (3, 7)], ids=["into pages", "out of pages", "more pages"]
)
OUT_OF_PAGES = pytest.param(3, 0, id="out of pages", marks=pytest.mark.rewrites)
WAYS_IN_TIME = pytest.mark.parametrize(
    ("before", "after"),
    [pytest.param(0, 3, id="into pages"), OUT_OF_PAGES, pytest.param(3, 7, id="more pages")],
)
LATER = [
    [event(*key, "add", 8, tags=[], attributes={}) for key in [*KEYS, ("new", 3)]],
    [event(*key, "clear", 9) for key in KEYS],
    [event(*key, "add", 2) for key in KEYS[:2]],
]


def pipeline_of(pages, spark, place, kinds=(NativePipeline, PagedPipeline), **parts):
    """A query with that many pages, or with variables of Spark's where it is 0."""
    plain, paged = kinds
    return paged(spark, place, pages=pages, **parts) if pages else plain(spark, place, **parts)


def rewritten(old, pages, folder=None, **parts):
    """A query with so many pages on what is made of the state of ``old``; and the report.

    `verify` has nothing against it.
    """
    new, spark = old.root / f"rewritten-{pages}", old.spark
    options = RewriteOptions(pages=pages)
    made = rewrite_checkpoint(
        old.checkpoint, new, options=options, migrations=folder, apply=True, spark=spark
    )
    verified = verify(old.checkpoint, new, migrations=folder, spark=spark)
    assert (verified.problems, verified.untried) == ((), ())
    twin = pipeline_of(pages, spark, old.root, **parts)
    twin.checkpoint_directory = new
    return twin, made.report


def last_batches(pipeline, count):
    """The rows of a pipeline's last batches."""
    found = by_batch(pipeline)
    return {number: found[number] for number in sorted(found)[-count:]}


@pytest.mark.long
@WAYS
def test_every_kind_of_state_goes_on_as_in_a_query_that_was_never_rewritten(
    spark, tmp_path, before, after
):
    parts = {"rows": ROWS, "output": OUTPUT, "by": ("name", "number")}
    old = pipeline_of(before, spark, tmp_path, **parts)
    old.feed(*BEGINNING)
    old.deploy_natively(Everything())
    twin, report = rewritten(old, after, **parts)
    read = {name: each.count for family in report.families for name, each in family.read_of.items()}
    assert (read["profile"], read["history"], read["days"]) == (4, 5, 12)
    assert all(family.dropped == 0 for family in report.families)
    old.feed(*LATER)
    for each in (twin, old):
        each.deploy_natively(Everything())
    assert last_batches(twin, 3) == last_batches(old, 3)
    assert len(by_batch(twin)) == 3


def timers_read(report):
    """How many timers a rewrite has read, by key and by time."""
    found = {
        name: each.count
        for family in report.families
        for name, each in family.read_of.items()
        if "Timers" in name
    }
    return list(found.values())


class Alarms(StatefulProcessor):
    """Has timers, and a value, a list and a map that expire; tells all it sees."""

    def init(self, handle):
        self.handle = handle
        self.value = handle.getValueState("value", "n INT", LONG)
        self.list = handle.getListState("list", "n INT", LONG)
        self.map = handle.getMapState("map", "k INT", "n INT", LONG)

    def handleInputRows(self, key, rows, timerValues):
        seen = self._seen()
        for row in sorted(rows, key=lambda row: row.at):
            self.value.update((row.n,))
            self.list.appendValue((row.n,))
            self.map.updateValue((row.n,), (row.n,))
            self.handle.registerTimer(row.at)
        yield Row(key=key[0], what=repr(seen), left=sorted(self.handle.listTimers()))

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        at = expiredTimerInfo.getExpiryTimeInMs()
        yield Row(key=key[0], what=f"expired {at}", left=[])

    def _seen(self):
        return [self.value.get(), list(self.list.get()), sorted(map(repr, self.map.iterator()))]

    def close(self):
        pass


LONG, FUTURE = 10**10, 4_000_000_000_000
ALARMS = {
    "rows": "key STRING, n INT, at BIGINT",
    "output": "key STRING, what STRING, left ARRAY<BIGINT>",
    "time_mode": "ProcessingTime",
}


@pytest.mark.usefixtures("without_empty_batches")
@pytest.mark.long
@WAYS_IN_TIME
def test_timers_and_times_to_live_go_along(spark, tmp_path, before, after):
    keys = [f"k{number}" for number in range(6)]
    old = pipeline_of(before, spark, tmp_path, **ALARMS)
    old.feed([(key, n, FUTURE + n) for n in (1, 2) for key in keys])
    old.deploy_natively(Alarms())
    twin, report = rewritten(old, after, **ALARMS)
    assert timers_read(report) == [12, 12]
    old.feed([(key, 3, 5) for key in keys[:4]])
    old.feed([(key, 4, FUTURE) for key in keys])
    for each in (twin, old):
        each.deploy_natively(Alarms())
    assert last_batches(twin, 2) == last_batches(old, 2)
    told = [row[1] for rows in twin.handed_by_batch.values() for row in rows]
    assert told.count("expired 5") == 4


@pytest.mark.long
@WAYS_IN_TIME
def test_watermark_and_timers_in_event_time_go_along(spark, tmp_path, before, after):
    parts = {"rows": TIMED_ROWS, "output": WATCHED, "time_mode": "EventTime"}
    parts["kinds"] = Plain, Paged
    first, *later = LIVES
    old = pipeline_of(before, spark, tmp_path, **parts)
    old.feed(*first)
    old.deploy_natively(Watching())
    expired = [row for rows in old.handed_by_batch.values() for row in rows if "expired" in row[1]]
    twin, report = rewritten(old, after, **parts)
    left = sum(map(len, first)) - len(expired)
    assert timers_read(report) == [left, left] != [0, 0]
    for batches in later:
        old.feed(*batches)
        for each in (twin, old):
            each.deploy_natively(Watching())
    found = by_batch(twin)
    assert last_batches(old, len(found)) == found
    told = [row for rows in twin.handed_by_batch.values() for row in rows]
    assert sum(row[1].startswith("expired") for row in told) > 10
    assert len({row[3] for row in told}) > 3


@pytest.mark.long
@WAYS
def test_a_migration_goes_on_where_it_was(spark, tmp_path, scripts, before, after):
    folder = scripts.write()
    old = pipeline_of(before, spark, tmp_path)
    old.feed(batch("first", range(30)))
    old.deploy_natively(CentsTally())
    old.feed(batch("second", range(2)))
    code = migrated(AmountsTally(), migrations=folder)
    old.deploy_natively(code)
    twin, _ = rewritten(old, after, folder)
    counts = [
        {f.name: f.values for f in store.families} | {"target": store.in_target, "is": store.target}
        for each in (old, twin)
        for store in status(each.checkpoint, migrations=folder).stores
    ]
    assert counts[0] == counts[1]
    assert counts[0][FAMILIES[CENTS]] > 0 < counts[0]["target"]
    assert counts[0]["is"] == AMOUNTS
    old.feed(batch("third", range(30)))
    for each in (twin, old):
        each.deploy_natively(code)
    assert last_batches(twin, 1) == last_batches(old, 1)


@pytest.mark.long(weight=1 / 3)
def test_what_a_rewrite_of_pages_cannot_do_is_refused_by_name(spark, tmp_path):
    old = PagedPipeline(spark, tmp_path)
    old.feed(batch("first", range(3)))
    old.deploy_natively(CentsTally())
    for options, target, problem in [
        (RewriteOptions(pages=4), NewCode(), "is as it is to be"),
        (RewriteOptions(pages=5), NewCode(code="a:b"), "are to change at once"),
    ]:
        with pytest.raises(RewriteError, match=problem) as raised:
            rewrite_checkpoint(
                old.checkpoint, tmp_path / "new", options=options, target=target, spark=spark
            )
        assert raised.value.next_action
    assert not (tmp_path / "new").exists()


@pytest.mark.long
@WAYS
def test_a_value_beside_its_page_goes_along(spark, tmp_path, before, after):
    old = pipeline_of(before, spark, tmp_path)
    large = "x" * (200 << 10)
    old.feed([("a", 1, large), ("b", 2, "small")])
    old.deploy_natively(CentsTally())
    twin, _ = rewritten(old, after)
    for key, last in {"a": large, "b": "small"}.items():
        assert get("tally", twin.checkpoint, key, migrations=None)["last"] == last
    if after:
        assert max(map(len, twin.stored_pages().values())) < 1_000
        ((beside,),) = [held.values() for held in twin.state(LARGE, "map").values()]
        assert large.encode() in beside["value"]
    twin.feed([("b", 3, "more")])
    twin.deploy_natively(CentsTally())
    assert get("tally", twin.checkpoint, "a", migrations=None)["last"] == large
    twin.feed([("a", 4, "no more")])
    twin.deploy_natively(CentsTally())
    assert ("a", 2, 5, "no more", 0) in twin.handed_rows
    if after:
        assert twin.state(LARGE, "map") == {}


@pytest.mark.long
def test_a_rewrite_of_damaged_pages_writes_nothing(spark, tmp_path):
    good = PagedPipeline(spark, tmp_path / "good")
    good.feed(batch("first", range(9)))
    good.deploy_natively(CentsTally())
    old = StoredAsGiven(spark, tmp_path / "old")
    pages = good.stored_pages()
    first, second = sorted(pages)[:2]
    old.store({**pages, first: pages[second]})
    (old.checkpoint / "statemigrate").mkdir()
    record = good.checkpoint / "statemigrate" / "pages.json"
    (old.checkpoint / "statemigrate" / "pages.json").write_bytes(record.read_bytes())
    new = tmp_path / "new"
    words = ["rewrite", str(old.checkpoint), str(new), "--pages", "5", "--apply"]
    result = CliRunner().invoke(main, words)
    output = " ".join(result.output.split())
    assert (result.exit_code, "is in the place of another" in output) == (1, True), output
    assert is_shut(new)
