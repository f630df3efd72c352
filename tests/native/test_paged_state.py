"""State in pages of Spark's own: the same rows as Spark's, migrations whole, refusals by name."""

import json
import shutil
from collections import Counter
from itertools import accumulate

import pyarrow.parquet as pq
import pytest
from everything import BEGINNING, KEYS, OUTPUT, ROWS, Everything, by_batch, event
from native_pipeline import NativePipeline
from paged_pipeline import FORMATS, PagedPipeline, lived
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from support.waiting import eventually
from tally import (
    AMOUNTS,
    AMOUNTS_SCRIPT,
    CENTS,
    CENTS_DDL,
    FAMILIES,
    AmountsTally,
    CentsTally,
    Expected,
    batch,
)

import statemigrate
from statemigrate import PageError, StartupError, UnsupportedError, migrated
from statemigrate.commands.rewrite import rewrite_checkpoint, verify
from statemigrate.errors import CorruptFileError
from statemigrate.files.documents import sealed
from statemigrate.native.operators import chunk_files
from statemigrate.rewrite.sources import RewriteOptions

pytestmark = pytest.mark.spark


@pytest.fixture
def paged(spark, tmp_path):
    return PagedPipeline(spark, tmp_path / "paged")


@pytest.fixture(scope="module")
def stopped(spark, tmp_path_factory):
    """A query that was stopped after a batch of thirty keys; its tests leave it as it is."""
    pipeline = PagedPipeline(spark, tmp_path_factory.mktemp("stopped"))
    pipeline.feed(batch("first", range(30)))
    pipeline.deploy_natively(CentsTally())
    return pipeline


@pytest.mark.long
def test_every_kind_of_state_gives_the_rows_that_spark_gives(spark, tmp_path):
    lives = [
        BEGINNING,
        [
            [event(*key, "add", 8, tags=[], attributes={}) for key in [*KEYS, ("new", 3)]],
            [event(*key, "clear", 9) for key in KEYS],
            [event(*key, "add", 2) for key in KEYS[:2]],
        ],
    ]
    parts = {"rows": ROWS, "output": OUTPUT, "by": ("name", "number")}
    plain = NativePipeline(spark, tmp_path / "plain", **parts)
    paged = PagedPipeline(spark, tmp_path / "paged", pages=2, **parts)
    assert len(list(lived(lives, Everything, plain, paged))) == len(lives)
    assert by_batch(paged) == by_batch(plain)
    assert sum(map(len, paged.handed_by_batch.values())) == 5 + 5 + 6 + 5 + 2
    assert paged.variables() == {"statemigrate_pages", "statemigrate_large"}


def test_the_output_is_of_the_type_that_was_said(spark, tmp_path):
    output = "`a.b` BIGINT NOT NULL, last STRUCT<at: TIMESTAMP, tags: ARRAY<STRING>>, `Name` STRING"
    result = PagedPipeline(spark, tmp_path, output=output).result(CentsTally())
    plain = NativePipeline(spark, tmp_path / "plain", output=output).result(CentsTally())
    assert result.schema == plain.schema


def test_a_touched_page_migrates_whole_and_the_others_stay(paged, scripts):
    expected = Expected()
    first, second = batch("first", range(30)), batch("second", range(2))
    paged.feed(first)
    paged.deploy_natively(CentsTally())
    expected.process(first, CENTS)
    assert {name for page in paged.entries(FORMATS).values() for name in page} == {"tally"}
    paged.feed(second)
    paged.deploy_natively(migrated(AmountsTally(), migrations=scripts.write()))
    expected.process(second, AMOUNTS)
    pages, touched = paged.entries(FORMATS), {row[0] for row in second}
    for page in pages.values():
        (held,) = page.values()
        if touched & held.keys():
            for key in held:
                expected.move(key, AMOUNTS)
    found = {name: {} for name in FORMATS}
    for page in pages.values():
        for name, entries in page.items():
            found[name] |= entries
    assert found == expected.stored(CENTS, AMOUNTS)
    assert found["tally"]
    assert len(found[FAMILIES[AMOUNTS]]) > len(touched)
    assert paged.handed_rows == expected.output


