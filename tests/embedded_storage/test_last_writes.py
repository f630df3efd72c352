"""Changelogs that are replayed for their keys alone leave the keys that writing them all leaves."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.partitions import COUNTS, batches

from statemigrate.embedded.storage.changelog import runs_of
from statemigrate.embedded.storage.database import Database
from statemigrate.embedded.working import last_writes as module
from statemigrate.embedded.working.last_writes import LastWrites
from statemigrate.embedded.working.records import records
from statemigrate.embedded.working.restore import open_keys_at
from statemigrate.errors import CorruptFileError
from statemigrate.families import Span

names = st.sampled_from(["one", "two", "(meta)"])
keys = st.sampled_from([b"", b"a", b"b", b"\x00", b"key"])
writes = st.tuples(names, keys, st.none() | st.binary(max_size=3))
drops = st.tuples(st.just(""), st.sampled_from([b"one", b"two"]), st.none())
blocks = st.lists(st.lists(writes | drops, min_size=1, max_size=12), max_size=6)


def applied(many):
    """What is left, by a plain model: a dropped family may come back."""
    found = {}
    for family, key, value in (record for block in many for record in block):
        if not family:
            found = {at: held for at, held in found.items() if at[0] != key.decode()}
        elif value is None:
            found.pop((family, key), None)
        else:
            found[family, key] = b""
    return found


@settings(max_examples=60)
@given(many=blocks, most=st.integers(1, 40), largest=st.integers(1, 60))
def test_blocks_of_any_families_leave_the_keys_of_a_plain_model(
    tmp_path_factory, many, most, largest
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_KEYS", most)
        patch.setattr(module, "_BYTES", largest)
        database = Database(tmp_path_factory.mktemp("keys") / "copy")
        kept = LastWrites(database)
        for block in many:
            kept.add(tuple(list(column) for column in zip(*block, strict=True)))
        kept.write()
        found = {
            (name, key): value
            for name in (*database.families, "(meta)")
            for key, value in records(database.column(name), Span())
        }
        database.close()
    assert found == applied(many)


def test_a_block_without_records_is_no_run():
    assert [*runs_of(([], [], []))] == []
    assert [*runs_of((["a", "a", ""], [b"1", b"2", b"a"], [b"", None, None]))] == [
        ("a", [b"1", b"2"], [b"", None]),
        ("", [b"a"], [None]),
    ]


def test_the_keys_of_a_state_are_those_that_its_files_restore(place, tmp_path):
    """The snapshot's own records are there as they are, those of changelogs empty."""
    entries = [{b"%d" % n: version for n in range(50)} for version in range(5)]
    states = batches(place, [*entries, {b"1": 7, b"new": 7}], snapshots=[4])
    database = open_keys_at(states[-1], place.directory, tmp_path / "scratch")
    found = dict(records(database.column(COUNTS.name), Span()))
    database.close()
    four = COUNTS.format.encode({"n": 4})
    assert found == {**dict.fromkeys(entries[0], four), b"1": b"", b"new": b""}


def test_a_damaged_changelog_is_an_error_and_leaves_nothing_open(place, tmp_path):
    state = batches(place, [{b"a": 1}, {b"b": 2}])[-1]
    path = state.changelogs[1].file.within(place.directory)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    scratch = tmp_path / "scratch"
    with pytest.raises(CorruptFileError, match=path.name):
        open_keys_at(state, place.directory, scratch)
    Database(scratch).close()
