"""A fork from and to an object store, and one whose store fails at any request."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.object_store import Fault, MemoryFiles, ObjectStore
from support.spark_checkpoints import aggregation, variables

from statemigrate import fork
from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.checkpoint.shape import describe
from statemigrate.commands.current import log
from statemigrate.errors import StatemigrateError
from statemigrate.event_log.log import LOG
from statemigrate.files import LocalFiles
from statemigrate.rewrite.claims import MAKING

TRIES = 4
"""How often a request is made before it counts as failed."""


def held(root: Path) -> MemoryFiles:
    """The checkpoint in a bucket."""
    entries = LocalFiles(root).list(recursive=True)
    return MemoryFiles.holding({each.name: (root / each.name).read_bytes() for each in entries})


@pytest.mark.parametrize("make", [aggregation, variables])
def test_to_a_bucket_and_back(make: Callable[[Path], Path], tmp_path: Path) -> None:
    old = make(tmp_path / "old")
    bucket = MemoryFiles(prefix="forks/one")
    fork(old, bucket, at_batch=2)
    assert describe(bucket) == describe(LocalFiles(old), 2)
    for name, data in bucket.content.items():
        if name == "state/0/_metadata/v2/0":
            assert b"memory://forks/one/state/0/_stateSchema" in data
        elif not name.startswith(LOG):
            assert data == (old / name).read_bytes()
    fork(bucket, tmp_path / "back")
    assert describe(LocalFiles(tmp_path / "back")) == describe(bucket)


@pytest.mark.parametrize("done", [False, True])
def test_a_store_that_fails_leaves_no_checkpoint_or_a_whole_one(tmp_path: Path, done: bool) -> None:
    old = held(variables(tmp_path / "old"))
    whole = MemoryFiles(prefix="new")
    fork(old, whole)
    requests = len(whole.store.requests)
    assert requests > 15
    for number in range(requests):
        new = MemoryFiles(ObjectStore(), "new")
        new.store.faults = {number + more: Fault(503, done) for more in range(TRIES)}
        try:
            fork(old, new)
        except StatemigrateError:
            pass
        else:
            assert _plain(new) == _plain(whole)
        if CheckpointDirectory(new).is_unfinished:
            continue
        if "metadata" in new.content:
            assert _plain(new) == _plain(whole)
            assert [each.verb for each in log(new).entries] == ["fork"]
        else:
            # Nothing that Spark before 4.3 would take for a checkpoint.
            assert all(name.startswith(MAKING) for name in new.content)


def _plain(files: MemoryFiles) -> dict[str, bytes]:
    """The files but for the log's and claims, which have the time in them."""
    not_compared = (LOG, MAKING)
    return {name: data for name, data in files.content.items() if not name.startswith(not_compared)}
