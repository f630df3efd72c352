"""What code that knows each store's oldest family alone would forget (rule 14).

Spark drops a state variable that no code declares, with its values, and says nothing. An older
release declares the oldest families: every other one has to be read, and to be empty, before the
way to it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from statemigrate.checkpoint.operators.metadata import operator_names
from statemigrate.checkpoint.operators.schemas import parse_schemas
from statemigrate.deployment import is_family_of, revision_in, store_of
from statemigrate.errors import CheckpointError
from statemigrate.files import Files
from statemigrate.native.adoption.offsets import OffsetLog
from statemigrate.native.seen.record import StoreRecord, read_record, write_record
from statemigrate.native.spark_state.column_families import column_families
from statemigrate.native.spark_state.listing import Listing, read_listing
from statemigrate.native.spark_state.operators import PROCESSOR
from statemigrate.native.spark_state.reader import SparkCheckpoint
from statemigrate.native.spark_state.session import session_of
from statemigrate.shell import argument

if TYPE_CHECKING:
    from statemigrate.native.spark_state.session import Spark

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
        f"code without the control source would forget {sum(left.values()):,} values of "
        f"{log.checkpoint}",
        expected=f"as of batch {found.batch}, no value in a family that is not its store's oldest",
        found=", ".join(
            f"{count:,} of store {store_of(name)} at revision {revision_in(name)} ({name})"
            for name, count in left.items()
        ),
        next_action="take them back first: "
        f"`statemigrate rollback {argument(log.checkpoint)} --to base --undo` says what to do, "
        "step by step; or start the query with the control source and "
        "migrated; only if the code that starts next declares these families, as migrated code "
        f"does: {names}",
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
    mine = {
        store: replace(each, families=(store,), batch=found.batch, deployment="", begun=())
        for store, each in stores.items()
        if each.families or store in found.stores
    }
    if mine:
        write_record(log.files, {**record, **mine})


def _is_newer(name: str) -> bool:
    # Spark keeps variables of its own, with a dollar in front.
    return not name.startswith("$") and revision_in(name) is not None


def _hidden(
    files: Files, batch: int, operator: int, listing: Listing, record: Mapping[str, StoreRecord]
) -> list[str]:
    """Newer families that may have values, and that Spark does not list."""
    at = f"{files.location}/state/{operator}"
    rerun = {each.name for file in listing.reruns for each in parse_schemas(file.data, at)}
    mine = {
        store: each
        for store, each in record.items()
        if any(is_family_of(store, name) for name in listing.variables)
    }
    had = {name for each in mine.values() for name in each.families} - listing.variables
    since = max((each.batch for each in mine.values()), default=0)
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
        next_action="start the query with migrated and the control source, and let it commit a "
        "batch, which lists the family or says what is wrong; then stop it, and run this again",
        path=log.checkpoint,
        batch=batch,
        families=list(names),
    )
