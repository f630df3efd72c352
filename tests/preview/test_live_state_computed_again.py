"""Damaged state of a query that migrates live: its code computes it again on a copy."""

import shutil
from pathlib import Path

import live_code as code
import previewed_code
import pytest
from previewed_query import Query, damaged, events, named, scripts_of, write_means
from support.file_hashes import file_hashes

from statemigrate import NewCode, StatemigrateError, backfill, doctor, open_state, status
from statemigrate.checkpoint import describe, partition_hashes
from statemigrate.files import open_files

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
WAYS = {
    "stateful": (code.stateful_totals, code.stateful_means, code.stateful_wrong_means, 1),
    "with_backfill": (code.backfilled_totals, code.backfilled_means,
                      code.backfilled_wrong_means, 1),
    "marked": (code.marked_totals, code.marked_means, code.stateful_wrong_means, 1),
    "paged": (code.paged_totals, code.paged_means, code.paged_wrong_means, 1),
    "stateful with pages": (code.stateful_pages_totals, code.stateful_pages_means,
                            code.stateful_pages_wrong_means, 1),
    "function": (code.function_totals, code.function_means, code.function_wrong_means, 1),
    "two operators": (code.two_totals, code.two_means, code.two_wrong_means, 2),
}  # fmt: skip


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    return scripts_of(code, tmp_path, monkeypatch)


def repaired(query, checkpoint, scripts, function=None):
    return doctor(
        checkpoint,
        repair=True,
        apply=True,
        target=NewCode(named(function or query.function), mode="update"),
        migrations=scripts,
        wait=0,
        spark=query.spark,
    )


def stored(checkpoint):
    """The newest batch, its families, and what each partition has, as Spark stores it."""
    files = open_files(str(checkpoint))
    batch = open_state(checkpoint, migrations=None).batch
    hashes = partition_hashes(files, batch)
    assert hashes
    assert all(isinstance(each, int) for each in hashes.values())
    families = {
        (operator.number, family.name)
        for operator in describe(files, batch).operators
        for store in operator.stores
        for family in store.families
    }
    return batch, families, hashes


def go_on(query, checkpoint, number, monkeypatch):
    """Run another batch of the query, on another checkpoint, with the code that it has."""
    monkeypatch.setattr(code, "CHECKPOINT", str(checkpoint))
    other = Query(query.spark, query.folder, query.function, "update", query.count, batches=0)
    other.checkpoint = Path(checkpoint)
    for place in query.inputs:
        (place / f"{number}.json").write_text("\n".join(events(number)))
    other.run()


def newest_of(query):
    """The newest committed batch."""
    return max(int(each.name) for each in (query.checkpoint / "commits").glob("[0-9]*"))


def deploy(query, function, batches):
    """Let other code run so many batches."""
    query.function, query.name = function, named(function)
    for number in batches:
        for place in query.inputs:
            (place / f"{number}.json").write_text("\n".join(events(number)))
        query.run()


@pytest.mark.parametrize("way", WAYS)
def test_state_in_the_middle_of_a_live_migration_is_computed_again(
    spark, tmp_path, scripts, monkeypatch, way
):
    totals, means, wrong, count = WAYS[way]
    if way == "function":
        # The format of its values stands in a script alone.
        write_means(scripts)
    query = Query(spark, tmp_path, totals, "update", count, batches=2)
    write_means(scripts)
    deploy(query, means, [2, 3, 4])
    checkpoint = damaged(query.checkpoint, tmp_path / "damaged", 2)
    before = file_hashes(checkpoint)
    found = repaired(query, checkpoint, scripts)
    new = f"{checkpoint}-repaired"
    assert found.is_whole
    assert file_hashes(checkpoint) == before
    assert stored(new) == stored(query.checkpoint)
    operator = 1 if way == "two operators" else None
    of_both = [
        status(each, migrations=scripts, operator=operator, spark=spark).stores
        for each in (new, query.checkpoint)
    ]
    assert of_both[0] == of_both[1]
    whole = tmp_path / "whole"
    shutil.copytree(query.checkpoint, whole)
    for each in (new, whole):
        go_on(query, each, 5, monkeypatch)
    assert stored(new) == stored(whole)
    with pytest.raises(StatemigrateError) as refused:
        repaired(query, damaged(query.checkpoint, tmp_path / "again", 2), scripts, wrong)
    assert refused.value.code == "SM-REPAIR-006"


@pytest.mark.parametrize("way", ["stateful", "paged"])
def test_a_release_since_the_state_was_whole_is_refused(spark, tmp_path, scripts, way):
    totals, means, _, count = WAYS[way]
    query = Query(spark, tmp_path, totals, "update", count, batches=3)
    write_means(scripts)
    deploy(query, means, [3, 4])
    checkpoint = damaged(query.checkpoint, tmp_path / "damaged", 3)
    with pytest.raises(StatemigrateError) as refused:
        repaired(query, checkpoint, scripts)
    assert refused.value.code == "SM-REPAIR-009"
    assert f"--at-batch {newest_of(query) - 3}" in refused.value.next_action
    assert not Path(f"{checkpoint}-repaired").exists()


@pytest.mark.parametrize("way", ["stateful", "paged"])
def test_batches_with_a_part_of_a_backfill_are_named_and_those_after_it_are_computed_again(
    spark, tmp_path, scripts, way
):
    totals, means, _, count = WAYS[way]
    query = Query(spark, tmp_path, totals, "update", count, batches=2)
    write_means(scripts)
    query.function, query.name = means, named(means)
    (query.inputs[0] / "2.json").write_text(
        '{"k": "k3", "v": 1, "id": 900, "at": "2026-01-01T00:09:00Z"}'
    )
    query.run()
    backfill(query.checkpoint, migrations=scripts, keys_per_chunk=2, spark=spark)
    query.run()
    moved = newest_of(query)
    deploy(query, means, [8, 9])
    (store,) = status(query.checkpoint, migrations=scripts, spark=spark).stores
    assert store.left == 0
    newest = newest_of(query)
    assert newest > moved
    over = damaged(query.checkpoint, tmp_path / "over", newest - moved + 1)
    with pytest.raises(StatemigrateError) as refused:
        repaired(query, over, scripts)
    assert refused.value.code == "SM-REPAIR-007"
    assert str(moved) in refused.value.found
    since = damaged(query.checkpoint, tmp_path / "since", newest - moved)
    assert repaired(query, since, scripts).is_whole
    assert stored(f"{since}-repaired") == stored(query.checkpoint)


def test_code_that_has_become_stateful_since_the_state_was_whole(spark, tmp_path, scripts):
    query = Query(spark, tmp_path, previewed_code.processed, "update", batches=3)
    deploy(query, code.stateful_totals, [3, 4])
    checkpoint = damaged(query.checkpoint, tmp_path / "damaged", 3)
    assert repaired(query, checkpoint, scripts).is_whole
    assert stored(f"{checkpoint}-repaired") == stored(query.checkpoint)
