"""Whether the logs of a new checkpoint are those that the rewrite wrote, and the right ones.

What the rewrite wrote it has noted, by checksums; the query may have gone on since. What they must
be is derived from the old logs once more, from the files' own JSON: the same, but for what was
asked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.checkpoint.logs import (
    NO_OFFSET,
    TakenFile,
    batches_in,
    names_in,
    taken_until,
)
from statemigrate.errors import CheckpointError, StorageError
from statemigrate.files import Files, parse_json
from statemigrate.native import before_adoptions, within_checkpoint
from statemigrate.rewrite.log_record import LogRecord, SourceRecord, TakenFiles
from statemigrate.rewrite.rewrite_report import RewriteReport
from statemigrate.rewrite.verify_findings import Found

_LARGEST = 1 << 30
_LOG_FILE = re.compile(r"(0|[1-9][0-9]{0,18})(\.compact)?")
_EXAMPLES = 3


def compared_logs(old: Files | None, new: Files, report: RewriteReport) -> Iterator[Found]:
    """What is found in the logs, the sources' folders and ``metadata`` of the new checkpoint.

    ``old`` is None for one that was seeded from tables.
    """
    record = report.logs
    if record is None:
        yield Found(
            "the logs were not compared: the release that made the checkpoint noted nothing of "
            "them",
            "untried",
        )
        return
    yield from _Recorded(new, record, report.batch).found()
    if old is not None:
        yield from _Derived(old, new, record, report.batch).found()


@dataclass(frozen=True)
class _Recorded:
    """The new checkpoint's files, compared with what the rewrite recorded of them."""

    new: Files
    record: LogRecord
    batch: int

    def found(self) -> Iterator[Found]:
        same = []
        for name in sorted(self.record.files):
            problem = self._problem(name)
            if problem is None:
                same.append(name)
            else:
                yield problem
        logs = [name for name in same if not name.startswith("sources/")]
        if logs:
            yield Found(f"new {', '.join(logs)}: as the rewrite wrote them", "fine")
        for source, noted in sorted(self.record.taken.items()):
            yield self._taken(source, noted)

    def _problem(self, name: str) -> Found | None:
        try:
            data = self.new.get(name, most=_LARGEST)
        except FileNotFoundError:
            return self._missing(name)
        if hashlib.sha256(data).hexdigest() == self.record.files[name]:
            return None
        hashes = (hashlib.sha256(each).hexdigest() for each in _versions(self.new, name))
        if self.record.files[name] in hashes:
            return Found(
                f"new {name} was changed by `backfill --prepare` since, as its copy shows",
                "untried",
            )
        if self._is_of_a_foreign_log(name) and self._has_gone_on:
            return Found(f"new {name}: its source may have written it again since", "untried")
        return Found(f"new {name} is not what the rewrite wrote", "problem")

    def _missing(self, name: str) -> Found | None:
        folder, _, base = name.rpartition("/")
        numbers = batches_in(names_in(self.new, folder)) if folder else set()
        if folder in ("offsets", "commits") and numbers and min(numbers) > int(base):
            return Found(f"new {name} is not kept any more: the query has gone on", "untried")
        if self._is_compact(name):
            return None
        return Found(f"new {name} is missing", "problem")

    def _is_compact(self, name: str) -> bool:
        """Whether a later file of the source's log has what was in this one."""
        _, source, base = name.split("/", 2) if name.startswith("sources/") else ("", "", "")
        match = _LOG_FILE.fullmatch(base)
        if match is None or source not in self.record.taken:
            return False
        others = map(_LOG_FILE.fullmatch, names_in(self.new, f"sources/{source}"))
        return any(each[2] and int(each[1]) >= int(match[1]) for each in others if each)

    def _is_of_a_foreign_log(self, name: str) -> bool:
        """Whether only its source knows when a file is written again: not that of its beginning."""
        parts = name.split("/", 2)
        return parts[0] == "sources" and parts[1] not in self.record.taken and parts[2] != "0"

    @property
    def _has_gone_on(self) -> bool:
        return CheckpointDirectory(self.new).last_begun() > self.batch

    def _taken(self, source: str, noted: TakenFiles) -> Found:
        try:
            now = TakenFiles.of(noted.offset, taken_until(self.new, source, noted.offset))
        except StorageError:
            raise
        except CheckpointError as error:
            return Found(f"new source {source}: {error.headline}: {error.found}", "problem")
        if now == noted:
            text = f"new source {source}: its log has {noted.files:,} files taken, as was noted"
            return Found(text, "fine")
        found = "other ones" if now.files == noted.files else f"{now.files:,}"
        return Found(
            f"new source {source}: its log had {noted.files:,} files taken, and has {found} now; "
            "what it lacks is taken again",
            "problem",
        )


