"""Which partitions of a batch's state can be read, and a hash of what each of them has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.checkpoint.logs import batches_in, names_in
from statemigrate.checkpoint.operators import CheckpointShape, OperatorShape, used_partitions
from statemigrate.checkpoint.shape import describe
from statemigrate.checkpoint.state import stored_family, stored_partition
from statemigrate.errors import CheckpointError
from statemigrate.files import Files


@dataclass(frozen=True)
class StatePlace:
    """A partition of a ``store`` of the operator with this ``number``."""

    number: int
    store: str
    partition: int


PartitionHashes = Mapping[StatePlace, int | CheckpointError]
"""A hash of the keys and values of each partition, or the error of one that cannot be read."""


def partition_hashes(
    files: Files, batch: int, shape: CheckpointShape | None = None
) -> PartitionHashes:
    """Read all state of a batch, which has the ``shape`` where the logs do not say it yet.

    A hash is their `sum_of_rows`: the order does not count. Raises `CheckpointError` where
    the logs or the operators' metadata cannot be read.
    """
    shape = describe(files, batch, restarts=False) if shape is None else shape
    found: dict[StatePlace, int | CheckpointError] = {}
    for operator in shape.operators:
        for place, store in enumerate(operator.stores):
            for partition in range(used_partitions(operator)):
                at = StatePlace(operator.number, store.name, partition)
                try:
                    found[at] = _hash(files, shape, operator, place, partition)
                except CheckpointError as error:
                    found[at] = error
    return found


def require_state(
    files: Files, batch: int, expected: PartitionHashes, shape: CheckpointShape
) -> None:
    """Raise `CheckpointError` unless files that will be a checkpoint have the state expected."""
    found: PartitionHashes = {}
    cause: FileNotFoundError | None = None
    try:
        found = partition_hashes(files, batch, shape)
    except FileNotFoundError as error:
        cause = error
    differing = [each for each in expected if found.get(each) != expected[each]]
    if differing or found.keys() != expected.keys():
        raise CheckpointError(
            "SM-REPAIR-008",
            f"the state in {files.location} is not the one that was computed",
            expected="the same keys and values in each partition",
            found=f"others in {len(differing)} of {len(expected)} partitions",
            next_action="look whether the place loses or changes files, remove it, and run the "
            "same command again; it is not a checkpoint, and the old one is as it was",
            path=files.location,
        ) from cause


def _hash(
    files: Files, shape: CheckpointShape, operator: OperatorShape, place: int, partition: int
) -> int:
    # Hashing loads Arrow's functions.
    from statemigrate.checkpoint.rows import sum_of_rows

    store, total = operator.stores[place], 0
    parts = (stored_partition(files, shape, operator, place, partition),) * (partition + 1)
    for family in store.families:
        stored = stored_family(files, shape, operator, store, family, parts=parts)
        for keys, values in stored.raw(partition):
            total += sum_of_rows(keys, values)
    return total % (1 << 64)


@dataclass(frozen=True)
class StateDamage:
    """What cannot be read of the state of a query's newest committed ``batch``.

    ``found`` has by batch, the newest first, the errors of each one that is damaged. ``whole`` is
    the newest batch whose state is whole; None where no batch is. ``hashes`` are of the newest.
    """

    batch: int
    found: Mapping[int, tuple[CheckpointError, ...]]
    whole: int | None
    hashes: PartitionHashes


def state_damage(files: Files) -> StateDamage:
    """Read the state of the newest batch, and of older ones until one of them is whole.

    Raises `CheckpointError` for a checkpoint without a committed batch, and `UnsupportedError` for
    state that is not understood.
    """
    newest = CheckpointDirectory(files).require_commit()
    begun = set(batches_in(names_in(files, "offsets")))
    committed = begun & set(batches_in(names_in(files, "commits")))
    found: dict[int, tuple[CheckpointError, ...]] = {}
    newest_hashes: PartitionHashes = {}
    for batch in sorted(committed, reverse=True):
        errors, hashes = _read(files, batch)
        newest_hashes = hashes if batch == newest else newest_hashes
        if not errors:
            return StateDamage(newest, found, batch, newest_hashes)
        found[batch] = errors
    return StateDamage(newest, found, None, newest_hashes)


def _read(files: Files, batch: int) -> tuple[tuple[CheckpointError, ...], PartitionHashes]:
    try:
        hashes = partition_hashes(files, batch)
    except CheckpointError as error:
        return (error,), {}
    return tuple(each for each in hashes.values() if isinstance(each, CheckpointError)), hashes
