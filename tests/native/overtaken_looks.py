"""Looks at a query that forgets its state fast, each overtaken at its first attempt.

``python overtaken_looks.py ROOT FOLDER`` prints a line of JSON: by verb, how often it was tried,
which batches it read, and what it found. The maintenance of a Java process keeps its first
interval, so it has one of its own.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

# The shared modules' folder is on PYTHONPATH.
from control_pipeline import ControlPipeline
from pipelines import local_session
from tally import AmountsTally, CentsTally, batch

import statemigrate
from statemigrate import migrated
from statemigrate.checkpoint.state import OperatorFamily
from statemigrate.native.checkpoint import SparkCheckpoint

KEYS = 40
SETTINGS = {
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "300ms",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
}


class Overtaking:
    """Lets the query overtake the first read of each look, and notes the batches that are read.

    A look reads state by itself, or through Spark's frames.
    """

    def __init__(self, pipeline: ControlPipeline) -> None:
        self._pipeline = pipeline
        self._frame, self._raw = SparkCheckpoint.frame, OperatorFamily.raw
        self.batches: list[int] = []

    def frame(self, reader: SparkCheckpoint, variable: str) -> Any:
        """A frame of a variable, as `SparkCheckpoint.frame`."""
        frame = self._frame(reader, variable)
        newest = reader.last_batch()
        assert newest is not None
        self._note(newest)
        return frame

    def raw(self, family: OperatorFamily, partition: int, *args: Any, **named: Any) -> Any:
        """The rows of a partition, as `OperatorFamily.raw`."""
        # Batch n makes version n + 1 of the state.
        self._note(family.parts[partition].version.version - 1)
        yield from self._raw(family, partition, *args, **named)

    def _note(self, batch: int) -> None:
        self.batches.append(batch)
        if len(self.batches) == 1:
            self._wait_until_gone(batch + 1)

    def _wait_until_gone(self, version: int) -> None:
        end = time.monotonic() + 120
        while list(self._pipeline.checkpoint.glob(f"state/0/*/{version}.zip")):
            assert time.monotonic() < end, "the query keeps its state"
            # A key that is none of those that are to migrate, batch after batch.
            self._pipeline.feed([("other", 1, "later")])
            time.sleep(1)


def looks(checkpoint: Path, folder: str, root: Path) -> dict[str, Any]:
    """Each verb's look."""
    named: dict[str, Any] = {"migrations": folder}

    def exported() -> int:
        done = statemigrate.export("tally", checkpoint, root / "tally.jsonl", **named)
        lines = (root / "tally.jsonl").read_text().splitlines()
        assert done.keys == len(lines)
        keys = [json.loads(line)["key"]["key"] for line in lines]
        return sum(key.startswith("k") for key in keys)

    def status() -> int:
        (store,) = statemigrate.status(checkpoint, **named).stores
        return store.left

    return {
        "status": status,
        "export": exported,
        "backfill": lambda: statemigrate.backfill(checkpoint, **named).keys,
    }


def main(root: Path, folder: str) -> None:
    spark = local_session(root / "warehouse")
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    pipeline = ControlPipeline(spark, root / "pipeline")
    pipeline.feed(batch("first", range(KEYS)))
    pipeline.deploy_natively(CentsTally())
    processor = migrated(AmountsTally(), migrations=folder, checkpoint=pipeline.checkpoint)
    query = pipeline.start(pipeline.result(processor))
    overtaking = Overtaking(pipeline)

    def frame(reader: SparkCheckpoint, variable: str) -> Any:
        return overtaking.frame(reader, variable)

    def raw(family: OperatorFamily, partition: int, *args: Any, **named: Any) -> Any:
        return overtaking.raw(family, partition, *args, **named)

    SparkCheckpoint.frame = frame  # type: ignore[method-assign]
    OperatorFamily.raw = raw  # type: ignore[method-assign]
    found: dict[str, Any] = {}
    try:
        for verb, look in looks(pipeline.checkpoint, folder, root).items():
            overtaking.batches = []
            found[verb] = {"found": look(), "batches": overtaking.batches}
    finally:
        query.stop()
        sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
