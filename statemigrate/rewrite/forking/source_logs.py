"""What sources keep in a checkpoint, as it was at a batch.

A file source notes the files that it has taken: what it took after the batch is left out, so that
it takes it again. Sources like Kafka note once where they began. What any other source keeps is
only understood as a whole: it is copied as it is, where nothing has happened after the batch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from statemigrate.checkpoint.logs.offsets import Offsets, folders_in
from statemigrate.checkpoint.logs.sources import file_offset
from statemigrate.errors import CorruptFileError, UnsupportedError
from statemigrate.files import Entry, Files, parse_json
from statemigrate.native.backfill.chunk_files import CONTROL, within_checkpoint
from statemigrate.native.spark_state.view import uri_of

_LOG_FILE = re.compile(r"(0|[1-9][0-9]{0,18})(\.compact)?")
_LARGEST = 1 << 30
_CONTROL = f"/{CONTROL}/".encode()


@dataclass(frozen=True)
class SourceFiles:
    """``copied`` as they are, ``written`` with other content."""

    copied: tuple[str, ...] = ()
    written: Mapping[str, bytes] = field(default_factory=dict)


def source_files(old: Files, new: Files, offsets: Offsets, *, is_last: bool) -> SourceFiles:
    """What all sources keep, as it was when a batch had these ``offsets``.

    Raises `CorruptFileError` for a file source whose log of that time is gone, `UnsupportedError`
    for another source that may have noted something since.
    """
    copied: list[str] = []
    written: dict[str, bytes] = {}
    for source in folders_in(old, "sources"):
        text = offsets.by_source.get(source)
        offset = file_offset(text)
        # Without an offset nothing was taken, but another source may have noted where it begins.
        if offset is None or (text is None and not _has_entries(old, source)):
            copied += _whole(old, source, is_last=is_last)
            continue
        for name in _log(old, source, offset):
            data = old.get(name, most=_LARGEST)
            moved = _moved(data, new)
            if moved == data:
                copied.append(name)
            else:
                written[name] = moved
    return SourceFiles(tuple(copied), written)


def _has_entries(old: Files, source: str) -> bool:
    for each in _visible(old, source):
        for line in old.get(each.name, most=_LARGEST).split(b"\n")[1:]:
            if _entry_path(line) is not None:
                return True
    return False


def _whole(old: Files, source: str, *, is_last: bool) -> list[str]:
    found = [each.name for each in old.list(f"sources/{source}", recursive=True)]
    visible = [name for name in found if not name.rpartition("/")[2].startswith(".")]
    if not is_last and set(visible) - {f"sources/{source}/0"}:
        raise UnsupportedError(
            "SM-FORK-006",
            f"what source {source} of {old.location} keeps cannot be taken back to a batch before",
            expected="a source of files, or one that only notes where it began",
            found=", ".join(visible)[:200],
            next_action="fork the last batch, with the query stopped after it",
            path=f"{old.location}/sources/{source}",
        )
    return visible


def offsets_in_log(old: Files, source: str) -> list[int]:
    """The offsets that a file source's log can be taken back to, besides -1, which needs none."""
    matches = _log_files(old, source)
    return [n for n in sorted({int(each[1]) for each in matches}) if not _chosen(matches, n)[1]]


def _log(old: Files, source: str, offset: int) -> list[str]:
    """The files of a file source's log up to an offset, from the last compact one on."""
    chosen, missing = _chosen(_log_files(old, source), offset)
    if missing:
        raise CorruptFileError(
            "SM-FORK-007",
            f"{old.location}/sources/{source} no longer tells which files were taken by then",
            expected=f"the log up to {offset}",
            found=f"no file {missing[0]}; Spark has made it compact since",
            next_action="fork a later batch",
            path=f"{old.location}/sources/{source}",
        )
    return [f"sources/{source}/{chosen[number]}" for number in sorted(chosen)]


def _log_files(old: Files, source: str) -> list[re.Match[str]]:
    names = [each.base_name for each in _visible(old, source)]
    return [match for name in names if (match := _LOG_FILE.fullmatch(name))]


def _chosen(matches: list[re.Match[str]], offset: int) -> tuple[dict[int, str], list[int]]:
    """By their offsets the files of a log up to an offset, and the offsets whose file is gone."""
    kept = [match for match in matches if int(match[1]) <= offset]
    start = max((int(match[1]) for match in kept if match[2]), default=-1)
    chosen = {int(m[1]): m[0] for m in kept if int(m[1]) > start or (m[2] and int(m[1]) == start)}
    return chosen, sorted(set(range(max(0, start), offset + 1)) - set(chosen))


def _visible(old: Files, source: str) -> list[Entry]:
    found = old.list(f"sources/{source}")
    return [e for e in found if e.kind == "file" and not e.base_name.startswith(".")]


def _moved(data: bytes, new: Files) -> bytes:
    """The log with the chunk files of a backfill in the new checkpoint."""
    if _CONTROL not in data:
        return data
    return b"\n".join(
        _moved_line(line, new) if _CONTROL in line else line for line in data.split(b"\n")
    )


def _moved_line(line: bytes, new: Files) -> bytes:
    path = _entry_path(line)
    chunk = None if path is None else within_checkpoint(path)
    if chunk is None:
        return line
    entry = parse_json(line)
    entry["path"] = quote(f"{_as_uri(new)}/{chunk}", safe="/:")
    return json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode()


def _as_uri(new: Files) -> str:
    place = uri_of(new)
    return place.replace("file:/", "file:///", 1) if not place.startswith("file://") else place


def _entry_path(line: bytes) -> str | None:
    try:
        path = parse_json(line)["path"]
    except (ValueError, KeyError, TypeError):
        return None
    return unquote(path) if isinstance(path, str) else None
