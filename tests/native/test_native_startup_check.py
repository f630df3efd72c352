"""With the checkpoint's path everything is compared before the query starts (rules 10 and 11)."""

import shutil

import pytest
from native_pipeline import NativePipeline
from support.file_hashes import file_hashes
from tally import (
    AMOUNTS,
    AMOUNTS_SCRIPT,
    CENTS,
    NESTED_SCRIPT,
    AmountsTally,
    CentsTally,
    Expected,
    NestedTally,
    Scripts,
    batch,
)

from statemigrate import migrated
from statemigrate.errors import CheckpointError, CorruptFileError, ScriptError, StartupError

pytestmark = pytest.mark.spark


def deploy_twice(pipeline, scripts):
    """Thirty values of plain Spark; ten of them, and ten new ones, under the first migration."""
    expected = Expected()
    folder = scripts.write()
    for rows, revision, made in (
        (batch("first", range(30)), CENTS, CentsTally),
        (batch("second", range(20, 40)), AMOUNTS, AmountsTally),
    ):
        pipeline.feed(rows)
        processor = made()
        if made is AmountsTally:
            processor = migrated(processor, migrations=folder, checkpoint=pipeline.checkpoint)
        pipeline.deploy_natively(processor)
        expected.process(rows, revision)
    return pipeline, scripts, expected


@pytest.fixture
def deployed(pipeline, scripts):
    """Two deployments, for a third one."""
    return deploy_twice(pipeline, scripts)


@pytest.fixture(scope="module")
def _once(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("standing")
    return deploy_twice(NativePipeline(spark, root / "pipeline"), Scripts(root / "migrations"))


@pytest.fixture
def standing(_once):
    """Two deployments, for tests that change nothing: they share them."""
    pipeline, scripts, expected = _once
    scripts.write()
    return pipeline, scripts, expected


def refused(pipeline, scripts, made=AmountsTally, kind=StartupError, **settings):
    before = file_hashes(pipeline.checkpoint)
    with pytest.raises(kind) as caught:
        migrated(made(), migrations=scripts.directory, checkpoint=pipeline.checkpoint, **settings)
    assert file_hashes(pipeline.checkpoint) == before
    return str(caught.value)


def test_a_deployment_that_fits_reads_and_writes_as_it_should(standing):
    pipeline, _, expected = standing
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)


@pytest.mark.long
def test_where_nothing_was_seen_every_revision_may_have_values_until_the_next_start(
    pipeline, scripts
):
    folder = scripts.write()
    expected = Expected()
    for name, live in (("first", (CENTS, AMOUNTS)), ("second", (AMOUNTS,))):
        rows = batch(name, range(10))
        pipeline.feed(rows)
        pipeline.deploy_natively(
            migrated(AmountsTally(), migrations=folder, checkpoint=pipeline.checkpoint)
        )
        expected.process(rows, AMOUNTS)
        assert pipeline.all_state() == expected.stored(*live)


def test_code_of_another_format_is_refused(standing):
    pipeline, scripts, _ = standing
    message = refused(pipeline, scripts, CentsTally)
    assert "the code's schema is not the one of its target revision" in message
    assert "statemigrate history --show tally@head" in message


def test_a_stored_format_that_differs_from_the_scripts_is_refused(standing):
    pipeline, scripts, _ = standing
    scripts.write(AMOUNTS_SCRIPT.replace("cents BIGINT", "cents INT"))
    message = refused(pipeline, scripts)
    assert "the format stored for revision base is not the script's" in message


def test_an_applied_script_that_was_edited_is_refused_unless_accepted(deployed):
    pipeline, scripts, expected = deployed
    scripts.write(AMOUNTS_SCRIPT + "\nREWORDED = True\n")
    message = refused(pipeline, scripts)
    assert "was edited after it was applied" in message
    rows = batch("third", range(5))
    pipeline.feed(rows)
    pipeline.deploy_natively(
        migrated(
            AmountsTally(),
            migrations=scripts.directory,
            checkpoint=pipeline.checkpoint,
            accept_edited=(AMOUNTS,),
        )
    )
    expected.process(rows, AMOUNTS)
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)


def test_a_family_of_an_unknown_revision_is_refused(standing):
    pipeline, scripts, _ = standing
    scripts.write(AMOUNTS_SCRIPT.replace(AMOUNTS, "ffff00000000"))
    message = refused(pipeline, scripts)
    assert f"a family of the unknown revision {AMOUNTS}" in message


@pytest.mark.parametrize("amounts", [None, AMOUNTS_SCRIPT.replace('"tally"', '"total"')])
def test_scripts_that_are_gone_are_missed_while_families_of_theirs_exist(standing, amounts):
    pipeline, scripts, _ = standing
    scripts.write(amounts)
    message = refused(pipeline, scripts, CentsTally)
    assert "store tally has families of revisions, and not one script" in message
    assert f"the family tally@{AMOUNTS} in the checkpoint" in message


