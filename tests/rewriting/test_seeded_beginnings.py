"""Where a seeded query begins: with a source that counts, and after a seeding that was ended."""

import json

import pytest
from pyspark.sql import functions as F  # noqa: N812
from rewritten_queries import session_with
from seeding_code import write_json
from support.new_checkpoints import is_shut

from statemigrate.commands.new_code import NewCode
from statemigrate.commands.rewrite import verify
from statemigrate.commands.seed import seed
from statemigrate.files.local import LocalFiles
from statemigrate.rewrite.questions import RewriteAnswers
from statemigrate.rewrite.sources import RewriteOptions

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]

DDL = "timestamp TIMESTAMP, value BIGINT"
ROWS = [{"k": 0, "count": 100, "sum": 1000}, {"k": 1, "count": 200, "sum": 2000}]


def by_parity(events):
    rows = events.select((F.col("value") % 2).alias("k"), "value")
    return rows.groupBy("k").agg(F.count("*"), F.sum("value"))


def seeded(spark, new, table, *accepted, **options):
    return seed(
        new,
        str(table),
        target=NewCode("test_seeded_beginnings:by_parity", {"events": DDL}),
        options=RewriteOptions(2, **options),
        answers=RewriteAnswers(frozenset(accepted), by_name=True),
        apply=True,
        spark=spark,
    )


def batch(session, source, checkpoint):
    """One batch of ten rows: the number of the batch, and what it gives."""
    found = {}

    def collect(rows, number):
        found[number] = sorted(tuple(row) for row in rows.collect())

    stream = session.readStream.format(source).option("rowsPerBatch", 10).load()
    query = by_parity(stream).writeStream.outputMode("update").foreachBatch(collect)
    query = query.option("checkpointLocation", str(checkpoint)).trigger(once=True).start()
    query.awaitTermination(120)
    return found


def test_a_source_that_counts_rows_goes_on_from_its_offset_or_from_its_beginning(spark, tmp_path):
    session = session_with(spark, "rocksdb")
    table = write_json(tmp_path / "table", ROWS)
    told, own = tmp_path / "told", tmp_path / "own"
    seeded(session, told, table, offsets={"events": {"offset": 10, "timestamp": 1000}})
    seeded(session, own, table, "source-0")
    source = "rate-micro-batch"
    assert batch(session, source, told) == {2: [(0, 105, 1070), (1, 205, 2075)]}
    assert batch(session, source, told) == {3: [(0, 110, 1190), (1, 210, 2200)]}
    assert batch(session, source, own) == {2: [(0, 105, 1020), (1, 205, 2025)]}


class EndedError(Exception):
    """The process ends here."""


def test_a_seeding_that_was_ended_goes_on_unless_its_table_has_changed(
    spark, tmp_path, monkeypatch
):
    table, new = write_json(tmp_path / "table", ROWS), tmp_path / "new"
    folder = "statemigrate/rewriting"

    def ended(at):
        with monkeypatch.context() as patched:

            def replace(self, name, data, **options):
                if name.startswith(at):
                    raise EndedError
                return replaced(self, name, data, **options)

            replaced = LocalFiles.replace
            patched.setattr(LocalFiles, "replace", replace)
            with pytest.raises(EndedError):
                seeded(spark, new, table, "source-0")
        assert is_shut(new)

    ended("offsets/")
    done = (new / folder / "0.json").stat().st_mtime_ns
    ended("offsets/")
    assert (new / folder / "0.json").stat().st_mtime_ns == done
    (table / "part-0.json").write_text(json.dumps({"k": 0, "count": 1, "sum": 1}))
    made = seeded(spark, new, table, "source-0")
    assert made.report.families[0].total.count == 1
    assert verify(None, new, spark=spark).problems == ()
    assert json.loads((new / "metadata").read_text())["id"] == made.report.query
