"""Which old source each source of the new code goes on with, and where a new one begins.

A source goes by its name where Spark names it in the offset log, or else by its number there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from statemigrate.checkpoint.logs import (
    FILE_IDS,
    NO_OFFSET,
    PARTITIONS,
    CommitEntry,
    OffsetEntry,
    Offsets,
    file_offset,
)
from statemigrate.checkpoint.operators import CheckpointShape
from statemigrate.errors import RewriteError
from statemigrate.rewrite.questions import Asked, Question

TAKEN = '{"logOffset":0}'
"""The offset of a file source whose log has one entry, with all files that it is not to take."""


@dataclass(frozen=True)
class NewSources:
    """The sources of the new code as its offset log has them.

    ``inputs`` has, by source, the parameter of the user's function that reads it, where known.
    """

    named: bool
    names: tuple[str, ...]
    inputs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, shape: CheckpointShape, inputs: Mapping[str, str] | None = None) -> NewSources:
        """Those of a checkpoint that the new code has made."""
        offsets = shape.offsets[shape.batch].offsets
        return cls(offsets.named, tuple(offsets.by_source), inputs or {})


@dataclass(frozen=True)
class SourcePlan:
    """A source of the new checkpoint: ``old`` is the one it goes on with, None for a new one.

    ``offset`` is what is asked for, as the log has it, None where it stays, or begins by itself.
    ``taken`` is a place whose files a new source is not to take; ``input`` how the code calls it.
    """

    name: str
    old: str | None
    offset: str | None = None
    taken: str = ""
    input: str = ""

    def line(self, entry: OffsetEntry) -> str:
        """Its offset in the new log, where the old log has this ``entry``."""
        if self.offset is not None:
            return self.offset
        before = None if self.old is None else entry.offsets.by_source[self.old]
        return NO_OFFSET if before is None else before


@dataclass(frozen=True)
class SourcesPlan:
    """All sources of the new checkpoint in their order, and the old ones that go."""

    named: bool
    sources: tuple[SourcePlan, ...]
    gone: tuple[str, ...] = ()

    def entry(self, old: OffsetEntry) -> OffsetEntry:
        """What becomes of an entry of the log."""
        lines = tuple(
            f"{each.name}:{each.line(old)}" if self.named else each.line(old)
            for each in self.sources
        )
        given = old.source_metadata
        if given is not None:
            given = {name: each for name, each in given.items() if name not in self.gone}
        return replace(old, offsets=Offsets(self.named, lines), source_metadata=given)


@dataclass(frozen=True)
class AskedOfSources:
    """What the author asks for: offsets as JSON, and places whose files are taken, by new source.

    ``given`` maps an old source to the new one, to None where it goes.
    """

    given: Mapping[str, str | None] = field(default_factory=dict)
    offsets: Mapping[str, Any] = field(default_factory=dict)
    taken: Mapping[str, str] = field(default_factory=dict)

    def of(self, sources: NewSources) -> AskedOfSources:
        """The same, where a parameter of the code is named, by the source that it reads."""
        names = {parameter: source for source, parameter in sources.inputs.items()}
        return AskedOfSources(
            {old: names.get(new, new) if new else None for old, new in self.given.items()},
            {names.get(source, source): each for source, each in self.offsets.items()},
            {names.get(source, source): each for source, each in self.taken.items()},
        )


def plan_sources(
    old: Offsets, new: NewSources | None, wanted: AskedOfSources, asked: Asked
) -> SourcesPlan:
    """Match the sources of ``old`` with those of the new code, where these are known.

    Raises `RewriteError` for a source that there is not, and for an offset that the files which a
    source has taken do not bear out; what remains unclear is asked.
    """
    before = tuple(old.by_source)
    after = new or NewSources(old.named, before)
    wanted = wanted.of(after)
    _check_known(wanted, before, after)
    pairs = _matched(before, old.named, after, wanted.given, asked)
    sources = tuple(_source(name, pairs, after, wanted) for name in after.names)
    for each in sources:
        _check_files(each)
        if each.old is None and each.name not in wanted.offsets and not each.taken:
            _ask_begin(asked, each)
    return SourcesPlan(after.named, sources, tuple(s for s, name in pairs.items() if name is None))


def _source(
    name: str, pairs: Mapping[str, str | None], after: NewSources, wanted: AskedOfSources
) -> SourcePlan:
    old = next((source for source, found in pairs.items() if found == name), None)
    offset = None
    if name in wanted.taken:
        offset = TAKEN
    elif name in wanted.offsets:
        given = wanted.offsets[name]
        offset = NO_OFFSET if given is None else json.dumps(given, separators=(",", ":"))
    return SourcePlan(name, old, offset, wanted.taken.get(name, ""), after.inputs.get(name, ""))


def _matched(
    before: tuple[str, ...],
    named: bool,
    after: NewSources,
    given: Mapping[str, str | None],
    asked: Asked,
) -> dict[str, str | None]:
    """The new source of each old one: as given, by name, or by position if as many."""
    pairs: dict[str, str | None] = dict(given)
    is_certain = named == after.named and (named or len(before) == len(after.names))
    for source in before:
        if source not in given:
            is_free = source in after.names and source not in given.values()
            pairs[source] = source if is_free else None
            if not (is_free and is_certain):
                asked.confirm(_which(source, after) if is_free else _goes(source, after))
    return pairs


def _which(source: str, after: NewSources) -> Question:
    name = f"source-{source}"
    return Question(
        name,
        "source",
        f"the new code reads {_listed(after)}: does the old source {source} go on as "
        f"{_shown(source, after)}?",
        source,
        (f"--source {source}=NEW", f"--source {source}=gone"),
    )


def _goes(source: str, after: NewSources) -> Question:
    name = f"source-{source}"
    return Question(
        name,
        "gone",
        f"the new code reads {_listed(after)}: is the old source {source} to go?",
        "gone",
        (f"--source {source}=NEW",),
    )


def _ask_begin(asked: Asked, source: SourcePlan) -> None:
    name = f"source-{source.name}"
    called = source.name + (f" ({source.input})" if source.input else "")
    asked.confirm(
        Question(
            name,
            "begin",
            f"source {called} is new: does it begin where it begins by itself?",
            "where it begins by itself",
            (f"--offsets {source.name}=JSON", f"--taken {source.name}=FILES"),
        )
    )


def _check_known(wanted: AskedOfSources, before: tuple[str, ...], after: NewSources) -> None:
    targets = [name for name in wanted.given.values() if name is not None]
    unknown = [
        *(f"old {source}" for source in wanted.given if source not in before),
        *sorted({*targets, *wanted.offsets, *wanted.taken} - set(after.names)),
        *(name for name in targets if targets.count(name) > 1),
    ]
    if unknown:
        raise RewriteError(
            "SM-REWRITE-040",
            f"the query has no source {unknown[0]}",
            expected=f"of old ones {', '.join(before) or 'none'}; of new ones {_listed(after)}, "
            "each once",
            found=unknown[0],
            next_action="name the source as the offset log does: by its name, or else its number",
        )


def _check_files(source: SourcePlan) -> None:
    """A source of files has a log and an offset: one without the other misses files."""
    reached = None if source.offset is None else file_offset(source.offset)
    if source.taken and source.old is not None:
        raise RewriteError(
            "SM-REWRITE-041",
            f"source {source.name} has a log of the files that it has taken",
            expected="--taken for a source that is new",
            found=f"source {source.name}, which goes on with the old source {source.old}",
            next_action=f"leave --taken {source.name} out, or say --source {source.old}=gone",
        )
    if not source.taken and source.old is None and reached is not None and reached >= 0:
        raise RewriteError(
            "SM-REWRITE-042",
            f"source {source.name} is new, and has no log of files up to its offset",
            expected="--taken with the files that it is not to take again",
            found=f"--offsets {source.name}={source.offset}",
            next_action=f"say --taken {source.name}=FOLDER instead",
        )


def _listed(sources: NewSources) -> str:
    return ", ".join(_shown(each, sources) for each in sources.names) or "no source"


def _shown(source: str, sources: NewSources) -> str:
    called = sources.inputs.get(source)
    return f"source {source}" + (f" ({called})" if called else "")


# What else a rewrite changes: settings that are pinned to the query, offsets, the watermark.


@dataclass(frozen=True)
class RewriteOptions:
    """The changes to make, other than the new code.

    ``conf`` has changes of pinned settings, ``offsets`` the new offset of a source by its name or
    number, in the form of its kind, None for none; ``watermark`` is in milliseconds since 1970.
    ``sources`` has the new source of an old one, None to remove it. ``taken`` has, by new source, a
    path with the files for it to skip. ``pages`` is the number of pages for variables, 0 for none:
    then Spark keeps each value by itself. ``paged`` is the operator, by Spark's number or by its
    name, and ``paged_name`` its new name; by default it keeps its own, or has none.
    """

    partitions: int | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    offsets: Mapping[str, Any] = field(default_factory=dict)
    watermark: int | None = None
    sources: Mapping[str, str | None] = field(default_factory=dict)
    taken: Mapping[str, str] = field(default_factory=dict)
    pages: int | None = None
    paged: int | str | None = None
    paged_name: str | None = None

    @property
    def of_sources(self) -> AskedOfSources:
        """What is asked for of the sources."""
        return AskedOfSources(self.sources, self.offsets, self.taken)

    def pinned(self, before: Mapping[str, str]) -> dict[str, str]:
        """The settings that the new checkpoint pins to the query, of those ``before``."""
        changed = {**before, **{name: v for name, v in self.conf.items() if name != FILE_IDS}}
        if self.partitions is not None:
            changed[PARTITIONS] = str(self.partitions)
        return changed


def new_logs(
    old: CheckpointShape, options: RewriteOptions, sources: SourcesPlan
) -> tuple[dict[int, OffsetEntry], dict[int, CommitEntry]]:
    """The last two entries of both logs, as the new checkpoint has them, without ids of files."""
    pinned = options.pinned(old.conf)
    offsets = {
        batch: _with_watermark(sources.entry(replace(entry, pinned=pinned)), options)
        for batch, entry in old.offsets.items()
    }
    commits = {
        batch: CommitEntry(
            entry.watermark if options.watermark is None else options.watermark,
            3 if entry.sinks else 1,
            sinks=entry.sinks,
        )
        for batch, entry in old.commits.items()
    }
    return offsets, commits


def _with_watermark(entry: OffsetEntry, options: RewriteOptions) -> OffsetEntry:
    return entry if options.watermark is None else replace(entry, watermark=options.watermark)
