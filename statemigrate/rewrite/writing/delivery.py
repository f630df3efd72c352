"""What tasks give back, taken by the driver: files where only it can write, and reports."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from statemigrate.files import Files
from statemigrate.rewrite.writing.tally import Tally


def deliver(rows: Iterable[Any], target: Files) -> Iterator[tuple[int, dict[int, Tally]]]:
    """Put the files in ``rows`` of tasks where they belong; yield each partition's report.

    A report has, by the place of a family in the plan, what was written of it. The rows of one
    partition stand together, its report last; of its files only one is held at a time, on disk.
    """
    with tempfile.TemporaryDirectory(prefix="statemigrate-rewrite-") as scratch:
        unfinished = _Unfinished(Path(scratch), target)
        for row in rows:
            if row["report"] is None:
                unfinished.add(row["file"], row["piece"])
            else:
                unfinished.put()
                yield row["partition"], _report(row["report"])


class _Unfinished:
    """The file whose pieces are coming in."""

    def __init__(self, scratch: Path, target: Files) -> None:
        self._path = scratch / "file"
        self._target = target
        self._name: str | None = None

    def add(self, name: str, piece: bytes) -> None:
        if name != self._name:
            self.put()
            self._name = name
        with self._path.open("ab") as stream:
            stream.write(piece)

    def put(self) -> None:
        if self._name is not None:
            self._target.put(self._name, self._path)
            self._path.unlink()
            self._name = None


def _report(text: str) -> dict[int, Tally]:
    return {int(number): Tally.from_json(each) for number, each in json.loads(text).items()}
