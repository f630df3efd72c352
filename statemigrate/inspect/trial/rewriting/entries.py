"""What a path makes of whole entries, keys and values, one script after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from statemigrate.errors import TransformError
from statemigrate.formats import Format, Value
from statemigrate.inspect.trial.rewriting.small_tables import through_a_table
from statemigrate.migration import Entry, Path, Step
from statemigrate.migration.readable import check_readable
from statemigrate.migration.rekeying import rekeyed


class Chain:
    """The scripts of a path, on entries; and the same path as transforms of values alone.

    ``old`` and ``key`` are the formats of the entries it is given. `path` takes a value whose key
    was `set`, and follows the first of the entries that a script makes of one.
    """

    def __init__(self, path: Path, old: Format, key: Format) -> None:
        self._links: list[_Link] = []
        for step in path.steps:
            self._links.append(_Link(step, old, key))
            old, key = step.format, step.key or key
        self.path = Path(path.source, path.target, tuple(each.step for each in self._links))

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
    said = [step.key for step in paths if step.key is not None]
    return said[-1] if said else key
