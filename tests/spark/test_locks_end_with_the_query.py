"""However a query ends, the next one may start: in this process at once, in another soon."""

import pytest
from support.waiting import eventually
from tally import CENTS, CentsTally, Expected, batch

from statemigrate.embedded.layout import DirectoryLock, Layout
from statemigrate.embedded.offline import release_ended
from statemigrate.errors import CheckpointInUseError

pytestmark = pytest.mark.spark

ROWS = batch("one", range(20))


def failed(pipeline):
    """A query that ended with an error, and that nobody has waited for by its own methods."""
    pipeline.fail_on = {0}
    running = pipeline.query(CentsTally()).start()
    with pytest.raises(Exception, match="refuses batch 0 once"):
        pipeline.spark.streams.awaitAnyTermination()
    pipeline.spark.streams.resetTerminated()
    return running


def stopped(pipeline):
    running = pipeline.query(CentsTally()).start()
    running.query.processAllAvailable()
    running.query.stop()
    return running


def ended(pipeline):
    running = pipeline.query(CentsTally()).start(availableNow=True)
    pipeline.spark.streams.awaitAnyTermination()
    pipeline.spark.streams.resetTerminated()
    return running


@pytest.mark.parametrize(
    "end",
    [
        stopped,
        pytest.param(failed, marks=pytest.mark.long(weight=1 / 2)),
        pytest.param(ended, marks=pytest.mark.long(weight=1 / 3)),
    ],
)
def test_a_restart_in_the_same_process_works_at_once(pipeline, end):
    pipeline.spark.streams.resetTerminated()
    pipeline.feed(ROWS)
    end(pipeline)
    pipeline.deploy(CentsTally())
    expected = Expected()
    expected.process(ROWS, CENTS)
    assert pipeline.stored() == expected.stored(CENTS)


def test_the_locks_of_a_query_nobody_asks_about_are_released_for_other_processes(pipeline):
    pipeline.feed(ROWS)
    running = stopped(pipeline)
    lock = Layout.of(pipeline.checkpoint).lock

    def free():
        try:
            DirectoryLock(lock, "the checkpoint").release()
        except CheckpointInUseError:
            return False
        return True

    eventually(free)
    assert running.has_ended()


def test_a_query_that_runs_keeps_its_locks(pipeline):
    pipeline.feed(ROWS)
    running = pipeline.query(CentsTally()).start()
    try:
        running.processAllAvailable()
        release_ended()
        with pytest.raises(CheckpointInUseError, match="is in use"):
            pipeline.query(CentsTally()).start()
    finally:
        running.stop()
