"""Batches on one partition of a single plain store, written past dual access."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from statemigrate.deployment import StoredFamily
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition, PartitionPaths
from statemigrate.families import Span
from statemigrate.formats import Struct

COUNTS = StoredFamily("counts", "base", Struct("n BIGINT"))


def batch(
    place: PartitionPaths,
    state: PartitionState,
    version: int,
    entries: dict[bytes, int],
    *,
    snapshot: bool = False,
    family: StoredFamily = COUNTS,
) -> PartitionState:
    """Write ``entries`` as one batch and commit it."""
    partition = Partition(place, state, version)
    target = partition.target(family, "value")
    for key, number in entries.items():
        target.put(key, {"n": number})
    return partition.commit(snapshot=snapshot)


def batches(
    place: PartitionPaths, many: Iterable[dict[bytes, int]], *, snapshots: Iterable[int] = ()
) -> list[PartitionState]:
    """Several batches, one after the other; the states after each of them."""
    states, state = [], PartitionState()
    for version, entries in enumerate(many):
        state = batch(place, state, version, entries, snapshot=version in snapshots)
        states.append(state)
    return states


def contents(
    place: PartitionPaths, state: PartitionState, *, family: StoredFamily = COUNTS
) -> dict[bytes, int]:
    """What a family holds at a state, through a batch that is then given up."""
    partition = Partition(place, state, 999)
    try:
        opened = partition.target(family, "value")
        return {key: value["n"] for key, value in opened.scan(Span())}
    finally:
        partition.abandon()


def as_first_release(state: PartitionState) -> PartitionState:
    """What the first release wrote of a state: no counts, no hashes, and no base."""
    document = state.to_json()
    document.pop("base")
    document.pop("contents", None)
    for part in ("records", "contents"):
        (document["snapshot"] or {}).pop(part, None)
    return PartitionState.from_json(document)


def files(directory: Path) -> list[str]:
    """The files below a directory, by relative path."""
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file())