@dataclass(frozen=True)
class _Derived:
    """The new checkpoint's logs, compared with what the old ones and the request make of them."""

    old: Files
    new: Files
    record: LogRecord
    batch: int

    def found(self) -> Iterator[Found]:
        batches = [self.batch] if self.batch == 0 else [self.batch - 1, self.batch]
        for batch in batches:
            watermark = [] if self.record.watermark is None else ["the watermark"]
            sources = [f"source {e.name}" for e in self.record.sources if e.offset is not None]
            asked = [*sorted(self.record.settings), *watermark, *sources]
            yield _compared(f"offsets/{batch}", self._offsets(batch), asked)
            yield _compared(f"commits/{batch}", self._commits(batch), watermark)
        for source in self.record.sources:
            found = None if source.old is None else self._source(source, source.old)
            if found is not None:
                yield found

    def _offsets(self, batch: int) -> list[str]:
        """How the entry of a batch is another one than it would be, whichever `adopt` changed."""
        name = f"offsets/{batch}"
        tried = [
            self._entries_differ(_entry(before), _entry(after))
            for before in _versions(self.old, name)
            for after in _versions(self.new, name)
        ]
        return tried[0] if all(tried) else []

    def _entries_differ(self, before: _OffsetJson, after: _OffsetJson) -> list[str]:
        last = _entry(self.old.get(f"offsets/{self.batch}"))
        metadata = {**before.metadata, "conf": {**last.conf, **self.record.settings}}
        if self.record.watermark is not None:
            metadata["batchWatermarkMs"] = self.record.watermark
        recorded = metadata.get("sourceMetadataInfo")
        if recorded is not None:
            kept = {each.old for each in self.record.sources}
            metadata["sourceMetadataInfo"] = {n: each for n, each in recorded.items() if n in kept}
        found = {**after.metadata, "conf": after.conf}
        old_lines = before.by_source
        lines = {each.name: _line(each, old_lines) for each in self.record.sources}
        return [
            *_differences(metadata, found),
            *_differences(lines, after.by_source),
            *_differences({"its version": "v2" if self.record.named else "v1"}, after.version_line),
            *_differences(
                {"the order of sources": [*lines]}, {"the order of sources": [*after.by_source]}
            ),
        ]

    def _commits(self, batch: int) -> list[str]:
        before, after = (_commit(each, f"commits/{batch}") for each in (self.old, self.new))
        if self.record.watermark is not None:
            before["nextBatchWatermarkMs"] = self.record.watermark
        return _differences(before, after)

    def _source(self, source: SourceRecord, old: str) -> Found | None:
        noted = self.record.taken.get(source.name)
        if noted is None:
            return self._beginning(source)
        try:
            before = _plain(taken_until(self.old, old, noted.offset))
            after = _plain(taken_until(self.new, source.name, noted.offset))
        except StorageError:
            raise
        except CheckpointError as error:
            return Found(f"source {source.name}: {error.headline}: {error.found}", "problem")
        if before == after:
            text = f"new source {source.name}: its log has the same files taken as the old one's"
            return Found(text, "fine")
        lacking, further = sorted(before - after), sorted(after - before)
        differences = [f"{len(lacking):,} that the old one's has" if lacking else ""]
        differences += [f"{len(further):,} more" if further else ""]
        examples = ", ".join(each.path for each in (lacking or further)[:_EXAMPLES])
        return Found(
            f"new source {source.name}: of the files taken its log "
            f"{'lacks' if lacking else 'has'} {' and has '.join(filter(None, differences))}: "
            f"{examples}",
            "problem",
        )

    def _beginning(self, source: SourceRecord) -> Found | None:
        """Where another source began, which it notes once."""
        name = f"sources/{source.name}/0"
        if name not in self.record.files:
            return None
        try:
            before = self.old.get(f"sources/{source.old}/0", most=_LARGEST)
        except FileNotFoundError:
            return Found(f"new {name}: the old one is not there any more", "untried")
        is_same = hashlib.sha256(before).hexdigest() == self.record.files[name]
        return Found.of(f"new {name}: {'' if is_same else 'not '}the old one", is_fine=is_same)


