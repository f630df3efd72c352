"""Spark's own state with other rows: those of a sample of the keys, with pseudonyms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from statemigrate.checkpoint import Batch, CommittedState, OperatorFamily
from statemigrate.checkpoint.operators import is_derived, user_name
from statemigrate.deployment import store_of
from statemigrate.files import Files, open_files
from statemigrate.formats import NamedColumn, columns_in
from statemigrate.native import check_all_listed, paged_names
from statemigrate.preview.key_sample import KeySample, SampledTypes, same_types
from statemigrate.preview.pseudonyms import Pseudonyms, unmaskable
from statemigrate.preview.state_copy import copy_state


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
