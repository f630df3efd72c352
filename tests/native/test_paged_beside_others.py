"""A query with pages and another ``transformWithState``, and one with pages twice."""

import pytest
from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from tally import AMOUNTS, AMOUNTS_SCRIPT, CENTS, AmountsTally, CentsTally, batch

from statemigrate import (
    StartupError,
    backfill,
    backfill_status,
    dry_run,
    get,
    migrated,
    open_state,
    status,
)
from statemigrate.commands.rewrite import rewrite_checkpoint, verify
from statemigrate.errors import CheckpointError
from statemigrate.rewrite.sources import RewriteOptions

pytestmark = [pytest.mark.spark, pytest.mark.long]
UPDATES = "key STRING, n BIGINT"
KEYS = 20


class Updates(StatefulProcessor):
    """After the tally: how many updates of a key came by."""

    def init(self, handle):
        self.updates = handle.getValueState("updates", "n BIGINT")

    def handleInputRows(self, key, rows, timer_values):
        n = (self.updates.get() or (0,))[0] + sum(1 for _ in rows)
        self.updates.update((n,))
        yield Row(key=key[0], n=n)

    def close(self):
        pass


class Beside(PagedPipeline):
    """A tally on pages, and after it a processor of Spark's own."""

    def result(self, processor, stream=None):
        tallied = super().result(processor, stream)
        return tallied.groupBy("key").transformWithState(Updates(), UPDATES, "Update", "None")


class Unpaged(NativePipeline):
    """The same query without pages."""

    def result(self, processor, stream=None):
        tallied = super().result(processor, stream)
        return tallied.groupBy("key").transformWithState(Updates(), UPDATES, "Update", "None")


class Twice(PagedPipeline):
    """A tally of a tally, both on pages of one checkpoint."""

    def result(self, processor, stream=None):
        tallied = super().result(processor, stream)
        again = tallied.selectExpr("key", "cents", "last AS name")
        return super().result(CentsTally(), again)


def stored(checkpoint, store, folder=None, **parts):
    with open_state(checkpoint, migrations=folder, **parts) as state:
        return {key[0]: value["n"] for key, value in state[store].entries()}


def test_pages_beside_another_processor_are_migrated_and_rewritten(spark, scripts, tmp_path):
    query = Beside(spark, tmp_path / "beside")
    query.feed(batch("first", range(KEYS)))
    query.deploy_natively(CentsTally())
    folder = scripts.write()
    (store,) = status(query.checkpoint, migrations=folder).stores
    assert (store.store, store.target, store.in_target) == ("tally", CENTS, KEYS)
    assert stored(query.checkpoint, "updates", operator=0) == {f"k{n}": 1 for n in range(KEYS)}
    assert get("updates", query.checkpoint, "k3", migrations=folder, operator=0) == {"n": 1}
    assert dry_run("tally", query.checkpoint, migrations=folder).families[0].tried == KEYS
    query.feed(batch("second", [1]))
    query.deploy_natively(migrated(AmountsTally(), migrations=folder))
    left = backfill_status(query.checkpoint, migrations=folder).keys_left
    assert 0 < left < KEYS
    assert backfill(query.checkpoint, migrations=folder).keys == left
    query.deploy_natively(migrated(AmountsTally(), migrations=folder))
    (store,) = status(query.checkpoint, migrations=folder).stores
    assert (store.target, store.left, store.in_target) == (AMOUNTS, 0, KEYS)
    new = tmp_path / "unpaged"
    options = RewriteOptions(pages=0)
    rewrite_checkpoint(
        query.checkpoint, new, options=options, migrations=folder, apply=True, spark=spark
    )
    assert verify(query.checkpoint, new, migrations=folder, spark=spark).problems == ()
    plain = Unpaged(spark, query.root)
    plain.checkpoint_directory = new
    plain.feed(batch("third", [1, 2]))
    plain.deploy_natively(migrated(AmountsTally(), migrations=folder, checkpoint=new, operator=1))
    expected = {f"k{n}": 1 + (n in (1,)) + (n in (1, 2)) for n in range(KEYS)}
    assert stored(new, "tally", folder, operator=1) == expected
    assert stored(new, "updates", operator=0) == expected


def test_where_both_have_scripts_it_is_to_be_said_which_is_meant(spark, scripts, tmp_path):
    query = Beside(spark, tmp_path / "beside")
    query.feed(batch("first", range(2)))
    query.deploy_natively(CentsTally())
    folder = scripts.write()
    text = AMOUNTS_SCRIPT.replace('"tally"', '"updates"').replace("aaaa1111", "aaaa9999")
    (folder / "versions" / "updates.py").write_text(f'"""Change updates."""\n{text}')
    with pytest.raises(CheckpointError) as caught:
        status(query.checkpoint, migrations=folder)
    assert caught.value.data["operators"] == [1, 0]
    (store,) = status(query.checkpoint, migrations=folder, operator=1).stores
    assert store.store == "tally"


def test_pages_twice_in_a_query_are_refused_before_its_first_batch(spark, tmp_path):
    query = Twice(spark, tmp_path / "twice")
    query.feed(batch("first", range(2)))
    with pytest.raises((StreamingQueryException, StartupError), match="another `paged` has begun"):
        query.deploy_natively(CentsTally())
    assert not list((query.checkpoint / "commits").glob("[0-9]*"))
