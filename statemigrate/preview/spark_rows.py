"""Spark's own state with other rows: those of a sample of the keys, with pseudonyms.

Each batch is copied as a snapshot of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint import Batch, CommittedState, OperatorFamily
from statemigrate.checkpoint.operators import OperatorShape, is_derived, used_partitions, user_name
from statemigrate.deployment import store_of
from statemigrate.files import Files, open_files
from statemigrate.formats import NamedColumn, columns_in
from statemigrate.native import check_all_listed, paged_names
from statemigrate.numpy_arrays import arrow_array
from statemigrate.preview.key_sample import KeySample, SampledTypes, same_types
from statemigrate.preview.pseudonyms import Pseudonyms, unmaskable
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


class SparkStateRows:
    """See `statemigrate.preview.engines.StateRows`."""

    state_folder = "state/"

    def __init__(self, pseudonyms: Pseudonyms, sample: KeySample | None) -> None:
        self._pseudonyms, self._sample = pseudonyms, sample

    def check(self, files: Files, batch: int) -> SampledTypes:
        """See `StateRows`."""
        pages = sorted(paged_names(files).values())
        if pages and self._pseudonyms.mask.names:
            raise unmaskable(f"the pages of {', '.join(pages)}")
        if self._sample is None:
            return []
        found = [*_sampled_types(self._sample, CommittedState(files, batch))]
        same_types(found)
        return found

    def copy(self, files: Files, new: Path, batches: Sequence[int], scratch: Path) -> None:  # noqa: ARG002
        """See `StateRows`. Raises `CheckpointError` for families that Spark does not list."""
        for batch in batches:
            check_all_listed(files, CommittedState(files, batch).shape)
        copy_state(files, open_files(new.as_uri()), batches, self)

    def state(self, family: OperatorFamily, keys: pa.StructArray, values: pa.Array) -> Batch:
        """The rows of a family of state in place of some."""
        if self._sample is not None:
            chosen = self._sample.chosen_keys(family.operator, family.store, family.family, keys)
            keys, values = keys.filter(chosen), values.filter(chosen)
        if not self._pseudonyms.mask.names:
            return keys, values
        place = _name_of(family)
        return self._pseudonyms.replaced(keys, place), self._pseudonyms.replaced(values, place)

    def columns(self, files: Files, batch: int) -> Iterator[NamedColumn]:
        """See `StateRows`."""
        for each in CommittedState(files, batch).families:
            yield from columns_in(each.family.key, _name_of(each))
            yield from columns_in(each.family.value, _name_of(each))

    def rows(self, files: Files, batches: Sequence[int]) -> Iterator[tuple[str, pa.Array]]:
        """See `StateRows`."""
        for number in batches:
            for each in CommittedState(files, number).families:
                for partition in range(len(each.parts)):
                    for keys, values in each.rows(partition):
                        yield _name_of(each), keys
                        yield _name_of(each), values


def _sampled_types(
    sample: KeySample, state: CommittedState
) -> Iterator[tuple[str, Mapping[str, str]]]:
    for each in state.families:
        if not is_derived(each.family.name):
            name = _name_of(each)
            yield name, sample.check_state(name, each.operator, each.store, each.family)


def _name_of(family: OperatorFamily) -> str:
    """What people call a family: Spark's own name where only Spark looks at it."""
    name = user_name(family.operator, family.store.name, family.family.name)
    if name is None:
        return f"{family.store.name} {family.family.name} of operator {family.operator.number}"
    # A name in a mask is that of a store, which has values of several revisions.
    return store_of(name)
