"""Comparing the check with the query, wherever Spark brings the code to (rule 14).

Spark brings it to a Python process beside the driver when a run plans its first batch, which
calls ``init`` to learn the variables, and to every task. Of an error that is raised in that
``init`` Spark says only that the process crashed, and of one that is raised while the code is read
it says everything: so that is where the comparison is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.deployment import is_family_of, revision_in
from statemigrate.logbook.noting import Note
from statemigrate.logbook.standing import Facts, Standing
from statemigrate.migration import BASE
from statemigrate.native.seen.record import RECORD, StoreRecord, read_record, record_document
from statemigrate.native.seen.seen import Seen
from statemigrate.native.spark_state.listing import begun_schemas, read_listing

Records = Mapping[str, StoreRecord]
Families = Callable[[str], tuple[str, ...]]
"""The variables of a store that a deployment knows, whether they exist or not."""
_PLANNING = "pyspark.sql.streaming.transform_with_state_driver_worker"


def is_planning() -> bool:
    """Whether this is the process beside the driver in which Spark calls ``init`` to plan."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PLANNING in sys.modules or getattr(main, "name", None) == _PLANNING


def begin_run(seen: Seen, records: Records, families: Families, note: Note | None = None) -> None:
    """Before a run plans its first batch: compare, begin an epoch, leave the ``records``.

    Before these the log is told of it by ``note``, so that nothing is done where it cannot be.

    Raises `StartupError` where the check is not good for the query that runs there by now, and
    `CheckpointInUseError` where another driver begins at the same moment.
    """
    committed = seen.compare_at_start()
    moved = seen.is_something and committed != seen.batch
    if moved and not _ran_alone(seen, records, families, committed):
        raise seen.outdated(committed)
    record = read_record(seen.files)
    begun = begun_schemas(seen.files, committed)
    mine = {
        store: replace(each, begun=tuple(sorted(begun.union(_known(record.get(store), seen)))))
        for store, each in records.items()
    }
    leave = seen.begin_epoch(RECORD, record_document({**record, **mine}))
    if note is not None:
        # Families are dropped by the batch right after the check, and by none later.
        note = note if committed == seen.batch else replace(note, dropped={})
        note.start(seen.files, committed + 1, _facts(record, note, committed))
    leave()


def _facts(record: Records, note: Note, committed: int) -> Facts:
    """What the last start has left of itself, whichever release that was of."""
    found = {}
    for store, each in record.items():
        if each.target is not None and store in note.stores:
            oldest = next(iter(note.stores[store].order), BASE)
            revision = revision_in(each.target) or oldest
            found[store] = Standing(revision, each.families, note.stores[store].order)
    since = max((record[store].batch + 1 for store in found), default=committed)
    return Facts(found, min(since, committed + 1))


def _known(noted: StoreRecord | None, seen: Seen) -> tuple[str, ...]:
    """What an earlier start of this very deployment found begun; its check is of before that."""
    return noted.begun if noted is not None and noted.deployment == seen.deployment else ()


def is_next_batch(seen: Seen, handle: Any) -> bool:
    """Whether this is the batch right after the check, so that drained families may be dropped.

    Raises `StartupError` where the check is not good for this task.
    """
    if _plans(handle):
        return CheckpointDirectory(seen.files).last_commit() == seen.batch
    return seen.compare_in_task()


def _plans(handle: Any) -> bool:
    from pyspark import TaskContext
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

    # Spark's in-memory tester has a handle of its own kind, and no query.
    return type(handle) is StatefulProcessorHandle and TaskContext.get() is None


def _ran_alone(seen: Seen, records: Records, families: Families, committed: int) -> bool:
    """Whether all batches since the check were this deployment's own.

    Then what it reads is still all there is: it writes to nothing else. Another one would have left
    its own record; code that leaves none declares other variables, or none but those read here.
    """
    if committed < seen.batch:
        return False
    record, listing = read_record(seen.files), read_listing(seen.files, committed)
    for store, mine in records.items():
        noted = record.get(store)
        listed = {name for name in listing.variables if is_family_of(store, name)}
        rerun = any(listing.may_have(name) for name in families(store))
        if noted is None or noted.deployment != seen.deployment or rerun:
            return False
        if listing.passed_over(range(seen.batch + 1, committed + 1), noted.begun).keys() & listed:
            return False
        if listed != set(mine.families):
            return False
    return True
