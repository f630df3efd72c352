"""Pages that have grown too large are in leaves, and queries go on as if they had none."""

import random
import zlib
from typing import Any, ClassVar

import pytest
from everything import by_batch
from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline, TallyPages, check_families, lived
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from tally import AMOUNTS, CENTS, FAMILIES, AmountsTally, CentsTally, Expected, batch
from test_paged_rewrites import last_batches, rewritten

from statemigrate import backfill, fork, get, migrated, open_state, status
from statemigrate.pages.columns import read
from statemigrate.pages.page_leaves import PREFIX, Directory

pytestmark = [pytest.mark.spark, pytest.mark.long]
PARTS = {"rows": "key STRING, op STRING, n INT", "output": "key STRING, seen BIGINT"}
KEYS = [f"k{number:03d}" for number in range(240)]


class Wide(StatefulProcessor):
    """A value, a list and a map of some kilobytes a key."""

    def init(self, handle):
        self.text = handle.getValueState("text", "letters STRING, n INT")
        self.lines = handle.getListState("lines", "letters STRING")
        self.words = handle.getMapState("words", "k INT", "letters STRING")

    def handleInputRows(self, key, rows, timerValues):
        before = [
            *(self.text.get() or ("", 0)),
            *(line for (line,) in self.lines.get()),
            *sorted((k, word) for (k,), (word,) in self.words.iterator()),
        ]
        for row in sorted(rows, key=lambda row: row.n):
            getattr(self, f"_{row.op}")(row.n)
        yield Row(key=key[0], seen=zlib.crc32(repr(before).encode()))

    def _add(self, n):
        self.text.update((letters(n, 1_500), n))
        self.lines.appendValue((letters(n, 700),))
        self.words.updateValue((n % 3,), (letters(n, 500),))

    def _clear(self, n):
        self.text.clear()
        self.lines.clear()
        self.words.clear()

    def _look(self, n):
        pass

    def close(self):
        pass


def letters(n, length):
    return "".join(random.Random(n).choices("abcdefgh", k=length))


def families_in_leaves(pipeline):
    """By family, how many leaves the one page has; nothing else lies outside of it."""
    (page,) = pipeline.stored_pages().values()
    found = {
        extent.name: len(Directory(extent, section))
        for extent, section in read(page)[1]
        if extent.in_leaves
    }
    outside = pipeline.state("statemigrate_large", "map").get(0, {})
    named = [family.removeprefix(PREFIX) for family, _ in outside]
    assert {name: named.count(name) for name in named} == found
    return found


def test_state_that_outgrows_its_page_is_what_it_is_without_pages(spark, tmp_path, scripts):
    lives = [
        [[(key, "add", at) for at, key in enumerate(KEYS)]],
        [
            [(key, "add", 300 + at) for at, key in enumerate(KEYS)],
            [(key, "add", 7) for key in ("k003", "k100", "later", "")],
        ],
        [[(key, "clear", 0) for key in KEYS[:150]], [(key, "look", 0) for key in KEYS]],
    ]
    plain = NativePipeline(spark, tmp_path / "plain", **PARTS)
    paged = PagedPipeline(spark, tmp_path / "paged", pages=1, **PARTS)
    split = []
    for _ in lived(lives, Wide, plain, paged):
        split.append(set(families_in_leaves(paged)))
    assert by_batch(paged) == by_batch(plain)
    assert split == [{"text", "lines"}, {"text", "lines"}, {"text", "lines"}]
    check_tables(paged, plain, scripts.write())

    twins = [rewritten(paged, pages, **PARTS)[0] for pages in (0, 3)]
    last = [[(key, "look", 0) for key in KEYS], [(key, "clear", 0) for key in KEYS[1:]]]
    for pipeline in (plain, paged, *twins):
        pipeline.feed(*last) if pipeline not in twins else None
        pipeline.deploy_natively(Wide())
        assert last_batches(pipeline, 2) == last_batches(plain, 2)
    assert families_in_leaves(paged) == {}


