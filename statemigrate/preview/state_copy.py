"""The state after some batches, copied with other rows: each batch as a snapshot of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint import Batch, CommittedState, OperatorFamily
from statemigrate.checkpoint.operators import OperatorShape, is_derived, used_partitions
from statemigrate.checkpoint.rows import arrow_array
from statemigrate.files import Files
from statemigrate.rewrite import StoreAddress, StoreFiles, fork_batches, refuse_unsupported


class StateChange(Protocol):
    """Changes the rows of a family: fewer of them, or others."""

    def state(self, family: OperatorFamily, keys: pa.StructArray, values: pa.Array) -> Batch:
        """The rows in place of some."""


def copy_state(
    old: Files,
    new: Files,
    batches: Sequence[int],
    change: StateChange,
    *,
    at_once: int = 128,
) -> None:
    """Copy the state after each of some ``batches``, and the logs of these, with other rows.

    A row goes to the partition of its new key. The files of ``at_once`` partitions are open
    together, and all rows are read again for the next ones. Raises as `fork`, and
    `UnsupportedError` for state that cannot be written.
    """
    states = [CommittedState(old, batch) for batch in batches]
    for state in states:
        refuse_unsupported(state.shape, state.shape)
    fork_batches(old, new, batches, with_state=False)
    for state in states:
        _copy_batch(state, new, change, at_once)


def _copy_batch(state: CommittedState, new: Files, change: StateChange, at_once: int) -> None:
    for operator in state.shape.operators:
        families = list(state.of_operator(operator))
        for place, store in enumerate(operator.stores):
            own = [each for each in families if each.store.name == store.name]
            numbers = range(used_partitions(operator))
            for start in numbers[::at_once]:
                with tempfile.TemporaryDirectory(prefix="statemigrate-state-") as scratch:
                    writers = {
                        number: StoreFiles(
                            _address(state, operator, place, number),
                            Path(tempfile.mkdtemp(dir=scratch)),
                            is_snapshot=True,
                            schemas={each.family.name: each.schemas for each in own},
                        )
                        for number in numbers[start : start + at_once]
                    }
                    _write(own, change, writers)
                    for writer in writers.values():
                        for name, content in writer.close().items():
                            new.put(name, content)


def _write(
    families: Sequence[OperatorFamily], change: StateChange, writers: Mapping[int, StoreFiles]
) -> None:
    """Write the rows of a store that go to the partitions of some writers."""
    for family in families:
        if is_derived(family.family.name):
            # The writer makes these rows from those that they repeat.
            continue
        for partition in range(len(family.parts)):
            for rows in family.rows(partition):
                keys, values = change.state(family, *rows)
                numbers = family.partitions_of(keys)
                for number in writers.keys() & set(np.unique(numbers).tolist()):
                    chosen = arrow_array(numbers == number)
                    writers[number].put(
                        family.family.name, keys.filter(chosen), values.filter(chosen)
                    )


def _address(
    state: CommittedState, operator: OperatorShape, place: int, partition: int
) -> StoreAddress:
    shape = state.shape
    ids: Mapping[int, Sequence[Sequence[str]]] = shape.commits[shape.batch].state_ids or {}
    unique = ids[operator.number][partition][place] if operator.number in ids else None
    return StoreAddress(
        operator.number, partition, operator.stores[place], shape.batch + 1, shape.conf, unique
    )
