"""Values that do not migrate, and families that are empty."""

import pytest
from pipelines import no_backfill
from stored_state import manifest_of
from tally import AMOUNTS, AMOUNTS_SCRIPT, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import BackfillOptions, migrated
from statemigrate.errors import TransformError

pytestmark = pytest.mark.spark

REFUSING = AMOUNTS_SCRIPT.replace(
    "def upgrade(value):",
    'def upgrade(value):\n    if value["last"].startswith("bad"):\n'
    '        raise ArithmeticError("no amount for " + value["last"])',
)
QUARANTINE = BackfillOptions(on_error="quarantine", initial_rows=4, maximum_rows=4)
BAD = batch("bad", range(12))
GOOD = batch("good", range(12, 40))


@pytest.fixture
def expected(pipeline) -> Expected:
    made = Expected()
    pipeline.feed(BAD + GOOD)
    made.process(BAD + GOOD, CENTS)
    pipeline.deploy(CentsTally())
    return made


@pytest.mark.long
def test_what_fails_is_quarantined_and_migrates_with_the_corrected_script(
    pipeline, scripts, expected
):
    code = migrated(AmountsTally(), migrations=scripts.write(REFUSING))
    progress = pipeline.deploy(code, backfill=QUARANTINE)
    for key, _, _ in GOOD:
        expected.move(key, AMOUNTS)
    assert pipeline.stored() == expected.stored(CENTS, AMOUNTS), "the originals are untouched"
    assert sum(each.backfilled for each in progress) == len(GOOD)
    assert sum(each.quarantined for each in progress) == len(BAD)
    (family,) = progress[-1].families
    assert (family.left, family.quarantined) == (len(BAD), len(BAD))

    edited = migrated(AmountsTally(), migrations=scripts.write(), accept_edited=(AMOUNTS,))
    progress = pipeline.deploy(edited, backfill=QUARANTINE)
    expected.drain(AMOUNTS)
    assert pipeline.stored() == expected.stored(AMOUNTS)
    assert sum(each.backfilled for each in progress) == len(BAD)
    assert progress[-1].families == ()


@pytest.mark.long
def test_a_quarantined_value_that_is_overwritten_is_no_longer_counted(pipeline, scripts, expected):
    code = migrated(AmountsTally(), migrations=scripts.write(REFUSING), write_on_read=False)
    pipeline.deploy(code, backfill=QUARANTINE)
    pipeline.feed([("k3", 0, "good")])
    with pytest.raises(TransformError, match="no amount for bad"):
        pipeline.deploy(code, backfill=QUARANTINE)
    edited = migrated(AmountsTally(), migrations=scripts.write(), accept_edited=(AMOUNTS,))
    (last,) = pipeline.deploy(edited, backfill=no_backfill())[-1:]
    (family,) = last.families
    assert (family.left, family.quarantined) == (len(BAD) - 1, 0), "a new run tries them all again"


@pytest.mark.long(weight=1 / 3)
def test_one_bad_value_ends_the_batch_unless_it_is_quarantined(pipeline, scripts, expected):
    code = migrated(AmountsTally(), migrations=scripts.write(REFUSING))
    with pytest.raises(TransformError) as caught:
        pipeline.deploy(code)
    assert "ArithmeticError: no amount for bad" in str(caught.value)
    assert caught.value.data["store"] == "tally"
    assert pipeline.stored() == expected.stored(CENTS), "nothing of the batch was written"

    pipeline.deploy(migrated(AmountsTally(), migrations=scripts.write()))
    expected.drain(AMOUNTS)
    assert pipeline.stored() == expected.stored(AMOUNTS), "the script was not applied yet"


def test_a_drained_family_is_gone_from_manifest_and_database(pipeline, scripts, expected):
    progress = pipeline.deploy(migrated(AmountsTally(), migrations=scripts.write()))
    manifest = manifest_of(pipeline.checkpoint)
    assert [family.name for family in manifest.stores["tally"].families] == [f"tally@{AMOUNTS}"]
    assert all(state.entries.keys() == {f"tally@{AMOUNTS}"} for state in manifest.partitions)
    assert progress[-1].retired == ("tally",), "nothing runs once it is retired"
    assert pipeline.deploy(migrated(AmountsTally(), migrations=scripts.write())) == []


@pytest.mark.long(weight=1 / 4)
def test_a_drained_family_stays_when_it_is_not_to_be_retired(pipeline, scripts, expected):
    code = migrated(AmountsTally(), migrations=scripts.write())
    progress = pipeline.deploy(code, retire_drained=False)
    expected.drain(AMOUNTS)
    assert pipeline.stored() == expected.stored(CENTS, AMOUNTS)
    assert progress[-1].left == 0
    assert len(progress) < 6, "and no batches run for nothing"


def test_a_single_quarantined_value_does_not_keep_batches_running(pipeline, scripts, expected):
    # Its partition never drains, all others do.
    one_bad = REFUSING.replace('startswith("bad")', 'startswith("bad") and value["cents"] == 13')
    code = migrated(AmountsTally(), migrations=scripts.write(one_bad))
    progress = pipeline.deploy(code, backfill=BackfillOptions(on_error="quarantine"))
    assert progress[-1].left == progress[-1].families[0].quarantined == 1
    assert len(progress) < 6


@pytest.mark.long
def test_a_chunk_of_nothing_but_bad_values_does_not_end_the_backfill(pipeline, scripts, expected):
    first_keys = REFUSING.replace('value["last"].startswith("bad")', 'value["cents"] <= 37')
    code = migrated(AmountsTally(), migrations=scripts.write(first_keys))
    one_a_batch = BackfillOptions(on_error="quarantine", initial_rows=1, maximum_rows=1)
    (last,) = pipeline.deploy(code, backfill=one_a_batch)[-1:]
    assert last.left == last.families[0].quarantined == 11
