"""Spark's offset log: the one reading of it, for a query with any sources.

A file of ``offsets/`` is named after its batch. Version 1 of its format has a line ``v1``, a line
with the batch's metadata as JSON, and a line for each source in the order of the query: the text of
its offset, or ``-`` where it has none yet. Version 2 has the source's name and a colon before each,
so that sources can come and go. The format is that of Spark's ``OffsetSeqLog``. What an offset's
text says is its source's own affair; most write JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote

from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.files import Files, check_shape, parse_json, whole_number

# Which lines of an offset log may be those of each source, by their order and how far logs came.
#
# A line is either that of the next source or repeats one before it, with the same offset.


_AHEAD = 1
"""A file is in a source's log before its batch is in that of offsets."""


@dataclass(frozen=True)
class SourceLines:
    """The lines of the newest offsets, and of an earlier batch, and how far logs ``reached``.

    ``offsets`` has what the newest lines say of a file source, as `file_offset`; ``reached`` is by
    the folder's number, None for one without a file source's log. ``ahead`` is by how many batches
    a log may be further than its offset.
    """

    newest: Sequence[str]
    offsets: Sequence[int | None]
    reached: Mapping[int, int | None]
    earlier: Sequence[str] = ()
    ahead: int = _AHEAD

    def of(self, number: int) -> list[int]:
        """The lines that may be the first of a folder.

        Where logs and offsets can be read as equally far, they are: a log is ahead only where a
        query was killed between the two.
        """
        level = replace(self, ahead=0)._lines_of(number)
        return level if len(level) == 1 else self._lines_of(number)

    def _lines_of(self, number: int) -> list[int]:
        before, after = self._before(), self._after()
        return [
            line
            for line in range(len(self.newest))
            if number in before[line]
            and self._fits(number, line)
            and any(self._is_whole(number + 1 + more) for more in after[line + 1][number + 1])
        ]

    def _before(self) -> list[set[int]]:
        """By line, how many folders there may be before it."""
        found: list[set[int]] = [{0}]
        for line in range(len(self.newest)):
            repeats = found[line] if self._may_repeat(line) else set()
            begins = {count + 1 for count in found[line] if self._fits(count, line)}
            found.append(set(repeats) | begins)
        return found

    def _after(self) -> list[dict[int, set[int]]]:
        """By line and how many folders were before it, how many more there may be from it on."""
        count = len(self.newest)
        found: list[dict[int, set[int]]] = [{n: {0} for n in range(count + 1)}]
        for line in reversed(range(count)):
            rest = found[0]
            here = {
                n: (rest[n] if self._may_repeat(line) else set())
                | ({1 + more for more in rest[n + 1]} if self._fits(n, line) else set())
                for n in range(line + 1)
            }
            found.insert(0, here)
        return found

    def _is_whole(self, count: int) -> bool:
        # In a bucket there is no folder of a source that has taken nothing.
        return count > max(self.reached, default=-1)

    def _may_repeat(self, line: int) -> bool:
        return any(self._texts(line) == self._texts(other) for other in range(line))

    def _texts(self, line: int) -> tuple[str, ...]:
        return tuple(lines[line] for lines in (self.newest, self.earlier) if line < len(lines))

    def _fits(self, number: int, line: int) -> bool:
        """Whether the log of a folder has come as far as a line says."""
        offset = self.offsets[line]
        reached = self.reached.get(number)
        if offset is None:
            # Of a source that is none of files.
            return reached is None or reached < 0
        return (-1 if reached is None else reached) in (offset, offset + self.ahead)


NO_OFFSET = "-"
"""The line of a source that has no offset yet."""

_COPY = "look at the file; restore it from a copy of the checkpoint if it was altered"


