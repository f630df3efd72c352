"""A fork: a checkpoint's files as of a committed batch, copied to a new place.

Nothing is decoded. Files are copied, never given a second name: a fork is a backup too, and shares
no block of a disk with what it was made from. The new place becomes a checkpoint by its last file,
``metadata``: until then that is one that no Spark reads.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from statemigrate.checkpoint import (
    EMBEDDED,
    MEANINGS,
    OPERATOR_MEANINGS,
    OWN,
    CheckpointDirectory,
    describe,
    store_version,
)
from statemigrate.checkpoint.logs import batches_in, names_in, read_commit, read_entry
from statemigrate.checkpoint.operators import (
    LARGEST,
    CheckpointShape,
    OperatorEntry,
    OperatorFile,
    OperatorShape,
    StoreEntry,
    parse_operator,
    schema_files,
    used_partitions,
)
from statemigrate.errors import CheckpointError, CorruptFileError, RewriteError, UnsupportedError
from statemigrate.event_log import (
    STEP,
    Event,
    Stamp,
    StoreRevision,
    Verb,
    document_after,
    is_document,
    read_event,
)
from statemigrate.files import (
    Files,
    LocalFiles,
    PathOrFiles,
    copy_local,
    done_at_once,
    open_files,
    parse_json,
)
from statemigrate.native import (
    ADOPTIONS,
    CONTROL,
    MADE,
    RECORD,
    ChunkFiles,
    chunks_of,
    paged_in,
    read_record,
    record_document,
    schemas_until,
    uri_of,
)
from statemigrate.pages import RECORD as PAGES
from statemigrate.pages import RECORDS, read_pages_record
from statemigrate.pages import record_document as pages_document
from statemigrate.rewrite.claims import (
    MAKING,
    MARK,
    METADATA,
    check_separate,
    check_unclaimed,
    claimed_folders,
    making_checkpoint,
)
from statemigrate.rewrite.family_plans import is_written_name
from statemigrate.rewrite.script_ways import Scripted
from statemigrate.rewrite.source_logs import SourceFiles, source_files

# The log in a new checkpoint: what was noted up to its batch, and how it was made.
#
# It is written before the file that makes the new place a checkpoint, so that it is there with it.


def of_later(old: Files, names: Iterable[str], batch: int) -> set[str]:
    """The documents of the log among ``names`` whose events are of a later batch.

    Those that cannot be read stay with the others: nobody can say that they do not belong there.
    """
    return {name for name in names if is_document(name) and _is_later(old, name, batch)}


def _is_later(old: Files, name: str, batch: int) -> bool:
    try:
        return read_event(old, name).batch > batch
    except CheckpointError:
        return False


def making(
    verb: Verb,
    batch: int,
    origin: str,
    carried: Iterable[str] = (),
    scripts: Iterable[Scripted] = (),
    unique: str | None = None,
    details: Mapping[str, str] | None = None,
) -> Mapping[str, bytes]:
    """The document that says how a checkpoint was made, by its name, after those ``carried``.

    ``details`` are what else there is to say.
    """
    changes = tuple(
        StoreRevision(each.path.target, (each.family,)).after(each.store, each.path.source)
        for each in scripts
        if each.is_open
    )
    event = Event.now(
        verb, batch, changes, Stamp.of(Path.cwd()), {**(details or {}), "from": origin}
    )
    documents = sorted(name for name in carried if is_document(name))
    name, data = document_after(documents[-1] if documents else None, event, unique)
    return {name: data}


# What statemigrate itself keeps in a checkpoint, as far as it belongs to the state of a batch.


@dataclass(frozen=True)
class OwnFiles:
    """``copied`` as they are, ``written`` with other content; ``left`` says what is not carried."""

    copied: tuple[str, ...] = ()
    written: Mapping[str, bytes] = field(default_factory=dict)
    left: tuple[str, ...] = ()


def own_files(old: Files, batch: int, *, is_last: bool) -> OwnFiles:
    """The files below ``statemigrate`` that are of the state after a batch.

    Where something has happened since, the plan of a backfill and its chunks are left out, for
    which another plan is made, and so is what was noted after the batch.
    """
    found = [each.name for each in old.list(OWN, recursive=True)]
    # What says how far the old one had come, as it was made, says nothing of the new one.
    names = [name for name in found if not (name == MARK or name.startswith(f"{MAKING}/"))]
    if is_last:
        return OwnFiles(tuple(names))
    later = {name for folder in _adoptions(old, names, batch) for name in _below(names, folder)}
    later |= of_later(old, names, batch)
    later |= _later_meanings(names, batch)
    control = {name for name in names if name.startswith(f"{CONTROL}/")}
    written, left = _record(old, batch) if RECORD in names else ({}, [])
    records = _pages_records(old, names, batch)
    written = {**written, **records}
    if control:
        # The backfill sources refuse to start without their directories.
        paged = paged_in(old)
        operators = [*paged, *([None] if not paged or ChunkFiles(old).is_made() else [])]
        made = {f"{chunks_of(operator)}/{MADE}": b"" for operator in operators}
        written = {**written, **made}
        left = [*left, "the plan of a backfill: `statemigrate backfill` makes another"]
    kept = [name for name in names if name not in {RECORD, *later, *control, *records}]
    return OwnFiles(tuple(kept), written, tuple(left))


def _later_meanings(names: Iterable[str], batch: int) -> set[str]:
    """The records of starts after the batch: they would be in force again once it has as many."""
    own = (each for each in names if each.startswith((f"{MEANINGS}/", f"{OPERATOR_MEANINGS}/")))
    return {each for each in own if max(batches_in([each.rpartition("/")[2]]), default=0) > batch}


def _record(old: Files, batch: int) -> tuple[dict[str, bytes], list[str]]:
    record = read_record(old)
    kept = {store: each for store, each in record.items() if each.batch <= batch}
    left = [
        f"what was deployed of {store} after the batch" for store in record if store not in kept
    ]
    return ({RECORD: record_document(kept)} if kept else {}), left


def _pages_records(old: Files, names: Iterable[str], batch: int) -> dict[str, bytes]:
    """The records of operators on pages as they were at the batch, by their files."""
    places = [name for name in names if name == PAGES or name.startswith(f"{RECORDS}/")]
    own = [name for name in places if not is_written_name(name)]
    return {name: record_then(old, name, batch) for name in own}


def record_then(old: Files, name: str, batch: int) -> bytes:
    """The record of an operator's pages in a file, as it was when a batch was committed.

    Raises `CheckpointError` where the file does not tell, and `CorruptFileError` for one that was
    altered.
    """
    found = read_pages_record(old, name)
    then = None if found is None else found.at(batch)
    if then is not None:
        return pages_document(then)
    raise CheckpointError(
        "SM-FORK-008",
        f"it is unknown which families the pages of {old.location} had at batch {batch}",
        expected=f"in {name} what the pages had at batch {batch}",
        found="no such file"
        if found is None
        else "what they had at later batches"
        if found.since is not None
        else "a record of an earlier release, which does not say since when it is true",
        next_action="fork the last batch, without --at-batch",
        path=f"{old.location}/{name}",
    )


def _adoptions(old: Files, names: list[str], batch: int) -> list[str]:
    """The folders of adoptions that changed entries of the offset log after the batch."""
    records = [n for n in names if n.startswith(f"{ADOPTIONS}/") and n.endswith("/record.json")]
    return [
        name.rpartition("/")[0]
        for name in records
        if any(each > batch for each in _batches(old.get(name)))
    ]


def _batches(data: bytes) -> list[int]:
    files = parse_json(data)["files"]
    return [int(each["batch"]) for each in files]


def _below(names: list[str], folder: str) -> list[str]:
    return [name for name in names if name.startswith(f"{folder}/")]


# Which files a query needs to go on from a batch, and which of them are written again.


@dataclass(frozen=True)
class Needed:
    """``copied`` are names of files; ``written`` those that are another one in the new place.

    ``left`` says what is not carried over, for people.
    """

    copied: tuple[str, ...]
    written: Mapping[str, bytes] = field(default_factory=dict)
    left: tuple[str, ...] = ()


_KNOWN = {"metadata", "offsets", "commits", "sources", "state", "statemigrate", "lost+found"}


def needed_files(
    old: Files,
    new: Files,
    shape: CheckpointShape,
    *,
    with_sources: bool = True,
    with_state: bool = True,
) -> Needed:
    """What the query of ``shape`` needs in ``new`` to go on from its batch; without ``metadata``.

    Raises `CorruptFileError` where a file is missing, `UnsupportedError` for a source whose log
    cannot be taken back to the batch. Without ``with_sources`` what sources keep is left out, and
    without ``with_state`` the rows of state.
    """
    logs = [f"commits/{batch}" for batch in shape.commits]
    logs += [f"offsets/{batch}" for batch in shape.offsets]
    state: list[str] = []
    if with_state:
        state = [name for each in shape.operators for name in state_files(old, shape, each)]
    described, rooted = _operator_files(old, new, shape)
    sources = SourceFiles()
    if with_sources:
        offsets = shape.offsets[shape.batch].offsets
        sources = source_files(old, new, offsets, is_last=is_last(old, shape))
    own = own_files(old, shape.batch, is_last=is_last(old, shape))
    copied = _with_checksums(old, [*state, *described, *sources.copied, *own.copied, *logs])
    return Needed(
        tuple(copied),
        {**rooted, **sources.written, **own.written},
        (*_unknown(old), *own.left),
    )


def is_last(old: Files, shape: CheckpointShape) -> bool:
    """Whether nothing has happened after the batch."""
    directory = CheckpointDirectory(old)
    return directory.last_commit() == directory.last_begun() == shape.batch


def state_files(old: Files, shape: CheckpointShape, operator: OperatorShape) -> list[str]:
    """The files of an operator's state. Raises `CorruptFileError` where one is missing."""
    partitions = _partitions(old, operator)
    return [
        name
        for partition in range(partitions)
        for place in range(len(operator.stores))
        for name in store_version(old, shape, operator, place, partition).names
    ]


