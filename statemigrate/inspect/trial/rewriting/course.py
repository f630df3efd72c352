"""Taking one store's entries through scripts that only a rewrite can run, writing nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from statemigrate.errors import TransformError
from statemigrate.formats import Format, Struct, Value
from statemigrate.inspect.trial.course import Course
from statemigrate.inspect.trial.rewriting.entries import Chain, is_dropped, new_keys
from statemigrate.inspect.trial.trial import Trial
from statemigrate.migration import Path
from statemigrate.processor.rows.codec import RowCodec


class RewritingTrial(Trial):
    """See `Trial`; a key may change, and a value become several or none.

    ``key`` is the format of the keys, ``key_of`` gives a row's. Fields are compared with those of
    the first entry that a value becomes.
    """

    def __init__(
        self, course: RewritingCourse, show: Callable[[Any], Any], key_of: Callable[[Any], Value]
    ) -> None:
        self._chain = Chain(course.path, course.family.format, course.key)
        self._key_of = key_of
        super().__init__(
            course.family.format,
            course.target.format,
            self._chain.path,
            None,
            show,
            examples=course.examples,
        )

    def run(self, key: Any, data: bytes, value: Value) -> None:
        """See `Trial`."""
        try:
            entries = self._chain.set(self._key_of(key), self._old.decode(data))
        except TransformError as error:
            self.findings.tried += 1
            self._key = key
            self._fail(error)
            return
        self.findings.entries += len(entries)
        self.findings.several += len(entries) > 1
        self._is_whole = len(entries) == 1
        if entries:
            super().run(key, data, value)
        else:
            self.findings.tried += 1
            self.findings.dropped += 1

    def _fail(self, error: Any) -> None:
        # Of several entries the first may be dropped further on, and is not compared then.
        if not (isinstance(error, TransformError) and is_dropped(error)):
            super()._fail(error)


@dataclass(frozen=True)
class RewritingCourse(Course):
    """See `Course`; ``key`` is the format of the keys, with no way back."""

    key: Format = field(default_factory=lambda: Struct("struct<>"))

    def trial(self, show: Callable[[Any], Any]) -> RewritingTrial:
        """A fresh trial."""
        return RewritingTrial(self, show, _PlainKeys(self.key))

    @property
    def merges(self) -> bool:
        """Whether every script that changes keys says what becomes of entries that meet."""
        changing = [step for step in self.path.steps if step.key is not None]
        return all(step.merge is not None for step in changing)

    @property
    def changes_keys(self) -> bool:
        """Whether entries may meet."""
        return any(step.key is not None for step in self.path.steps)


@dataclass(frozen=True)
class NewKeys:
    """The keys that a path gives the entry of a row, each as bytes; it travels to the workers."""

    path: Path
    old: Format
    key: Format

    def __call__(self, rows: Iterator[Any]) -> Iterator[bytes]:
        """Of all rows in turn; entries that fail have none."""
        chain, plain = Chain(self.path, self.old, self.key), _PlainKeys(self.key)
        write = self._format.encode
        for row, value in rows:
            try:
                entries = chain.set(plain(row), value)
            except TransformError:
                # Counted, and told with its cause, by the trial.
                continue
            yield from (write(each) for each, _ in entries)

    def plain(self, data: bytes) -> Value:
        """A key as it was before it became bytes."""
        return self._format.decode(data)

    @property
    def _format(self) -> Format:
        return new_keys(self.path.steps, self.key)


class _PlainKeys:
    """Keys of rows as plain values by column: of a map the grouping columns, and its own."""

    def __init__(self, key: Format) -> None:
        self._codec = RowCodec(key.struct_type())
        self._names = key.struct_type().fieldNames()

    def __call__(self, row: Any) -> Value:
        if "user_key" not in row:
            return self._codec.to_value(row["key"])
        parts = (*row["key"].values(), *row["user_key"].values())
        return self._codec.to_value(dict(zip(self._names, parts, strict=True)))