@dataclass(frozen=True)
class Offsets:
    """The offsets of a batch: a line for each source, with its name where sources are ``named``."""

    named: bool
    lines: tuple[str, ...]

    @property
    def by_source(self) -> dict[str, str | None]:
        """The text of each source's offset, None where it has none yet, in the query's order.

        A source goes by its name, or else by its number, as its folder of ``sources/`` does.
        """
        pairs = (
            [(name, text) for name, _, text in (line.partition(":") for line in self.lines)]
            if self.named
            else [(str(number), line) for number, line in enumerate(self.lines)]
        )
        return {source: None if text == NO_OFFSET else text for source, text in pairs}


def parse_offsets(data: bytes, path: str) -> Offsets:
    """Read a file of the log. Raises `CheckpointError` for a layout that is not known."""
    try:
        lines = data.decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise unknown(path, "text in UTF-8", str(error)) from error
    if lines[0] not in ("v1", "v2"):
        raise unknown(path, "v1 or v2 in the first line", _short(lines[0]))
    if not _is_object(lines[1] if len(lines) > 1 else ""):
        raise unknown(path, "the batch's metadata, a JSON object, in line 2", _short(*lines[1:2]))
    named = lines[0] == "v2"
    _check_sources(path, lines[2:], named=named)
    return Offsets(named, tuple(lines[2:]))


def batches_in(names: Iterable[str]) -> list[int]:
    """The batches whose files these names are in a folder of Spark's log, where they are any's."""
    return [number for name in names if (number := whole_number(name)) is not None]


def newest_offsets(files: Files) -> Offsets | None:
    """The offsets of the newest batch that was begun; None before the first."""
    return _of_newest(files, "offsets")


def committed_offsets(files: Files) -> Offsets | None:
    """The offsets of the last batch that was committed; None before the first."""
    return _of_newest(files, "commits")


def names_in(files: Files, folder: str) -> list[str]:
    """The names in a folder of a checkpoint, in order; none where there is no such folder."""
    return [each.base_name for each in files.list(folder)]


def folders_in(files: Files, folder: str) -> list[str]:
    """The names of the folders in a folder, in order."""
    return [each.base_name for each in files.list(folder) if each.kind == "folder"]


def unknown(path: str, expected: str, found: str) -> CheckpointError:
    """A file of the log that is not understood."""
    return CheckpointError(
        "SM-CHECKPOINT-008",
        f"{path} is not an offset file of a known layout",
        expected=expected,
        found=found,
        next_action=_COPY,
        path=path,
    )


def _of_newest(files: Files, folder: str) -> Offsets | None:
    newest = max(batches_in(names_in(files, folder)), default=None)
    if newest is None:
        return None
    path = f"{files.location}/offsets/{newest}"
    try:
        return parse_offsets(files.get(f"offsets/{newest}"), path)
    except FileNotFoundError as error:
        raise unknown(path, f"a file, since {folder}/{newest} is there", "no such file") from error


def _check_sources(path: str, lines: list[str], *, named: bool) -> None:
    if not lines:
        raise unknown(path, "a line for each source after line 2", "no further line")
    for number, line in enumerate(lines, start=3):
        name, colon, offset = line.partition(":") if named else ("", "", line)
        # Spark ends a line at a carriage return too, and would count one source more.
        known = offset != "" and "\r" not in line
        if not known or (named and not (name and colon)):
            expected = f"an offset or {NO_OFFSET} in line {number}"
            raise unknown(path, f"a name and {expected}" if named else expected, _short(line))


def _is_object(text: str) -> bool:
    try:
        return isinstance(parse_json(text), dict)
    except ValueError:
        return False


def _short(*lines: str) -> str:
    text = "\n".join(lines)
    return repr(text if len(text) <= 60 else f"{text[:60]}...") if text else "nothing"


