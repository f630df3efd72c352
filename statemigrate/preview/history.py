"""What a query's own logs say of its last batches: which were committed, and what each has read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.checkpoint.logs import (
    CommitEntry,
    OffsetEntry,
    Offsets,
    batches_in,
    file_offset,
    is_read_twice,
    lines_of_folders,
    names_in,
    read_commit,
    read_entry,
    taken_until,
)
from statemigrate.errors import CheckpointError, UnsupportedError
from statemigrate.files import Files
from statemigrate.preview.engines import StateEngine, engine_of

_AT_ONCE = 20
"""Batches that are previewed at once, where a running query is followed."""


@dataclass(frozen=True)
class CommittedBatch:
    """A batch of a query, as its offset log and its commit log have it."""

    number: int
    entry: OffsetEntry
    commit: CommitEntry


@dataclass(frozen=True)
class History:
    """The last committed ``batches`` of a query, and ``before``, the one that they follow.

    ``engine`` keeps its state.
    ``folders`` has for each line of the offset log the folder of its source in ``sources/``. Lines
    that one stream has because it is read in several places have the same; None where the files
    do not tell which. ``backfill`` are the lines of the engine's own sources: what they read is no
    input. ``settings`` are those that the query has computed its state by, as far as it is known.
    """

    engine: StateEngine
    before: CommittedBatch
    batches: tuple[CommittedBatch, ...]
    folders: Mapping[str, str | None] = field(default_factory=dict)
    backfill: frozenset[str] = frozenset()
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def sources(self) -> tuple[str, ...]:
        """The lines of the query's offset log, in its order: a source's name, or its number."""
        lines = self.before.entry.offsets.by_source
        return tuple(each for each in lines if each not in self.backfill)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The batch before, and the batches."""
        return (self.before.number, *(each.number for each in self.batches))

    @property
    def times(self) -> dict[int, int]:
        """When each batch ran: milliseconds since 1970."""
        return {each.number: each.entry.timestamp for each in self.batches}

    @property
    def watermarks(self) -> dict[int, int]:
        """The watermark after each batch, as the query has committed it."""
        return {each.number: each.commit.watermark for each in self.batches}

    def reads(self, source: str) -> dict[int, tuple[str | None, str | None]]:
        """By batch the offsets between which it has read of a source, where they differ."""
        found: dict[int, tuple[str | None, str | None]] = {}
        reached = self.before.entry.offsets.by_source[source]
        for each in self.batches:
            until = each.entry.offsets.by_source.get(source)
            if until != reached:
                found[each.number] = (reached, until)
            reached = until
        return found


def batches_after(files: Files, batch: int) -> History | None:
    """The batches that were committed after a ``batch``, no more than some; None without any.

    Raises `CheckpointError` where the logs do not have the first of them any more, and as
    `last_batches`.
    """
    newest = min(CheckpointDirectory(files).require_commit(), batch + _AT_ONCE)
    if newest <= batch:
        return None
    found = last_batches(files, newest - batch, newest=newest)
    if found.before.number != batch:
        raise CheckpointError(
            "SM-PREVIEW-024",
            f"{files.location} has removed batches before they were previewed",
            expected=f"the batches from {batch + 1} on",
            found=f"the batches from {found.before.number + 1} on",
            next_action="begin the preview again; a larger spark.sql.streaming.minBatchesToRetain "
            "of the query leaves more time",
            path=files.location,
            batch=batch + 1,
        )
    return found


def last_batches(
    files: Files,
    count: int,
    folders: Mapping[str, str | None] | None = None,
    *,
    newest: int | None = None,
) -> History:
    """The last ``count`` committed batches, or as many as the logs still have.

    ``newest`` is the last of them, the newest of all by default.

    ``folders`` are those of `History`, where neither the sources' files nor ours are there to tell.

    Raises `CheckpointError` for a checkpoint without two committed batches in a row, or without the
    state from before them, and `UnsupportedError` for a query with a continuous trigger.
    """
    directory, engine = CheckpointDirectory(files), engine_of(files)
    directory.require_any_query()
    if newest is None:
        newest = directory.require_commit()
    _refuse_continuous(files, newest)
    committed = set(batches_in(names_in(files, "commits")))
    begun = set(batches_in(names_in(files, "offsets")))
    first = newest
    while first - 1 in committed & begun and newest - first < count:
        first -= 1
    if first == newest:
        raise CheckpointError(
            "SM-PREVIEW-001",
            f"{files.location} has no batch that can be run again",
            expected="two committed batches in a row: the state after one, the input of the next",
            found=f"batch {newest} alone",
            next_action="let the query commit another batch",
            path=files.location,
        )
    _check_retained(engine, files, range(first, newest + 1))
    every = [
        CommittedBatch(number, read_entry(files, number), read_commit(files, number))
        for number in range(first, newest + 1)
    ]
    offsets = every[-1].entry.offsets
    if folders is None:
        folders, backfill = _folders(files, offsets), engine.lines(files, offsets)
    else:
        backfill = frozenset(offsets.by_source.keys() - folders.keys())
    own = {line: folder for line, folder in folders.items() if line not in backfill}
    found = History(engine, every[0], tuple(every[1:]), own, backfill)
    _check_sources(files, found)
    return found