def _partitions(old: Files, operator: OperatorShape) -> int:
    """How many partitions are to be copied; one more or less than expected is an error."""
    expected = used_partitions(operator)
    there = set(batches_in(names_in(old, f"state/{operator.number}")))
    if there != set(range(expected)):
        raise CorruptFileError(
            "SM-CHECKPOINT-030",
            f"{old.location}/state/{operator.number} has other partitions than it should",
            expected=f"partitions 0 to {expected - 1}",
            found=f"partitions {sorted(there)}"[:200],
            next_action="restore what is missing from a copy of the checkpoint",
            path=f"{old.location}/state/{operator.number}",
        )
    return expected


def _operator_files(
    old: Files, new: Files, shape: CheckpointShape
) -> tuple[list[str], dict[str, bytes]]:
    """The schemas and metadata of operators; those that name places by their paths are written."""
    copied: list[str] = []
    rooted: dict[str, bytes] = {}
    for operator in shape.operators:
        folder = f"state/{operator.number}/_metadata"
        changes = [b for b in batches_in(names_in(old, f"{folder}/v2")) if b <= shape.batch]
        paths = [f"{folder}/v2/{batch}" for batch in sorted(changes)]
        if old.find(f"{folder}/metadata") is not None:
            paths.append(f"{folder}/metadata")
        # Spark before 4.0 has written none.
        copied += [] if paths else _schemas(operator)
        # What no metadata name says that other code has run a batch again.
        copied += schemas_until(old, operator.number, shape.batch)
        for path in paths:
            data = old.get(path, most=LARGEST)
            entry = parse_operator(data, f"{old.location}/{path}")
            copied += [name for store in entry.stores for name in schema_files(entry, store)]
            if entry.version == 2:
                rooted[path] = OperatorFile(path, data).rooted_at(uri_of(new)).data
            else:
                copied.append(path)
    return list(dict.fromkeys(copied)), rooted


