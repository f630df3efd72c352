"""Durable files that are not what was written: named, and never half believed."""

import pytest
from pipelines import Pipeline
from refusals import contents, copied, refused
from stored_state import manifest_of
from tally import CENTS, CentsTally, Expected, batch

from statemigrate.commands.repair import repair
from statemigrate.errors import CheckpointError, CorruptFileError, StorageError

pytestmark = pytest.mark.spark

BATCHES = [batch(f"b{n}", range(n, n + 20)) for n in range(3)]
NEXT = batch("next", range(30))


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory) -> Pipeline:
    """Three batches, three changelogs a partition, no snapshot."""
    made = Pipeline(spark, tmp_path_factory.mktemp("template"))
    made.feed(*BATCHES)
    made.deploy(CentsTally())
    return made


@pytest.fixture
def pipeline(spark, template, tmp_path) -> Pipeline:
    return copied(spark, template, tmp_path / "pipeline")


def changelog(pipeline: Pipeline, version: int):
    state = manifest_of(pipeline.checkpoint).partitions[1]
    assert [each.file.name[:12] for each in state.changelogs] == [f"{n:012d}" for n in range(3)]
    return pipeline.checkpoint / "statemigrate/partitions/1" / state.changelogs[version].file.name


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.long(weight=1 / 3)
@pytest.mark.parametrize(
    "damage", [cut, flip, lambda path: path.unlink()], ids=["cut", "bit", "gone"]
)
@pytest.mark.parametrize("version", [0, 2])
def test_a_damaged_changelog_is_named_and_the_batch_waits_for_its_return(pipeline, damage, version):
    path = changelog(pipeline, version)
    intact = path.read_bytes()
    damage(path)
    pipeline.feed(NEXT)
    error = refused(
        CorruptFileError, lambda: pipeline.deploy(CentsTally()), str(path), "restore the checkpoint"
    )
    assert error.data["path"] == str(path)
    assert pipeline.handed == []

    path.write_bytes(intact)
    pipeline.deploy(CentsTally())
    expected = Expected()
    for rows in (*BATCHES, NEXT):
        expected.process(rows, CENTS)
    assert pipeline.stored() == expected.stored(CENTS)


@pytest.mark.parametrize(
    "damage", [cut, flip, lambda path: path.unlink()], ids=["cut", "bit", "gone"]
)
def test_a_damaged_manifest(pipeline, damage):
    path = pipeline.checkpoint / "statemigrate/versions/2-1.json"
    damage(path)
    before = contents(pipeline.checkpoint)
    place = str(path) if path.exists() else str(path).replace("2-1", "2-*")
    refused(CorruptFileError, lambda: pipeline.query(CentsTally()).start(), place)
    assert contents(pipeline.checkpoint) == before


@pytest.mark.long(weight=1 / 3)
def test_a_damaged_snapshot_is_made_up_for_by_the_version_before(spark, tmp_path, caplog):
    pipeline = Pipeline(spark, tmp_path / "pipeline")
    pipeline.feed(*BATCHES)
    pipeline.deploy(CentsTally(), snapshot_every=1)
    snapshot = manifest_of(pipeline.checkpoint).partitions[0].snapshot
    assert snapshot is not None
    files = pipeline.checkpoint / "statemigrate/partitions/0/files"
    largest = max(files.iterdir(), key=lambda path: path.stat().st_size)
    # A hard link may share the content with the working copy.
    data = bytearray(largest.read_bytes())
    largest.unlink()
    data[9] ^= 1
    largest.write_bytes(data)
    pipeline.lose_working_copy()
    pipeline.feed(NEXT)
    pipeline.deploy(CentsTally(), snapshot_every=1)
    assert any(str(largest) in each and "is altered" in each for each in caplog.messages)
    expected = Expected()
    for rows in (*BATCHES, NEXT):
        expected.process(rows, CENTS)
    assert pipeline.stored() == expected.stored(CENTS)


def test_a_checkpoint_of_a_query_without_this_engine(spark, tmp_path):
    pipeline = Pipeline(spark, tmp_path / "pipeline")
    pipeline.feed(BATCHES[0])
    writer = pipeline.stream().writeStream.foreachBatch(lambda rows, number: None)
    query = writer.option("checkpointLocation", str(pipeline.checkpoint)).start()
    query.processAllAvailable()
    query.stop()
    before = contents(pipeline.checkpoint)
    refused(
        CheckpointError, lambda: pipeline.query(CentsTally()).start(),
        "belongs to a query that does not use the embedded engine", "a checkpoint of its own",
    )  # fmt: skip
    assert contents(pipeline.checkpoint) == before


def test_a_directory_that_cannot_be_written(pipeline, tmp_path):
    # Permissions do not stop root; a file in the place of a directory does.
    (tmp_path / "file").write_text("")
    pipeline.root = tmp_path / "file"
    refused(
        CheckpointError,
        lambda: pipeline.query(CentsTally(), working_directory=str(tmp_path / "working")).start(),
        f"cannot write in {tmp_path / 'file' / 'checkpoint'}", "permissions or free space",
    )  # fmt: skip


def test_a_remote_checkpoint_whose_connector_is_missing(spark, pipeline):
    from statemigrate import EmbeddedQuery

    def start():
        stream = pipeline.stream()
        EmbeddedQuery(
            stream, by="key", processor=CentsTally(), outputStructType=pipeline.output,
            checkpoint="s3://bucket/checkpoint", sink=pipeline.sink,
        ).start()  # fmt: skip

    refused(StorageError, start, "s3://bucket/checkpoint", "org.apache.hadoop:hadoop-aws", "s3a://")


@pytest.mark.parametrize("version", [pytest.param(0, marks=pytest.mark.long(weight=1 / 3)), 1])
def test_a_query_that_is_set_back_runs_its_batches_again(pipeline, version):
    before = pipeline.stored()
    found = repair(str(pipeline.checkpoint), back_to=version, apply=True)
    assert (found.is_whole, found.batch) == (True, version)
    pipeline.deploy(CentsTally())
    assert pipeline.stored() == before
    assert [number for number, _ in pipeline.handed] == list(range(version + 1, len(BATCHES)))
