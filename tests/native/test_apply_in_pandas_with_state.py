"""State of ``applyInPandasWithState``, in an envelope, migrated by a wrapped function."""

import pytest
from function_deployments import CONTROL_ROWS, Deployments
from tally import AMOUNTS, CENTS, NESTED, NESTED_SCRIPT, batch
from tally_functions import LOOK, Tally, envelopes

from statemigrate import migrated

pytestmark = pytest.mark.spark


@pytest.fixture
def deployments(pipeline, scripts):
    return Deployments(pipeline, scripts.write())


def test_touched_values_are_migrated_and_the_others_stay(deployments):
    deployments.process(CENTS, batch("first", range(12)))
    deployments.process(AMOUNTS, batch("second", range(8, 16), rows_a_key=2))
    assert deployments.stored() == envelopes(deployments.expected)
    assert deployments.pipeline.handed_rows == deployments.expected.output


def test_a_read_migrates_too(deployments):
    deployments.process(CENTS, batch("first", range(8)))
    deployments.run(AMOUNTS, batch(LOOK, range(0, 8, 2)))
    for number in range(0, 8, 2):
        deployments.expected.move(f"k{number}", AMOUNTS)
    assert deployments.stored() == envelopes(deployments.expected)


@pytest.mark.long(weight=1 / 4)
def test_reads_leave_values_where_they_are_when_told_so(deployments):
    deployments.process(CENTS, batch("first", range(8)))
    deployments.run(AMOUNTS, batch(LOOK, range(8)), write_on_read=False)
    assert deployments.stored() == envelopes(deployments.expected)
    seen = dict(deployments.pipeline.handed)[1]
    assert sorted(seen) == [(f"k{number}", 1, 3 * number + 7, "first", 1) for number in range(8)]


@pytest.mark.long
def test_three_revisions_and_the_way_back(pipeline, scripts):
    deployments = Deployments(pipeline, scripts.write(nested=NESTED_SCRIPT))
    deployments.process(CENTS, batch("first", range(12)))
    deployments.process(AMOUNTS, batch("second", range(8)))
    deployments.process(NESTED, batch("third", range(0, 14, 3)))
    deployments.process(NESTED, batch("fourth", range(5, 10)))
    assert deployments.stored() == envelopes(deployments.expected)
    deployments.process(AMOUNTS, batch("fifth", range(6)))
    deployments.process(CENTS, batch("sixth", range(4, 9)))
    assert deployments.stored() == envelopes(deployments.expected)
    assert pipeline.handed_rows == deployments.expected.output
    assert {revision for revision, _ in deployments.stored().values()} == {CENTS, AMOUNTS, NESTED}


def test_a_decorated_function_travels_without_its_scripts(deployments, scripts):
    deployments.process(CENTS, batch("first", range(6)))
    looks_like = Tally(AMOUNTS)

    @migrated(store="tally", migrations=deployments.folder)
    def tally(key, pdfs, state):
        """A tally."""
        return list(looks_like(key, pdfs, state))

    assert (tally.__name__, tally.__doc__) == ("tally", "A tally.")
    scripts.write(amounts=None)
    rows = batch("second", range(3, 9))
    deployments.pipeline.feed(rows)
    deployments.start(tally)
    deployments.expected.process(rows, AMOUNTS)
    assert deployments.stored() == envelopes(deployments.expected)


@pytest.mark.long(weight=1 / 3)
def test_the_default_state_store_will_do(deployments, spark):
    provider = "spark.sql.streaming.stateStore.providerClass"
    rocksdb = spark.conf.get(provider)
    spark.conf.unset(provider)
    hdfs = spark.conf.get(provider)
    assert "HDFSBacked" in hdfs
    try:
        deployments.process(CENTS, batch("first", range(6)))
        deployments.run(
            AMOUNTS, batch("second", range(3)), checkpoint=deployments.pipeline.checkpoint
        )
        deployments.expected.process(batch("second", range(3)), AMOUNTS)
        assert deployments.stored() == envelopes(deployments.expected)
    finally:
        spark.conf.set(provider, rocksdb)


def test_control_rows_migrate_their_keys_and_are_not_seen(deployments):
    deployments.process(CENTS, batch("first", range(10)))
    pipeline = deployments.pipeline
    query = deployments.query_id()
    live = [(*row, None) for row in batch("second", range(2))]
    control = [(f"k{number}", None, None, query) for number in (1, 2, 3, 77)]
    pipeline.rows = CONTROL_ROWS
    deployments.run(AMOUNTS, live + control)
    deployments.expected.process(batch("second", range(2)), AMOUNTS)
    for number in (2, 3):
        deployments.expected.move(f"k{number}", AMOUNTS)
    assert deployments.stored() == envelopes(deployments.expected)
    assert pipeline.handed_rows == deployments.expected.output
