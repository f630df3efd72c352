"""Deployments that do not fit the checkpoint: a clear error, and nothing is touched."""

import pytest
from pipelines import Pipeline, no_backfill
from refusals import contents, copied, refused
from tally import (
    AMOUNTS,
    AMOUNTS_SCRIPT,
    CENTS,
    NESTED,
    NESTED_SCRIPT,
    AmountsTally,
    CentsTally,
    Expected,
    NestedTally,
    Scripts,
    batch,
)

from statemigrate import migrated
from statemigrate.errors import LineageError, StartupError

pytestmark = pytest.mark.spark

ROWS = batch("first", range(10))
WITHOUT_DOWNGRADE = AMOUNTS_SCRIPT[: AMOUNTS_SCRIPT.index("def downgrade")]


@pytest.fixture(scope="module")
def at_cents(spark, tmp_path_factory) -> Pipeline:
    made = Pipeline(spark, tmp_path_factory.mktemp("at cents"))
    made.feed(ROWS)
    made.deploy(CentsTally())
    return made


@pytest.fixture(scope="module")
def at_amounts(spark, tmp_path_factory) -> Pipeline:
    """A checkpoint that has applied the first migration."""
    made = Pipeline(spark, tmp_path_factory.mktemp("at amounts"))
    scripts = Scripts(tmp_path_factory.mktemp("scripts") / "migrations")
    made.feed(ROWS)
    made.deploy(migrated(AmountsTally(), migrations=scripts.write()))
    return made


@pytest.fixture
def old(spark, at_cents, tmp_path) -> Pipeline:
    return copied(spark, at_cents, tmp_path / "pipeline")


@pytest.fixture
def new(spark, at_amounts, tmp_path) -> Pipeline:
    return copied(spark, at_amounts, tmp_path / "pipeline")


def refused_untouched(pipeline: Pipeline, kind, processor, *parts: str, **options):
    before = contents(pipeline.checkpoint)
    error = refused(kind, lambda: pipeline.query(processor, **options).start(), *parts)
    assert contents(pipeline.checkpoint) == before
    return error


def test_code_that_is_not_written_for_the_target(old, scripts):
    error = refused_untouched(
        old, StartupError, migrated(CentsTally(), migrations=scripts.write()),
        f"store tally: the code's schema is not the one of its target revision {AMOUNTS}",
        "expected: struct<n:bigint,amount:decimal(18,2)", "amount: missing, expected DECIMAL(18,2)",
        "cents: found BIGINT, expected no such field", "struct<n:bigint,cents:bigint",
        "statemigrate history --show tally@head",
    )  # fmt: skip
    assert error.data["store"] == "tally"
    # The refusal let go of the checkpoint.
    old.deploy(migrated(CentsTally(), migrations=scripts.directory, targets={"tally": "base"}))


def test_code_with_another_schema_and_no_scripts(old):
    refused_untouched(old, StartupError, AmountsTally(), "store tally", "cents", "amount")


def test_a_family_of_an_unknown_revision(spark, new, scripts):
    new.feed(batch("x", range(3)))
    new.deploy(migrated(NestedTally(), migrations=scripts.write(nested=NESTED_SCRIPT)))
    refused_untouched(
        new, StartupError, migrated(AmountsTally(), migrations=scripts.write()),
        f"store tally: the checkpoint has a family of the unknown revision {NESTED}",
        f"expected: one of base, {AMOUNTS}", f"found: {NESTED} (family tally@{NESTED})",
        "statemigrate history tally",
    )  # fmt: skip


def test_migrated_state_under_code_that_lost_its_decorator(new):
    error = refused_untouched(new, StartupError, AmountsTally(), f"tally@{AMOUNTS}")
    assert error.code == "SM-START-002"


def test_an_applied_script_that_was_edited(new, scripts):
    folder = scripts.write(AMOUNTS_SCRIPT + "\nEDITED = True\n")
    error = refused_untouched(
        new, StartupError, migrated(AmountsTally(), migrations=folder),
        "amounts.py was edited after it was applied", "expected: checksum", "found: checksum",
        f"accept_edited=('{AMOUNTS}',)",
    )  # fmt: skip
    assert error.data["revision"] == AMOUNTS
    new.deploy(migrated(AmountsTally(), migrations=folder, accept_edited=(AMOUNTS,)))


