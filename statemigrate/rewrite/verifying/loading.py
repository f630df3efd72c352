"""State that Spark cannot load: which store, partition and file it is, in place of Java's words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from statemigrate.checkpoint.logs.pinned import codec_of, is_rocksdb
from statemigrate.checkpoint.operators.catalogue import used_partitions
from statemigrate.checkpoint.operators.shapes import CheckpointShape, OperatorShape, StoreShape
from statemigrate.checkpoint.stores.reading import read_changes, read_hdfs_state, snapshot_of
from statemigrate.checkpoint.stores.versions import (
    StoreVersion,
    hdfs_version,
    rocksdb_version,
    store_folder,
)
from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.files import Files
from statemigrate.native.spark_state.retrying import ATTEMPTS
from statemigrate.state.telling import told

Result = TypeVar("Result")
_PAUSE = 0.25


@dataclass(frozen=True)
class LoadedState:
    """The state of the checkpoint in ``files``, which has this ``shape``."""

    files: Files
    shape: CheckpointShape

    def whole(self, operator: OperatorShape, read: Callable[[], Result]) -> Result:
        """What ``read`` returns, which is called again where the store broke off what Spark read.

        Raises as `loading`.
        """
        from statemigrate.files.hadoop.failures import CutOffError

        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self.loading(operator):
                    return read()
            except CutOffError:
                if attempt == ATTEMPTS:
                    raise
                time.sleep(_PAUSE)
        raise AssertionError("unreachable")

    @contextmanager
    def loading(self, operator: OperatorShape) -> Iterator[None]:
        """Raise `CorruptFileError`, or else `CheckpointError`, for what Spark cannot read of it.

        The error is the first of `damage`, or what Spark says itself. Where the files are sound and
        the store has failed it is a `StorageError`, which says nothing of the state.
        """
        from statemigrate.files.hadoop.failures import (
            JAVA_ERRORS,
            chain,
            failure_of_store,
            thrown_by,
        )

        try:
            with told():
                yield
        except JAVA_ERRORS as error:
            damage = next(self.damage(operator.number), None)
            if damage is not None:
                raise damage from error
            path = f"{self.files.location}/state/{operator.number}"
            failure = failure_of_store("reading", path, error)
            if failure is not None:
                raise failure from error
            causes = [each for each in chain(thrown_by(error)) if each[1]]
            raise CheckpointError(
                "SM-VERIFY-002",
                f"Spark cannot read the state of operator {operator.number}",
                expected="state that Spark's own reader loads",
                found=(causes[-1][1] if causes else str(error)).splitlines()[0][:300],
                next_action="look at what was found; restore the state from a copy of the "
                "checkpoint",
                path=path,
            ) from error

    def damage(self, number: int) -> Iterator[CorruptFileError]:
        """What is wrong with the files of each store and partition, by a reading without Spark."""
        operator = next(each for each in self.shape.operators if each.number == number)
        for partition in range(used_partitions(operator)):
            for place, store in enumerate(operator.stores):
                try:
                    self._read(operator, partition, place, store)
                except CorruptFileError as error:
                    yield error.but(
                        summary=f"partition {partition} of store {store.name} cannot be loaded: "
                        f"{error.summary}",
                        store=store.name,
                        partition=partition,
                    )

    def _read(self, operator: OperatorShape, partition: int, place: int, store: StoreShape) -> None:
        folder = store_folder(operator.number, partition, store.name)
        batch, conf = self.shape.batch, self.shape.conf
        if not is_rocksdb(conf):
            version = hdfs_version(self.files, folder, batch + 1)
            for _ in read_hdfs_state(self.files, version, conf):
                pass
            return
        ids = self.shape.commits[batch].state_ids
        unique = ids[operator.number][partition][place] if ids else None
        version = rocksdb_version(self.files, folder, batch + 1, unique, codec_of(conf))
        snapshot_of(self.files, version)
        for _ in read_changes(self.files, version, conf):
            pass
        # A snapshot without tables need not be RocksDB's: rows come from changelogs alone.
        if version.shared:
            self._read_tables(version)

    def _read_tables(self, version: StoreVersion) -> None:
        from statemigrate.rewrite.stored.tables import read_tables

        for _ in read_tables(self.files, version):
            pass
