"""What a query's own logs say of its last batches: which were committed, and what each has read."""

from __future__ import annotations

from dataclasses import dataclass

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.checkpoint.logs.entries import CommitEntry, OffsetEntry, read_commit, read_entry
from statemigrate.checkpoint.logs.folders import is_read_twice, lines_of_folders
from statemigrate.checkpoint.logs.offsets import batches_in, file_offset, names_in, taken_until
from statemigrate.errors import CheckpointError, UnsupportedError
from statemigrate.files import Files


@dataclass(frozen=True)
class CommittedBatch:
    """A batch of a query, as its offset log and its commit log have it."""

    number: int
    entry: OffsetEntry
    commit: CommitEntry


@dataclass(frozen=True)
class History:
    """The last committed ``batches`` of a query, and ``before``, the one that they follow."""

    before: CommittedBatch
    batches: tuple[CommittedBatch, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the query's sources, in its order."""
        return tuple(self.before.entry.offsets.by_source)

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


def last_batches(files: Files, count: int) -> History:
    """The last ``count`` committed batches, or as many as the logs still have.

    Raises `CheckpointError` for a checkpoint without two committed batches in a row, and
    `UnsupportedError` for state of the embedded engine, and for a query that reads one stream in
    several places.
    """
    directory = CheckpointDirectory(files)
    directory.require_query()
    directory.refuse_embedded()
    newest = directory.require_commit()
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
    every = [
        CommittedBatch(number, read_entry(files, number), read_commit(files, number))
        for number in range(first, newest + 1)
    ]
    found = History(every[0], tuple(every[1:]))
    _check_sources(files, found)
    return found


def _check_sources(files: Files, history: History) -> None:
    for each in history.batches:
        if each.entry.offsets.by_source.keys() != set(history.sources):
            raise UnsupportedError(
                "SM-PREVIEW-002",
                f"the sources of {files.location} have changed",
                expected=f"{', '.join(history.sources)}, as at batch {history.before.number}",
                found=f"{', '.join(each.entry.offsets.by_source)} at batch {each.number}",
                next_action=f"preview the batches after {each.number} alone, with --batches",
                path=files.location,
            )
    offsets = history.batches[-1].entry.offsets
    if is_read_twice(offsets, lines_of_folders(files, offsets)):
        raise UnsupportedError(
            "SM-PREVIEW-003",
            f"the query of {files.location} reads one stream in several places",
            expected="a source for each input stream of the code",
            found=f"{len(offsets.lines)} lines in its offset log, and fewer folders in sources/",
            next_action="a query that joins a stream with itself cannot be previewed yet",
            path=files.location,
        )


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
    taken = sorted(taken_until(files, source, last))
    found: dict[int, tuple[str, ...]] = {}
    for batch, (since, until) in reads.items():
        low, high = file_offset(since), file_offset(until)
        if low is not None and high is not None:
            found[batch] = tuple(each.path for each in taken if low < each.offset <= high)
    return found