def _schemas(operator: OperatorShape) -> list[str]:
    stores = tuple(StoreEntry(each.name, 0, each.partitions) for each in operator.stores)
    entry = OperatorEntry(operator.number, operator.name, stores)
    return [name for store in stores for name in schema_files(entry, store)]


def _with_checksums(old: Files, names: Iterable[str]) -> list[str]:
    """The files, and Spark's own checksum file of each that has one."""
    wanted = list(dict.fromkeys(names))
    folders = {name.rpartition("/")[0] for name in wanted}
    there = {each.name for folder in folders for each in old.list(folder) if each.kind == "file"}
    return wanted + [f"{name}.crc" for name in wanted if f"{name}.crc" in there]


def _unknown(old: Files) -> list[str]:
    names = {each.base_name for each in old.list() if not each.base_name.startswith(".")}
    return [f"{name}: no part of a checkpoint" for name in sorted(names - _KNOWN)]


# Files of a checkpoint copied as they are, several at a time.


_WHOLE = 16 << 20
"""Bytes of a file that are copied through memory; a larger one goes over a local file."""


def copy_files(
    source: Files,
    target: Files,
    names: Mapping[str, str],
    progress: Callable[[int, int | None], None] | None = None,
) -> int:
    """Copy each file of ``source`` to the name that ``names`` has for it; how many bytes they have.

    ``progress`` is called with the bytes that are copied and those to be copied. Raises
    `CheckpointError` for a file that is gone.
    """
    sizes = _sizes(source, names)
    total, done = sum(sizes.values()), 0
    if isinstance(source, LocalFiles) and isinstance(target, LocalFiles):
        copied = copy_local(source, target, names)
    else:
        copied = done_at_once(
            {
                name: partial(_copy, source, target, name, new, sizes[name])
                for name, new in names.items()
            }
        )
    try:
        for name in copied:
            done += sizes[name]
            if progress:
                progress(done, total)
    except FileNotFoundError as error:
        raise _gone(str(error.filename)) from error
    return total


