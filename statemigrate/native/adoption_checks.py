"""The reasons for which a checkpoint is left as it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.checkpoint.operators import has_envelopes, operator_names, value_fields
from statemigrate.deployment import is_family_of, revision_in, store_of
from statemigrate.errors import CheckpointError
from statemigrate.files import Files, PathOrFiles, Remembered
from statemigrate.native.adoption_files import Backup, OffsetFile, OffsetLog
from statemigrate.native.checkpoint import SparkCheckpoint
from statemigrate.native.chunks import ChunkFiles, paged_in
from statemigrate.native.control_source import check_last_source, has_control_source
from statemigrate.native.deployment_check import StoreRecord, read_record, write_record
from statemigrate.native.listing import Listing, column_families, read_listing
from statemigrate.native.moved import check_readable, check_source_path
from statemigrate.native.operators import FUNCTION, PROCESSOR, operators_without_pages
from statemigrate.native.session import session_of
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from statemigrate.native.session import Spark


def native_log(checkpoint: PathOrFiles) -> OffsetLog:
    """The offset log of a query on Spark's own state that has run before."""
    log = OffsetLog(checkpoint)
    if CheckpointDirectory(log.files).is_embedded:
        raise CheckpointError(
            "SM-ADOPT-006",
            f"{checkpoint} belongs to a query of the embedded engine",
            expected="a query whose state is in Spark's own state store",
            found="state of the embedded engine",
            next_action="nothing to prepare: the embedded engine runs its backfill by itself",
            path=log.checkpoint,
        )
    if log.last_batch is None:
        raise CheckpointError(
            "SM-ADOPT-007",
            f"{checkpoint} has no batch yet",
            expected="a query that has run before",
            found="no batch in offsets/",
            next_action="nothing to prepare: use the backfill source from the query's first start",
            path=log.checkpoint,
        )
    return log


def has_named_sources(log: OffsetLog) -> bool:
    """Whether the log names its sources, so that one can come and go without any help."""
    named = {file.named for file in log.read_on_restart()}
    if len(named) > 1:
        raise CheckpointError(
            "SM-ADOPT-008",
            f"the newest files in {log.checkpoint}/offsets are of two kinds",
            expected="both with named sources, or both without",
            found="one of each",
            next_action="let the query run one more batch, stop it, and run the command again",
            path=log.checkpoint,
        )
    return named == {True}


def check_lines(
    log: OffsetLog, files: tuple[OffsetFile, ...], sources: int, *, spare: bool
) -> None:
    """Refuse files with another number of sources, or one more where ``spare`` allows it."""
    found = {file.base_name: len(file.offsets) for file in files}
    allowed = {sources, sources + 1} if spare else {sources}
    if not set(found.values()) <= allowed:
        raise CheckpointError(
            "SM-ADOPT-009",
            f"the offset log of {log.checkpoint} has an unexpected number of sources",
            expected=f"{' or '.join(map(str, sorted(allowed)))} in each of the newest files",
            found=", ".join(f"{number} in offsets/{name}" for name, number in found.items()),
            next_action="restore the folder offsets from a copy of the checkpoint",
            path=log.checkpoint,
        )


def check_sources(log: OffsetLog, sources: int) -> None:
    """Refuse what a further source has left: the backfill source would take it for its own."""
    used = log.used_sources()
    if used and used[-1] >= sources:
        raise CheckpointError(
            "SM-ADOPT-010",
            f"the offset log of {log.checkpoint} does not fit its sources",
            expected=f"{sources} sources, as in the newest offset file",
            found=f"files of a further source in sources/{used[-1]}",
            next_action="restore the folders offsets and sources from one copy of the checkpoint, "
            "or move that directory away if its source was taken out of the query",
            path=log.checkpoint,
        )


def check_path(log: OffsetLog) -> None:
    """Refuse a path that `with_backfill` and `migrated` would refuse next."""
    check_source_path(log.checkpoint)
    check_readable(log.checkpoint)


def check_state(log: OffsetLog) -> None:
    """Refuse state that no backfill can migrate: `with_backfill` and `migrated` would next."""
    found = operator_names(log.files)
    functions = [number for number, name in found.items() if name == FUNCTION]
    if any(name.startswith(PROCESSOR) for name in found.values()):
        return
    bare = [number for number in functions if not _has_envelopes(log.files, number)]
    if functions and len(bare) < len(functions):
        return
    raise CheckpointError(
        "SM-ADOPT-011",
        f"the state of {log.checkpoint} cannot be migrated in place",
        expected=f"state of {PROCESSOR}, or of {FUNCTION} with statemigrate.ENVELOPE",
        found=f"{FUNCTION} with a state of its own, which Spark lets no one change"
        if bare
        else ", ".join(found.values()) or "no stateful operator",
        next_action="stop the query and `statemigrate rewrite "
        f"{argument(log.checkpoint)} NEW --code MODULE:FUNCTION`, which makes a checkpoint NEW for "
        "code that keeps another struct, or that has a transformWithState in the function's place, "
        "whose state then migrates live"
        if bare
        else "name the directory that a query of state variables has as its checkpointLocation",
        path=log.checkpoint,
    )


