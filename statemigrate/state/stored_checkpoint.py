"""A checkpoint of Spark's own state, read from its files: what there is of types, and the rows."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from statemigrate.checkpoint import CommittedState, OperatorFamily
from statemigrate.checkpoint.operators import OperatorEntry, OperatorShape, has_envelopes
from statemigrate.errors import CheckpointError, UnsupportedError
from statemigrate.files import Remembered, files_to_read
from statemigrate.native import SparkCheckpoint, Which, entries_at
from statemigrate.state.user_rows import UserRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


class StoredCheckpoint(SparkCheckpoint):
    """See `SparkCheckpoint`: the same without a session, which a remote file system alone needs."""

    def __init__(
        self,
        path: str,
        spark: SparkSession | None = None,
        *,
        batch: int | None = None,
        operator: Which = None,
        paged: bool = True,
        files: Remembered | None = None,
    ) -> None:
        # What `SparkCheckpoint` asks of a path and a session is for Spark's reader.
        self.path = path
        self.files = files or Remembered(files_to_read(path, spark))
        self._batch = batch
        self._operator = operator
        self._paged = paged

    def at(self, batch: int) -> StoredCheckpoint:
        """The same as of an earlier batch."""
        return StoredCheckpoint(
            self.path,
            batch=batch,
            operator=self._operator,
            paged=self._paged,
            files=self.files,
        )

    @cached_property
    def state(self) -> CommittedState:
        """The state of the batch."""
        return CommittedState(self.files, self._chosen_batch)

    def family(self, operator: int, store: str, family: str) -> OperatorFamily:
        """A family of an operator, by Spark's names."""
        return next(
            each
            for each in self._families_of(operator)
            if (each.store.name, each.family.name) == (store, family)
        )

    def rows(self, variable: str) -> UserRows:
        """A variable's rows. Raises `CheckpointError` for one that the schemas do not have."""
        families = self._families_of(self._processor_id)
        for each in families:
            if each.family.name == variable:
                return UserRows(each)
        raise CheckpointError(
            "SM-STATE-031",
            f"the schema files of operator {self._processor_id} do not tell of its variable "
            f"{variable}",
            expected=f"the schema of {variable}, which the operator's metadata name",
            found=", ".join(each.family.name for each in families) or "no schema",
            next_action="restore state/ from a copy of the checkpoint; Spark reads these files too",
            path=self.path,
        )

    def is_empty(self, variable: str) -> bool:
        """Whether no key has a value in the variable."""
        return not any(True for _ in self.rows(variable).all_batches())

    def is_surely_empty(self, variable: str) -> bool:
        """Whether it was read and is empty; False for what Spark does not keep any more."""
        try:
            return self.is_empty(variable)
        except (FileNotFoundError, CheckpointError, UnsupportedError):
            # What was not read is never empty: callers take it for full.
            return False

    def envelope_rows(self) -> UserRows | None:
        """The envelopes of ``applyInPandasWithState``, as they are stored.

        None for state of any other operator, and for state without an envelope. Raises
        `CheckpointError` where it is not clear which operator is meant.
        """
        found = self._only_envelopes(
            lambda each: self._families_of(each.id), lambda each: has_envelopes(each.family.value)
        )
        return None if found is None else UserRows(found)

    def grouping_key(self) -> StructType:
        """The type of the grouping key; without a field where no state is declared."""
        from pyspark.sql.types import StructType

        envelopes = self.envelope_rows()
        if envelopes is not None:
            return StructType.fromJson(envelopes.key)
        variable = next(iter(self.variables().values()), None)
        return StructType() if variable is None else self.types(variable).key

    def _entries(self, batch: int | None = None) -> list[OperatorEntry]:
        at = self._chosen_batch if batch is None else batch
        return entries_at(self.files, at, as_listed=False)

    def _families_of(self, operator: int) -> list[OperatorFamily]:
        (shape,) = (each for each in self._shapes if each.number == operator)
        return list(self.state.of_operator(shape))

    @property
    def _shapes(self) -> tuple[OperatorShape, ...]:
        return self.state.shape.operators