def _copy(source: Files, target: Files, name: str, new: str, size: int) -> None:
    try:
        if size <= _WHOLE:
            target.put(new, source.get(name, most=_WHOLE))
        else:
            with tempfile.TemporaryDirectory(prefix="statemigrate-") as folder:
                source.fetch(name, Path(folder, "file"), most=size)
                target.put(new, Path(folder, "file"))
    except FileNotFoundError as error:
        raise _gone(f"{source.location}/{name}") from error


def _sizes(source: Files, names: Mapping[str, str]) -> dict[str, int]:
    folders = {name.rpartition("/")[0] for name in names}
    there = {each.name: each.size for folder in folders for each in source.list(folder)}
    for name in names:
        if name not in there:
            raise _gone(f"{source.location}/{name}")
    return {name: there[name] for name in names}


def _gone(path: str) -> CheckpointError:
    return CheckpointError(
        "SM-FORK-001",
        f"{path} is gone",
        expected="a file of a batch whose state is kept",
        found="no such file: the query runs on, and has removed what it keeps no longer",
        next_action="fork a later batch, or stop the query first; remove what was copied",
        path=path,
    )


# Whether a checkpoint without state is that of a query which keeps none.
#
# Spark notes the same of a query without state as of one with it, but for the folder ``state``:
# where that is missing, only the query's owner can say which of both it is.


def check_state(old: Files, shape: CheckpointShape, *, without_state: bool) -> None:
    """Raise `CheckpointError` unless there is state, or the caller declares that there is none."""
    deployed = sorted(read_record(old))
    if shape.operators and without_state:
        raise CheckpointError(
            "SM-FORK-004",
            f"{old.location} has state",
            expected="a query without state, as declared",
            found=", ".join(f"operator {each.number}" for each in shape.operators),
            next_action="leave out --without-state",
            path=old.location,
        )
    if not shape.operators and (deployed or not without_state):
        noted = f"; the query was deployed with {', '.join(deployed)}" if deployed else ""
        raise CheckpointError(
            "SM-FORK-005",
            f"{old.location} has no state of any operator",
            expected="the folder state, with a folder for each stateful operator",
            found=f"none, and its logs do not say whether the query keeps any{noted}",
            next_action="restore the folder state from a copy of the checkpoint"
            if deployed
            else "restore the folder state from a copy of the checkpoint; a query that keeps no "
            "state is forked with --without-state",
            path=old.location,
        )


