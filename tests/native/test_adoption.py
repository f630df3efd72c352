"""Existing queries get the backfill source, lose it and get it again, on real Spark."""

import json
from threading import Timer

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions
from support.sessions import spark_version
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import migrated
from statemigrate.errors import CheckpointError, CheckpointInUseError
from statemigrate.native.adoption import adopt, undo_adoption
from statemigrate.native.control_rows import MARKER

pytestmark = pytest.mark.spark


class Story:
    """A query of cents that goes on with amounts, with or without a backfill source."""

    def __init__(self, pipeline, folder):
        self.pipeline = pipeline
        self.folder = folder
        self.expected = Expected()
        self.checkpoint = str(pipeline.checkpoint)
        self.control = pipeline.root / "control"
        self.control.mkdir()

    def feed(self, name, keys, target):
        rows = batch(name, keys)
        self.pipeline.feed(rows)
        self.expected.process(rows, target)

    def ask(self, keys, *, expected=True):
        """Add a file of control rows, one batch's worth."""
        query = json.loads((self.pipeline.checkpoint / "metadata").read_text())["id"]
        rows = [json.dumps({"key": f"k{number}", MARKER: query}) for number in keys]
        (self.control / f"{len(list(self.control.iterdir()))}.json").write_text("\n".join(rows))
        if expected:
            for number in keys:
                self.expected.move(f"k{number}", AMOUNTS)

    def with_control(self, stream):
        marked = stream.withColumn(MARKER, functions.lit(None).cast("string"))
        reader = self.pipeline.spark.readStream.schema(marked.schema)
        return marked.unionByName(reader.option("maxFilesPerTrigger", 1).json(str(self.control)))

    def cents(self, stream=None):
        return self.pipeline.deploy_natively(CentsTally(), stream)

    def amounts(self, stream=None, *, control):
        stream = self.pipeline.stream() if stream is None else stream
        processor = migrated(AmountsTally(), migrations=self.folder)
        stream = self.with_control(stream) if control else stream
        return self.pipeline.deploy_natively(processor, stream)

    def kill_last_batch(self):
        """Take the newest commit away, which is all that Spark sees of a killed batch."""
        commits = self.pipeline.checkpoint / "commits"
        newest = max(int(each.name) for each in commits.iterdir() if each.name.isdecimal())
        (commits / str(newest)).unlink()
        (commits / f".{newest}.crc").unlink()

    def check(self):
        assert self.pipeline.all_state() == self.expected.stored(CENTS, AMOUNTS)
        assert self.pipeline.handed_rows == self.expected.output


@pytest.fixture
def story(pipeline, scripts):
    return Story(pipeline, scripts.write())


def do(command, story, **options):
    return command(story.checkpoint, apply=True, wait=0.1, **options)


def inputs(query):
    """The rows of each source, by batch."""
    return [[each.numInputRows for each in progress.sources] for progress in query.recentProgress]


@pytest.mark.long
def test_a_query_is_adopted_undone_and_adopted_again(story):
    for number in range(2):
        story.feed(f"first {number}", range(number, 20), CENTS)
    story.cents()
    with pytest.raises(StreamingQueryException, match=r"There are \[1\] sources in the checkpoint"):
        story.amounts(control=True)
    assert do(adopt, story).state == "prepared"
    story.feed("second", range(3), AMOUNTS)
    story.ask(range(2, 8))
    assert inputs(story.amounts(control=True)) == [[3, 6]]
    story.check()
    with pytest.raises(StreamingQueryException, match=r"There are \[2\] sources in the checkpoint"):
        story.amounts(control=False)
    # Code that is migrated too declares the family; plain code does not.
    declared = {"declared": ["tally@aaaa11112222"]}
    with pytest.raises(CheckpointError) as refused:
        do(undo_adoption, story)
    assert refused.value.data["families"] == {"tally@aaaa11112222": 8}
    assert do(undo_adoption, story, **declared).moved == "sources/1"
    story.feed("third", range(6, 10), AMOUNTS)
    assert inputs(story.amounts(control=False)) == [[4]]
    story.check()
    assert do(adopt, story).state == "prepared"
    story.ask(range(20))
    assert inputs(story.amounts(control=True)) == [[0, 6], [0, 20]]
    story.check()
    assert story.pipeline.state("tally") == {}


