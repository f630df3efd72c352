"""On pages, a batch processor gives the rows and leaves the state of the same code by key."""

from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest
from everything import BEGINNING, KEYS, ROWS, by_batch, event
from native_pipeline import NativePipeline
from paged_pipeline import FORMATS, PagedPipeline, TallyPages
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from tally import AMOUNTS, AMOUNTS_DDL, CENTS, CENTS_DDL, AmountsTally, CentsTally, Expected, batch

import statemigrate
from statemigrate import BatchProcessor, StartupError, UnsupportedError, migrated
from statemigrate.formats.arrow_values import plain_array, plain_rows

pytestmark = pytest.mark.spark

COLUMNS = ("at", "day", "price", "raw", "tags", "attributes")
PARTS = {
    "rows": ROWS,
    "output": "name STRING, number INT, n BIGINT, before STRUCT<at: TIMESTAMP, day: DATE, "
    "price: DECIMAL(12,3), raw: BINARY, tags: ARRAY<STRING>, "
    "attributes: MAP<STRING, STRUCT<x: INT, at: TIMESTAMP>>>, price DECIMAL(12,3)",
    "by": ("name", "number"),
}
LATEST = (
    "n BIGINT, at TIMESTAMP, day DATE, price DECIMAL(12,3), raw BINARY, tags ARRAY<STRING>, "
    "attributes MAP<STRING, STRUCT<x: INT, at: TIMESTAMP>>"
)


class Latest(StatefulProcessor):
    """Stores the last row of a key, and gives out the one before."""

    def init(self, handle):
        self._state = handle.getValueState("latest", LATEST)

    def handleInputRows(self, key, rows, timerValues):
        rows = sorted(rows, key=lambda row: row.at)
        found = self._state.get()
        last = dict(zip(rows[-1].__fields__, rows[-1], strict=True))
        # transformWithState hands maps over as lists of pairs.
        pairs = last["attributes"]
        last["attributes"] = None if pairs is None else dict(pairs)
        n = len(rows) + (found[0] if found else 0)
        self._state.update((n, *(last[each] for each in COLUMNS)))
        before = found and Row(*COLUMNS)(*found[1:])
        yield Row(name=key[0], number=key[1], n=n, before=before, price=last["price"])

    def close(self):
        pass


class LatestByTable(BatchProcessor):
    """The same with tables."""

    def init(self, handle):
        handle.getValueState("latest", LATEST)

    def handleBatch(self, keys, rows, state, timerValues):
        last, numbers = {}, Counter()
        for row in plain_rows(rows):
            key = row["name"], row["number"]
            numbers[key] += 1
            if key not in last or last[key]["at"] < row["at"]:
                last[key] = row
        before = plain_rows(state)
        made, output = [], []
        for each in before:
            key, found = (each["name"], each["number"]), each["latest"]
            n = numbers[key] + (found["n"] if found else 0)
            made.append({"n": n, **{name: last[key][name] for name in COLUMNS}})
            values = found and {name: found[name] for name in COLUMNS}
            output.append((n, values, last[key]["price"]))
        kind = state.schema.field("latest").type
        fields = pa.struct([kind.field(name) for name in COLUMNS])
        n, values, price = zip(*output, strict=True)
        columns = [pa.array(n), plain_array(values, fields), pa.array(price, pa.decimal128(12, 3))]
        new = keys.append_column("latest", plain_array(made, kind))
        names = [*keys.column_names, "n", "before", "price"]
        return new, pa.table([*keys.columns, *columns], names=names)


LATER = [
    [event(*key, "add", 20, tags=[], attributes={}) for key in [*KEYS, ("new", 3)]],
    [event(*key, "add", 21, attributes=None, raw=None) for key in KEYS[:2]],
]


@pytest.mark.long
def test_rows_and_state_of_every_type_are_as_key_by_key(spark, tmp_path):
    plain = NativePipeline(spark, tmp_path / "plain", **PARTS)
    by_key = PagedPipeline(spark, tmp_path / "by_key", pages=2, **PARTS)
    by_table = PagedPipeline(spark, tmp_path / "by_table", pages=2, **PARTS)
    # The middle release of one goes the other way, on the same pages.
    mixed = PagedPipeline(spark, tmp_path / "mixed", pages=2, **PARTS)
    runs = (
        (plain, Latest, Latest),
        (by_key, Latest, Latest),
        (by_table, LatestByTable, LatestByTable),
        (mixed, LatestByTable, Latest),
    )
    for pipeline, first, second in runs:
        pipeline.feed(*BEGINNING)
        pipeline.deploy_natively(first())
        pipeline.feed(*LATER)
        pipeline.deploy_natively(second())
    assert sum(map(len, plain.handed_by_batch.values())) == 5 + 5 + 6 + 2
    for other in (by_key, by_table, mixed):
        assert by_batch(other) == by_batch(plain)
        assert other.stored_pages() == by_key.stored_pages()
    assert by_key.stored_pages()


class InEventTime(PagedPipeline):
    def stream(self):
        return super().stream().withWatermark("at", "1 second")


class PlainInEventTime(NativePipeline):
    def stream(self):
        return super().stream().withWatermark("at", "1 second")