# Which files a streaming file source has taken, and with which offset.
#
# Spark's ``FileStreamSource`` keeps a log in ``sources/<number or name>/``: a file for each offset,
# and from time to time a ``<offset>.compact`` with everything before it. After a line with the
# version, each line is the JSON of one file: ``path``, ``timestamp``, ``batchId`` (its offset in
# the log). Its offset in the offset log is ``{"logOffset":n}``.
#
# Every other source keeps there what it likes, or nothing: Kafka's has its first offsets in a
# format of its own. A log is a file source's where the offset log says so; a source without an
# offset is asked too, since a batch may have been killed before its offsets were written, and is
# none unless its log reads like one.
#
# A query that reads one stream in several places has a line in its offset log for each of them, and
# one folder in ``sources/``: folders are fewer then, and those after it have other numbers than
# their lines.


_LOG_FILE = re.compile(r"(0|[1-9][0-9]{0,18})(\.compact)?")
_ATTEMPTS = 5
_BEGINNING = 64 << 10
"""Bytes of a log's file in which there is a line for certain."""


@dataclass(frozen=True, order=True)
class TakenFile:
    """A line of a file source's log; ``timestamp`` is in milliseconds since 1970."""

    offset: int
    timestamp: int
    path: str


@dataclass(frozen=True)
class SourceLog:
    """``taken`` has the log offset of each file by its path below the source's directory.

    ``committed`` is the offset that the last committed batch ended with, -1 before the first.
    """

    taken: dict[str, int] = field(default_factory=dict)
    committed: int = -1

    @property
    def offset(self) -> int:
        """The newest offset of the log, -1 if nothing was taken."""
        return max(self.taken.values(), default=-1)

    def is_committed(self, name: str) -> bool:
        """Whether a batch that had the file was committed."""
        return self.taken.get(name, self.committed + 1) <= self.committed

    @classmethod
    def read(cls, files: Files, below: str) -> SourceLog:
        """The log of the source whose directory is ``below`` the checkpoint; empty if it has none.

        The commit is looked up first: what is not taken yet cannot have been committed. Raises
        `CorruptFileError` for a file source's log that cannot be read, and `CheckpointError` for
        an offset log that cannot be.
        """
        committed = committed_offsets(files)
        newest = newest_offsets(files)
        for source in _file_sources(files):
            # Of the stream's own sources, whose logs may have millions of lines, no more is read.
            if not takes_below(files, source, below, newest):
                continue
            taken = {
                rest: offset
                for path, offset in taken_of(files, source, newest).items()
                for _, found, rest in (path.rpartition(f"/{below}/"),)
                if found
            }
            if taken:
                line = _lines_of(files, source, newest, max(taken.values()))
                return cls(taken, min(_committed(committed, each) for each in line))
        return cls()


def reads_twice(files: Files, offsets: Offsets | None) -> bool:
    """Whether a query whose sources have no names may read one of them in several places."""
    if offsets is None or offsets.named:
        return False
    return len(folders_in(files, "sources")) < len(offsets.lines)


def _lines_of(files: Files, source: str, newest: Offsets | None, reached: int) -> list[str]:
    """The lines that may be a source's, which has taken files up to ``reached``.

    Its own number but for a query that reads a stream in several places. Then it is one behind it
    that has come as far.
    """
    if newest is None or not source.isdecimal() or not reads_twice(files, newest):
        return [source]
    more = len(newest.lines) - len(folders_in(files, "sources"))
    places = range(int(source), min(int(source) + more + 1, len(newest.lines)))
    # A file is in the log before its batch is in that of offsets.
    offsets = {str(each): file_offset(newest.by_source[str(each)]) for each in places}
    fitting = [name for name, at in offsets.items() if at in (reached, reached - 1)] or [source]
    if len(fitting) == 1:
        return fitting
    known = lines_of_sources(files, newest).of(int(source))
    # Where the logs have gone on meanwhile, none fits: then it is any of these.
    return [name for name in fitting if int(name) in known] or fitting


