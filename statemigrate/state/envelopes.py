"""The envelopes of ``applyInPandasWithState``, one a key, by the revision that each names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statemigrate.checkpoint import CommittedState
from statemigrate.checkpoint.operators import GROUP_STATE, in_envelopes
from statemigrate.files import Files
from statemigrate.state.user_rows import UserRows


@dataclass(frozen=True)
class EnvelopesOf:
    """The envelopes of one revision; see `statemigrate.state.spark.StoredRows`.

    ``rows`` are all of them, as they are stored; a key that has only a timeout is left out.
    """

    rows: UserRows
    revision: str

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self.rows.partitions

    @property
    def size(self) -> int:
        """About how many bytes of files are read for them."""
        return self.rows.size

    @property
    def key_types(self) -> Mapping[str, Any]:
        """The columns of a key with their types."""
        return self.rows.key_types

    def batches(self, partition: int) -> Iterator[pa.RecordBatch]:
        """The rows of a partition; ``value`` is the envelope."""
        return self._opened(self.rows.batches(partition))

    def under(self, key: Sequence[pa.Array]) -> Iterator[pa.RecordBatch]:
        """The rows whose keys begin with ``key``."""
        return self._opened(self.rows.under(key))

    def count(self, partition: int) -> int:
        """How many rows a partition has."""
        return sum(batch.num_rows for batch in self.batches(partition))

    def _opened(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            states = pc.struct_field(batch["value"], [GROUP_STATE])
            of_it = pc.equal(pc.struct_field(states, ["revision"]), self.revision)
            chosen = pc.fill_null(of_it, fill_value=False)
            columns = [batch["key"], states, batch["partition_id"]]
            whole = pa.RecordBatch.from_arrays(columns, ["key", "value", "partition_id"])
            found = whole.filter(chosen)
            if found.num_rows:
                yield found


def revisions_of(envelopes: UserRows) -> set[str]:
    """The revisions that envelopes have."""
    found: set[str] = set()
    for batch in envelopes.reading([f"{GROUP_STATE}.revision"]).all_batches():
        revisions = pc.struct_field(batch["value"], [GROUP_STATE, "revision"])
        found.update(each for each in pc.unique(revisions).to_pylist() if each is not None)
    return found


def stored_revisions(files: Files, batch: int) -> dict[int, frozenset[str]]:
    """The revisions of each function's values after a batch, by the number of the operator.

    All envelopes are read, since nothing else in a checkpoint says which revisions they have.
    """
    state = CommittedState(files, batch)
    return {
        each.operator.number: frozenset(revisions_of(UserRows(each)))
        for operator in filter(in_envelopes, state.shape.operators)
        for each in state.of_operator(operator)
    }
