"""What the embedded engine asks of Spark during a batch, done in this process, one partition after
the other. Only what `Batches.run` calls is here.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from statemigrate.embedded.task_plan import REPORT


class Conf:
    """A session's configuration."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def get(self, name: str, default: str | None = None) -> str | None:
        return self._values.get(name, default)

    def set(self, name: str, value: str) -> None:
        self._values[name] = value


class Session:
    """A session with one core."""

    def __init__(self) -> None:
        self.conf = Conf()
        self.sparkContext = SimpleNamespace(defaultParallelism=1)


@dataclass(frozen=True)
class Rows:
    """A batch's input: a key and its commands, as text, in partitions."""

    session: Session
    partitions: tuple[tuple[tuple[int, str], ...], ...]
    columns: tuple[str, ...] = ("key", "commands")

    @property
    def sparkSession(self) -> Session:
        return self.session

    def toDF(self, *names: str) -> Rows:
        return Rows(self.session, self.partitions, names)

    def repartition(self, count: int, *_: str) -> Rows:
        parts: list[list[tuple[int, str]]] = [[] for _ in range(count)]
        for row in (row for part in self.partitions for row in part):
            parts[zlib.crc32(str(row[0]).encode()) % count].append(row)
        return Rows(self.session, tuple(map(tuple, parts)), self.columns)

    def sortWithinPartitions(self, *_: str) -> Rows:
        return Rows(self.session, tuple(tuple(sorted(p)) for p in self.partitions), self.columns)

    def mapInArrow(self, run: Callable[..., Iterator[Any]], _schema: Any) -> Computed:
        return Computed(self.session, lambda: self._results(run))

    def _results(self, run: Callable[..., Iterator[Any]]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for number, part in enumerate(self.partitions):
            with _Task(number):
                for batch in run(self._arrow(part)):
                    found.extend(batch.to_pylist())
        return found

    def _arrow(self, part: tuple[tuple[int, str], ...]) -> Iterable[Any]:
        if part:
            keys, commands = zip(*part, strict=True)
            columns = [pa.array(keys, pa.int64()), pa.array(commands, pa.string())]
            yield pa.RecordBatch.from_arrays(columns, names=list(self.columns))


class Computed:
    """What a stage gave: computed once, when it is first asked for."""

    def __init__(self, session: Session, compute: Callable[[], list[dict[str, Any]]]) -> None:
        self.sparkSession = session
        self._compute = compute
        self._found: list[dict[str, Any]] | None = None

    def persist(self) -> Computed:
        return self

    def unpersist(self) -> None:
        self._found = None

    def __getitem__(self, column: str) -> Any:
        return SimpleNamespace(
            isNull=lambda: lambda row: row[column] is None,
            isNotNull=lambda: lambda row: row[column] is not None,
        )

    def where(self, holds: Callable[[dict[str, Any]], bool]) -> Computed:
        return Computed(self.sparkSession, lambda: [row for row in self.rows() if holds(row)])

    def select(self, *columns: str) -> Computed:
        return Computed(
            self.sparkSession,
            lambda: [{name: row[name] for name in columns} for row in self.rows()],
        )

    def drop(self, *columns: str) -> Computed:
        return Computed(
            self.sparkSession,
            lambda: [{n: v for n, v in row.items() if n not in columns} for row in self.rows()],
        )

    def unionAll(self, other: Computed) -> Computed:
        return Computed(self.sparkSession, lambda: [*self.rows(), *other.rows()])

    def collect(self) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.rows()]

    def rows(self) -> list[dict[str, Any]]:
        if self._found is None:
            self._found = self._compute()
        return self._found


def local(session: Session, table: Any, _schema: Any) -> Computed:
    """The DataFrame of output that has come with the reports."""
    return Computed(session, table.to_pylist)


class _Task:
    """The context of a task of one partition."""

    def __init__(self, number: int) -> None:
        self._context = TaskContext()
        self._context._partitionId = number

    def __enter__(self) -> None:
        TaskContext._taskContext = self._context

    def __exit__(self, *_: object) -> None:
        TaskContext._taskContext = None


__all__ = ["REPORT", "Computed", "Rows", "Session", "local"]