def lines_of_sources(files: Files, newest: Offsets, earlier: Sequence[str] = ()) -> SourceLines:
    """The lines of offsets beside what the folders of sources, which have no names, have taken."""
    numbers = [int(each) for each in folders_in(files, "sources") if each.isdecimal()]
    offsets = [file_offset(text) for text in newest.by_source.values()]
    reached = {number: log_reached(files, str(number)) for number in numbers}
    return SourceLines(newest.lines, offsets, reached, earlier)


def file_offset(text: str | None) -> int | None:
    """The number in a file source's offset, -1 before the first; None for another source's."""
    if text is None:
        return -1
    try:
        offset = parse_json(text)["logOffset"]
    except (ValueError, KeyError, TypeError):
        return None
    return offset if isinstance(offset, int) else None


def files_taken(files: Files, source: str) -> dict[str, int]:
    """The log offset of each file that a source has taken, by its path; none of another source."""
    return taken_of(files, source, newest_offsets(files))


def taken_of(files: Files, source: str, newest: Offsets | None) -> dict[str, int]:
    """`files_taken`, where the ``newest`` offsets are known."""
    is_certain = _is_file_source(files, source, newest)
    if is_certain is None:
        return {}
    folder = f"sources/{source}"
    for _ in range(_ATTEMPTS - 1):
        try:
            return dict(_entries(files, folder, is_certain=is_certain))
        except FileNotFoundError:
            # A running query removes what it has made compact; the next listing has the newer file.
            continue
    return dict(_entries(files, folder, is_certain=is_certain))


def _is_file_source(files: Files, source: str, newest: Offsets | None) -> bool | None:
    """Whether a source certainly has a log of files; None where it certainly has none."""
    text = None if newest is None else newest.by_source.get(source)
    if file_offset(text) is not None:
        return text is not None and not reads_twice(files, newest)
    # The line may be another source's.
    return False if reads_twice(files, newest) else None


def takes_below(files: Files, source: str, below: str, newest: Offsets | None) -> bool | None:
    """Whether what a source has taken last lies ``below`` the checkpoint.

    None where it has taken nothing, or is no file source. A source has one directory, so that one
    line of its log tells it; of a file no more than the beginning is read. ``newest`` are the
    newest offsets. Raises `CorruptFileError` as `SourceLog.read`.
    """
    is_certain = _is_file_source(files, source, newest)
    if is_certain is None:
        return None
    for _ in range(_ATTEMPTS - 1):
        try:
            path = _one_taken(files, f"sources/{source}", is_certain=is_certain)
            break
        except FileNotFoundError:
            # As in `taken_of`.
            continue
    else:
        path = _one_taken(files, f"sources/{source}", is_certain=is_certain)
    return None if path is None else f"/{below}/" in path


def _one_taken(files: Files, folder: str, *, is_certain: bool) -> str | None:
    """The path of a file that a source has taken, of the newest that costs little to find."""
    found = {each.base_name: each for each in files.list(folder) if each.kind == "file"}
    matches = [match for name in found if (match := _LOG_FILE.fullmatch(name))]
    # A compact file has all the others; a line of a small one says the same.
    for match in sorted(matches, key=lambda each: (not each[2], int(each[1])), reverse=True):
        path = f"{folder}/{match[0]}"
        for line in _first_lines(files, path, found[match[0]].size):
            entry = _entry(line)
            if entry is not None:
                return entry[0]
            if is_certain:
                raise _corrupt(f"{files.location}/{path}", line)
    return None


def _first_lines(files: Files, path: str, size: int) -> list[str]:
    if size <= _BEGINNING:
        return _lines(files, path)
    with TemporaryDirectory(prefix="statemigrate-") as folder:
        beginning = Path(folder, "beginning")
        files.fetch(path, beginning, most=_BEGINNING, cut=True)
        text = beginning.read_bytes().decode(errors="backslashreplace")
    # The last one is cut.
    return [line for line in text.split("\n")[1:-1] if line]