def test_two_heads_are_refused(standing):
    pipeline, scripts, _ = standing
    scripts.write(nested=AMOUNTS_SCRIPT.replace(AMOUNTS, "ffff00000000"))
    with pytest.raises(Exception, match=r"two|heads|first scripts") as caught:
        migrated(AmountsTally(), migrations=scripts.directory, checkpoint=pipeline.checkpoint)
    assert type(caught.value).__module__ == "statemigrate.errors"


def test_missing_scripts_are_refused(standing, tmp_path):
    pipeline, _, _ = standing
    with pytest.raises(ScriptError):
        migrated(AmountsTally(), migrations=tmp_path / "nowhere", checkpoint=pipeline.checkpoint)


def test_a_way_back_that_does_not_exist_is_refused_while_values_need_it(standing):
    pipeline, scripts, _ = standing
    text = AMOUNTS_SCRIPT[: AMOUNTS_SCRIPT.index("def downgrade")]
    scripts.write(text)
    message = refused(
        pipeline, scripts, CentsTally, targets={"tally": "base"}, accept_edited=(AMOUNTS,)
    )
    assert "cannot go back" in message
    assert "a downgrade in" in message


@pytest.mark.long(weight=2 / 3)
def test_without_a_checkpoint_a_value_without_a_way_back_stops_the_query(deployed):
    pipeline, scripts, expected = deployed
    scripts.write(AMOUNTS_SCRIPT[: AMOUNTS_SCRIPT.index("def downgrade")])
    pipeline.feed(batch("third", range(20, 25)))
    with pytest.raises(Exception, match="cannot go back from"):
        pipeline.deploy_natively(
            migrated(CentsTally(), migrations=scripts.directory, targets={"tally": "base"})
        )
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)


def test_a_target_that_names_no_store_of_the_processor_is_refused(standing):
    pipeline, scripts, _ = standing
    assert "targets names the store total" in refused(pipeline, scripts, targets={"total": "head"})


def test_a_provider_that_keeps_state_in_files_is_refused(standing, spark):
    pipeline, scripts, _ = standing
    name = "spark.sql.streaming.stateStore.providerClass"
    provider = spark.conf.get(name)
    package = "org.apache.spark.sql.execution.streaming.state"
    spark.conf.set(name, f"{package}.HDFSBackedStateStoreProvider")
    try:
        assert "needs the RocksDB state store provider" in refused(pipeline, scripts)
    finally:
        spark.conf.set(name, provider)


def test_the_checkpoint_of_another_kind_of_query_is_refused(spark, pipeline, scripts):
    scripts.write()
    pipeline.feed(batch("first", range(5)))
    query = pipeline.start(pipeline.stream().groupBy("key").count())
    query.processAllAvailable()
    query.stop()
    message = refused(pipeline, scripts, kind=CheckpointError)
    assert "not that of a transformWithState" in message


@pytest.mark.long
def test_an_old_family_is_kept_while_one_value_is_left(deployed):
    pipeline, scripts, expected = deployed
    rows = batch("third", range(19))
    pipeline.feed(rows)
    for _ in range(2):
        pipeline.deploy_natively(
            migrated(AmountsTally(), migrations=scripts.directory, checkpoint=pipeline.checkpoint)
        )
    expected.process(rows, AMOUNTS)
    stored = expected.stored(CENTS, AMOUNTS)
    assert list(stored["tally"]) == ["k19"]
    assert pipeline.all_state() == stored


@pytest.mark.long
def test_a_drained_family_is_dropped_with_the_next_deployment(deployed):
    pipeline, scripts, expected = deployed
    for name, keys in (("third", range(20)), ("fourth", range(3))):
        rows = batch(name, keys)
        pipeline.feed(rows)
        pipeline.deploy_natively(
            migrated(AmountsTally(), migrations=scripts.directory, checkpoint=pipeline.checkpoint)
        )
        expected.process(rows, AMOUNTS)
    assert pipeline.variables() == {f"tally@{AMOUNTS}"}
    assert pipeline.all_state() == expected.stored(AMOUNTS)


@pytest.mark.long
def test_a_drained_family_may_stay_and_is_not_read(deployed):
    pipeline, scripts, expected = deployed
    for name, keys in (("third", range(20)), ("fourth", range(3))):
        rows = batch(name, keys)
        pipeline.feed(rows)
        pipeline.deploy_natively(
            migrated(
                AmountsTally(),
                migrations=scripts.directory,
                checkpoint=pipeline.checkpoint,
                retire_drained=False,
            )
        )
        expected.process(rows, AMOUNTS)
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)


