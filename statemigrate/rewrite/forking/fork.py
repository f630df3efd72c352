"""A fork: a checkpoint's files as of a committed batch, copied to a new place.

Nothing is decoded. Files are copied, never given a second name: a fork is a backup too, and shares
no block of a disk with what it was made from. The new place becomes a checkpoint by its last file,
``metadata``: until then that is one that no Spark reads.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from statemigrate.checkpoint.directory import EMBEDDED, CheckpointDirectory
from statemigrate.checkpoint.shape import describe
from statemigrate.errors import RewriteError, UnsupportedError
from statemigrate.files import Files
from statemigrate.files.opening import Place, open_files
from statemigrate.rewrite.forking.carried_log import making as making_event
from statemigrate.rewrite.forking.copying import copy_files
from statemigrate.rewrite.forking.files import Needed, needed_files
from statemigrate.rewrite.forking.lost_state import check_state
from statemigrate.rewrite.unfinished.claims import check_unclaimed, claimed_folders
from statemigrate.rewrite.unfinished.making import METADATA, making
from statemigrate.rewrite.unfinished.separation import check_apart

OWN = "statemigrate"
"""The folder in which the claim of a new place is."""


@dataclass(frozen=True)
class Fork:
    """What was made: the state of the query after ``batch``, in ``files`` files of ``bytes``.

    ``query_id`` is the one in the new place. ``uncommitted`` is a batch that the old query has
    begun and not committed, which is not carried. ``left`` says what else is not.
    """

    old: str
    new: str
    query_id: str
    batch: int
    files: int
    bytes: int
    uncommitted: int | None
    left: tuple[str, ...]


def fork(
    old: Place,
    new: Place,
    *,
    at_batch: int | None = None,
    new_id: bool = False,
    without_state: bool = False,
    progress: Callable[[int, int | None], None] | None = None,
) -> Fork:
    """Copy a query's checkpoint as it was after a committed batch to a new place.

    ``at_batch`` is the batch, the last committed one if not given; its state must still be kept.
    With ``new_id`` the new query has an id of its own: sinks that remember which batches of which
    query they have seen take the two for one otherwise. ``without_state`` says that the query keeps
    none, which no checkpoint tells from state that is lost. ``progress`` is called with the bytes
    that are copied and those to be copied.

    Raises `CheckpointError` for what is no checkpoint or not whole, `UnsupportedError` for what is
    not known in it, `RewriteError` where the new place is in use, and `CheckpointInUseError` where
    another command makes a checkpoint there. ``old`` is only read.
    """
    source, target = open_files(old), open_files(new)
    check_apart(source, target)
    check_unclaimed(target)
    _check_unused(target, claimed_folders(target))
    directory = CheckpointDirectory(source)
    _refuse_embedded(directory)
    directory.require_query()
    committed, begun = directory.require_commit(), directory.last_begun()
    shape = describe(source, committed if at_batch is None else at_batch)
    check_state(source, shape, without_state=without_state)
    needed = needed_files(source, target, shape)
    note = making_event("fork", shape.batch, source.location, needed.copied)
    needed = replace(needed, written={**needed.written, **note})
    query_id = str(uuid.uuid4()) if new_id else shape.query_id
    metadata = f'{{"id":"{query_id}"}}'.encode() if new_id else source.get("metadata")
    with making(target, "fork") as made:
        # Another may have made one since it was looked at.
        _check_unused(target, {OWN})
        made.shut()
        total = _copied(source, target, needed, progress)
        made.publish(metadata)
    return Fork(
        source.location,
        target.location,
        query_id,
        shape.batch,
        len(needed.copied) + len(needed.written) + 1,
        total + len(metadata),
        begun if begun > committed else None,
        needed.left,
    )


def _copied(
    source: Files, target: Files, needed: Needed, progress: Callable[[int, int | None], None] | None
) -> int:
    """Copy all files; how many bytes they have."""
    for name, data in needed.written.items():
        target.put(name, data)
    total = copy_files(
        source, target, dict(zip(needed.copied, needed.copied, strict=True)), progress
    )
    return total + sum(map(len, needed.written.values()))


def _check_unused(target: Files, own: Iterable[str] = ()) -> None:
    """Raise `RewriteError` where anything is there, but for what is ``own``."""
    found = {each.base_name for each in target.list()} - {"lost+found", *own}
    kind = target.find()
    if found or (kind is not None and kind.kind != "folder"):
        raise _in_use(target, found)


def _in_use(target: Files, found: set[str]) -> RewriteError:
    directory = CheckpointDirectory(target)
    is_unfinished = bool(found) and directory.is_unfinished
    if is_unfinished:
        contents, next_action = "unfinished", "its command has ended: remove the directory, or "
        next_action += "name another one"
    elif {METADATA, "commits"} <= found:
        contents = "checkpoint"
        next_action = "if this command made it before, it is whole; else name another directory"
    else:
        contents, next_action = "other", "name another directory"
    listed = ", ".join(sorted(found)[:8]) or "a file"
    return RewriteError(
        "SM-FORK-002",
        f"{target.location} is in use",
        expected="a directory that is not there, or is empty",
        found="a checkpoint that is not finished" if is_unfinished else listed,
        next_action=next_action,
        path=target.location,
        contents=contents,
    )


def _refuse_embedded(directory: CheckpointDirectory) -> None:
    if directory.is_embedded:
        raise UnsupportedError(
            "SM-FORK-003",
            f"the state in {directory.checkpoint} is the embedded engine's",
            expected="a query whose state is in Spark's own state store",
            found=f"{EMBEDDED}, where the embedded engine keeps its state",
            next_action="stop the query and copy the whole directory",
            path=directory.checkpoint,
        )
