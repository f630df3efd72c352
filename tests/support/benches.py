"""Where dual access is tried: one partition's families, in memory or in RocksDB.

A bench holds what is committed. `open` starts a batch on it; `commit` and `crash` end the batch.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from statemigrate.access import DualAccess, DualList
from statemigrate.deployment import Kind
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition, PartitionPaths
from statemigrate.families import MemoryFamily, MemoryListFamily, Source, Span
from statemigrate.formats import Value
from statemigrate.pages.columns import PageId
from statemigrate.pages.page import Page
from statemigrate.pages.page_families import family_class
from support.notes import REVISIONS, family, lineage

Crash = Literal["abandoned", "left open", "killed", "deleted", "not published"]


@dataclass(frozen=True)
class Batch:
    """How a batch opens its stores: the target revision, and the older or newer ones by store."""

    target: str
    live: Mapping[str, frozenset[str]] = field(default_factory=dict)
    write_on_read: bool = True
    first_of_run: bool = False

    def sources(self, store: str) -> list[str]:
        """The revisions other than the target that are live in a store, newest first."""
        others = self.live.get(store, frozenset()) - {self.target}
        return sorted(others, key=REVISIONS.index, reverse=True)


class MemoryLedger:
    """Cursors and quarantined keys in dictionaries."""

    def __init__(self) -> None:
        self.cursors: dict[str, bytes] = {}
        self.quarantined: dict[tuple[str, bytes], str] = {}

    def cursor(self, name: str) -> bytes | None:
        return self.cursors.get(name)

    def set_cursor(self, name: str, key: bytes) -> None:
        self.cursors[name] = key

    def quarantine(self, name: str, key: bytes, cause: str) -> None:
        self.quarantined[name, key] = cause

    def retry_quarantined(self, name: str) -> None:
        marks = [mark for mark in self.quarantined if mark[0] == name]
        for mark in marks:
            del self.quarantined[mark]
        if marks:
            self.cursors.pop(name, None)


class Bench:
    """What the two kinds of bench have in common."""

    def __init__(self, directory: Path, kinds: Mapping[str, Kind]) -> None:
        self.directory = directory
        self.kinds = kinds
        self.batch = Batch(REVISIONS[0])
        self.accesses: dict[str, Any] = {}
        self.families: dict[tuple[str, str], Any] = {}
        self.ledger: Any = None

    def open(self, batch: Batch) -> None:
        """Start a batch at the committed state."""
        self.batch = batch
        self._begin()
        self.families = {}
        self.accesses = {store: self._access(store) for store in self.kinds}

    def contents(self, store: str, revision: str) -> dict[bytes, Any]:
        """All that a family holds now."""
        opened = self.families.get((store, revision))
        return {} if opened is None else dict(opened.scan(Span()))

    def seed(self, store: str, revision: str, entries: Mapping[bytes, Any]) -> None:
        """Commit entries to one family, past dual access."""
        self.open(Batch(revision))
        for key, value in entries.items():
            self.families[store, revision].put(key, value)
        self.commit()

    def commit(self, *, snapshot: bool = False) -> None:
        raise NotImplementedError

    def crash(self, how: Crash) -> None:
        raise NotImplementedError

    def _access(self, store: str) -> DualAccess[Any]:
        target = self._opened(store, self.batch.target, as_source=False)
        sources = [
            Source(
                self._opened(store, revision, as_source=True),
                lineage(store).path(revision, self.batch.target),
            )
            for revision in self.batch.sources(store)
        ]
        make: Any = DualList if self.kinds[store] == "list" else DualAccess
        return make(store, target, sources, write_on_read=self.batch.write_on_read)

    def _opened(self, store: str, revision: str, *, as_source: bool) -> Any:
        if as_source and self.batch.first_of_run:
            self.ledger.retry_quarantined(family(store, revision).name)
        opened = self._open_family(store, revision, as_source=as_source)
        self.families[store, revision] = opened
        return opened

    def _begin(self) -> None:
        raise NotImplementedError

    def _open_family(self, store: str, revision: str, *, as_source: bool) -> Any:
        raise NotImplementedError


class MemoryBench(Bench):
    """Families in dictionaries; a commit keeps a copy of them."""

    def __init__(self, directory: Path, kinds: Mapping[str, Kind]) -> None:
        super().__init__(directory, kinds)
        self._committed: dict[str, dict[bytes, Any]] = {}
        self._marks = MemoryLedger()

    def commit(self, *, snapshot: bool = False) -> None:
        for opened in self.families.values():
            self._working[opened.name] = opened.entries
        self._committed, self._marks = self._working, self.ledger

    def crash(self, how: Crash) -> None:
        """Forget what was not committed."""

    def drop(self, name: str) -> bool:
        """Drop a family that is empty."""
        return not self._working.pop(name, {})

    def entries(self) -> dict[str, int]:
        """The number of entries of each committed family."""
        return {name: len(entries) for name, entries in self._committed.items()}

    def _begin(self) -> None:
        self._working = copy.deepcopy(self._committed)
        self.ledger = copy.deepcopy(self._marks)

    def _open_family(self, store: str, revision: str, *, as_source: bool) -> Any:
        make = MemoryListFamily if self.kinds[store] == "list" else MemoryFamily
        stored = family(store, revision)
        opened = make(stored.name, revision, stored.format)
        opened.entries = self._working.get(stored.name, {})
        if not as_source:
            self.ledger.retry_quarantined(stored.name)
            self.ledger.cursors.pop(stored.name, None)
        return opened


class RocksBench(Bench):
    """A partition on disk, with its durable files and its working copy."""

    def __init__(self, directory: Path, kinds: Mapping[str, Kind]) -> None:
        super().__init__(directory, kinds)
        self.place = PartitionPaths(0, directory / "durable", directory / "working")
        self.state = PartitionState()
        self.version = 0

    def commit(self, *, snapshot: bool = False) -> None:
        self.state = self._ended().commit(snapshot=snapshot)
        self.version += 1

    def crash(self, how: Crash) -> None:
        """End the batch without its becoming the committed state."""
        partition = self._ended()
        working = self.place.working
        if how == "not published":
            partition.commit(snapshot=self.version % 2 == 0)
            return
        if how == "killed":
            # What is on disk now is what a killed process leaves behind.
            image = working.with_name("image")
            shutil.copytree(working, image)
            partition.close()
            shutil.rmtree(working)
            image.rename(working)
            return
        if how == "left open":
            partition.close()
            return
        partition.abandon()
        if how == "deleted":
            shutil.rmtree(working)

    def drop(self, name: str) -> bool:
        """Drop a family that is empty."""
        dropped: bool = self.ledger.drop(name)
        return dropped

    def entries(self) -> dict[str, int | None]:
        """The number of entries of each committed family, where it is counted."""
        return self.state.entries

    def elsewhere(self) -> RocksBench:
        """A bench of the same durable files with a working copy of its own."""
        other = RocksBench(self.directory, self.kinds)
        other.place = replace(self.place, working=self.directory / "elsewhere")
        other.state, other.version = self.state, self.version
        return other

    def beside(self) -> RocksBench:
        """A bench of the same files and the same working copy: a second attempt of one task."""
        other = RocksBench(self.directory, self.kinds)
        other.state, other.version = self.state, self.version
        return other

    def close(self) -> None:
        """Give up an open batch."""
        if self.ledger is not None:
            self._ended().abandon()

    def _ended(self) -> Partition:
        partition: Partition = self.ledger
        self.ledger = None
        self.families, self.accesses = {}, {}
        return partition

    def _begin(self) -> None:
        self.ledger = Partition(self.place, self.state, self.version)

    def _open_family(self, store: str, revision: str, *, as_source: bool) -> Any:
        stored, kind = family(store, revision), self.kinds[store]
        partition: Partition = self.ledger
        return partition.source(stored, kind) if as_source else partition.target(stored, kind)


class PageBench(Bench):
    """Families in one page; a commit keeps its bytes, as Spark's state would."""

    def __init__(self, directory: Path, kinds: Mapping[str, Kind]) -> None:
        super().__init__(directory, kinds)
        self._place = PageId(1, 0, b"k" * 16)
        self._committed: bytes | None = None
        self._marks = MemoryLedger()
        self._turned: dict[tuple[str, str], Any] = {}

    def commit(self, *, snapshot: bool = False) -> None:
        written = self._page.written()
        assert self._page.is_changed is (written != self._committed)
        self._committed, self._marks = written, self.ledger

    def crash(self, how: Crash) -> None:
        """Forget what was not committed."""

    def drop(self, name: str) -> bool:
        """A family that is empty is in no page."""
        return not self._page.contains_family(name)

    def entries(self) -> dict[str, int]:
        """The number of entries of each committed family that has one."""
        return Page(self._place, self._committed).counts

    def _begin(self) -> None:
        self._page = Page(self._place, self._committed)
        self.ledger = copy.deepcopy(self._marks)

    def _open_family(self, store: str, revision: str, *, as_source: bool) -> Any:
        stored = family(store, revision)
        # One and the same from batch to batch, as a task has it from page to page.
        opened = self._turned.setdefault((store, revision), family_class(self.kinds[store])(stored))
        opened.turn(self._page)
        if not as_source:
            self.ledger.retry_quarantined(stored.name)
            self.ledger.cursors.pop(stored.name, None)
        return opened


BENCHES: Sequence[type[MemoryBench] | type[RocksBench] | type[PageBench]] = (
    MemoryBench,
    RocksBench,
    PageBench,
)

__all__ = ["BENCHES", "Batch", "Bench", "Crash", "MemoryBench", "PageBench", "RocksBench", "Value"]