def later_batches(last: int, newest: int) -> str:
    """How to preview the batches after ``last`` alone; empty where there are none."""
    count = newest - last
    return f"preview the batches from {last + 1} on, with --batches {count}" if count > 0 else ""


def _check_retained(engine: StateEngine, files: Files, batches: Sequence[int]) -> None:
    """Raise `CheckpointError` where the state after one of the batches is there no longer."""
    removed = engine.removed(files, batches)
    if not removed:
        return
    first, newest = max(removed) + 1, batches[-1]
    raise CheckpointError(
        "SM-PREVIEW-033",
        f"{files.location} no longer has the state that batch {batches[1]} began with",
        expected=f"the versions of its state after batches {batches[0]} to {newest}",
        found=f"those from batch {first} on" if first <= newest else "none of them",
        next_action=later_batches(first, newest)
        or "let the query commit more batches; EmbeddedOptions(retain=) says how many stay",
        path=files.location,
        batch=first + 1,
    )


def _refuse_continuous(files: Files, newest: int) -> None:
    """Raise `UnsupportedError` where the offset log is one of a continuous trigger."""
    # Spark writes an empty line where other triggers have the metadata of the batch.
    lines = files.get(f"offsets/{newest}").split(b"\n")
    if len(lines) > 2 and lines[0].strip() == b"v1" and not lines[1].strip():
        raise UnsupportedError(
            "SM-PREVIEW-014",
            f"the query of {files.location} has a continuous trigger",
            expected="a query that runs in batches",
            found="epochs, which have neither a watermark nor a time",
            next_action="continuous queries keep no state; only batches can be run again",
            path=files.location,
        )


def _check_sources(files: Files, history: History) -> None:
    for each in history.batches:
        if each.entry.offsets.by_source.keys() - history.backfill != set(history.sources):
            raise UnsupportedError(
                "SM-PREVIEW-002",
                f"the sources of {files.location} have changed",
                expected=f"{', '.join(history.sources)}, as at batch {history.before.number}",
                found=f"{', '.join(each.entry.offsets.by_source)} at batch {each.number}",
                next_action=f"preview the batches after {each.number} alone, with --batches",
                path=files.location,
            )


def _folders(files: Files, offsets: Offsets) -> dict[str, str | None]:
    """By line of the offset log its folder of ``sources/``."""
    known = lines_of_folders(files, offsets)
    if not is_read_twice(offsets, known):
        return {line: line for line in offsets.by_source}
    own = {line: folder for folder, line in known.items()}
    found: dict[str, str | None] = {}
    for line, text in offsets.by_source.items():
        # A line that is no folder's own repeats one before it, with the same offset.
        same = [each for each in found if offsets.by_source[each] == text and each in own]
        found[line] = own.get(line) or (own[same[0]] if len(same) == 1 else None)
    return found


def files_read(files: Files, source: str, history: History) -> dict[int, tuple[str, ...]] | None:
    """By batch the files that a file source has read in it; None for another source.

    Raises `CorruptFileError` for a log of the source that cannot be read.
    """
    reads = history.reads(source)
    texts = [text for pair in reads.values() for text in pair]
    texts += [each.entry.offsets.by_source[source] for each in history.batches]
    if any(file_offset(text) is None for text in texts):
        return None
    last = file_offset(history.batches[-1].entry.offsets.by_source[source])
    if last is None or last < 0:
        return {}
    folder = history.folders[source]
    if folder is None:
        raise read_twice(files, source)
    taken = sorted(taken_until(files, folder, last))
    found: dict[int, tuple[str, ...]] = {}
    for batch, (since, until) in reads.items():
        low, high = file_offset(since), file_offset(until)
        if low is not None and high is not None:
            found[batch] = tuple(each.path for each in taken if low < each.offset <= high)
    return found


def read_twice(files: Files, source: str) -> UnsupportedError:
    """The error for a stream that is read in several places, which are not at the same files."""
    return UnsupportedError(
        "SM-PREVIEW-003",
        f"the query of {files.location} reads one stream in several places, which have not the "
        "same files in each batch",
        expected="one folder of sources/ that fits each line of its offset log, or several with "
        "the same files",
        found=f"several for line {source}",
        next_action="let the query take another file from each of its sources, and preview the "
        "batches after that",
        path=files.location,
    )
