"""What Spark's own driver does with the logs of a checkpoint: each entry is made once.

Whoever comes second to an entry is refused, as by ``HDFSMetadataLog.add``: that is all by which
Spark alone tells two drivers apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from statemigrate.checkpoint.logs.offsets import batches_in, names_in
from statemigrate.files import Files

QUERY = "2b9f2f0e-0000-4000-8000-000000000000"


class ConcurrentUpdateError(Exception):
    """Spark: several streaming queries use the checkpoint's log at a time."""


class SparkLogs:
    """The offset log and the commit log, of one run of a query, which has a unique ``name``."""

    def __init__(self, files: Files, name: str) -> None:
        self._files = files
        self._name = name

    def batches(self, until: int) -> Iterator[int]:
        """The batches that a start runs: the last one again where it was not committed."""
        begun = max(batches_in(names_in(self._files, "offsets")), default=-1)
        committed = max(batches_in(names_in(self._files, "commits")), default=-1)
        if begun > committed:
            yield begun
        yield from range(begun + 1, until)

    def begin(self, batch: int, *offsets: str) -> None:
        """Write a new batch's offsets; those of one that is run again are there."""
        if f"offsets/{batch}" in {each.name for each in self._files.list("offsets")}:
            return
        conf = {"spark.app.name": self._name}
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1_000 + batch, "conf": conf}
        lines = ["v1", json.dumps(metadata), *(offsets or (json.dumps({"logOffset": batch}),))]
        self._add(f"offsets/{batch}", "\n".join(lines))

    def commit(self, batch: int) -> None:
        """Note that a batch is done."""
        self._add(f"commits/{batch}", f'v1\n{{"nextBatchWatermarkMs":0,"by":"{self._name}"}}')

    def _add(self, name: str, text: str) -> None:
        try:
            self._files.create(name, text.encode())
        except FileExistsError as error:
            raise ConcurrentUpdateError(f"{name} was written by another query") from error