def log_reached(files: Files, source: str) -> int | None:
    """The newest offset of what reads like a file source's log, -1 before the first file.

    None where the source keeps something else there.
    """
    for _ in range(_ATTEMPTS):
        names = _log_files(files, f"sources/{source}")
        try:
            if names and _one_taken(files, f"sources/{source}", is_certain=False) is None:
                return None
        except FileNotFoundError:
            # As in `taken_of`.
            continue
        break
    matches = (_LOG_FILE.fullmatch(name) for name in names)
    return max((int(match[1]) for match in matches if match), default=-1)


def taken_until(files: Files, source: str, offset: int) -> frozenset[TakenFile]:
    """What a file source's log says it had taken up to an ``offset``, from all of its files.

    What a compact file repeats is one line. Raises `CorruptFileError` for a line that is not one.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return frozenset(_taken_until(files, source, offset))
        except FileNotFoundError:
            # As in `taken_of`.
            continue
    return frozenset(_taken_until(files, source, offset))


def _taken_until(files: Files, source: str, offset: int) -> Iterator[TakenFile]:
    for name in names_in(files, f"sources/{source}"):
        path, match = f"sources/{source}/{name}", _LOG_FILE.fullmatch(name)
        # One that is not compact has lines of its own offset alone.
        if match and (match[2] or int(match[1]) <= offset):
            for line in _lines(files, path):
                found = _taken_file(line)
                if found is None:
                    raise _corrupt(f"{files.location}/{path}", line)
                if found.offset <= offset:
                    yield found


def _taken_file(line: str) -> TakenFile | None:
    try:
        entry = parse_json(line)
        check_shape(entry, {"path": str, "timestamp": int, "batchId": int})
    except ValueError:
        return None
    return TakenFile(entry["batchId"], entry["timestamp"], unquote(entry["path"]))


def _file_sources(files: Files) -> list[str]:
    """The sources that may be files, the last first: the backfill source comes after the others."""
    found = folders_in(files, "sources")
    return sorted(found, key=lambda name: (name.isdecimal(), name.zfill(9)), reverse=True)


def _committed(offsets: Offsets | None, source: str) -> int:
    if offsets is None:
        return -1
    offset = file_offset(offsets.by_source.get(source))
    return -1 if offset is None else offset


def _entries(files: Files, folder: str, *, is_certain: bool) -> Iterator[tuple[str, int]]:
    for name in _log_files(files, folder):
        path = f"{folder}/{name}"
        for line in _lines(files, path):
            entry = _entry(line)
            if entry is not None:
                yield entry
            elif is_certain:
                raise _corrupt(f"{files.location}/{path}", line)


def _entry(line: str) -> tuple[str, int] | None:
    try:
        entry = parse_json(line)
        check_shape(entry, {"path": str, "batchId": int})
    except ValueError:
        return None
    return unquote(entry["path"]), entry["batchId"]


def _corrupt(path: str, line: str) -> CorruptFileError:
    return CorruptFileError(
        "SM-CHECKPOINT-009",
        f"{path} is not a file source's log",
        expected="lines of JSON with path and batchId",
        found=f"{line[:60]!r}",
        next_action="restore the file from a copy of the checkpoint; Spark reads it too",
        path=path,
    )


def _log_files(files: Files, folder: str) -> list[str]:
    names = names_in(files, folder)
    matches = [match for name in names if (match := _LOG_FILE.fullmatch(name))]
    compact = max((int(match[1]) for match in matches if match[2]), default=-1)
    kept = [m for m in matches if int(m[1]) > compact or (m[2] and int(m[1]) == compact)]
    return [match[0] for match in sorted(kept, key=lambda match: int(match[1]))]


def _lines(files: Files, path: str) -> list[str]:
    """The lines after the version; bytes that are no text are kept, for the error to show."""
    text = files.get(path).decode(errors="backslashreplace")
    return [line for line in text.split("\n")[1:] if line]
