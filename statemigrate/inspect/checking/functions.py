"""A script's functions as a rewrite calls them, and how they do on many entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.formats import Format, Value
from statemigrate.inspect.trial.fields.effects import shown
from statemigrate.inspect.trial.rewriting.small_tables import through_a_table
from statemigrate.inspect.trial.trial import cause_of
from statemigrate.migration import BASE, Migration
from statemigrate.migration.rekeying import Entry
from statemigrate.migration.signatures import takes_key
from statemigrate.migration.stage import Stage
from statemigrate.migration.step import step_of


class EntryFunctions:
    """Runs what a script has for whole entries; ``key`` is the format of keys before it.

    Values that it is given stay as they are. What it raises is a TransformError.
    """

    def __init__(self, migration: Migration, old: Format, key: Format | None) -> None:
        self._step = step_of(migration, "upgrade", migration.down_revision or BASE, migration.new)
        self._stage = Stage((self._step,))
        self._old, self._key, self._new = old, key, migration.new
        self._new_key = migration.new_key or key

    def run(self, key: Value, value: Value) -> list[Entry]:
        """What an entry becomes, by its form for plain values or else by that for tables."""
        if self._step.transform is None:
            return self._table(key, value)
        return self._stage.entries(dict(key), self._old.decode(self._old.encode(value)))

    def forms_differ(self, key: Value, value: Value) -> bool:
        """Whether a script with both forms makes something else in a table."""
        if self._step.table is None or self._step.transform is None:
            return False
        return self._written(self.run(key, value)) != self._written(self._table(key, value))

    def order_matters(self, first: Value, second: Value) -> bool:
        """Whether ``merge`` makes something else of two values the other way round."""
        return self._merged(first, second) != self._merged(second, first)

    def _table(self, key: Value, value: Value) -> list[Entry]:
        assert self._key is not None, "asked before"  # noqa: S101
        return through_a_table(self._step, self._old, self._key, key, value)

    def _merged(self, first: Value, second: Value) -> bytes:
        copies = (self._new.decode(self._new.encode(each)) for each in (first, second))
        return self._new.encode(self._stage.merge({}, *copies))

    def _written(self, entries: list[Entry]) -> list[tuple[bytes, bytes]]:
        assert self._new_key is not None, "asked before"  # noqa: S101
        return [(self._new_key.encode(key), self._new.encode(value)) for key, value in entries]


def entry_functions(migration: Migration) -> list[str]:
    """The functions of a script that make entries of an entry, and are for a rewrite alone."""
    has = {
        "rekey": migration.rekey is not None,
        "upgrade_table": migration.upgrade_table is not None,
        "upgrade": migration.upgrade is not None and takes_key(migration.upgrade),
    }
    return [name for name, there in has.items() if there]


@dataclass
class Outcomes:
    """How often something was ``tried``, how often it said yes, and why it failed.

    ``failures`` count by function and cause; ``example`` and ``note`` are of the first failure.
    """

    tried: int = 0
    yes: int = 0
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    example: str = ""
    note: str = ""

    def add(self, question: Callable[[], bool], about: object) -> None:
        """Try once; ``about`` is shown if it is the first that fails."""
        self.tried += 1
        try:
            self.yes += question()
        except (TransformError, ValueMismatchError) as error:
            self.failures[culprit(error), cause_of(error)] += 1
            self.example = self.example or shown(about)
            self.note = self.note or f"{error.found}"

    @property
    def failed(self) -> int:
        """How often it failed."""
        return self.failures.total()


def culprit(error: TransformError | ValueMismatchError) -> str:
    """The function of a script that an error is about."""
    names = ("rekey", "merge", "upgrade_table")
    return next((name for name in names if f"the {name} from" in f"{error.summary}"), "upgrade")