@pytest.mark.long
def test_a_chain_retires_one_family_and_reads_the_other(deployed):
    pipeline, scripts, expected = deployed
    rows = batch("third", range(20))
    pipeline.feed(rows)
    folder = scripts.directory
    pipeline.deploy_natively(
        migrated(AmountsTally(), migrations=folder, checkpoint=pipeline.checkpoint)
    )
    expected.process(rows, AMOUNTS)
    scripts.write(nested=NESTED_SCRIPT)
    rows = batch("fourth", range(10))
    pipeline.feed(rows)
    pipeline.deploy_natively(
        migrated(NestedTally(), migrations=folder, checkpoint=pipeline.checkpoint)
    )
    nested = scripts.folder.lineage("tally").head
    expected.process(rows, nested)
    assert pipeline.all_state() == expected.stored(AMOUNTS, nested)


@pytest.mark.long
def test_code_that_was_never_migrated_ran_in_between(deployed):
    pipeline, scripts, _ = deployed
    pipeline.feed(batch("third", range(3)))
    pipeline.deploy_natively(
        migrated(AmountsTally(), migrations=scripts.directory, checkpoint=pipeline.checkpoint)
    )
    pipeline.feed(batch("fourth", range(3)))
    pipeline.deploy_natively(CentsTally())
    message = refused(pipeline, scripts)
    assert f"code that does not know the family tally@{AMOUNTS} ran" in message


@pytest.mark.long
def test_a_deployment_that_never_ran_a_batch_leaves_no_trace(pipeline, scripts):
    folder = scripts.write()
    expected = Expected()
    for name, made in (("first", CentsTally), ("second", CentsTally)):
        rows = batch(name, range(10))
        pipeline.feed(rows)
        pipeline.deploy_natively(made())
        expected.process(rows, CENTS)
        # Made, and so checked, but never started.
        migrated(AmountsTally(), migrations=folder, checkpoint=pipeline.checkpoint)
    rows = batch("third", range(5))
    pipeline.feed(rows)
    pipeline.deploy_natively(
        migrated(AmountsTally(), migrations=folder, checkpoint=pipeline.checkpoint)
    )
    expected.process(rows, AMOUNTS)
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)


@pytest.mark.long
def test_a_family_that_spark_does_not_list_after_a_killed_batch_is_read(pipeline, scripts):
    folder = scripts.write()
    expected = Expected()
    first, second, third = (
        batch("first", range(20)),
        batch("second", range(10)),
        batch("third", range(5, 15)),
    )
    for rows in (first, second):
        pipeline.feed(rows)
        pipeline.deploy_natively(CentsTally())
    expected.process(first, CENTS)
    # As if it had been killed before it was committed.
    for name in ("1", ".1.crc"):
        (pipeline.checkpoint / "commits" / name).unlink(missing_ok=True)
    settings = {"migrations": folder, "checkpoint": pipeline.checkpoint}
    pipeline.deploy_natively(migrated(AmountsTally(), **settings))
    expected.process(second, AMOUNTS)
    scripts.write(nested=NESTED_SCRIPT)
    pipeline.feed(third)
    pipeline.deploy_natively(migrated(NestedTally(), **settings))
    nested = scripts.folder.lineage("tally").head
    expected.process(third, nested)
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS, nested)


@pytest.mark.parametrize(
    ("made", "targets", "message"),
    [
        (NestedTally, {}, "the code's schema is not the one of its target revision"),
        (AmountsTally, {"totals": AMOUNTS}, "targets names the store totals"),
    ],
    ids=["another format", "a misspelt store"],
)
def test_without_a_checkpoint_the_first_batch_names_what_init_refuses(
    pipeline, scripts, made, targets, message
):
    # Spark hides an error of init: it reports that a worker crashed.
    pipeline.feed(batch("first", range(3)))
    processor = migrated(made(), migrations=scripts.write(), targets=targets)
    with pytest.raises(Exception, match="StartupError") as refusal:
        pipeline.deploy_natively(processor)
    assert message in str(refusal.value)


@pytest.mark.long(weight=2 / 3)
def test_a_lost_commit_log_is_not_a_checkpoint_without_state(deployed):
    # All values of the old family would count as never seen.
    pipeline, scripts, _ = deployed
    shutil.rmtree(f"{pipeline.checkpoint}/commits")
    with pytest.raises(CorruptFileError) as refusal:
        migrated(AmountsTally(), migrations=scripts.directory, checkpoint=pipeline.checkpoint)
    assert refusal.value.code == "SM-CHECKPOINT-033"
    assert refusal.value.data["path"].endswith("/commits")
