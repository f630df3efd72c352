"""State of every operator, provider and encoding, copied with all its rows and without any."""

from __future__ import annotations

import pytest
from state_queries import CASES, case_name
from support.committed_rows import rows_by_spark, rows_from_files

from statemigrate.checkpoint.operators.catalogue import is_derived
from statemigrate.checkpoint.state import CommittedState
from statemigrate.files import LocalFiles
from statemigrate.preview.spark_rows import copy_state

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]


class AsItIs:
    """All rows."""

    def state(self, family, keys, values):
        return keys, values


class Nothing:
    """No row."""

    def state(self, family, keys, values):
        return keys.slice(0, 0), values.slice(0, 0)


def copied(checkpoint, place, change, **options):
    old, new = LocalFiles(checkpoint), LocalFiles(place)
    newest = CommittedState(old).batch
    batches = [each for each in (newest - 1, newest) if each >= 0]
    copy_state(old, new, batches, change, **options)
    return batches


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_a_copy_of_all_rows_reads_as_the_state_does_by_spark_too(spark, made, tmp_path, case):
    name, way, settings = case
    checkpoint = made(name, way, **settings).checkpoint
    for batch in copied(checkpoint, tmp_path / "copy", AsItIs()):
        own = CommittedState(LocalFiles(checkpoint), batch)
        copy = CommittedState(LocalFiles(tmp_path / "copy"), batch)
        found, expected = rows_from_files(copy), rows_from_files(own)
        assert found.keys() == expected.keys()
        for family, rows in expected.items():
            if is_derived(family[2]):
                # Spark leaves what has said when a removed key expires; it says nothing any more.
                assert set(found[family]) <= set(rows)
            else:
                assert found[family] == rows
    assert rows_by_spark(spark, copy) == rows_by_spark(spark, own)
    assert any(rows_from_files(copy).values())


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_a_copy_without_rows_is_empty_and_not_damaged(made, tmp_path, case):
    name, way, settings = case
    checkpoint = made(name, way, **settings).checkpoint
    for batch in copied(checkpoint, tmp_path / "copy", Nothing()):
        found = rows_from_files(CommittedState(LocalFiles(tmp_path / "copy"), batch))
        assert not any(found.values())


@pytest.mark.parametrize("at_once", [1, 2, 100])
@pytest.mark.parametrize("way", ["hdfs", "rocksdb with ids"])
def test_rows_are_the_same_however_many_partitions_are_written_at_once(
    made, tmp_path, way, at_once
):
    checkpoint = made("aggregation", way).checkpoint
    for batch in copied(checkpoint, tmp_path / "copy", AsItIs(), at_once=at_once):
        own = CommittedState(LocalFiles(checkpoint), batch)
        copy = CommittedState(LocalFiles(tmp_path / "copy"), batch)
        assert rows_from_files(copy) == rows_from_files(own)
