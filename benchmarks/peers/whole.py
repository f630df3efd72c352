"""Whole batches of the embedded engine on two cores: Spark, state, commit and sink included."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.engines import durations, embedded_query, session, write_input
from benchmarks.measuring import processor_seconds

_WARM = 2
"""Batches in which Java and Python warm up, and every key is written for the first time."""


def whole_batches(keys: int, rounds: int) -> list[dict[str, float]]:
    """Seconds of each batch, and of processors of one on average, of Java and Python together."""
    spark = session()
    try:
        with tempfile.TemporaryDirectory(prefix="statemigrate-peers-") as name:
            folder = Path(name)
            (folder / "input").mkdir()
            write_input(folder / "prepared", keys, _WARM + rounds)
            query = embedded_query(spark, folder)
            for number in range(_WARM):
                _arrive(folder, number)
            query.processAllAvailable()
            before = processor_seconds()
            for number in range(_WARM, _WARM + rounds):
                _arrive(folder, number)
            query.processAllAvailable()
            processor = (processor_seconds() - before) / rounds
            query.stop()
            passed = durations(query.query)[_WARM:]
            assert len(passed) == rounds, passed
            return [{"seconds": each / 1000, "processor": processor} for each in passed]
    finally:
        spark.stop()


def _arrive(folder: Path, number: int) -> None:
    (folder / "prepared" / f"{number}.parquet").rename(folder / "input" / f"{number}.parquet")
