"""The figures of Spark's own streaming progress."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from statemigrate.metrics.instruments import NativeInstruments

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

_WHOLE = "triggerExecution"
_COMMITTED = "addBatch"
_ROCKSDB = "rocksdb"
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class SparkProgress:
    """Records the progress of each batch.

    Every figure of RocksDB becomes a gauge, ``rocksdbSstFileSize`` for example
    ``statemigrate.rocksdb.sst_file_size``, with Spark's own number: of the last batch, all
    partitions together, latencies in milliseconds. Which there are depends on Spark's release.
    """

    def __init__(
        self, meter: Meter, instruments: NativeInstruments, query: Mapping[str, str]
    ) -> None:
        self._meter = meter
        self._instruments = instruments
        self._query = dict(query)
        self._gauges: dict[str, Any] = {}

    def record(self, progress: Any) -> None:
        """Record one ``StreamingQueryProgress``."""
        to = self._instruments
        to.rows.add(progress.numInputRows, self._query)
        # An idle query notes its last batch again, without having committed anything.
        if _COMMITTED in progress.durationMs:
            to.committed_at.set(time.time(), self._query)
        for phase, milliseconds in progress.durationMs.items():
            if phase == _WHOLE:
                to.batch_duration.record(milliseconds / 1000, self._query)
            else:
                to.phase_duration.record(milliseconds / 1000, {**self._query, "phase": phase})
        for number, operator in enumerate(progress.stateOperators):
            self._record_state(number, operator)

    def _record_state(self, number: int, operator: Any) -> None:
        to = self._instruments
        at = {**self._query, "operator": f"{number}:{operator.operatorName}"}
        to.records.set(operator.numRowsTotal, at)
        to.updated.add(operator.numRowsUpdated, at)
        to.memory.set(operator.memoryUsedBytes, at)
        to.commit_duration.record(operator.commitTimeMs / 1000, at)
        for name, value in operator.customMetrics.items():
            if name.startswith(_ROCKSDB):
                self._gauge(name).set(value, at)

    def _gauge(self, name: str) -> Any:
        if name not in self._gauges:
            snake = _WORD.sub("_", name.removeprefix(_ROCKSDB)).lower()
            self._gauges[name] = self._meter.create_gauge(
                f"statemigrate.rocksdb.{snake}", description=f"Spark's {name}, of the last batch."
            )
        return self._gauges[name]
