"""What differs in a family between two batches, with no more read than has changed.

A key whose value differs is in a file that only one of the two batches has: in a changelog or delta
between them, or in a table of RocksDB that they do not share. Keys of such files are looked up in
both; where no file tells, both batches are compared as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow.compute as pc

from statemigrate.checkpoint.rows import Rows, families_of
from statemigrate.checkpoint.state import OperatorFamily
from statemigrate.checkpoint.stores import StoreReader, StoreVersion, provider_of
from statemigrate.numpy_arrays import numpy_array

Raw = tuple[Rows, Rows]
"""Keys and their values, as a store has them."""


@dataclass(frozen=True)
class PartitionChange:
    """What differs in a partition of one family between two batches. Its files are opened once.

    Methods raise as `OperatorFamily.raw`.
    """

    before: OperatorFamily
    after: OperatorFamily
    partition: int

    @cached_property
    def keys(self) -> Rows | None:
        """The keys among which all are that differ; None where the files do not say."""
        return _candidates(*self._sides)

    @property
    def is_indexed(self) -> bool:
        """Whether keys are looked up in tables of RocksDB; in other files all of them are read."""
        return all(each.is_indexed for each in self._sides)

    def rows(self) -> tuple[Raw, Raw]:
        """The rows at both batches whose keys or values are not the same at both."""
        if self.keys is None:
            old, new = (_whole(each.family.raw(self.partition)) for each in self._sides)
        else:
            old, new = (each.having(self.keys) for each in self._sides)
        return _without_same(old, new), _without_same(new, old)

    @cached_property
    def _sides(self) -> tuple[_Side, _Side]:
        return _Side(self.before, self.partition), _Side(self.after, self.partition)


class _Side:
    """A partition of a family at one of the batches; its tables are opened once."""

    def __init__(self, family: OperatorFamily, partition: int) -> None:
        self.family = family
        self.partition = partition
        self.part = family.parts[partition]

    @cached_property
    def state(self) -> StoreReader:
        """Its rows as the store has them."""
        conf = self.family.conf
        return provider_of(conf).open(self.family.files, self.part.version, conf)

    @property
    def is_indexed(self) -> bool:
        """Whether keys are looked up in tables of RocksDB; in other files all of them are read."""
        has_tables = provider_of(self.family.conf).has_families
        return has_tables and self.part.version.snapshot is not None

    def having(self, keys: Rows) -> Raw:
        """Those of the keys that are there, with their values."""
        return self.state.find(keys)


def _candidates(before: _Side, after: _Side) -> Rows | None:
    """See `PartitionChange.keys`."""
    old, new = before.part, after.part
    numbers = [each.family.number_in(each.partition) for each in (before, after)]
    if old.families != new.families and len(set(numbers)) > 1:
        return None
    names = _changes_between(after.family, old.version, new.version)
    parts: list[Rows] = []
    if names is None:
        alone = set(old.version.shared) ^ set(new.version.shared)
        for each in (before, after):
            in_files = each.state.keys_in(alone)
            if in_files is None:
                return None
            parts.append(in_files)
        names = sorted(set(old.version.changes) ^ set(new.version.changes))
    conf = after.family.conf
    for changes in provider_of(conf).changes(after.family.files, names, conf):
        parts.append(changes.keys)
    keys = Rows.concat(parts)
    keys = Rows.from_arrow(keys.to_arrow().unique())
    if numbers[0] is not None:
        keys = keys.take(families_of(keys) == numbers[0])
    return keys


def _changes_between(
    family: OperatorFamily, old: StoreVersion, new: StoreVersion
) -> list[str] | None:
    """The files of changes between two versions; None where one of them is not there."""
    if old.snapshot == new.snapshot:
        first, second = old.changes, new.changes
        shorter = min(len(first), len(second))
        return (
            [*first[shorter:], *second[shorter:]] if first[:shorter] == second[:shorter] else None
        )
    if old.has_ids or new.has_ids:
        return None
    ending = provider_of(family.conf).changes_suffix
    first_version, last = sorted((old.version, new.version))
    names = [f"{new.folder}/{each}.{ending}" for each in range(first_version + 1, last + 1)]
    listed = {each.name for each in family.files.list(new.folder)}
    return names if listed.issuperset(names) else None


def _whole(parts: Iterator[Raw]) -> Raw:
    found = list(parts)
    return Rows.concat([keys for keys, _ in found]), Rows.concat([values for _, values in found])


def _without_same(rows: Raw, others: Raw) -> Raw:
    """Those of ``rows`` that are not among the others with the same value."""
    keys, values = rows
    places = pc.index_in(keys.to_arrow(), value_set=others[0].to_arrow())
    theirs = others[1].to_arrow().take(places)
    same = pc.fill_null(pc.equal(values.to_arrow(), theirs), fill_value=False)
    kept = np.flatnonzero(~numpy_array(same))
    return keys.take(kept), values.take(kept)
