"""Event time and times to live of two operators on pages, each with a name, across a migration."""

import json
from collections import Counter

import pytest
from native_pipeline import NativePipeline
from pyspark.sql import Row
from tally import AMOUNTS, AMOUNTS_SCRIPT, CENTS, FAMILIES, AmountsTally, CentsTally, batch
from timed_sums import AFTER, BEFORE, TIMED_ROWS, TIMED_SCRIPT, NewSums, Sums
from two_paged import TwoPaged
from watermarked import Watermarked

import statemigrate
from statemigrate import StartupError, backfill, migrated, status
from statemigrate.commands.current import log
from statemigrate.families import Span
from statemigrate.files.open import open_files
from statemigrate.formats import Struct
from statemigrate.pages.columns import PageId
from statemigrate.pages.page import Page
from statemigrate.pages.page_families import fingerprint
from statemigrate.pages.record import records, variable_of
from statemigrate.pages.visit import key_fingerprint
from statemigrate.processor.keys import TupleKeyCodec

pytestmark = [pytest.mark.spark, pytest.mark.long]
NAMES = ("one", "two")
NEW = "cccc00000001"
LONG = 600_000


class Of(Sums):
    """Tells which of the two operators a sum is of."""

    def __init__(self, name):
        self.name = name

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        for row in super().handleExpiredTimer(key, timerValues, expiredTimerInfo):
            yield Row(of=self.name, **row.asDict())


class NewOf(Of):
    ddl, read, made = NewSums.ddl, NewSums.read, NewSums.made


class Grouped(Watermarked):
    """Sums by the key and, of the same stream, by a group that several keys have in common."""

    def stream(self):
        return super().stream().selectExpr("*", "concat('g', n % 4) AS many")


class Plain(Grouped, NativePipeline):
    def result(self, processor, stream=None):
        stream = self.stream()
        one, two = (
            stream.groupBy(by).transformWithState(each, self.output, "Update", "EventTime")
            for by, each in zip(("key", "many"), processor, strict=True)
        )
        return one.union(two)


class Paged(TwoPaged):
    def paged(self, stream, processor, by, name, pages):
        return statemigrate.paged(
            stream,
            by=by,
            processor=processor,
            output=self.output,
            checkpoint=self.checkpoint,
            pages=pages,
            timeMode=self.time_mode,
            operator=name,
        )


class PagedInEventTime(Grouped, Paged):
    pass


def test_timers_of_each_go_off_as_in_spark_though_one_migrates_before_the_other(
    spark, scripts, tmp_path
):
    """Both have a store of the same name, and one script for it."""
    folder = scripts.write(amounts=None)
    (scripts.folder.versions / "sums.py").write_text(f'"""Change sums."""\n{TIMED_SCRIPT}')
    parts = {"rows": TIMED_ROWS, "output": "of STRING, key STRING, n BIGINT, at BIGINT"}
    plain = Plain(spark, tmp_path / "plain", time_mode="EventTime", **parts)
    plain.feed(*BEFORE, *AFTER)
    plain.deploy_natively(tuple(map(Of, NAMES)))
    query = PagedInEventTime(
        spark, tmp_path / "paged", names=NAMES, groups=("key", "many"), numbers=(4, 2),
        time_mode="EventTime", **parts,
    )  # fmt: skip
    query.feed(*BEFORE)
    query.deploy_natively(tuple(map(Of, NAMES)))
    assert backfill(query.checkpoint, migrations=folder, keys_per_chunk=1, operator="one").chunks
    query.deploy_natively((migrated(NewOf("one"), migrations=folder), Of("two")))
    # No row has come, and no time has passed.
    assert not query.handed_rows
    for name, revision in zip(NAMES, (NEW, "base"), strict=True):
        (store,) = status(query.checkpoint, migrations=folder, operator=name).stores
        assert (store.store, store.target, store.left) == ("sums", revision, 0)
        (store,) = status(query.checkpoint, migrations=folder, operator=name, revisions=True).stores
        assert (store.revision, store.noted, store.differs) == (revision, revision, False)
    query.feed(*AFTER)
    query.deploy_natively(tuple(migrated(NewOf(name), migrations=folder) for name in NAMES))
    assert Counter(query.handed_rows) == Counter(plain.handed_rows)
    assert Counter(row[0] for row in plain.handed_rows) == {"one": 13, "two": 2}
    # One that changes no revision is there too where the code is another commit's.
    starts = [
        each
        for each in log(query.checkpoint).entries
        if each.verb == "start" and each.change != "none"
    ]
    assert {(each.operator, each.change, each.revision, each.outcome) for each in starts} == {
        *((name, "first", "base", "done") for name in NAMES),
        *((name, "upgrade", NEW, "done") for name in NAMES),
    }


