"""Spark's logs and the engine's versions come apart: every value is kept, or the query refuses."""

import json
import shutil

import pytest
from pipelines import Pipeline
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from refusals import contents, copied, refused
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import migrated
from statemigrate.errors import CheckpointError, CorruptFileError

pytestmark = pytest.mark.spark

BATCHES = [batch(f"b{n}", range(10 * n, 10 * n + 40)) for n in range(3)]
NEXT = batch("next", range(30, 70))


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory) -> Pipeline:
    made = Pipeline(spark, tmp_path_factory.mktemp("template"))
    made.feed(*BATCHES)
    made.deploy(CentsTally())
    return made


@pytest.fixture
def pipeline(spark, template, tmp_path) -> Pipeline:
    return copied(spark, template, tmp_path / "pipeline")


def lose(pipeline, *names):
    for name in names:
        path = pipeline.checkpoint / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize(
    "lost",
    [
        pytest.param(("commits",), id="all commits", marks=pytest.mark.long),
        pytest.param(("commits/2", "commits/.2.crc"), id="the last commit"),
    ],
)
def test_without_commits_the_newest_batch_is_repeated_and_every_old_value_migrates(
    pipeline, scripts, lost
):
    lose(pipeline, *lost)
    pipeline.feed(NEXT)
    pipeline.deploy(migrated(AmountsTally(), migrations=scripts.write()))
    expected = Expected()
    for rows, revision in zip((*BATCHES, NEXT), (CENTS, CENTS, AMOUNTS, AMOUNTS), strict=True):
        expected.process(rows, revision)
    expected.drain(AMOUNTS)
    assert [number for number, _ in pipeline.handed[:2]] == [2, 3]
    assert pipeline.stored() == expected.stored(AMOUNTS)


def later_version(pipeline):
    versions = pipeline.checkpoint / "statemigrate" / "versions"
    shutil.copy(versions / "2-1.json", versions / "4-1.json")


def later_offsets(pipeline):
    offsets = pipeline.checkpoint / "offsets"
    shutil.copy(offsets / "2", offsets / "9")


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (
            lambda pipeline: lose(pipeline, "offsets", "commits", "sources"),
            CheckpointError,
            ("run batch 0", "state version 2"),
        ),
        (later_version, CheckpointError, ("run batch 3", "state version 4")),
        (later_offsets, CorruptFileError, ("state version 8 is missing",)),
    ],
    ids=["offsets, commits and sources lost", "a later version", "offsets ahead"],
)
def test_a_batch_that_does_not_belong_to_the_state_is_refused_untouched(
    pipeline, change, kind, said
):
    change(pipeline)
    pipeline.feed(NEXT)
    before = contents(pipeline.checkpoint)
    refused(kind, lambda: pipeline.query(CentsTally()).start(), *said)
    assert contents(pipeline.checkpoint) == before


class Clocked(StatefulProcessor):
    """Keeps and says the time it is told."""

    def init(self, handle):
        self.state = handle.getValueState("last", "at BIGINT")

    def handleInputRows(self, key, rows, timer_values):
        before = self.state.get()
        now = timer_values.getCurrentProcessingTimeInMs()
        self.state.update((now,))
        yield Row(key=key[0], before=None if before is None else before[0], now=now)

    def close(self):
        pass


@pytest.mark.long(weight=1 / 3)
def test_a_batch_that_runs_again_sees_the_time_at_which_it_began(spark, tmp_path):
    pipeline = Pipeline(spark, tmp_path / "clocked", output="key STRING, before BIGINT, now BIGINT")
    pipeline.feed(BATCHES[0], BATCHES[1])
    for _ in range(2):
        pipeline.fail_on = {1}
        with pytest.raises(RuntimeError, match="refuses batch 1 once"):
            pipeline.deploy(Clocked())
    pipeline.deploy(Clocked())
    first, *again = [sorted(rows) for number, rows in pipeline.handed if number == 1]
    assert again == [first, first]
    record = (pipeline.checkpoint / "offsets" / "1").read_text().split("\n")[1]
    assert {now for _, _, now in first} == {json.loads(record)["batchTimestampMs"]}
