"""What a function of ``applyInPandasWithState`` is refused, and what to do with older state."""

import pandas as pd
import pyspark
import pytest
from function_deployments import Deployments
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from tally import AMOUNTS, AMOUNTS_SCRIPT, CENTS, NESTED, NESTED_SCRIPT, batch
from tally_functions import Tally, envelopes

from statemigrate import ENVELOPE, migrated
from statemigrate.errors import CheckpointError, LineageError, StartupError
from statemigrate.native.adoption import adopt
from statemigrate.native.versions import release_line

pytestmark = [pytest.mark.spark, pytest.mark.long(weight=1 / 5)]
# The workers import this module, without the folder of what tests share.
needs_rows = pytest.mark.skipif(
    release_line(pyspark.__version__) < (4, 1), reason="PySpark 4.0 has pandas alone"
)


@pytest.fixture
def deployments(pipeline, scripts):
    return Deployments(pipeline, scripts.write())


def test_a_transform_that_raises_leaves_the_state_as_it_was(deployments, scripts):
    deployments.process(CENTS, batch("first", range(6)))
    broken = AMOUNTS_SCRIPT.replace('Decimal(value["cents"])', 'Decimal(value["penny"])')
    deployments.folder = scripts.write(amounts=broken)
    with pytest.raises(StreamingQueryException) as raised:
        deployments.run(AMOUNTS, batch("second", (4,)))
    message = str(raised.value)
    for part in ("'tally'", "('k4',)", f"{CENTS} to {AMOUNTS}", "KeyError: 'penny'", "amounts.py"):
        assert part in message
    assert deployments.stored() == envelopes(deployments.expected)


def test_a_value_the_format_cannot_hold_is_refused(deployments):
    deployments.process(CENTS, batch("first", range(3)))

    def writes_text(key, pdfs, state):
        state.update(("many", 1, "x", 0))
        return iter(())

    with pytest.raises(StreamingQueryException, match=r"ValueMismatchError: .*\bn\b"):
        deployments.run(CENTS, batch("second", (1,)), function=writes_text)
    assert deployments.stored() == envelopes(deployments.expected)


def test_a_revision_without_a_script_is_refused_by_key(deployments, scripts):
    deployments.folder = scripts.write(nested=NESTED_SCRIPT)
    deployments.process(NESTED, batch("first", range(3)))
    deployments.folder = scripts.write()
    with pytest.raises(StreamingQueryException) as raised:
        deployments.run(AMOUNTS, batch("second", (1,)))
    for part in ("store tally, key ('k1',)", f"unknown revision {NESTED}"):
        assert part in str(raised.value)
    assert deployments.stored() == envelopes(deployments.expected)


def test_a_revision_without_a_way_back_is_refused_by_key(deployments, scripts):
    deployments.process(AMOUNTS, batch("first", range(3)))
    one_way = AMOUNTS_SCRIPT[: AMOUNTS_SCRIPT.index("def downgrade")]
    deployments.folder = scripts.write(amounts=one_way)
    with pytest.raises(StreamingQueryException) as raised:
        deployments.run(CENTS, batch("second", (1,)))
    for part in ("store tally, key ('k1',)", f"cannot go back from {AMOUNTS} to {CENTS}"):
        assert part in str(raised.value)
    assert deployments.stored() == envelopes(deployments.expected)


def test_with_a_checkpoint_the_same_is_refused_before_the_query_starts(deployments, scripts):
    checkpoint = deployments.pipeline.checkpoint
    deployments.folder = scripts.write(nested=NESTED_SCRIPT)
    deployments.process(NESTED, batch("first", range(3)))
    deployments.wrapped(Tally(NESTED), NESTED, checkpoint=checkpoint)
    deployments.folder = scripts.write()
    with pytest.raises(StartupError, match=f"unknown revision {NESTED}"):
        deployments.wrapped(Tally(AMOUNTS), AMOUNTS, checkpoint=checkpoint)
    one_way = NESTED_SCRIPT[: NESTED_SCRIPT.index("def downgrade")]
    deployments.folder = scripts.write(nested=one_way)
    with pytest.raises(StartupError, match=f"cannot go back from {NESTED} to {AMOUNTS}"):
        deployments.wrapped(Tally(AMOUNTS), AMOUNTS, checkpoint=checkpoint, accept_edited=(NESTED,))
    with pytest.raises(StartupError, match="was edited after it was applied"):
        deployments.wrapped(Tally(NESTED), NESTED, checkpoint=checkpoint)