class Expiring:
    def init(self, handle):
        self.state = handle.getValueState("tally", self.ddl, LONG)


class ExpiringCents(Expiring, CentsTally):
    pass


class ExpiringAmounts(Expiring, AmountsTally):
    pass


def expiries(query, operator, pages, family, ddl):
    """When the value of each key expires, 0 for never."""
    from pyspark.sql.types import StructType

    key = StructType.fromDDL("key STRING")
    reader = query.spark.read.format("statestore").option("stateVarName", variable_of(operator))
    number = 0 if operator == "one" else 1
    found = {}
    for row in reader.option("operatorId", number).load(str(query.checkpoint)).collect():
        page = Page(PageId(pages, row.key[0], key_fingerprint(key)), bytes(row.value.page))
        assert page.counts.keys() <= {family}
        if page.contains_family(family):
            section = page.section(family, fingerprint(Struct(ddl)))
            for each, _ in section.scan(Span()):
                found[TupleKeyCodec(key).decode(each)[0]] = section.expiry(each)
    return found


def times_of_batches(query):
    found = {}
    for path in (query.checkpoint / "offsets").iterdir():
        if path.name.isdigit():
            found[int(path.name)] = json.loads(path.read_text().split("\n")[1])["batchTimestampMs"]
    return found


def test_each_value_keeps_its_time_to_live_and_the_other_operator_has_none(
    spark, scripts, tmp_path, without_empty_batches
):
    folder = scripts.write(f'{AMOUNTS_SCRIPT}\ntime_to_live = "keep"\n')
    query = Paged(
        spark, tmp_path / "paged", names=NAMES, groups=("key", "key"), numbers=(2, 2),
        time_mode="ProcessingTime", output=NativePipeline.output,
    )  # fmt: skip
    query.feed(batch("first", range(12)))
    query.deploy_natively((ExpiringCents(), CentsTally()))
    times = times_of_batches(query)
    keys = [f"k{number}" for number in range(12)]
    old = FAMILIES[CENTS], CentsTally.ddl
    assert expiries(query, "one", 2, *old) == dict.fromkeys(keys, times[0] + LONG)
    query.feed(batch("second", range(3)))
    query.deploy_natively(
        (
            migrated(ExpiringAmounts(), migrations=folder),
            migrated(AmountsTally(), migrations=folder),
        )
    )
    times, new = times_of_batches(query), (FAMILIES[AMOUNTS], AmountsTally.ddl)
    touched = dict.fromkeys(keys[:3], times[1] + LONG)
    assert expiries(query, "one", 2, *new) == {**dict.fromkeys(keys, times[0] + LONG), **touched}
    assert expiries(query, "two", 2, *new) == dict.fromkeys(keys, 0)
    found = records(open_files(query.checkpoint))
    assert {name: set(each.expiring) for name, each in found.items()} == {
        "one": {"tally"}, "two": set(),
    }  # fmt: skip
    # Each is compared with what it has itself.
    both = [migrated(ExpiringAmounts(), migrations=folder) for _ in NAMES]
    with pytest.raises(StartupError) as caught:
        query.result(tuple(both))
    assert caught.value.data["store"] == "tally"
