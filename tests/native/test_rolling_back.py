"""The way back on Spark's own state: the older release starts again as it was, with every value."""

import json

import pytest
from native_pipeline import NativePipeline
from support.offset_logs import tree
from tally import (
    AMOUNTS,
    AMOUNTS_SCRIPT,
    CENTS,
    AmountsTally,
    CentsTally,
    Expected,
    Scripts,
    batch,
)
from test_list_and_map_state import FIRST
from test_values_that_expire import ExpiringAmounts, ExpiringCents
from words import LIST, MAP, OUTPUT, ROWS, NewWords, Words, write_scripts

from statemigrate import migrated, rollback, with_backfill
from statemigrate.cli import main
from statemigrate.commands.adopt import adopt, undo_adoption
from statemigrate.errors import CheckpointError, LineageError, StartupError

pytestmark = [pytest.mark.spark, pytest.mark.long]

NEWER = f"tally@{AMOUNTS}"
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
NAMED = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


class Query:
    def __init__(self, pipeline, scripts):
        self.pipeline, self.folder = pipeline, scripts.write()
        self.checkpoint = pipeline.checkpoint
        self.expected = Expected()
        self.numbers = iter(range(100))

    def stream(self):
        return self.pipeline.stream()

    def feed(self, keys, target):
        self.pipeline.feed(rows := batch(f"n{next(self.numbers)}", keys))
        self.expected.process(rows, target)

    def plain(self):
        self.pipeline.deploy_natively(CentsTally(), self.stream())

    def newer(self):
        self._migrated(AmountsTally())

    def older(self):
        self._migrated(CentsTally(), targets={"tally": "base"})

    def _migrated(self, code, **settings):
        made = migrated(code, migrations=self.folder, checkpoint=self.checkpoint, **settings)
        stream = with_backfill(self.stream(), "key", checkpoint=self.checkpoint)
        self.pipeline.deploy_natively(made, stream)

    def rollback(self, **options):
        spark = self.pipeline.spark
        return rollback(
            self.checkpoint, "base", migrations=self.folder, spark=spark, wait=0.1, **options
        )

    def holds(self, *live):
        assert self.pipeline.all_state() == self.expected.stored(*live)
        assert self.pipeline.handed_rows == self.expected.output


@pytest.fixture
def query(pipeline, scripts):
    return Query(pipeline, scripts)


def test_no_value_is_forgotten_on_the_way_back_to_the_release_of_before(query):
    query.feed(range(12), CENTS)
    query.plain()
    adopt(query.checkpoint, apply=True, wait=0.1)
    query.feed(range(4), AMOUNTS)
    query.newer()
    for dry in (False, True):
        with pytest.raises(CheckpointError) as refused:
            undo_adoption(query.checkpoint, apply=not dry, wait=0.1)
        assert refused.value.data == {
            "path": str(query.checkpoint), "batch": 1, "families": {NEWER: 4}
        }  # fmt: skip
    found = query.rollback(undo=True, apply=True)
    assert (found.step, found.left, found.did) == ("deploy", 4, ())
    query.feed([0], CENTS)
    query.older()
    assert query.rollback(undo=True).step == "backfill"
    planned = query.rollback(undo=True, apply=True)
    assert (planned.step, planned.left) == ("drain", 3)
    query.older()
    query.expected.drain(CENTS)
    assert query.rollback().is_done
    before = query.pipeline.all_state()
    assert query.rollback(undo=True).step == "undo"
    done = query.rollback(undo=True, apply=True)
    assert (done.step, done.stores[0].in_target, len(done.did)) == ("done", 12, 2)
    assert query.pipeline.all_state() == before
    assert query.rollback(undo=True).is_done
    query.feed(range(6), CENTS)
    query.plain()
    query.holds(CENTS)