def test_a_script_that_only_a_rewrite_can_run(old, scripts):
    merging = f"{AMOUNTS_SCRIPT}\n\ndef merge(first, second):\n    return first\n"
    refused_untouched(
        old, StartupError, migrated(AmountsTally(), migrations=scripts.write(merging)),
        "has `merge`, which a running query cannot do", "statemigrate rewrite",
    )  # fmt: skip


def test_a_script_whose_format_is_not_the_stored_one(new, scripts):
    folder = scripts.write(AMOUNTS_SCRIPT.replace("DECIMAL(18,2)", "DECIMAL(20,2)"))

    class Wider(AmountsTally):
        ddl = AmountsTally.ddl.replace("18", "20")

    refused_untouched(
        new, StartupError, migrated(Wider(), migrations=folder),
        f"the format stored for revision {AMOUNTS} is not the script's", "18", "20",
        "statemigrate new tally -m MESSAGE",
    )  # fmt: skip


def test_two_heads(old, scripts):
    folder = scripts.write(nested=NESTED_SCRIPT)
    other = NESTED_SCRIPT.replace(NESTED, "cccc55556666")
    (scripts.folder.versions / "other.py").write_text(f'"""Another."""\n{other}')
    error = refused_untouched(
        old, LineageError, migrated(NestedTally(), migrations=folder), NESTED, "cccc55556666",
        "tally",
    )  # fmt: skip
    assert "`statemigrate new tally --rebase`" in error.next_action


def test_older_code_where_a_step_has_no_downgrade(new, scripts):
    folder = scripts.write(WITHOUT_DOWNGRADE)
    back = migrated(
        CentsTally(), migrations=folder, targets={"tally": "base"}, accept_edited=(AMOUNTS,)
    )
    refused_untouched(
        new, StartupError, back, f"store tally cannot go back from {AMOUNTS} to base",
        f"expected: a downgrade in {folder / 'versions' / 'amounts.py'}", "found: no downgrade",
    )  # fmt: skip


def test_an_empty_newer_family_needs_no_downgrade(old, scripts):
    # The new code ran without touching a key, and moved none.
    class Idle(AmountsTally):
        def handleInputRows(self, key, rows, timer_values):
            return iter(())

    folder = scripts.write(WITHOUT_DOWNGRADE)
    old.feed(batch("x", range(3)))
    old.deploy(migrated(Idle(), migrations=folder), backfill=no_backfill())
    back = migrated(CentsTally(), migrations=folder, targets={"tally": "base"})
    old.deploy(back)
    expected = Expected()
    expected.process(ROWS, CENTS)
    assert old.stored() == expected.stored(CENTS)


def test_another_number_of_partitions(old):
    refused_untouched(
        old, StartupError, CentsTally(), "another number of partitions",
        "expected: 2 partitions", "found: 3 in the options", "EmbeddedOptions(partitions=2)",
        partitions=3,
    )  # fmt: skip


@pytest.mark.parametrize("by", ["name", ("key", "name")])
def test_another_grouping_key(old, by):
    old.by = by
    refused_untouched(old, StartupError, CentsTally(), "another grouping key", "'key'", "'name'")


def test_a_key_column_that_does_not_exist(old):
    old.by = "kee"
    refused_untouched(old, StartupError, CentsTally(), "cannot be grouped by kee", "key, cents")


def test_the_same_key_from_a_stream_that_knows_it_is_never_null(spark, old):
    from pyspark.sql import functions as f

    stream = old.stream()
    old.stream = lambda: stream.withColumn("key", f.coalesce("key", f.lit("")))
    assert not old.stream().schema["key"].nullable
    with pytest.raises(StartupError) as caught:
        old.query(CentsTally()).start()
    old.accept = dict.fromkeys(caught.value.data["accept"], "the key is the same where it is known")
    old.feed(batch("second", range(5)))
    old.deploy(CentsTally())
    expected = Expected()
    expected.process(ROWS, CENTS)
    expected.process(batch("second", range(5)), CENTS)
    assert old.stored() == expected.stored(CENTS)