def test_state_without_an_envelope_is_refused_before_the_query_starts(deployments, scripts):
    deployments.pipeline.feed(batch("first", range(3)))
    deployments.start(Tally(CENTS), schema="n BIGINT, cents BIGINT, last STRING, moved BIGINT")
    with pytest.raises(StartupError) as raised:
        deployments.wrapped(Tally(CENTS), CENTS, checkpoint=deployments.pipeline.checkpoint)
    assert raised.value.expected == ENVELOPE
    assert raised.value.found == "struct<n:bigint,cents:bigint,last:string,moved:bigint>"
    rewrite = f"`statemigrate rewrite {deployments.pipeline.checkpoint} NEW --code "
    assert rewrite in raised.value.next_action


class Taken(StatefulProcessor):
    """Begins with what another query had stored, in the format that it had."""

    def init(self, handle):
        self.state = handle.getValueState(
            "tally", "n BIGINT, cents BIGINT, last STRING, moved BIGINT"
        )

    def handleInitialState(self, key, initial_state, timer_values):
        self.state.update((initial_state.n, initial_state.cents, initial_state.last, 0))

    def handleInputRows(self, key, rows, timer_values):
        n, cents, last, moved = self.state.get() or (0, 0, None, 0)
        for row in rows:
            n, cents, last = n + 1, cents + row.cents, row.name
        self.state.update((n, cents, last, moved))
        yield Row(key=key[0], n=n, cents=cents, last=last, moved=moved)

    def close(self):
        pass


@pytest.mark.long(weight=1 / 3)
@needs_rows
def test_state_without_an_envelope_can_be_taken_to_transform_with_state(deployments, scripts):
    pipeline, spark = deployments.pipeline, deployments.pipeline.spark
    first, second = batch("first", range(6)), batch("second", range(3, 9))
    pipeline.feed(first)
    deployments.start(Tally(CENTS), schema="n BIGINT, cents BIGINT, last STRING, moved BIGINT")
    with pytest.raises(CheckpointError, match="cannot be migrated in place"):
        adopt(str(pipeline.checkpoint))
    old = spark.read.format("statestore").load(str(pipeline.checkpoint))
    old = old.select("key.key", "value.groupState.*")
    pipeline.checkpoint_directory = pipeline.root / "another"
    pipeline.feed(second)
    targets = {"tally": CENTS}
    processor = migrated(Taken(), migrations=deployments.folder, targets=targets)
    result = pipeline.grouped(pipeline.stream()).transformWithState(
        processor, pipeline.output, "Update", "None", initialState=old.groupBy("key")
    )
    query = pipeline.start(result)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    # The new query reads the input from its beginning.
    for rows in (first, first, second):
        deployments.expected.process(rows, CENTS)
    assert pipeline.state("tally") == deployments.expected.stored(CENTS)["tally"]


@needs_rows
def test_a_checkpoint_of_another_kind_is_refused(deployments, pipeline):
    pipeline.feed(batch("first", range(3)))
    pipeline.deploy_natively(Taken())
    with pytest.raises(CheckpointError) as raised:
        deployments.wrapped(Tally(CENTS), CENTS, checkpoint=pipeline.checkpoint)
    assert "transformWithState" in str(raised.value.found)


def test_a_store_without_scripts_is_refused(deployments, pipeline):
    with pytest.raises(LineageError, match="store other has no migration script"):
        migrated(
            Tally(CENTS),
            store="other",
            migrations=deployments.folder,
            checkpoint=pipeline.checkpoint,
        )


def test_a_new_checkpoint_may_be_named_before_it_exists(deployments):
    rows = batch("first", range(3))
    deployments.run(CENTS, rows, checkpoint=deployments.pipeline.checkpoint)
    deployments.expected.process(rows, CENTS)
    assert deployments.stored() == envelopes(deployments.expected)
    assert adopt(str(deployments.pipeline.checkpoint)).state == "would prepare"


def test_what_is_no_iterable_is_still_refused_by_pyspark(deployments):
    def returns_one(key, pdfs, state):
        return pd.DataFrame({"key": [key[0]]})

    with pytest.raises(StreamingQueryException, match=r"iterable of pandas\.DataFrame"):
        deployments.run(CENTS, batch("first", (1,)), function=returns_one)
