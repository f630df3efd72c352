"""Of two drivers on Spark's own state the one that began last writes; the other one's sink rests.

The other driver is its epoch here: that is all that the two know of each other.
"""

import pytest
from function_deployments import Deployments
from paged_pipeline import PagedPipeline
from tally import AMOUNTS, AmountsTally, CentsTally, batch

from statemigrate import fenced, migrated
from statemigrate.checkpoint.epochs import claim, newest_epoch
from statemigrate.errors import CheckpointInUseError
from statemigrate.files import LocalFiles

pytestmark = pytest.mark.spark
REFUSED = "epoch {} of process "


@pytest.fixture(params=["variables", "pages"])
def deployment(request, pipeline, scripts, spark, tmp_path):
    """What starts a migrating query, once some keys have their values in the older format."""
    folder = scripts.write()
    pipeline.feed(batch("first", range(12)))
    if request.param == "variables":
        pipeline.deploy_natively(CentsTally())
    else:
        pipeline = PagedPipeline(spark, pipeline.root)
        pipeline.deploy_natively(
            migrated(CentsTally(), migrations=folder, targets={"tally": "base"})
        )

    def start():
        if request.param == "pages":
            return pipeline.start(pipeline.result(migrated(AmountsTally(), migrations=folder)))
        processor = migrated(AmountsTally(), migrations=folder, checkpoint=pipeline.checkpoint)
        return pipeline.start(pipeline.result(processor))

    return pipeline, start


@pytest.mark.long
def test_an_overtaken_driver_neither_calls_its_sink_nor_commits(deployment):
    pipeline, start = deployment
    files = LocalFiles(pipeline.checkpoint)
    before = newest_epoch(files)
    query = start()
    try:
        pipeline.feed(batch("second", range(4)))
        query.processAllAvailable()
        assert newest_epoch(files) == before + 1
        other = claim(files, "another driver")
        pipeline.feed(batch("third", range(4, 8)))
        with pytest.raises(Exception, match=REFUSED.format(other.number)):
            query.processAllAvailable()
    finally:
        query.stop()
    assert [number for number, _ in pipeline.handed] == [0, 1]
    assert "2" not in [path.name for path in (pipeline.checkpoint / "commits").iterdir()]
    assert (pipeline.checkpoint / "offsets/2").exists()
    # Whoever starts next goes on, and nothing was written twice.
    query = start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    other.files.get(f"statemigrate/epochs/{other.number + 1}.json")
    assert [number for number, _ in pipeline.handed] == [0, 1, 2]
    assert {row[0] for row in pipeline.handed_by_batch[2]} == {f"k{n}" for n in range(4, 8)}
    assert {(row[1], row[4]) for row in pipeline.handed_by_batch[2]} == {(2, 1)}


@pytest.mark.long(weight=1 / 2)
def test_a_driver_that_is_overtaken_while_its_sink_writes_leaves_the_commit_to_the_other(pipeline):
    """Whatever the code is: this is compared on the driver, and it begins before its first call."""
    files = LocalFiles(pipeline.checkpoint)
    original = pipeline.sink

    def sink(rows, number):
        original(rows, number)
        if number == 1:
            claim(files, "another driver")

    pipeline.sink = fenced(sink, checkpoint=pipeline.checkpoint)
    pipeline.feed(batch("first", range(4)))
    pipeline.deploy_natively(CentsTally())
    assert newest_epoch(files) == 1
    pipeline.feed(batch("second", range(4)))
    with pytest.raises(Exception, match=REFUSED.format(2)):
        pipeline.deploy_natively(CentsTally())
    assert [number for number, _ in pipeline.handed] == [0, 1]
    assert [path.name for path in (pipeline.checkpoint / "commits").glob("[0-9]*")] == ["0"]


def test_tasks_of_a_function_see_that_their_driver_was_overtaken(pipeline, scripts):
    deployments = Deployments(pipeline, scripts.write())
    original = pipeline.sink
    pipeline.sink = fenced(original, checkpoint=pipeline.checkpoint)
    deployments.run(AMOUNTS, batch("first", range(4)), checkpoint=pipeline.checkpoint)
    assert [number for number, _ in pipeline.handed] == [0]
    other = claim(LocalFiles(pipeline.checkpoint), "another driver")
    pipeline.sink = original
    with pytest.raises(Exception, match=REFUSED.format(other.number)):
        deployments.run(AMOUNTS, batch("second", range(4)), checkpoint=pipeline.checkpoint)
    assert [number for number, _ in pipeline.handed] == [0]


def test_of_two_wrappers_the_one_of_the_driver_that_began_last_may_write(tmp_path):
    """Without a query: what `fenced` compares, and with what."""
    files, handed = LocalFiles(tmp_path), []
    sink = fenced(lambda rows, number: handed.append((rows, number)), checkpoint=tmp_path)
    sink("rows", 0)
    claim(files, "another driver")
    with pytest.raises(CheckpointInUseError) as raised:
        sink("rows", 1)
    assert raised.value.found.startswith("epoch 2 of process ")
    assert handed == [("rows", 0)]
    # It has not begun by itself again: only a new start does that.
    assert newest_epoch(files) == 2
    again = fenced(lambda rows, number: handed.append((rows, number)), checkpoint=tmp_path)
    again("rows", 1)
    assert (newest_epoch(files), handed[1:]) == (3, [("rows", 1)])
