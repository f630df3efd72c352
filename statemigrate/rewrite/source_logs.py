"""What sources keep in a checkpoint, as it was at a batch.

A file source notes the files that it has taken: what it took after the batch is left out, so that
it takes it again. Sources like Kafka note once where they began. What any other source keeps is
only understood as a whole: it is copied as it is, where nothing has happened after the batch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from statemigrate.checkpoint.logs import (
    NO_OFFSET,
    Offsets,
    file_offset,
    folders_in,
    is_read_twice,
    lines_of_folders,
)
from statemigrate.errors import CorruptFileError, RewriteError, UnsupportedError
from statemigrate.files import FileEntry, Files, parse_json
from statemigrate.native import CONTROL, uri_of, within_checkpoint
from statemigrate.rewrite.rewrite_plan import RewritePlan
from statemigrate.rewrite.sources import SourcePlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOG_FILE = re.compile(r"(0|[1-9][0-9]{0,18})(\.compact)?")
_LARGEST = 1 << 30
_CONTROL = f"/{CONTROL}/".encode()


@dataclass(frozen=True)
class SourceFiles:
    """``copied`` as they are, ``written`` with other content."""

    copied: tuple[str, ...] = ()
    written: Mapping[str, bytes] = field(default_factory=dict)


def source_files(
    old: Files,
    new: Files,
    offsets: Offsets,
    *,
    is_last: bool,
    lines: Mapping[str, str] | None = None,
) -> SourceFiles:
    """What all sources keep, as it was when a batch had these ``offsets``.

    ``lines`` has by folder the source whose line is its own, where that was looked up before.
    Raises `CorruptFileError` for a file source whose log of that time is gone, `UnsupportedError`
    for another source that may have noted something since, and as `lines_of_folders`.
    """
    lines = lines_of_folders(old, offsets) if lines is None else lines
    copied: list[str] = []
    written: dict[str, bytes] = {}
    for source in folders_in(old, "sources"):
        text = offsets.by_source.get(lines.get(source, ""))
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
    """The offsets that a file source's log can be taken back to, and -1, which needs none."""
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


def _visible(old: Files, source: str) -> list[FileEntry]:
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


# The logs that sources keep in the new checkpoint: those of old ones, and of files taken before.
#
# A file source takes no file twice that its log names. A new one whose state has come from
# elsewhere begins with a log of the files that are in that state.


def check_offsets(plan: RewritePlan, old: Files) -> None:
    """Raise `RewriteError` for an offset of a file source that its own log does not have.

    Spark would take every file after it for new, or miss those before it. Raises `UnsupportedError`
    where a query that reads one stream in several places is to have other sources, or offsets.
    """
    entry = plan.old.offsets[plan.old.batch]
    if is_read_twice(entry.offsets, lines_of_folders(old, entry.offsets)):
        _check_places(plan, old, entry.offsets)
    for each in plan.sources.sources:
        before = None if each.old is None else entry.offsets.by_source[each.old]
        is_asked = each.offset is not None and each.offset != NO_OFFSET
        if before is not None and is_asked and file_offset(before) is not None:
            known = offsets_in_log(old, str(each.old))
            if file_offset(each.offset) not in (-1, *known):
                raise _no_such_offset(each, known)


def retained_logs(plan: RewritePlan, old: Files, new: Files) -> Iterator[tuple[str, bytes]]:
    """What the old sources keep that new ones go on with, below the names of these.

    As far as the offsets of the plan: a source that is set back takes its files again.
    """
    kept = {each.old: each for each in plan.sources.sources if each.old is not None}
    before = plan.old.offsets[plan.old.batch].offsets
    lines = lines_of_folders(old, before)
    found = source_files(old, new, _reached(plan, kept), is_last=True, lines=lines)
    is_shared = is_read_twice(before, lines)
    for name in (*found.copied, *found.written):
        _, source, *rest = name.split("/")
        line = lines.get(source, source)
        if line in kept:
            data = found.written.get(name) or old.get(name, most=_LARGEST)
            folder = source if is_shared else kept[line].name
            yield "/".join(["sources", folder, *rest]), data


