"""What a start-up check saw is compared with the query that runs, before anything is touched."""

import json
import shutil

import pytest
from pyspark.errors import StreamingQueryException
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import migrated
from statemigrate.errors import CheckpointError

pytestmark = pytest.mark.spark


class Deployments:
    """Deployments on one checkpoint, each compared with the plain computation."""

    def __init__(self, pipeline, folder):
        self.pipeline, self.folder = pipeline, folder
        self.expected = Expected()

    def made(self, code=AmountsTally, checkpoint=None, **settings):
        at = checkpoint or self.pipeline.checkpoint
        return migrated(code(), migrations=self.folder, checkpoint=at, **settings)

    def run(self, processor, revision, rows):
        self.pipeline.feed(rows)
        self.pipeline.deploy_natively(processor)
        self.expected.process(rows, revision)

    def refused(self, processor, message):
        """Started, it ends with ``message``; the state is what it was."""
        before = self.pipeline.all_state()
        with pytest.raises(StreamingQueryException, match=message) as caught:
            self.pipeline.deploy_natively(processor)
        assert "next: " in str(caught.value)
        assert self.pipeline.all_state() == before


@pytest.fixture
def deployments(pipeline, scripts):
    return Deployments(pipeline, scripts.write())


@pytest.mark.long
def test_a_checkpoint_that_is_not_the_querys_is_refused_and_nothing_is_made_there(
    deployments, pipeline, tmp_path
):
    deployments.run(CentsTally(), CENTS, batch("first", range(20)))
    copy, other = tmp_path / "copy", tmp_path / "other"
    for made in (copy, other):
        shutil.copytree(pipeline.checkpoint, made)
    (other / "metadata").write_text(json.dumps({"id": "00000000-0000-0000-0000-000000000000"}))
    (other / ".metadata.crc").unlink(missing_ok=True)
    rows = batch("second", range(5))
    pipeline.feed(rows)
    typo = tmp_path / "typo"
    deployments.refused(deployments.made(checkpoint=typo), "is not the checkpoint of the query")
    assert not typo.exists()
    for wrong in (copy, other):
        deployments.refused(
            deployments.made(checkpoint=wrong), "is not the checkpoint of the query"
        )
    # The batch that was refused runs with the right one.
    pipeline.deploy_natively(deployments.made())
    deployments.expected.process(rows, AMOUNTS)
    assert pipeline.all_state() == deployments.expected.stored(CENTS, AMOUNTS)


@pytest.mark.long
def test_a_check_is_good_for_the_batch_it_was_made_at(deployments, pipeline):
    deployments.run(CentsTally(), CENTS, batch("first", range(20)))
    early = deployments.made()
    first = deployments.made()
    deployments.run(first, AMOUNTS, batch("second", range(20)))
    # Its own batches change nothing that it does not know of.
    deployments.run(first, AMOUNTS, batch("third", range(3)))
    assert pipeline.all_state() == deployments.expected.stored(CENTS, AMOUNTS)
    drops = deployments.made()
    back = deployments.made(CentsTally, targets={"tally": "base"})
    deployments.run(back, CENTS, batch("fourth", range(20)))
    assert pipeline.all_state() == deployments.expected.stored(CENTS, AMOUNTS)
    pipeline.feed(rows := batch("fifth", range(15, 25)))
    # One would drop the family that is full again, the other not see the one that is new to it.
    deployments.refused(drops, "was compared with .* at another batch")
    deployments.refused(early, "was compared with .* at another batch")
    pipeline.deploy_natively(deployments.made())
    deployments.expected.process(rows, AMOUNTS)
    stored = deployments.expected.stored(CENTS, AMOUNTS)
    assert pipeline.all_state() == stored
    assert len(stored["tally"]) == 15


@pytest.mark.parametrize("path", ["dbfs:/x", "nosuch:/x", "nosuch://bucket/x"])
def test_a_path_of_a_file_system_that_is_not_there_is_an_error(
    deployments, spark, path, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CheckpointError, match="cannot be reached"):
        deployments.made(checkpoint=path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_plain_path_is_where_spark_takes_it_to_be(deployments, spark, tmp_path):
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    before = hadoop.get("fs.defaultFS")
    hadoop.set("fs.defaultFS", "hdfs://name.node:8020/")
    try:
        with pytest.raises(
            CheckpointError, match=r"hdfs://name\.node:8020/.* cannot be reached"
        ) as caught:
            deployments.made(checkpoint=tmp_path / "checkpoint")
    finally:
        hadoop.set("fs.defaultFS", before)
    assert "UnknownHostException: name.node" in caught.value.found


def test_a_directory_of_something_else_is_refused_before_the_start(deployments, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "letter.txt").write_text("dear")
    with pytest.raises(CheckpointError, match="is not the checkpoint of a streaming query"):
        deployments.made(checkpoint=tmp_path / "folder")