@dataclass(frozen=True)
class Fork:
    """A fork: the state of the query after ``batch``, in ``files`` files of ``bytes``.

    ``query_id`` is the one in the new place. ``uncommitted`` is a batch that the old query has
    begun and not committed; the fork does not have it. ``left`` lists other parts that it does not
    have.
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
    old: PathOrFiles,
    new: PathOrFiles,
    *,
    at_batch: int | None = None,
    new_id: bool = False,
    without_state: bool = False,
    progress: Callable[[int, int | None], None] | None = None,
) -> Fork:
    """Copy a query's checkpoint as it was after a committed batch to a new place.

    ``at_batch`` is the batch, the last committed one by default; Spark must still keep its state.
    With ``new_id`` the new query has its own id. Otherwise sinks that remember the batches of a
    query treat both as the same query. ``without_state`` confirms that the query has no state; a
    checkpoint cannot show whether it has none or has lost it. ``progress`` is called with the
    number of bytes copied and the total.

    Raises `CheckpointError` if ``old`` is not a complete checkpoint, `UnsupportedError` for unknown
    content, `RewriteError` if the new place is in use, and `CheckpointInUseError` if another
    command makes a checkpoint there. ``old`` is only read.
    """
    source, target = open_files(old), open_files(new)
    check_separate(source, target)
    check_unclaimed(target)
    _check_unused(target, claimed_folders(target))
    directory = CheckpointDirectory(source)
    _refuse_embedded(directory)
    directory.require_query()
    committed, begun = directory.require_commit(), directory.last_begun()
    shape = describe(source, committed if at_batch is None else at_batch)
    check_state(source, shape, without_state=without_state)
    needed = needed_files(source, target, shape)
    note = making("fork", shape.batch, source.location, needed.copied)
    needed = replace(needed, written={**needed.written, **note})
    query_id = str(uuid.uuid4()) if new_id else shape.query_id
    metadata = f'{{"id":"{query_id}"}}'.encode() if new_id else source.get("metadata")
    with making_checkpoint(target, "fork") as made:
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


def fork_with_state(
    old: Files, computed: Files, new: Files, batch: int, check: Callable[[CheckpointShape], None]
) -> Fork:
    """Fork a query at its ``batch``, with the state that another checkpoint has computed of it.

    Of ``old`` are the query, its offsets and what its sources keep, of ``computed`` the state after
    the same batch, whose shape ``check`` gets once all files are in ``new``, before that is a
    checkpoint. The log in ``new`` says that it is a repair. Raises as `fork`, and what ``check``
    raises.
    """
    check_separate(old, new)
    check_unclaimed(new)
    _check_unused(new, claimed_folders(new))
    directory = CheckpointDirectory(old)
    shape = describe(computed, batch)
    is_newest = directory.last_begun() == batch
    state = needed_files(computed, new, shape, with_sources=False)
    offsets = read_entry(old, batch).offsets
    sources = source_files(old, new, offsets, is_last=is_newest)
    own = own_files(old, batch, is_last=is_newest)
    logs = [f"offsets/{each}" for each in shape.offsets]
    copied = tuple(_with_checksums(old, [*sources.copied, *own.copied, *logs]))
    of_state = replace(
        state,
        copied=tuple(name for name in state.copied if name.startswith("state/")),
        written={name: data for name, data in state.written.items() if name.startswith("state/")},
    )
    # What a sink has noted is the query's; the names of the state's files are not.
    commits = {
        f"commits/{each}": replace(read_commit(old, each), state_ids=entry.state_ids).data
        for each, entry in shape.commits.items()
    }
    note = making("fork", batch, old.location, own.copied, details={STEP: "repair"})
    rest = Needed(copied, {**sources.written, **own.written, **commits, **note}, own.left)
    with making_checkpoint(new, "repair") as made:
        _check_unused(new, {OWN})
        made.shut()
        total = _copied(computed, new, of_state, None) + _copied(old, new, rest, None)
        check(shape)
        made.publish(old.get(METADATA))
    parts = (of_state, rest)
    count = sum(len(each.copied) + len(each.written) for each in parts) + 1
    begun = None if is_newest else directory.last_begun()
    return Fork(old.location, new.location, shape.query_id, batch, count, total, begun, own.left)


def fork_state(old: Files, new: Files, batch: int) -> CheckpointShape:
    """Copy the state that a query had after a batch, its logs, and nothing that its sources keep.

    The new place is a checkpoint with an id of its own, of a query whose sources have lost their
    logs: the query that starts there writes them. Raises as `fork`. Returns the shape of ``old``.
    """
    shape = describe(old, batch)
    needed = needed_files(old, new, shape, with_sources=False)
    _copied(old, new, needed, None)
    new.put("metadata", f'{{"id":"{uuid.uuid4()}"}}'.encode())
    return shape


def fork_batches(
    old: Files, new: Files, batches: Sequence[int], *, with_state: bool = True
) -> None:
    """Copy the state that a query had after each of some ``batches``, and the logs of these.

    What its sources keep is left out, and without ``with_state`` the rows of state too. In the new
    place, which has the query's id, the last one of the batches is the newest. Raises as `fork`.
    """
    copied: dict[str, None] = {}
    written: dict[str, bytes] = {}
    for batch in sorted(batches):
        needed = needed_files(
            old, new, describe(old, batch), with_sources=False, with_state=with_state
        )
        copied.update(dict.fromkeys(needed.copied))
        written.update(needed.written)
    _copied(old, new, Needed(tuple(name for name in copied if name not in written), written), None)
    new.put(METADATA, old.get(METADATA))


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