@pytest.mark.long
def test_in_event_time_late_rows_are_dropped_and_the_others_come_as_a_table(spark, tmp_path):
    parts = {**PARTS, "time_mode": "EventTime"}
    plain = PlainInEventTime(spark, tmp_path / "plain", **parts)
    by_table = InEventTime(spark, tmp_path / "by_table", pages=2, **parts)
    late = [[event(*key, "add", 1) for key in KEYS], [event("a", 1, "add", 30)]]
    for pipeline, processor in ((plain, Latest), (by_table, LatestByTable)):
        pipeline.feed(*LATER, *late)
        pipeline.deploy_natively(processor())
    assert by_batch(by_table) == by_batch(plain)
    assert sum(map(len, plain.handed_by_batch.values())) == 6 + 2 + 1


class TallyByTable(BatchProcessor):
    """The tally in either format; the name of the last row of a key is its largest."""

    def init(self, handle):
        handle.getValueState("tally", self.ddl)

    def handleBatch(self, keys, rows, state, timerValues):
        added = self.aggregate(keys, rows, [([], "count_all"), ("cents", "sum"), ("name", "last")])
        kind = state.schema.field("tally").type
        values, output = [], []
        for more, before in zip(plain_rows(added), plain_rows(state), strict=True):
            found = before["tally"] or self.nothing
            n = found["n"] + more["count_all"]
            total = found[self.sum] + self.amount(more["cents_sum"])
            moved, last = found["moved"], more["name_last"]
            values.append({"n": n, self.sum: total, "last": last, "moved": moved})
            cents = int(total.scaleb(2)) if self.sum == "amount" else total
            output.append(
                {"key": more["key"], "n": n, "cents": cents, "last": last, "moved": moved}
            )
        return keys.append_column("tally", plain_array(values, kind)), pa.Table.from_pylist(output)


class CentsByTable(TallyByTable):
    ddl, sum, nothing = CENTS_DDL, "cents", {"n": 0, "cents": 0, "moved": 0}

    def amount(self, cents):
        return cents


class AmountsByTable(TallyByTable):
    ddl, sum, nothing = AMOUNTS_DDL, "amount", {"n": 0, "amount": Decimal(0), "moved": 0}

    def amount(self, cents):
        return Decimal(cents).scaleb(-2)


@pytest.mark.long
def test_a_migration_is_the_same_by_touch_and_by_backfill(spark, tmp_path, scripts):
    folder, twins = scripts.write(), []
    rows = [batch("first", range(30)), batch("second", range(2)), batch("third", range(20, 34))]
    releases = (
        (CentsTally, AmountsTally, AmountsTally),
        (CentsByTable, AmountsByTable, AmountsByTable),
        (CentsTally, AmountsByTable, AmountsTally),
    )
    for number, (first, second, third) in enumerate(releases):
        query = TallyPages(spark, tmp_path / f"query_{number}", pages=8)
        query.feed(rows[0])
        query.deploy_natively(first())
        query.feed(rows[1])
        query.deploy_natively(migrated(second(), migrations=folder))
        states = [query.all_state()]
        statemigrate.backfill(query.checkpoint, migrations=folder, keys_per_chunk=3)
        query.feed(rows[2])
        query.deploy_natively(migrated(third(), migrations=folder))
        states.append(query.all_state())
        twins.append((states, Counter(query.handed_rows)))
    assert twins[0] == twins[1] == twins[2]
    ((before, after), handed) = twins[0]
    assert len(before) == 2
    assert list(after) == [name for name in FORMATS if name != "tally"]
    expected = Expected()
    expected.process(rows[0], CENTS)
    for key in [row[0] for row in rows[0]]:
        expected.move(key, AMOUNTS)
    for each in rows[1:]:
        expected.process(each, AMOUNTS)
    assert {key for held in after.values() for key in held} == {
        row[0] for each in rows for row in each
    }
    assert handed == Counter(expected.output)


def test_what_a_batch_processor_does_not_take_is_refused_before_the_query_starts(spark, tmp_path):
    query = PagedPipeline(spark, tmp_path)
    query.feed(batch("first", range(3)))
    static = spark.createDataFrame([("k1", 1)], "key STRING, n BIGINT").groupBy("key")
    with pytest.raises(UnsupportedError) as refused:
        statemigrate.paged(
            query.stream(), by="key", processor=CentsByTable(), output=query.output,
            checkpoint=query.checkpoint, pages=2, initialState=static,
        )  # fmt: skip
    assert refused.value.code == "SM-PROCESSOR-011"

    class Named(CentsByTable):
        def init(self, handle):
            handle.getValueState("key", CENTS_DDL)

    with pytest.raises(StartupError) as named:
        query.result(Named())
    assert named.value.code == "SM-PROCESSOR-002"
    with pytest.raises(UnsupportedError) as plain:
        statemigrate.stateful(
            query.stream(), by="key", processor=CentsByTable(), output=query.output,
            checkpoint=query.checkpoint,
        )  # fmt: skip
    assert plain.value.code == "SM-PROCESSOR-008"
    assert not query.checkpoint.exists()