@pytest.mark.long
def test_a_backfill_touches_the_pages_that_no_row_touches(spark, tmp_path, scripts):
    paged, expected, folder = PagedPipeline(spark, tmp_path, pages=8), Expected(), scripts.write()
    first, second = batch("first", range(30)), batch("second", range(1))
    paged.feed(first)
    paged.deploy_natively(CentsTally())
    expected.process(first, CENTS)
    paged.feed(second)
    paged.deploy_natively(migrated(AmountsTally(), migrations=folder))
    expected.process(second, AMOUNTS)
    pages = paged.entries(FORMATS).items()
    left = {number: held["tally"] for number, held in pages if "tally" in held}
    plan = statemigrate.backfill(paged.checkpoint, migrations=folder, keys_per_chunk=3)
    entries = sum(map(len, left.values()))
    assert (plan.keys, plan.pages, plan.families) == (entries, len(left), {"tally": entries})
    assert plan.chunks == -(-len(left) // 3) > 1
    status = statemigrate.backfill_status(paged.checkpoint, migrations=folder)
    assert (status.keys_left, status.keys_planned, status.pages_left) == (
        entries,
        entries,
        len(left),
    )
    figures = []
    listener = statemigrate.BackfillListener(paged.checkpoint, figures.append)
    spark.streams.addListener(listener)
    try:
        paged.deploy_natively(migrated(AmountsTally(), migrations=folder, write_on_read=False))
        eventually(lambda: len(figures) == plan.chunks)
    finally:
        spark.streams.removeListener(listener)
    chunks = [[len(left[page]) for page in chunk] for chunk in chunks_taken(paged)]
    assert [each.pages for each in figures] == list(map(len, chunks))
    assert [each.keys for each in figures] == list(map(sum, chunks))
    assert [each.keys_asked for each in figures] == list(accumulate(map(sum, chunks)))
    assert figures[-1].keys_asked == entries
    assert {(each.keys_planned, each.chunks) for each in figures} == {(entries, plan.chunks)}
    expected.drain(AMOUNTS)
    found = {}
    for held in paged.entries(FORMATS).values():
        assert held.keys() == {FAMILIES[AMOUNTS]}
        found |= held[FAMILIES[AMOUNTS]]
    assert {FAMILIES[AMOUNTS]: found} == expected.stored(AMOUNTS)
    assert paged.handed_rows == expected.output
    status = statemigrate.backfill_status(paged.checkpoint, migrations=folder)
    assert (status.keys_left, status.consumed, status.waiting) == (0, plan.chunks, 0)
    assert status.keys_planned == entries


def chunks_taken(pipeline):
    """The numbers of the pages in each chunk, in the order in which batches had them."""
    taken = chunk_files(pipeline.checkpoint).log().taken
    place = pipeline.checkpoint / "statemigrate" / "control" / "pages" / "chunks"
    tables = [pq.read_table(place / name) for name in sorted(taken, key=taken.get)]
    return [table.column("statemigrate_page").to_pylist() for table in tables]


@pytest.mark.long
def test_a_page_whose_entries_stay_as_they_are_is_not_written(stopped, tmp_path):
    class Looking(CentsTally):
        def handleInputRows(self, key, rows, timerValues):
            assert self.state.exists()
            self.state.update(self.state.get())
            return iter(())

    # As many pages as there are already, which is known.
    copied = copy_of(stopped, tmp_path, pages=None)
    copied.feed(batch("second", range(30)))
    query = copied.deploy_natively(Looking())
    updated = [json.loads(each.json) for each in query.recentProgress]
    assert sum(each["stateOperators"][0]["numRowsUpdated"] for each in updated) == 0
    assert copied.stored_pages() == stopped.stored_pages()


class Previous(CentsTally):
    """Remembers the key before, which is harmless once it is said to be."""

    def handleInputRows(self, key, rows, timerValues):
        self.previous = key
        return super().handleInputRows(key, rows, timerValues)


class SaidToRemember(Previous):
    kept_between_keys = ("previous",)


@pytest.mark.long
def test_what_a_processor_keeps_from_key_to_key_is_refused_and_nothing_written(stopped, tmp_path):
    copied, first, second = copy_of(stopped, tmp_path), batch("first", range(30)), [("k3", 5, "x")]
    copied.feed(second)
    with pytest.raises(StreamingQueryException) as caught:
        copied.deploy_natively(Previous())
    assert "ProcessorError: Previous keeps something in itself" in str(caught.value)
    assert "kept_between_keys = ('previous',)" in str(caught.value)
    assert copied.stored_pages() == stopped.stored_pages()
    copied.deploy_natively(SaidToRemember())
    expected = Expected()
    # In its new place the first file is another one to Spark.
    for rows in (first, first, second):
        expected.process(rows, CENTS)
    pages = copied.entries(FORMATS).values()
    found = {key: value for page in pages for key, value in page["tally"].items()}
    assert {FAMILIES[CENTS]: found} == expected.stored(CENTS)


class Texts(StatefulProcessor):
    """Keeps a text of the length that a row says, and tells what it kept before; below 0, none."""

    def init(self, handle):
        self.text = handle.getValueState("text", "letters STRING")

    def handleInputRows(self, key, rows, timerValues):
        before = self.text.get()
        for row in rows:
            if row.length < 0:
                self.text.clear()
            else:
                self.text.update((row.letter * row.length,))
        yield Row(key=key[0], before=before and before[0])

    def close(self):
        pass


LARGE = 200_000
TEXTS = {
    "rows": "key STRING, letter STRING, length INT",
    "output": "key STRING, before STRING",
}


@pytest.mark.long
def test_large_values_lie_beside_the_page_and_verbs_read_them_there(spark, tmp_path, scripts):
    lives = [
        [[("a", "x", LARGE), ("b", "y", LARGE), ("c", "z", 3), ("d", "w", LARGE)]],
        [[("c", "z", 4)], [("a", "x", LARGE), ("b", "v", LARGE + 1), ("d", "", -1)]],
        [
            [(key, "u", 2) for key in "abcd"],
            [("a", "t", LARGE)],
            [("a", "s", 1), ("b", "r", LARGE)],
        ],
    ]
    plain = NativePipeline(spark, tmp_path / "plain", **TEXTS)
    paged = PagedPipeline(spark, tmp_path / "paged", pages=1, **TEXTS)
    beside = []
    for _ in lived(lives, Texts, plain, paged):
        beside.append({key: len(each["value"]) for key, each in large_values(paged).items()})
        (page,) = paged.stored_pages().values()
        assert len(page) < 300
    assert by_batch(paged) == by_batch(plain)
    assert [sorted(each.values()) for each in beside] == [
        [LARGE + 4] * 3,
        [LARGE + 4, LARGE + 5],
        [LARGE + 4],
    ]
    found = statemigrate.get("text", paged.checkpoint, "b", migrations=scripts.write())
    assert found == {"letters": "r" * LARGE}


def large_values(pipeline):
    return pipeline.state("statemigrate_large", "map")[0]


def copy_of(stopped, tmp_path, **parts):
    """The stopped query in a place of its own."""
    copied = PagedPipeline(stopped.spark, tmp_path / "copy", **parts)
    shutil.copytree(stopped.input, copied.input, dirs_exist_ok=True)
    shutil.copytree(stopped.checkpoint, copied.checkpoint)
    for file in copied.checkpoint.glob("state/*/_metadata/**/*"):
        if file.is_file() and not file.name.startswith("."):
            text = file.read_text(errors="surrogateescape")
            file.write_text(
                text.replace(str(stopped.checkpoint), str(copied.checkpoint)),
                errors="surrogateescape",
            )
            (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    return copied


def record_of(pipeline):
    path = pipeline.checkpoint / "statemigrate" / "pages.json"
    return path, json.loads(path.read_text())["body"]


def test_the_record_says_what_is_in_the_pages(stopped):
    _, record = record_of(stopped)
    assert (record["format"], record["pages"]) == (1, 4)
    assert [field["name"] for field in record["key"]["fields"]] == ["key"]
    assert [each["name"] for each in record["stores"]["tally"]["families"]] == ["tally"]


def test_another_number_of_pages_is_refused_with_both(stopped):
    other = PagedPipeline(stopped.spark, stopped.root, pages=5)
    with pytest.raises(StartupError, match="another number of pages") as raised:
        other.result(CentsTally())
    assert raised.value.expected.startswith("4 pages")
    assert "pass pages=4" in raised.value.next_action


def test_a_number_of_pages_changed_by_hand_is_found_in_the_pages(stopped, tmp_path):
    copied = copy_of(stopped, tmp_path, pages=5)
    path, record = record_of(copied)
    path.write_bytes(sealed({**record, "pages": 5}))
    with pytest.raises(PageError, match="another number of pages") as raised:
        copied.result(CentsTally())
    assert raised.value.found == "4 pages"


def test_pages_without_their_record_or_with_an_altered_one_are_refused(stopped, tmp_path):
    copied = copy_of(stopped, tmp_path)
    path, record = record_of(copied)
    path.write_text(path.read_text().replace('"pages":4', '"pages":3'))
    with pytest.raises(CorruptFileError, match="not what was written"):
        copied.result(CentsTally())
    path.write_bytes(
        sealed({**record, "stores": {"tally": {**record["stores"]["tally"], "families": []}}})
    )
    with pytest.raises(CorruptFileError, match="disagree about tally"):
        copied.result(CentsTally())
    path.unlink()
    with pytest.raises(CorruptFileError, match="not the record of what is in them"):
        copied.result(CentsTally())


def test_other_key_columns_and_another_schema_are_refused(stopped):
    with pytest.raises(StartupError, match="another grouping key"):
        PagedPipeline(stopped.spark, stopped.root, by="name").result(CentsTally())
    with pytest.raises(StartupError, match="format stored for revision base"):
        stopped.result(AmountsTally())


def test_a_checkpoint_without_pages_is_refused(pipeline):
    pipeline.feed(batch("first", range(3)))
    pipeline.deploy_natively(CentsTally())
    with pytest.raises(StartupError, match="not one of paged state"):
        PagedPipeline(pipeline.spark, pipeline.root).result(CentsTally())


class Alarms(StatefulProcessor):
    """Has timers where its rows say, and tells which it has and which have expired."""

    def init(self, handle):
        self.handle = handle
        self.fired = handle.getListState("fired", "at BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        for row in sorted(rows, key=lambda row: row.at):
            getattr(self.handle, f"{row.op}Timer")(row.at)
        yield self._row(key, "rows")

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        at = expiredTimerInfo.getExpiryTimeInMs()
        self.fired.appendValue((at,))
        yield self._row(key, f"expired {at}")
        if at == 3:
            self.handle.deleteTimer(FUTURE)
            self.handle.registerTimer(FUTURE + 1)

    def _row(self, key, what):
        fired = [at for (at,) in self.fired.get()]
        return Row(key=key[0], what=what, fired=fired, left=sorted(self.handle.listTimers()))

    def close(self):
        pass


FUTURE = 4_000_000_000_000
ALARMS = {
    "rows": "key STRING, op STRING, at BIGINT",
    "output": "key STRING, what STRING, fired ARRAY<BIGINT>, left ARRAY<BIGINT>",
}


@pytest.mark.long
@pytest.mark.usefixtures("without_empty_batches")
def test_timers_expire_as_they_do_in_spark(spark, tmp_path):
    keys = [f"k{number}" for number in range(6)]
    lives = [
        [(key, "register", at) for at in (1, 3, 4, FUTURE) for key in keys],
        [(keys[0], "delete", FUTURE), (keys[1], "register", 7), (keys[2], "delete", FUTURE + 9)],
        [(key, "delete", FUTURE + 1) for key in keys] + [("new", "register", 2)],
    ]
    plain, paged = (
        kind(spark, tmp_path / kind.__name__, time_mode="ProcessingTime", **ALARMS)
        for kind in (NativePipeline, PagedPipeline)
    )
    for rows in lives:
        for pipeline in (plain, paged):
            pipeline.feed(rows)
    for pipeline in (plain, paged):
        pipeline.deploy_natively(Alarms())
    assert by_batch(paged) == by_batch(plain)
    told = Counter(row[1] for rows in paged.handed_by_batch.values() for row in rows)
    assert told == {
        **{"rows": 6 + 3 + 7, "expired 1": 6, "expired 3": 6, "expired 4": 6},
        **{"expired 7": 1, "expired 2": 1},
    }


class WithTimeToLive(CentsTally):
    def init(self, handle):
        self.state = handle.getValueState("tally", CENTS_DDL, 1000)


@pytest.mark.parametrize(
    ("changes", "error", "problem"),
    [
        ({"by": "kee"}, StartupError, "cannot be grouped by kee"),
        ({"by": ()}, StartupError, "grouped by no column"),
        ({"pages": 0}, StartupError, "number of pages cannot be used"),
        ({"pages": True}, StartupError, "number of pages cannot be used"),
        ({"pages": None}, StartupError, "needs the number of its pages"),
        ({"processor": CentsTally}, StartupError, "is no StatefulProcessor"),
        ({"timeMode": "WallTime"}, UnsupportedError, "no time mode WallTime"),
        ({"processor": WithTimeToLive()}, UnsupportedError, "counts in processing time"),
    ],
    ids=["column", "columns", "zero", "truth", "nothing", "class", "time mode", "time to live"],
)
def test_what_cannot_be_is_refused_before_anything_starts(paged, changes, error, problem):
    given = {
        **{"by": "key", "processor": CentsTally(), "output": paged.output},
        **{"checkpoint": paged.checkpoint, "pages": 4, **changes},
    }
    with pytest.raises(error, match=problem) as raised:
        statemigrate.paged(paged.stream(), **given)
    assert raised.value.next_action
    assert not paged.checkpoint.exists()


@pytest.mark.long
def test_a_timer_in_a_query_without_a_time_mode_is_refused(paged):
    paged.rows, paged.output = ALARMS["rows"], ALARMS["output"]
    paged.feed([("a", "register", 1)])
    with pytest.raises(StreamingQueryException, match="without a time mode has no timers"):
        paged.deploy_natively(Alarms())


def test_streams_that_pages_cannot_take_are_refused(paged, scripts):
    paged.feed(batch("first", range(3)))
    clashing = paged.stream().withColumnRenamed("name", "statemigrate_page")
    with pytest.raises(StartupError, match="has a column statemigrate_page"):
        paged.result(CentsTally(), clashing)
    with pytest.raises(StartupError, match="is for a stream"):
        paged.result(CentsTally(), paged.spark.read.schema(paged.rows).parquet(str(paged.input)))
    with pytest.raises(UnsupportedError, match="cannot be a key here"):
        paged.result(CentsTally(), paged.stream().selectExpr("cents / 2 AS key", "cents", "name"))


def test_code_that_migrated_and_paged_both_name_a_checkpoint_for_is_refused(paged, scripts):
    folder = scripts.write()
    code = migrated(AmountsTally(), migrations=folder, checkpoint=paged.checkpoint)
    with pytest.raises(StartupError, match="named twice"):
        paged.result(code)


@pytest.mark.long
def test_a_value_that_does_not_migrate_stops_no_neighbour_of_its_page(spark, tmp_path, scripts):
    tally, expected = PagedPipeline(spark, tmp_path / "tally", pages=2), Expected()
    tally.feed(first := batch("first", range(12)))
    tally.deploy_natively(CentsTally())
    expected.process(first, CENTS)
    poison = '    if value["cents"] == 3 * 5 + 7:\n        raise ValueError("unlucky")\n'
    text = AMOUNTS_SCRIPT.replace("upgrade(value):\n", f"upgrade(value):\n{poison}")
    folder = scripts.write(text)
    before = {key: page["tally"]["k5"] for key, page in tally.entries(FORMATS).items()
              if "k5" in page["tally"]}  # fmt: skip
    ((number, value),) = before.items()
    tally.feed(second := batch("second", [n for n in range(12) if n != 5]))
    tally.deploy_natively(migrated(AmountsTally(), migrations=folder))
    expected.process(second, AMOUNTS)
    left = {at: page["tally"] for at, page in tally.entries(FORMATS).items() if "tally" in page}
    assert left == {number: {"k5": value}}
    assert tally.handed_rows == expected.output
    # Every verb sees it where it is, and the others where they went.
    parts = {"migrations": folder}
    assert [
        each.key for each in statemigrate.status(tally.checkpoint, failed="tally", **parts)
    ] == [("k5",)]
    (store,) = statemigrate.status(tally.checkpoint, **parts).stores
    assert [(each.name, each.values) for each in store.families] == [("tally", 1)]
    assert store.in_target == 11
    # The key itself cannot be read, and a start with the script corrected goes on with it.
    pages = tally.stored_pages()
    tally.feed(third := batch("third", [5]))
    with pytest.raises(StreamingQueryException, match="unlucky"):
        tally.deploy_natively(migrated(AmountsTally(), migrations=folder))
    assert tally.stored_pages() == pages
    scripts.write()
    code = migrated(AmountsTally(), migrations=folder, accept_edited=(AMOUNTS,))
    tally.deploy_natively(code)
    expected.process(third, AMOUNTS)
    assert tally.handed_rows == expected.output
    assert not any("tally" in page for page in tally.entries(FORMATS).values())
    plain = tmp_path / "plain"
    options = RewriteOptions(pages=0)
    rewrite_checkpoint(
        tally.checkpoint, plain, options=options, migrations=folder, apply=True, spark=spark
    )
    assert verify(tally.checkpoint, plain, migrations=folder, spark=spark).problems == ()
