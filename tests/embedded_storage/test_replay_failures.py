"""What RocksDB cannot do while a working copy is made anew is a named error."""

import shutil

import pytest
from support.partitions import batches, contents

from statemigrate.embedded import restore
from statemigrate.errors import CheckpointError


def test_a_disk_that_is_full_while_changelogs_are_replayed_is_named(place, monkeypatch):
    states = batches(place, [{b"a": 1}, {b"b": 2}])
    shutil.rmtree(place.working)

    def full(*_):
        # As rocksdict says it: with no type of its own.
        raise Exception("IO error: No space left on device")  # noqa: TRY002

    with monkeypatch.context() as patch:
        patch.setattr(restore.Database, "write", full)
        with pytest.raises(CheckpointError, match="RocksDB failed") as raised:
            contents(place, states[-1])
    assert "No space left" in raised.value.found
    assert contents(place, states[-1]) == {b"a": 1, b"b": 2}
