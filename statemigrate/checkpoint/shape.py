"""Everything of a checkpoint but its rows, read from its files and checked.

What is not understood is refused by its name here, before anybody has written anything: a batch
that is not committed, an entry or a file that is missing, an operator, a codec, an encoding or a
version of a format that is not known. Nothing that was not seen counts as empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.checkpoint.logs import (
    CommitEntry,
    OffsetEntry,
    batches_in,
    codec_of,
    is_avro,
    names_in,
    read_commit,
    read_entry,
)
from statemigrate.checkpoint.operators import (
    CheckpointShape,
    OperatorShape,
    read_operator,
    used_partitions,
)
from statemigrate.checkpoint.stores import provider_of
from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.files import Files


def describe(
    files: Files,
    batch: int | None = None,
    operators: Mapping[int, str] | None = None,
    *,
    restarts: bool = True,
) -> CheckpointShape:
    """What the checkpoint is as of its last batch, or as of a committed ``batch`` before.

    ``operators`` has Spark's names of operators by number, for checkpoints of Spark before 4.0,
    which do not have them. Where nobody ``restarts`` the query from there, no log of the batch
    before is needed, and the query may have begun another batch. Raises `CheckpointError` where
    something is missing, damaged or not committed, and `UnsupportedError` for what is not known.
    """
    query_id = CheckpointDirectory(files).require_query()
    if batch is not None:
        at = _committed(files, batch)
    else:
        at = _last_batch(files) if restarts else CheckpointDirectory(files).require_commit()
    needed = partial(_last_two, files) if restarts else partial(_only, files)
    offsets = {each: read_entry(files, each) for each in needed("offsets", at)}
    commits = {each: read_commit(files, each) for each in needed("commits", at)}
    conf = offsets[at].conf
    provider_of(conf), is_avro(conf), codec_of(conf)
    found = tuple(_operators(files, offsets[at], at, operators or {}))
    _check_ids(files, commits[at], at, found)
    return CheckpointShape(query_id, at, offsets, commits, found)


def _operators(
    files: Files, entry: OffsetEntry, batch: int, names: Mapping[int, str]
) -> list[OperatorShape]:
    numbers = sorted(batches_in(names_in(files, "state")))
    if numbers != list(range(len(numbers))):
        raise CorruptFileError(
            "SM-CHECKPOINT-014",
            f"{files.location}/state lacks an operator",
            expected=f"operators 0 to {max(numbers)}, as Spark counts them",
            found=", ".join(map(str, numbers)),
            next_action="restore the folder from a copy of the checkpoint",
            path=f"{files.location}/state",
        )
    return [
        read_operator(files, number, batch, entry.conf, names.get(number)) for number in numbers
    ]


def _last_batch(files: Files) -> int:
    directory = CheckpointDirectory(files)
    committed, begun = directory.require_commit(), directory.last_begun()
    if begun != committed:
        raise CheckpointError(
            "SM-CHECKPOINT-015",
            f"batch {begun} of {files.location} is not committed",
            expected=f"as many batches committed as begun, or the batch to take named: {committed}",
            found=f"offsets up to batch {begun}, commits up to batch {committed}",
            next_action="start the query with the code that it had, let it finish the batch, and "
            "stop it",
            path=files.location,
            batch=begun,
        )
    return committed


def _committed(files: Files, batch: int) -> int:
    kept = sorted(batches_in(names_in(files, "commits")))
    if batch not in kept:
        raise CheckpointError(
            "SM-CHECKPOINT-016",
            f"batch {batch} is not among the commits of {files.location}",
            expected="a batch that is committed and still kept "
            "(spark.sql.streaming.minBatchesToRetain)",
            found=f"batches {kept[0]} to {kept[-1]}" if kept else "no commits",
            next_action="name one of these batches",
            path=f"{files.location}/commits",
            batch=batch,
        )
    return batch


def _only(files: Files, log: str, batch: int) -> list[int]:
    return _present(files, log, [batch])


def _last_two(files: Files, log: str, batch: int) -> list[int]:
    return _present(files, log, [batch] if batch == 0 else [batch - 1, batch])


def _present(files: Files, log: str, needed: list[int]) -> list[int]:
    kept = set(batches_in(names_in(files, log)))
    missing = [each for each in needed if each not in kept]
    if missing:
        raise CorruptFileError(
            "SM-CHECKPOINT-017",
            f"{files.location}/{log}/{missing[0]} is missing",
            expected=f"the entries of batches {' and '.join(map(str, needed))}, "
            "which a restart reads",
            found=f"{len(kept)} entries, the newest of batch {max(kept, default=None)}",
            next_action="take a batch whose entry, and that of the batch before, are still there",
            path=f"{files.location}/{log}/{missing[0]}",
        )
    return needed


def _check_ids(
    files: Files, commit: CommitEntry, batch: int, operators: tuple[OperatorShape, ...]
) -> None:
    """Where a commit names files of state, it names those of all operators and partitions."""
    if not commit.state_ids:
        return
    reported = {number: [len(each) for each in ids] for number, ids in commit.state_ids.items()}
    expected = {each.number: [len(each.stores)] * used_partitions(each) for each in operators}
    if reported != expected:
        raise CorruptFileError(
            "SM-CHECKPOINT-018",
            f"{files.location}/commits/{batch} does not name the state of all stores",
            expected=f"an id for each store of each partition: {expected}",
            found=str(reported)[:300],
            next_action="restore the file from a copy of the checkpoint",
            path=f"{files.location}/commits/{batch}",
        )