def check_tables(paged, plain, folder):
    """The verbs that read state have the same rows of both."""
    found = [get("lines", each.checkpoint, "k200", migrations=folder) for each in (plain, paged)]
    assert found[0] == found[1]
    assert len(found[0]) == 2
    for store, count in (("text", 92), ("lines", 182), ("words", 92)):
        tables = [
            open_state(each.checkpoint, migrations=folder).tables[store].to_arrow().to_pylist()
            for each in (plain, paged)
        ]
        rows = [sorted(_of_user(row) for row in table) for table in tables]
        assert rows[0] == rows[1]
        assert len(rows[0]) == count


def _of_user(row):
    # Others tell of the engine: partition, batch and revision.
    return repr(sorted((name, value) for name, value in row.items() if name[0] != "_"))


def test_a_page_in_leaves_migrates_whole_by_touch(spark, tmp_path, scripts):
    pages, expected, folder = TallyPages(spark, tmp_path, pages=1), Expected(), scripts.write()
    pages.feed(rows := batch("first", range(12_000)))
    pages.deploy_natively(CentsTally())
    expected.process(rows, CENTS)
    assert families_in_leaves(pages)["tally"] > 4
    check_families(pages, expected, CENTS)
    pages.feed(rows := batch("second", [5, 11_999, 12_000]))
    pages.deploy_natively(migrated(AmountsTally(), migrations=folder))
    expected.process(rows, AMOUNTS)
    pages.moved_along(expected, [5], AMOUNTS)
    check_families(pages, expected, AMOUNTS)
    assert [*families_in_leaves(pages)] == [FAMILIES[AMOUNTS]]
    (store,) = status(pages.checkpoint, migrations=folder).stores
    assert sum(family.values for family in store.families) == 0
    assert store.in_target == 12_001


def test_a_backfill_counts_and_moves_the_entries_of_leaves(spark, tmp_path, scripts):
    pages, expected, folder = TallyPages(spark, tmp_path, pages=1), Expected(), scripts.write()
    pages.feed(rows := batch("first", range(12_000)))
    pages.deploy_natively(CentsTally())
    expected.process(rows, CENTS)
    code = migrated(AmountsTally(), migrations=folder, write_on_read=False)
    pages.feed(rows := batch("second", [5]))
    pages.deploy_natively(code)
    expected.process(rows, AMOUNTS)
    (store,) = status(pages.checkpoint, migrations=folder).stores
    assert (store.in_target, store.left) == (1, 11_999)
    plan = backfill(pages.checkpoint, migrations=folder, keys_per_chunk=1)
    assert (plan.keys, plan.pages, plan.chunks) == (11_999, 1, 1)
    pages.deploy_natively(code)
    expected.drain(AMOUNTS)
    check_families(pages, expected, AMOUNTS)


class Named(PagedPipeline):
    more: ClassVar[dict[str, Any]] = {"operator": "wide_ones"}


def test_a_fork_of_an_earlier_batch_has_its_leaves_under_whatever_names(spark, tmp_path, scripts):
    paged = Named(spark, tmp_path / "named", pages=1, **PARTS)
    keys = [f"k\"{number}`'.é\x00" for number in range(240)]
    paged.feed([(key, "add", at) for at, key in enumerate(keys)])
    paged.deploy_natively(Wide())
    paged.feed([(key, "clear", 0) for key in keys[5:]], [(keys[0], "add", 900)])
    paged.deploy_natively(Wide())
    fork(paged.checkpoint, tmp_path / "earlier", at_batch=0)
    numbers = dict(zip(keys, range(240), strict=True))
    last = {key: numbers[key] for key in keys[1:5]} | {keys[0]: 900}
    for checkpoint, expected in ((tmp_path / "earlier", numbers), (paged.checkpoint, last)):
        rows = open_state(checkpoint, migrations=scripts.write()).tables["text"].to_arrow()
        found = {row["key"]: (row["letters"], row["n"]) for row in rows.to_pylist()}
        assert found == {key: (letters(n, 1_500), n) for key, n in expected.items()}
