"""What a rewrite runs of a path: on entries or tables, as far as to where entries may meet.

A script that changes keys, or says how to merge, sees entries that earlier scripts have merged. So
a path is run in stages, and between two of them entries are brought together by key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from statemigrate.errors import TransformError, shown, values_hidden
from statemigrate.formats import Format, Value
from statemigrate.migration.path import Path
from statemigrate.migration.rekeying import Entry, rekeyed
from statemigrate.migration.step import Step
from statemigrate.migration.tables import upgraded_table

_AGAIN = "and rewrite again; no checkpoint was written"


@dataclass(frozen=True)
class Stage:
    """Scripts that are run one after the other on an entry, or on a table of them.

    Only the last of them may change keys or merge. A stage holds everything it needs; pickled with
    cloudpickle it runs where the scripts are not. Either all of its scripts are run ``on_tables``,
    by `table`, or all on plain values, by `entries`.
    """

    steps: tuple[Step, ...]
    on_tables: bool = False

    @property
    def source(self) -> str:
        """The revision of the entries it takes."""
        return self.steps[0].source

    @property
    def target(self) -> str:
        """The revision of the entries it gives."""
        return self.steps[-1].target

    @property
    def value(self) -> Format:
        """The format of the values it gives."""
        return self.steps[-1].format

    @property
    def key(self) -> Format | None:
        """The format of the keys it gives; None where keys stay as they are."""
        return self.steps[-1].key

    @property
    def merges(self) -> bool:
        """Whether its script says what becomes of entries that meet under one key."""
        return self.steps[-1].merge is not None

    def entries(self, key: Value, value: Value) -> list[Entry]:
        """The entries that one becomes: plain keys and values by field name, as formats have them.

        ``value`` may be changed. Raises TransformError with the store, the key and the revisions
        for what raises, and for keys and values that do not fit.
        """
        try:
            for step in self.steps[:-1]:
                value = step.conformed(step.run(value, key))
            return self._last(key, value)
        except TransformError as error:
            raise _to_rewrite(error.at(key), error) from error.__cause__

    def merge(self, key: Value, first: Value, second: Value) -> Value:
        """The one value of two that meet under ``key``; the first may be changed.

        Raises TransformError, which shows both, where the script does not say what becomes of them,
        and for what its ``merge`` raises or returns.
        """
        step = self.steps[-1]
        if step.merge is None:
            raise _met(step, key, first, second)
        try:
            result = _merged(step, first, second)
        except TransformError as error:
            raise _to_rewrite(error.at(key), error) from error.__cause__
        return result

    def table(self, table: Any) -> Any:
        """What a ``pyarrow.Table`` of the structs ``key`` and ``value`` becomes; the same columns.

        Their types are those the functions gave: whoever writes them converts them, and refuses
        what does not fit. Raises TransformError for what raises, and for tables of another shape.
        """
        for step in self.steps:
            try:
                table = upgraded_table(step, table)
            except TransformError as error:
                raise _to_rewrite(error, error) from error.__cause__
        return table

    def _last(self, key: Value, value: Value) -> list[Entry]:
        step = self.steps[-1]
        if step.rekey is None or step.key is None:
            return [(key, step.conformed(step.run(value, key)))]
        return rekeyed(step, step.rekey, step.key, key, value)


def stages_of(path: Path, *, prefer_tables: bool = True) -> tuple[Stage, ...]:
    """The stages of a path; none for a path without steps.

    Without ``prefer_tables`` the form for plain values is taken where a script has both.
    """
    found = []
    for is_table, steps in groupby(path.steps, lambda step: _on_tables(step, prefer_tables)):
        found += [Stage(part, is_table) for part in _parted(tuple(steps))]
    return tuple(found)


def _on_tables(step: Step, preferred: bool) -> bool:
    return step.table is not None and (preferred or step.transform is None)


def _parted(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    begun = 0
    for end, step in enumerate(steps, 1):
        if step.key is not None or step.merge is not None or end == len(steps):
            yield steps[begun:end]
            begun = end


def _merged(step: Step, first: Value, second: Value) -> Value:
    assert step.merge is not None, "asked before"  # noqa: S101
    try:
        result = step.merge(first, second)
    except Exception as cause:
        raise step.failure("SM-TRANSFORM-005", "raised", cause, "merge") from cause
    if not isinstance(result, dict):
        raise step.no_dict(result, "merge")
    return step.conformed(result)


def _met(step: Step, key: Value, first: Value, second: Value) -> TransformError:
    error = step.error(
        "SM-TRANSFORM-006",
        "brings two entries to one key, and no `merge` says what becomes of them",
        "a function merge(first, second) in the script, or other keys",
        f"{shown(first)} and {shown(second)}",
        "rekey" if step.key is not None else "transform",
    )
    said = {} if values_hidden() else {"first": first, "second": second}
    met = error.but(
        next_action=f"write `merge` in {step.script or 'the script'}, or a `rekey` that keeps them "
        f"apart, {_AGAIN}",
        **said,
    )
    return met.at(key)


def _to_rewrite(error: TransformError, of: TransformError) -> TransformError:
    action = (of.next_action or "").partition(", and restart the query")[0]
    return error.but(next_action=f"{action}, {_AGAIN}")