@pytest.mark.long
def test_a_killed_batch_runs_again_after_adopting_and_after_undoing(story):
    story.feed("first", range(20), CENTS)
    before = story.expected.copy()
    story.feed("second", range(10), CENTS)
    story.cents()
    story.kill_last_batch()
    do(adopt, story, stopped=True)
    story.expected = before
    story.expected.process(batch("second", range(10)), AMOUNTS)
    story.ask([12])
    assert inputs(story.amounts(control=True)) == [[10, 0], [0, 1]]
    story.check()
    before = story.expected.copy()
    story.feed("third", [1, 13], AMOUNTS)
    story.ask([13, 14, 15])
    assert inputs(story.amounts(control=True)) == [[2, 3]]
    story.check()
    story.kill_last_batch()
    with pytest.raises(CheckpointInUseError, match=r"batch 3 in .* was not committed"):
        do(undo_adoption, story, declared=["tally@aaaa11112222"])
    do(undo_adoption, story, stopped=True, declared=["tally@aaaa11112222"])
    story.expected = before
    story.expected.process(batch("third", [1, 13]), AMOUNTS)
    assert inputs(story.amounts(control=False)) == [[2]]
    story.check()
    do(adopt, story)
    story.amounts(control=True)
    for number in (14, 15):
        story.expected.move(f"k{number}", AMOUNTS)
    story.check()


@pytest.mark.long
@pytest.mark.parametrize("killed", [False, True])
def test_a_query_of_two_sources_and_one_batch(story, killed):
    other = story.pipeline.root / "other"
    other.mkdir()
    (other / "0.json").write_text('{"key": "k1", "cents": 5, "name": "first"}')

    def both():
        reader = story.pipeline.spark.readStream.schema(story.pipeline.rows)
        return story.pipeline.stream().union(reader.json(str(other)))

    story.feed("first", range(4), CENTS)
    story.cents(both())
    if killed:
        story.kill_last_batch()
    offsets = story.pipeline.checkpoint / "offsets"
    before = {each.name: each.read_bytes() for each in offsets.iterdir()}
    do(adopt, story, stopped=True)
    do(undo_adoption, story, stopped=True)
    assert {each.name: each.read_bytes() for each in offsets.iterdir()} == before
    do(adopt, story, stopped=True)
    story.ask([3], expected=False)
    query = story.amounts(both(), control=True)
    assert inputs(query) == ([[4, 1, 0]] if killed else []) + [[0, 0, 1]]
    target = AMOUNTS if killed else CENTS
    story.expected = Expected()
    story.expected.process([*batch("first", range(4)), ("k1", 5, "first")], target)
    story.expected.move("k3", AMOUNTS)
    if killed:
        # Spark has the variables of batch 0 from its first run; a new start lists the new ones.
        assert story.pipeline.variables() == {"tally"}
        story.feed("second", [1], AMOUNTS)
        story.amounts(both(), control=True)
    story.check()


@pytest.mark.skipif(spark_version() < (4, 3), reason="Spark keeps the names of sources from 4.3 on")
@pytest.mark.long(weight=1 / 3)
def test_a_query_with_named_sources_needs_nothing(story):
    spark = story.pipeline.spark
    spark.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    try:
        reader = spark.readStream.name("rows").schema(story.pipeline.rows)
        story.feed("first", range(3), CENTS)
        story.cents(reader.parquet(str(story.pipeline.input)))
    finally:
        spark.conf.unset("spark.sql.streaming.queryEvolution.enableSourceEvolution")
    newest = story.pipeline.checkpoint / "offsets" / "0"
    before = newest.read_bytes()
    assert before.split(b"\n")[2:] == [b'rows:{"logOffset":0}']
    assert do(adopt, story).state == "nothing needed"
    assert newest.read_bytes() == before
    assert not (story.pipeline.checkpoint / "statemigrate").exists()


def test_a_running_query_is_noticed(story):
    story.feed("first", range(3), CENTS)
    query = story.pipeline.start(story.pipeline.result(CentsTally()))
    try:
        query.processAllAvailable()
        feeding = Timer(0.2, lambda: story.feed("second", range(3), CENTS))
        feeding.start()
        with pytest.raises(CheckpointInUseError, match="a query is running on"):
            adopt(story.checkpoint, apply=True, wait=3)
        feeding.join()
        query.processAllAvailable()
    finally:
        query.stop()
    assert not (story.pipeline.checkpoint / "statemigrate").exists()
    assert story.pipeline.handed_rows == story.expected.output
