"""Spark's offset log: the one reading of it, for a query with any sources.

A file of ``offsets/`` is named after its batch. Version 1 of its format has a line ``v1``, a line
with the batch's metadata as JSON, and a line for each source in the order of the query: the text of
its offset, or ``-`` where it has none yet. Version 2 has the source's name and a colon before each,
so that sources can come and go. The format is that of Spark's ``OffsetSeqLog``. What an offset's
text says is its source's own affair; most write JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from statemigrate.errors import CheckpointError
from statemigrate.files import Files, parse_json, whole_number

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