def _compared(name: str, differences: list[str], asked: list[str]) -> Found:
    if differences:
        return Found(f"new {name} does not follow from the old one: {differences[0]}", "problem")
    but = f", but for {', '.join(asked)}, as was asked" if asked else ""
    return Found(f"new {name}: follows from the old one{but}", "fine")


@dataclass(frozen=True)
class _OffsetJson:
    """An entry of the offset log, as its JSON has it."""

    version: str
    metadata: Mapping[str, Any]
    lines: tuple[str, ...]

    @property
    def conf(self) -> Mapping[str, str]:
        return self.metadata.get("conf") or {}

    @property
    def version_line(self) -> dict[str, str]:
        return {"its version": self.version}

    @property
    def by_source(self) -> dict[str, str]:
        if self.version == "v2":
            return {name: text for name, _, text in (each.partition(":") for each in self.lines)}
        return {str(number): each for number, each in enumerate(self.lines)}


def _entry(data: bytes) -> _OffsetJson:
    version, metadata, *lines = data.decode().split("\n")
    return _OffsetJson(version, parse_json(metadata), tuple(lines))


def _versions(files: Files, name: str) -> Iterator[bytes]:
    """What is in a file of a log, and what was before each time that `adopt` changed it."""
    data = files.get(name, most=_LARGEST)
    yield data
    folder, _, base = name.partition("/")
    if folder == "offsets":
        yield from before_adoptions(files, int(base), data)


def _commit(files: Files, name: str) -> dict[str, Any]:
    """What a commit says, but for the ids of files of state: each checkpoint has its own."""
    _, _, text = files.get(name).decode().partition("\n")
    document = parse_json(text or "{}")
    return {
        "nextBatchWatermarkMs": document.get("nextBatchWatermarkMs") or 0,
        "sinkMetadataMap": document.get("sinkMetadataMap") or {},
    }


def _line(source: SourceRecord, before: Mapping[str, str]) -> str:
    if source.offset is not None:
        return source.offset
    if source.old is None:
        return NO_OFFSET
    return before.get(source.old, f"that of source {source.old}, which the old one has not")


def _differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    names = [*expected, *(name for name in found if name not in expected)]
    differing = [name for name in names if expected.get(name) != found.get(name)]
    return [
        text
        for name in differing
        for text in (
            _differences(expected[name], found[name])
            if isinstance(expected.get(name), dict) and isinstance(found.get(name), dict)
            else [f"{name} is {_short(found.get(name))}, and would be {_short(expected.get(name))}"]
        )
    ]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    return text if len(text) <= 200 else f"{text[:200]}..."


def _plain(taken: frozenset[TakenFile]) -> frozenset[TakenFile]:
    """What was taken, with the chunks of a backfill by their own names: each checkpoint has its."""
    return frozenset(
        TakenFile(each.offset, each.timestamp, within_checkpoint(each.path) or each.path)
        for each in taken
    )
