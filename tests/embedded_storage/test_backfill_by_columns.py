"""A partition's backfill of values that go by columns, against one where none of them does."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from support.lens_scripts import CHANGE, LINEAGE, OLD, value

from statemigrate.access import DualAccess
from statemigrate.budget import Budget, run_chunk
from statemigrate.deployment import StoredFamily
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition
from statemigrate.errors import FormatError, TransformError
from statemigrate.families import Source, Span
from statemigrate.migration import path as migration_path
from statemigrate.migration.path import ColumnWay

BEFORE = StoredFamily("notes.base", "base", OLD)
AFTER = StoredFamily("notes.r0", "r0", CHANGE.new)
NUMBER = 3_000


def seeded(place, unfit=(), damaged=()):
    """The state of a partition; no lens takes ``unfit`` values, and ``damaged`` lack a byte."""
    partition = Partition(place, PartitionState(), 0)
    family = partition.target(BEFORE, "value")
    for number in range(NUMBER):
        n = 1 << 40 if number in unfit else None
        data = OLD.encode(value(number, n))
        family.put_encoded(b"%05d" % number, data[:-1] if number in damaged else data)
    return partition.commit(snapshot=True)


def opened(place, state):
    partition = Partition(place, state, 1)
    source = Source(partition.source(BEFORE, "value"), LINEAGE.path("base", "r0"))
    return partition, source, DualAccess("notes", partition.target(AFTER, "value"), [source])


def backfilled(place, state, on_error="raise", written=()):
    """The partition's chunk, its new values, what is left, and its new state."""
    partition, source, access = opened(place, state)
    try:
        for number in written:
            access.target.put(b"%05d" % number, CHANGE.upgrade(value(number, 7)))
        chunk = run_chunk(access, source, partition, Budget(10**9, 1e9), on_error=on_error)
        families = (access.target, source.family)
        held = {family.name: list(family.scan_encoded(Span())) for family in families}
        counts = replace(access.counts)
        after = partition.commit(snapshot=False)
    finally:
        partition.abandon()
    return replace(chunk, milliseconds=0.0), held, counts, after.contents, after.quarantined


@pytest.fixture
def blocks(monkeypatch):
    """How many values went by columns, block by block."""
    monkeypatch.setattr(migration_path, "LOADING", 0)
    found = []
    bytes_of = ColumnWay.bytes_of

    def counted(way, stored):
        made = bytes_of(way, stored)
        found.append(len(made or ()))
        return made

    monkeypatch.setattr(ColumnWay, "bytes_of", counted)
    return found


def twin(place, tmp_path, monkeypatch, state, blocks, **options):
    """What a backfill gives, which has to be the same where nothing goes by columns."""
    copy = replace(place, directory=tmp_path / "other", working=tmp_path / "elsewhere")
    shutil.copytree(place.directory, copy.directory)
    found = backfilled(place, state, **options)
    went = sum(blocks)
    with monkeypatch.context() as patch:
        patch.setattr(migration_path, "FEW", 10**9)
        assert backfilled(copy, state, **options) == found
    assert sum(blocks) == went
    return found, went


def test_all_values_are_the_same_as_one_by_one(place, tmp_path, monkeypatch, blocks):
    found, went = twin(place, tmp_path, monkeypatch, seeded(place), blocks)
    chunk, held, counts, _, quarantined = found
    assert (chunk.migrated, chunk.quarantined, chunk.finished) == (NUMBER, 0, True)
    assert held[BEFORE.name] == []
    assert held[AFTER.name] == [
        (b"%05d" % number, CHANGE.new.encode(CHANGE.upgrade(value(number))))
        for number in range(NUMBER)
    ]
    assert (counts.backfilled, quarantined) == (NUMBER, {})
    assert went > NUMBER / 2


def test_values_that_no_lens_takes_are_quarantined_as_one_by_one(
    place, tmp_path, monkeypatch, blocks
):
    unfit = (500, 501, 2_999)
    state = seeded(place, unfit)
    found, went = twin(place, tmp_path, monkeypatch, state, blocks, on_error="quarantine")
    chunk, held, counts, _, quarantined = found
    assert (chunk.migrated, chunk.quarantined) == (NUMBER - 3, 3)
    assert [key for key, _ in held[BEFORE.name]] == [b"%05d" % number for number in unfit]
    assert quarantined == {BEFORE.name: 3}
    assert counts.backfilled == NUMBER - 3
    assert 0 < went < NUMBER


def test_newer_values_win_as_one_by_one(place, tmp_path, monkeypatch, blocks):
    state = seeded(place)
    found, went = twin(place, tmp_path, monkeypatch, state, blocks, written=(700, 2_000))
    _, held, counts, _, _ = found
    assert CHANGE.new.decode(dict(held[AFTER.name])[b"00700"])["n"] == 7
    assert (counts.backfilled, counts.superseded) == (NUMBER - 2, 2)
    assert went > 0


def test_a_value_that_no_lens_takes_is_named(place):
    with pytest.raises(TransformError) as caught:
        backfilled(place, seeded(place, unfit=(1_234,)))
    assert caught.value.data["key"] == b"01234"


def test_damaged_bytes_are_refused_as_a_value_by_itself(place):
    state = seeded(place, damaged=(1_234,))
    with pytest.raises(FormatError) as caught:
        backfilled(place, state)
    with pytest.raises(FormatError) as alone:
        OLD.decode(OLD.encode(value(1_234))[:-1])
    assert str(caught.value) == str(alone.value)
