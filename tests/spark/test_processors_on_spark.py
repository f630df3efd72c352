"""How the engine treats a processor, its output and its trigger."""

import threading

import pytest
from pipelines import Pipeline
from tally import AMOUNTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import BackfillOptions, migrated
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.versions import retained_versions

pytestmark = pytest.mark.spark

ROWS = batch("first", range(20))


class HoldsALock(CentsTally):
    """What ``init`` opens lives where the rows are, and need not travel."""

    def init(self, handle):
        assert not hasattr(self, "lock"), "init runs once on an instance"
        super().init(handle)
        self.lock = threading.Lock()

    def handleInputRows(self, key, rows, timer_values):
        with self.lock:
            yield from super().handleInputRows(key, rows, timer_values)


@pytest.mark.long(weight=1 / 3)
def test_init_may_open_what_cannot_be_pickled(pipeline):
    pipeline.feed(ROWS, ROWS)
    processor = HoldsALock()
    pipeline.deploy(processor)
    assert {value["n"] for value in pipeline.stored()["tally"].values()} == {2}
    assert vars(processor) == {}, "the caller's instance is left as it was"


class ManyRows(CentsTally):
    def handleInputRows(self, key, rows, timer_values):
        for row in super().handleInputRows(key, rows, timer_values):
            yield from ((*tuple(row)[:3], str(n), n) for n in range(25_000))


class NoRows(CentsTally):
    def handleInputRows(self, key, rows, timer_values):
        list(super().handleInputRows(key, rows, timer_values))
        return iter(())


@pytest.mark.long(weight=1 / 3)
def test_a_key_may_give_more_rows_than_an_arrow_batch_holds_or_none(pipeline):
    pipeline.feed(batch("first", [1]))
    pipeline.deploy(ManyRows())
    pipeline.feed(ROWS)
    pipeline.deploy(NoRows())
    assert sorted(row[4] for row in pipeline.handed_by_batch[0]) == list(range(25_000))
    assert pipeline.handed_by_batch[1] == []
    assert pipeline.stored()["tally"]["k1"]["n"] == 2


def test_a_sink_that_reads_its_rows_twice_does_not_run_the_batch_twice(spark, tmp_path):
    pipeline = Pipeline(spark, tmp_path / "pipeline")
    counts = []
    pipeline.sink = lambda rows, number: counts.extend([rows.count(), rows.count()])
    pipeline.feed(ROWS)
    pipeline.deploy(CentsTally())
    assert counts == [20, 20]
    changelogs = list(pipeline.checkpoint.glob("statemigrate/partitions/*/*.changelog"))
    assert len(changelogs) == 2, "one a partition"
    assert {value["n"] for value in pipeline.stored()["tally"].values()} == {1}


@pytest.mark.long
def test_available_now_ends_by_itself_with_all_input_processed(pipeline, scripts):
    pipeline.feed(ROWS)
    pipeline.deploy(CentsTally())
    pipeline.feed(batch("second", range(5)), batch("third", range(5, 8)))
    code = migrated(AmountsTally(), migrations=scripts.write())
    small = BackfillOptions(initial_rows=2, maximum_rows=2)
    running = pipeline.query(code, backfill=small).start(availableNow=True)
    assert running.awaitTermination(60)
    assert sum(each.rows for each in running.progress) == 8
    assert sum(each.backfilled for each in running.progress) > 0

    pipeline.deploy(code)
    expected = Expected()
    expected.process(ROWS, "base")
    for rows in (batch("second", range(5)), batch("third", range(5, 8))):
        expected.process(rows, AMOUNTS)
    expected.drain(AMOUNTS)
    assert pipeline.stored() == expected.stored(AMOUNTS)
    assert pipeline.handed_rows == expected.output


class Broken(CentsTally):
    def handleInputRows(self, key, rows, timer_values):
        for row in super().handleInputRows(key, rows, timer_values):
            if key == ("k7",):
                raise ZeroDivisionError("a mistake of the user's own")
            yield row


@pytest.mark.long
def test_an_error_of_the_users_own_code_leaves_nothing_behind(pipeline):
    pipeline.feed(ROWS)
    with pytest.raises(Exception, match="ZeroDivisionError: a mistake of the user's own"):
        pipeline.deploy(Broken())
    assert retained_versions(Layout.of(pipeline.checkpoint)) == []
    pipeline.deploy(CentsTally())
    expected = Expected()
    expected.process(ROWS, "base")
    assert pipeline.stored() == expected.stored("base")
    assert pipeline.handed_rows == expected.output