def check_control_source(log: OffsetLog, begun: Backup | None) -> None:
    """Refuse a query that has had the backfill source from its first start, or may have had it."""
    if begun is not None:
        return
    look = Remembered(log.files)
    files = ChunkFiles(look)
    offsets = files.offsets()
    if offsets is not None:
        check_last_source(files, offsets)
    if _has_room(look):
        raise CheckpointError(
            "SM-ADOPT-012",
            f"the query of {log.checkpoint} has the backfill source already",
            expected="a query without it",
            found="it is the last of the query's sources, though nothing was prepared",
            next_action="nothing to prepare: start the query with the backfill source",
            path=log.checkpoint,
        )


def has_room(log: OffsetLog) -> bool:
    """Whether the query may start with the backfill source as it is."""
    return _has_room(Remembered(log.files))


def _has_room(look: Files) -> bool:
    files = ChunkFiles(look)
    offsets = files.offsets()
    if offsets is None or offsets.named:
        return True
    if has_control_source(files, offsets):
        return True
    # Operators on pages have one each, and those of another kind in the query need another one.
    return bool(paged_in(look)) and not operators_without_pages(look)


def _has_envelopes(files: Files, operator: int) -> bool:
    name = f"state/{operator}/0/_metadata/schema"
    path = f"{files.location}/{name}"
    try:
        data = files.get(name)
    except FileNotFoundError as error:
        raise CheckpointError(
            "SM-CHECKPOINT-026",
            f"{path} is missing, which says what the state's rows are",
            expected="the file, which Spark writes with the first batch",
            found="no such file",
            next_action="copy the whole checkpoint, its folder state included",
            path=path,
        ) from error
    return has_envelopes({"type": "struct", "fields": value_fields(data, path)})


def already_adopted(log: OffsetLog, backup: Backup) -> CheckpointError:
    """There is room for the backfill source."""
    return CheckpointError(
        "SM-ADOPT-013",
        f"{log.checkpoint} was prepared already",
        expected="a query without the backfill source",
        found=f"a preparation of {backup.record.since}, with its backup in {backup.location}",
        next_action="start the query with the backfill source, "
        f"or take it out: `statemigrate backfill {argument(log.checkpoint)} --prepare --undo "
        "--apply`",
        path=log.checkpoint,
    )


def half_undone(log: OffsetLog, backup: Backup) -> CheckpointError:
    """An undoing that was interrupted comes first."""
    return CheckpointError(
        "SM-ADOPT-014",
        f"the preparation of {log.checkpoint} was not undone to its end",
        expected="an undoing that is finished",
        found=f"one of {backup.record.since} that was interrupted",
        next_action=f"finish it: `statemigrate backfill {argument(log.checkpoint)} --prepare "
        "--undo --apply`",
        path=log.checkpoint,
    )


def not_adopted(log: OffsetLog, backup: Backup | None) -> CheckpointError:
    """Nothing is there to undo; what was there from the start is not ours to remove."""
    return CheckpointError(
        "SM-ADOPT-015",
        f"{log.checkpoint} is not prepared",
        expected="a preparation to undo",
        found="none" if backup is None else f"one that was undone, on {backup.record.since}",
        next_action="nothing to undo; a backfill source that was there from the first start stays",
        path=log.checkpoint,
    )


# What code that knows each store's oldest family alone would forget (rule 14).
#
# Spark drops a state variable that no code declares, with its values, and says nothing. An older
# release declares the oldest families: every other one has to be read, and to be empty, before the
# way to it is opened.


Count = Callable[[int, int, Sequence[str]], Mapping[str, int]]
"""Counts the values in families: of an operator, as of a committed batch, by the family's name."""


@dataclass(frozen=True)
class NewerValues:
    """The families of committed state that are not their store's oldest, each with its values.

    ``batch`` is the last committed one, -1 where there is none.
    """

    batch: int
    families: Mapping[str, int]

    @property
    def stores(self) -> set[str]:
        """The stores that have such a family."""
        return {store_of(name) for name in self.families}

    def left(self, declared: Collection[str] = ()) -> dict[str, int]:
        """Those with values that code which also declares some of them would forget."""
        return {n: count for n, count in self.families.items() if count and n not in declared}


