"""How far a backfill of Spark's own state is, from committed state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from statemigrate.native.chunks import BlocksLeft, ChunkFiles, PlanRecord, cuts_of
from statemigrate.native.operators import chunk_files

if TYPE_CHECKING:
    from statemigrate.native.backfill_planning import OlderFamilies


@dataclass(frozen=True)
class BackfillStatus:
    """A backfill as of the last committed batch.

    ``families`` has the number of keys left in each older family, ``keys_left`` the number of
    different keys. ``chunks`` were planned for ``keys_planned`` keys, and ``consumed`` of them are
    processed; all three are 0 while there is no plan. ``waiting`` is the number of chunk files that
    the query has not taken, and ``keys_uncut`` that of keys in no chunk yet, if the query cuts
    chunks while it runs. ``unplanned`` are families with keys that are not in the plan, as after a
    rollback. ``quarantined`` are the keys left after every chunk was processed: their transforms
    failed, and the originals stay. For state in pages, all of these are entries, which are in
    ``pages_left`` pages; otherwise that is None.
    """

    keys_left: int
    families: Mapping[str, int]
    keys_planned: int
    chunks: int
    consumed: int
    waiting: int
    keys_uncut: int = 0
    unplanned: tuple[str, ...] = ()
    pages_left: int | None = None

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing more to do: no key is left, or every chunk was processed."""
        return self.keys_left == 0 or (self._is_taken and not self.unplanned)

    @property
    def is_under_way(self) -> bool:
        """Whether the query has not yet taken all of the plan."""
        return bool(self.chunks or self.keys_uncut) and not self._is_taken

    @property
    def _is_taken(self) -> bool:
        return self.consumed == self.chunks > 0 == self.keys_uncut

    @property
    def quarantined(self) -> int:
        """The keys that a finished backfill could not migrate."""
        return self.keys_left if self.is_finished else 0


@dataclass(frozen=True)
class PlannedBackfill:
    """How much of a planned backfill the query has done, from the files of its chunks alone.

    All are as in `BackfillStatus`; with chunks that the query cuts while it runs, ``chunks`` are
    those it has cut so far.
    """

    keys_planned: int
    chunks: int
    consumed: int
    waiting: int
    keys_uncut: int

    @property
    def is_processed(self) -> bool:
        """Whether the query has processed every chunk: what is left now has failed."""
        return self.consumed == self.chunks > 0 == self.keys_uncut


def planned_backfill(files: ChunkFiles) -> PlannedBackfill | None:
    """What is planned and how much of it is done; None without a plan."""
    plan = files.plan()
    return None if plan is None else _progress(files, plan)


def _progress(files: ChunkFiles, plan: PlanRecord) -> PlannedBackfill:
    # The files come first: one that is removed meanwhile is in the log, and a chunk that is counted
    # as processed is so in the state read later.
    written = files.written()
    log = files.log()
    names = written | log.taken.keys()
    plan_chunks = {name for name in names if name.startswith(f"{plan.id}/")}
    return PlannedBackfill(
        keys_planned=plan.counted,
        chunks=plan.chunks or len(plan_chunks),
        consumed=sum(log.is_committed(name) for name in plan_chunks),
        waiting=len(written - log.taken.keys()),
        keys_uncut=keys_uncut(files, plan, names),
    )


def backfill_status(families: OlderFamilies) -> BackfillStatus:
    """Count what is left and what is planned; reads all keys that are left.

    The errors are those of `plan_backfill`.
    """
    files = chunk_files(families.path, families.operator)
    files.directory.require_query()
    plan = files.plan()
    planned = None if plan is None else _progress(files, plan)
    waiting = len(files.written() - files.log().taken.keys()) if planned is None else 0
    left = families.left()
    return BackfillStatus(
        keys_left=left.keys,
        families=left.families,
        keys_planned=0 if planned is None else planned.keys_planned,
        chunks=0 if planned is None else planned.chunks,
        consumed=0 if planned is None else planned.consumed,
        waiting=waiting if planned is None else planned.waiting,
        keys_uncut=0 if planned is None else planned.keys_uncut,
        unplanned=_unplanned(plan, left.families),
        pages_left=left.pages,
    )


def _unplanned(plan: PlanRecord | None, families: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(
        family for family, left in families.items() if left and not (plan and plan.covers(family))
    )


def keys_uncut(files: ChunkFiles, plan: PlanRecord, names: Iterable[str]) -> int:
    """How many keys of a plan, of pages entries, are in none of the chunks ``names``."""
    if plan.pace is None:
        return 0
    blocks = BlocksLeft(files, plan.id, max(cuts_of(plan.id, names).values(), default=None))
    return blocks.keys() if plan.entries is None else blocks.entries()
