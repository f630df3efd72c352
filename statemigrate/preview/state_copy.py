"""The state after some batches, copied with other rows: each batch as a snapshot of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint.operators.catalogue import is_derived, used_partitions
from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.checkpoint.rows.buffers import arrow_array
from statemigrate.checkpoint.shape import describe
from statemigrate.checkpoint.state import Batch, CommittedState, OperatorFamily
from statemigrate.files import Files
from statemigrate.rewrite.checks import refuse_unsupported
from statemigrate.rewrite.fork import fork_batches
from statemigrate.rewrite.writing import StoreAddress, StoreFiles


class StateChange(Protocol):
    """Changes the rows of a family: fewer of them, or others."""

    def state(self, family: OperatorFamily, keys: pa.StructArray, values: pa.Array) -> Batch:
        """The rows in place of some."""


def copy_state(old: Files, new: Files, batches: Sequence[int], change: StateChange) -> None:
    """Copy the state after each of some ``batches``, and the logs of these, with other rows.

    A row goes to the partition of its new key. Raises as `fork`, and `UnsupportedError` for state
    that cannot be written.
    """
    for batch in batches:
        shape = describe(old, batch)
        refuse_unsupported(shape, shape)
    fork_batches(old, new, batches, with_state=False)
    for batch in batches:
        _copy_batch(CommittedState(old, batch), new, change)


def _copy_batch(state: CommittedState, new: Files, change: StateChange) -> None:
    for operator in state.shape.operators:
        families = list(state.of_operator(operator))
        for place, store in enumerate(operator.stores):
            own = [each for each in families if each.store.name == store.name]
            with tempfile.TemporaryDirectory(prefix="statemigrate-state-") as scratch:
                found = _store_files(state, operator, place, own, change, Path(scratch))
                for name, content in found:
                    new.put(name, content)


def _store_files(
    state: CommittedState,
    operator: OperatorShape,
    place: int,
    families: Sequence[OperatorFamily],
    change: StateChange,
    scratch: Path,
) -> Iterator[tuple[str, Path | bytes]]:
    """The files of all partitions of a store, which is at ``place`` among its operator's."""
    count = used_partitions(operator)
    schemas = {each.family.name: each.schemas for each in families}
    writers = []
    for partition in range(count):
        folder = scratch / str(partition)
        folder.mkdir()
        address = _address(state, operator, place, partition)
        writers.append(StoreFiles(address, folder, is_snapshot=True, schemas=schemas))
    for family in families:
        if is_derived(family.family.name):
            # The writer makes these rows from those that they repeat.
            continue
        for partition in range(count):
            for keys, values in family.rows(partition):
                changed, contents = change.state(family, keys, values)
                _distribute(family, changed, contents, writers)
    for writer in writers:
        yield from writer.close().items()


def _distribute(
    family: OperatorFamily, keys: pa.StructArray, values: pa.Array, writers: Sequence[StoreFiles]
) -> None:
    numbers = family.partitions_of(keys)
    for number in np.unique(numbers).tolist():
        chosen = arrow_array(numbers == number)
        writers[number].put(family.family.name, keys.filter(chosen), values.filter(chosen))


def _address(
    state: CommittedState, operator: OperatorShape, place: int, partition: int
) -> StoreAddress:
    shape = state.shape
    ids: Mapping[int, Sequence[Sequence[str]]] = shape.commits[shape.batch].state_ids or {}
    unique = ids[operator.number][partition][place] if operator.number in ids else None
    return StoreAddress(
        operator.number, partition, operator.stores[place], shape.batch + 1, shape.conf, unique
    )