def counting(checkpoint: str, spark: Spark = None) -> Count:
    """Counts with Spark's own reader; a session is asked for when it is needed first."""

    def count(operator: int, batch: int, names: Sequence[str]) -> dict[str, int]:
        session = session_of(spark, checkpoint)
        reader = SparkCheckpoint(checkpoint, session, operator=operator, batch=batch)
        return {name: reader.frame(name).count() for name in names}

    return count


def newer_values(log: OffsetLog, count: Count) -> NewerValues:
    """Count what is in families other than the oldest, as of the last committed batch.

    Raises `CheckpointError` for a family that may have values and that Spark's reader does not
    reach: not seen is never empty.
    """
    batch = log.last_commit
    if batch is None:
        return NewerValues(-1, {})
    found: dict[str, int] = {}
    record = read_record(log.files)
    for operator, name in operator_names(log.files).items():
        if name.startswith(PROCESSOR):
            listing = read_listing(log.files, batch, operator, begun=False)
            hidden = _hidden(log.files, batch, operator, listing, record)
            if hidden:
                raise _cannot_be_read(log, batch, hidden)
            newer = sorted(filter(_is_newer, listing.variables))
            found |= count(operator, batch, newer) if newer else {}
    return NewerValues(batch, found)


def check_older_code(log: OffsetLog, found: NewerValues, declared: Collection[str]) -> None:
    """Raise `CheckpointError` where families have values that the next code would forget."""
    left = found.left(declared)
    if not left:
        return
    names = " ".join(f"--declared {name}" for name in left)
    raise CheckpointError(
        "SM-ADOPT-004",
        f"code without the backfill source would forget {sum(left.values()):,} values of "
        f"{log.checkpoint}",
        expected=f"as of batch {found.batch}, no value in a family that is not its store's oldest",
        found=", ".join(
            f"{count:,} of store {store_of(name)} at revision {revision_in(name)} ({name})"
            for name, count in left.items()
        ),
        next_action="take them back first: "
        f"`statemigrate rollback {argument(log.checkpoint)} --to base --undo` says what to do, "
        "step by step; or start the query with stateful (or with_backfill "
        "and migrated); only if the code that starts next declares these families, as code with "
        f"scripts does: {names}",
        path=log.checkpoint,
        batch=found.batch,
        families=left,
    )


def record_oldest(log: OffsetLog, found: NewerValues) -> None:
    """Leave a record that all but the oldest families of these stores were read, and are empty.

    Spark's metadata go on listing an empty family for a while, and forget it then.
    """
    record = read_record(log.files)
    stores = {store: record.get(store, StoreRecord()) for store in found.stores | record.keys()}
    own_records = {
        store: replace(each, families=(store,), batch=found.batch, deployment="", begun=())
        for store, each in stores.items()
        if each.families or store in found.stores
    }
    if own_records:
        write_record(log.files, {**record, **own_records})


def _is_newer(name: str) -> bool:
    # Spark keeps variables of its own, with a dollar in front.
    return not name.startswith("$") and revision_in(name) is not None


def _hidden(
    files: Files, batch: int, operator: int, listing: Listing, record: Mapping[str, StoreRecord]
) -> list[str]:
    """Newer families that may have values, and that Spark does not list."""
    rerun = {name for file in listing.reruns for name in file.families}
    own_records = {
        store: each
        for store, each in record.items()
        if any(is_family_of(store, name) for name in listing.variables)
    }
    had = {name for each in own_records.values() for name in each.families} - listing.variables
    since = max((each.batch for each in own_records.values()), default=0)
    if had or not listing.tells_of(max(since, 0)):
        # What was dropped, or never committed, is not in the database either.
        there = column_families(files, batch, operator)
        known = partial(_is_known_empty, record)
        had = had if there is None else {n for n in there if n in had or not known(n)}
    return sorted(filter(_is_newer, (rerun | had) - listing.variables))


def _is_known_empty(record: Mapping[str, StoreRecord], name: str) -> bool:
    """Whether the last deployment of the family's store does without it."""
    return any(
        bool(each.families) and name not in each.families
        for store, each in record.items()
        if is_family_of(store, name)
    )


def _cannot_be_read(log: OffsetLog, batch: int, names: Sequence[str]) -> CheckpointError:
    return CheckpointError(
        "SM-ADOPT-005",
        f"what {', '.join(names)} in {log.checkpoint} holds cannot be read",
        expected=f"among the variables that Spark lists for batch {batch}",
        found="in the state's files alone: other code ran since, or ran a killed batch again",
        next_action="start the query with stateful (or with_backfill and migrated), and let it "
        "commit a batch, which lists the family or says what is wrong; then stop it, and run this "
        "again",
        path=log.checkpoint,
        batch=batch,
        families=list(names),
    )
