"""A dry run of scripts that only a rewrite can run.

Taking one store's entries through scripts that only a rewrite can run, writing nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from statemigrate.errors import TransformError
from statemigrate.formats import Format, Struct, Value, array_of, first_escaped, plain_values
from statemigrate.inspect.trial import ValueTrial
from statemigrate.inspect.trial_path import TrialPath
from statemigrate.migration import (
    Entry,
    MigrationPath,
    Step,
    check_readable,
    rekeyed,
    upgraded_table,
)
from statemigrate.processor import TupleCodec

# A script's form for tables, tried on one entry at a time.


def through_a_table(
    step: Step, old: Format, key_format: Format, key: Value, value: Value
) -> list[Entry]:
    """The entries that ``upgrade_table`` makes of a table with one row, conformed.

    Raises TransformError as the rewrite would.
    """
    import pyarrow as pa

    fields = {"key": _arrow(key_format), "value": _arrow(old)}
    columns = [
        array_of([_arrow_value(each, fields[name])], fields[name])
        for name, each in (("key", key), ("value", value))
    ]
    found = upgraded_table(step, pa.Table.from_arrays(columns, names=list(fields)))
    keys, values = (plain_values(found.column(name)) for name in ("key", "value"))
    pairs = zip(keys, values, strict=True)
    return [(_conformed(step, key), step.conformed(value)) for key, value in pairs]


def _conformed(step: Step, key: Value) -> Value:
    # A key that stays was compared, and text that is not UTF-8 is carried in columns alone.
    if step.key is None or first_escaped(key) is not None:
        return key
    return step.key.conform(key)


def _arrow(format: Format) -> Any:
    import pyarrow as pa

    from statemigrate.checkpoint.rows import arrow_schema

    schema = format if isinstance(format, Struct) else Struct(format.struct_type())
    return pa.struct(list(arrow_schema(schema.to_json()["schema"])))


def _arrow_value(value: Any, kind: Any) -> Any:
    """A plain value as Arrow takes it: a map as its pairs."""
    from pyarrow import types

    if value is None:
        return None
    if types.is_struct(kind):
        return {field.name: _arrow_value(value[field.name], field.type) for field in kind}
    if types.is_map(kind):
        return [
            (_arrow_value(key, kind.key_type), _arrow_value(each, kind.item_type))
            for key, each in value.items()
        ]
    if types.is_list(kind):
        return [_arrow_value(each, kind.value_type) for each in value]
    return value


# What a path makes of whole entries, keys and values, one script after the other.


class Chain:
    """The scripts of a path, on entries; and the same path as transforms of values alone.

    ``old`` and ``key`` are the formats of the entries it is given. `path` takes a value whose key
    was `set`, and follows the first of the entries that a script makes of one.
    """

    def __init__(self, path: MigrationPath, old: Format, key: Format) -> None:
        self._links: list[_Link] = []
        for step in path.steps:
            self._links.append(_Link(step, old, key))
            old, key = step.format, step.key or key
        self.path = MigrationPath(
            path.source, path.target, tuple(each.step for each in self._links)
        )

    def set(self, key: Value, value: Value) -> list[Entry]:
        """Take a key, and return the entries that the path makes of its value.

        Raises TransformError with the failing script's revisions.
        """
        entries = [(key, value)]
        for link in self._links:
            # Without a first entry there is nothing that could be followed.
            link.key = entries[0][0] if entries else {}
            entries = [found for k, v in entries for found in link.outcome(k, v)]
        return entries


class _Link:
    """One script; `step` is the same as a transform of the value that ``key`` has."""

    def __init__(self, step: Step, old: Format, key: Format) -> None:
        self.key: Value = {}
        self._step, self._formats = step, (old, key)
        plain = _Followed(self)
        self.step = replace(step, transform=plain, key=None, rekey=None, merge=None, table=None)

    def outcome(self, key: Value, value: Value) -> list[Entry]:
        step = self._step
        if step.transform is None:
            return through_a_table(step, *self._formats, key, value)
        if step.takes_key or step.rekey is not None:
            check_readable(step, key, {"key": key})
        if step.rekey is not None and step.key is not None:
            return rekeyed(step, step.rekey, step.key, key, value)
        return [(key, step.conformed(step.run(value, key)))]


class _Followed:
    """The transform of a link: what becomes of a value, where it is followed."""

    def __init__(self, link: _Link) -> None:
        self._link = link

    def __call__(self, value: Value) -> Value:
        entries = self._link.outcome(self._link.key, value)
        if not entries:
            raise DroppedError
        return entries[0][1]

    def whole_result(self, value: Value) -> Any:
        """All that comes out, the keys too."""
        return self._link.outcome(self._link.key, value)


class DroppedError(Exception):
    """A script gave no key for an entry."""


def is_dropped(error: TransformError) -> bool:
    """Whether it only says that the entry that was followed is dropped."""
    return isinstance(error.__cause__, DroppedError)


def new_keys(paths: Sequence[Step], key: Format) -> Format:
    """The format of the keys at the end."""
    keys = [step.key for step in paths if step.key is not None]
    return keys[-1] if keys else key


class RewritingTrial(ValueTrial):
    """See `ValueTrial`; a key may change, and a value become several or none.

    ``key`` is the format of the keys, ``key_of`` gives a row's. Fields are compared with those of
    the first entry that a value becomes.
    """

    def __init__(
        self,
        trial_path: RewritingTrialPath,
        show: Callable[[Any], Any],
        key_of: Callable[[Any], Value],
    ) -> None:
        self._chain = Chain(trial_path.path, trial_path.family.format, trial_path.key)
        self._key_of = key_of
        super().__init__(
            trial_path.family.format,
            trial_path.target.format,
            self._chain.path,
            None,
            show,
            examples=trial_path.examples,
        )

    def run(self, key: Any, data: bytes, value: Value) -> None:
        """See `ValueTrial`."""
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
class RewritingTrialPath(TrialPath):
    """See `TrialPath`; ``key`` is the format of the keys, with no way back."""

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

    path: MigrationPath
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
                # Counted, and reported with its cause, by the trial.
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
        self._codec = TupleCodec(key.struct_type())
        self._names = key.struct_type().fieldNames()

    def __call__(self, row: Any) -> Value:
        if "user_key" not in row:
            return self._codec.to_value(row["key"])
        parts = (*row["key"].values(), *row["user_key"].values())
        return self._codec.to_value(dict(zip(self._names, parts, strict=True)))