def test_plain_code_on_named_sources_is_named_with_its_batch_when_migrated_code_comes_back(
    query, monkeypatch
):
    spark = query.pipeline.spark
    reader = spark.readStream.schema(query.pipeline.rows).option("maxFilesPerTrigger", 1)
    folder = f"{query.pipeline.input}/*.parquet"
    monkeypatch.setattr(query, "stream", lambda: reader.name("rows").parquet(folder))
    spark.conf.set(NAMED, "true")
    # Spark keeps the metadata of a run for so many batches; what it forgets is in the state still.
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    try:
        query.feed(range(6), CENTS)
        query.plain()
        query.feed(range(3), AMOUNTS)
        query.newer()
        with pytest.raises(CheckpointError, match="would forget 3 values"):
            undo_adoption(query.checkpoint)
        for number in range(6):
            query.pipeline.feed(batch(f"plain {number}", range(2)))
        query.plain()
        with pytest.raises(StartupError) as soon:
            query.newer()
        assert (soon.value.data["families"], soon.value.data["batch"]) == ([NEWER], 2)
        for number in range(6):
            query.pipeline.feed(batch(f"restarted {number}", range(2)))
            query.plain()
        kept = query.checkpoint / "state/0/_metadata/v2"
        assert not any(NEWER in each.read_text() for each in kept.iterdir() if each.name.isdigit())
        with pytest.raises(StartupError, match=r"ran on this checkpoint, in batch \d+ or before"):
            query.newer()
    finally:
        spark.conf.unset(NAMED)
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")


def test_a_step_without_a_way_back_is_refused_before_anything(query, scripts, run):
    query.feed(range(6), CENTS)
    query.plain()
    adopt(query.checkpoint, apply=True, wait=0.1)
    query.feed(range(2), AMOUNTS)
    query.newer()
    scripts.write(amounts=AMOUNTS_SCRIPT.partition("def downgrade")[0])
    with pytest.raises((LineageError, StartupError)) as refused:
        query.rollback(apply=True)
    assert refused.value.data["revision"] == AMOUNTS
    query.folder = scripts.write()
    words = ("rollback", str(query.checkpoint), "--to", "base", "--migrations", str(query.folder))
    found = json.loads(run(*words, "--json", code=1).stdout)
    assert (found["step"], found["left"], found["is_done"]) == ("deploy", 2, False)


def test_values_of_lists_maps_and_those_that_expire_are_values_too(spark, tmp_path, scripts):
    """Undoing counts them all, in its dry run too."""
    words = NativePipeline(spark, tmp_path / "words", rows=ROWS, output=OUTPUT)
    folder = write_scripts(Scripts(tmp_path / "migrations"))
    live = [("k0", "new", "add"), ("k1", "c", "remove"), ("k8", "fresh", "add")]
    families = {f"words@{LIST}", f"counts@{MAP}"}
    _is_refused(words, (Words(), FIRST), (NewWords(), live), folder, families)
    # With processing time Spark would run empty batches without end.
    spark.conf.set(NO_DATA, "false")
    try:
        tally = NativePipeline(spark, tmp_path / "tally", time_mode="ProcessingTime")
        folder = scripts.write(amounts=f'{AMOUNTS_SCRIPT}\ntime_to_live = "restart"\n')
        first, second = (batch(name, range(3)) for name in ("first", "second"))
        _is_refused(tally, (ExpiringCents(), first), (ExpiringAmounts(), second), folder, {NEWER})
    finally:
        spark.conf.unset(NO_DATA)


def _is_refused(pipeline, before, after, folder, families):
    pipeline.feed(before[1])
    pipeline.deploy_natively(before[0])
    adopt(pipeline.checkpoint, apply=True, wait=0.1)
    pipeline.feed(after[1])
    made = migrated(after[0], migrations=folder, checkpoint=pipeline.checkpoint)
    stream = with_backfill(pipeline.stream(), "key", checkpoint=pipeline.checkpoint)
    pipeline.deploy_natively(made, stream)
    kept = tree(pipeline.checkpoint)
    for apply in (False, True):
        with pytest.raises(CheckpointError) as refused:
            undo_adoption(pipeline.checkpoint, apply=apply, wait=0.1)
        found = refused.value.data["families"]
        assert set(found) == families
        assert min(found.values()) > 0
    assert tree(pipeline.checkpoint) == kept


@pytest.fixture
def run():
    from click.testing import CliRunner

    def run_one(*arguments, code=0):
        result = CliRunner().invoke(main, arguments, prog_name="statemigrate")
        assert result.exit_code == code, result.output
        return result

    return run_one