def taken_logs(plan: RewritePlan, spark: SparkSession) -> Iterator[tuple[str, bytes]]:
    """Logs with the files that new sources are not to take.

    Raises `RewriteError` for a place without files.
    """
    for source in plan.sources.sources:
        if source.taken:
            entries = sorted(_files(source, spark))
            lines = [
                json.dumps({"path": path, "timestamp": moment, "batchId": 0}, separators=(",", ":"))
                for path, moment in entries
            ]
            yield f"sources/{source.name}/0", "\n".join(["v1", *lines]).encode()


def _check_places(plan: RewritePlan, old: Files, offsets: Offsets) -> None:
    """Lines that are one source's go on together, and so each in its place."""
    there, folders = list(offsets.by_source), folders_in(old, "sources")
    changed = [
        f"source {each.name}"
        for each in plan.sources.sources
        if each.old != each.name or each.offset is not None or each.taken
    ]
    changed += [f"source {name}, which goes" for name in plan.sources.gone]
    if not (plan.sources.named or changed or len(plan.sources.sources) != len(there)):
        return
    raise UnsupportedError(
        "SM-REWRITE-063",
        f"the query of {old.location} reads one stream in several places, and is to have other "
        "sources or offsets",
        expected=f"its {len(there)} sources, each in its place and at its offset",
        found=", ".join(changed) or f"{len(plan.sources.sources)} sources",
        next_action="leave --source, --offsets and --taken out, and keep the streams of the code "
        f"as they are: its offset log has {len(there)} lines, and sources/ {len(folders)} folders, "
        "so that a line does not tell its source",
        path=old.location,
    )


def _no_such_offset(source: SourcePlan, known: list[int]) -> RewriteError:
    begins, ends = (known[0], known[-1]) if known else (0, -1)
    whole = f"from -1 to {ends}" if begins == 0 else f"-1, or from {begins} to {ends}"
    return RewriteError(
        "SM-REWRITE-050",
        f"source {source.name} has no such offset",
        expected=f'{{"logOffset":N}} with N {whole}',
        found=f"--offsets {source.name}={source.offset}",
        next_action="name one that its log of files has; with -1 it takes all its files again",
        source=source.name,
    )


def _reached(plan: RewritePlan, kept: dict[str, SourcePlan]) -> Offsets:
    """The offsets of the plan, by the names of the old sources."""
    entry = plan.old.offsets[plan.old.batch]
    lines = [
        kept[name].line(entry) if name in kept else NO_OFFSET for name in entry.offsets.by_source
    ]
    if entry.offsets.named:
        names = entry.offsets.by_source
        lines = [f"{name}:{line}" for name, line in zip(names, lines, strict=True)]
    return Offsets(entry.offsets.named, tuple(lines))


def _files(source: SourcePlan, spark: SparkSession) -> list[tuple[str, int]]:
    """The path, as a file source writes it, and the time of change in milliseconds of each file."""
    from pyspark.sql import functions as F  # noqa: N812

    # In a folder with partitions Spark's reader ignores other files; a stream does not.
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    found = reader.load(source.taken).select(
        "_metadata.file_path",
        F.unix_millis("_metadata.file_modification_time").alias("changed"),
    )
    entries = [(_with_authority(row.file_path), row.changed) for row in found.collect()]
    if not entries:
        raise RewriteError(
            "SM-REWRITE-051",
            f"there is no file in {source.taken}, which source {source.name} is not to take",
            expected="a folder, a file or a pattern with the files that the state has already",
            found="none",
            next_action=f"correct --taken {source.name}, or leave it out",
        )
    return entries


def _with_authority(path: str) -> str:
    """A path on the local disk as a file source writes it."""
    return path if path.startswith("file://") else path.replace("file:/", "file:///", 1)
