"""Which files a streaming file source has taken, and with which offset.

Spark's ``FileStreamSource`` keeps a log in ``sources/<number or name>/``: a file for each offset,
and from time to time a ``<offset>.compact`` with everything before it. After a line with the
version, each line is the JSON of one file: ``path``, ``timestamp``, ``batchId`` (its offset in the
log). The offset log is described in `statemigrate.native.offsets`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from statemigrate.errors import CorruptFileError
from statemigrate.files import parse_json, whole_number

_LOG_FILE = re.compile(r"([0-9]+)(\.compact)?")
_ATTEMPTS = 5


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
    def read(cls, system: Any, checkpoint: str, below: str) -> SourceLog:
        """The log of the source whose directory is ``below`` the checkpoint; empty if it has none.

        The commit is looked up first: what is not taken yet cannot have been committed.
        """
        offsets = _committed_offsets(system, checkpoint)
        for source in _names(system, f"{checkpoint}/sources"):
            taken = _taken(system, f"{checkpoint}/sources/{source}", f"/{below}/")
            if taken:
                return cls(taken, offsets.get(source, -1))
        return cls()


def offset_of(text: str | None) -> int:
    """The number in a file source's offset, -1 for none."""
    try:
        document = parse_json(text or "null")
    except ValueError:
        return -1
    return int(document["logOffset"]) if isinstance(document, dict) else -1


def source_count(system: Any, checkpoint: str) -> int | None:
    """How many unnamed sources the newest offsets have; None without offsets, or with names."""
    newest = _newest(system, f"{checkpoint}/offsets")
    if newest is None:
        return None
    version, _, *sources = _lines(system, f"{checkpoint}/offsets/{newest}")
    return None if version != "v1" else len(sources)


def _committed_offsets(system: Any, checkpoint: str) -> dict[str, int]:
    newest = _newest(system, f"{checkpoint}/commits")
    if newest is None:
        return {}
    version, _, *sources = _lines(system, f"{checkpoint}/offsets/{newest}")
    if version == "v1":
        return {str(number): _end(text) for number, text in enumerate(sources)}
    named = (text.partition(":") for text in sources)
    return {name: _end(text) for name, _, text in named}


def _end(text: str) -> int:
    try:
        return offset_of(text)
    except (KeyError, TypeError, ValueError):
        # Of another kind of source.
        return -1


def _taken(system: Any, directory: str, below: str) -> dict[str, int]:
    for _ in range(_ATTEMPTS - 1):
        try:
            return dict(_entries(system, directory, below))
        except FileNotFoundError:
            # A running query removes what it has made compact; the next listing has the newer file.
            continue
    return dict(_entries(system, directory, below))


def _entries(system: Any, directory: str, below: str) -> Iterator[tuple[str, int]]:
    for name in _log_files(system, directory):
        path = f"{directory}/{name}"
        for line in _lines(system, path)[1:]:
            entry = _entry(path, line)
            _, found, rest = unquote(entry["path"]).rpartition(below)
            if not found:
                return
            yield rest, int(entry["batchId"])


def _entry(path: str, line: str) -> dict[str, Any]:
    try:
        entry: dict[str, Any] = parse_json(line)
        return {"path": entry["path"], "batchId": entry["batchId"]}
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(
            f"{path} is not a file source's log",
            expected="lines of JSON with path and batchId",
            found=f"{line[:60]!r}",
            next_action="restore the file from a copy of the checkpoint; Spark reads it too",
            path=path,
        ) from error


def _log_files(system: Any, directory: str) -> list[str]:
    matches = [match for name in _names(system, directory) if (match := _LOG_FILE.fullmatch(name))]
    compact = max((int(match[1]) for match in matches if match[2]), default=-1)
    kept = [m for m in matches if int(m[1]) > compact or (m[2] and int(m[1]) == compact)]
    return [match[0] for match in sorted(kept, key=lambda match: int(match[1]))]


def _newest(system: Any, directory: str) -> int | None:
    numbers = (whole_number(name) for name in _names(system, directory))
    return max((number for number in numbers if number is not None), default=None)


def _names(system: Any, directory: str) -> list[str]:
    from pyarrow import fs

    found = system.get_file_info(fs.FileSelector(directory, allow_not_found=True))
    return sorted(each.base_name for each in found)


def _lines(system: Any, path: str) -> list[str]:
    with system.open_input_stream(path) as stream:
        return [line for line in stream.read().decode().split("\n") if line]
