"""`check` of the user's code: what it declares and calls, found without running a query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from statemigrate.deployment import Declared, DeploymentSettings, plan_store
from statemigrate.errors import (
    LineageError,
    StatemigrateError,
    TransformError,
    ValueMismatchError,
)
from statemigrate.formats import Format, Value
from statemigrate.inspect.causes import cause_of
from statemigrate.inspect.check_report import Finding
from statemigrate.inspect.field_effects import shown
from statemigrate.migration import BASE, Entry, Migration, Stage, step_of, takes_key
from statemigrate.quoting import argument
from statemigrate.scripts import Survey

if TYPE_CHECKING:
    from statemigrate.inspect.declared_code import Code


# Whether the code declares what its target revisions hold.


def target_findings(found: Survey, targets: Mapping[str, str]) -> Iterator[Finding]:
    """A finding for each target that means no revision."""
    for store, target in targets.items():
        if store in found.lineages:
            try:
                found.lineages[store].resolve(target)
            except LineageError as error:
                yield Finding.of("target", error, store=store)
        elif store not in found.stores:
            yield Finding(
                "target",
                "a target is named for a store without scripts",
                "correct the store in --target",
                f"one of {', '.join(found.stores)}" if found.stores else "at least one script",
                f"{store}={target}",
                store,
            )


def code_findings(
    found: Survey,
    references: Iterable[str],
    targets: Mapping[str, str],
    without_target: Collection[str | None],
) -> Iterator[Finding]:
    """A finding for each schema that is not its target's, and for code that cannot be asked.

    The target is what the code was marked with, else that of ``targets``, else the head. Stores
    without scripts, with broken ones, or ``without_target`` have nothing to compare with.
    """
    for reference in references:
        # Scripts alone are checked where there is no PySpark.
        from statemigrate.inspect.declared_code import code_in

        try:
            code = code_in(reference)
        except StatemigrateError as error:
            yield Finding.of("code", error)
            continue
        settings = DeploymentSettings(targets={**targets, **code.targets})
        yield from _of_code(found, reference, code, settings, without_target)


def _of_code(
    found: Survey,
    reference: str,
    code: Code,
    settings: DeploymentSettings,
    without_target: Collection[str | None],
) -> Iterator[Finding]:
    stores = [each.store for each in code.declared] if code.store is None else [code.store]
    wrong = tuple(_wrong_targets(found, reference, code, stores))
    yield from wrong
    skipped = {*without_target} - {*code.targets} | {each.store for each in wrong}
    if code.store is not None and code.store not in found.stores:
        yield _unscripted(found, reference, code.store)
    for each in code.declared:
        if each.store in found.lineages and each.store not in skipped:
            yield from _compared(found, reference, each, settings)


def _wrong_targets(
    found: Survey, reference: str, code: Code, stores: Sequence[str]
) -> Iterator[Finding]:
    """A finding for each target in the code that it, or the query's start, would stumble over."""
    for store, target in code.targets.items():
        if store not in stores:
            yield Finding(
                "target",
                f"{reference}: its targets name a store that it does not have",
                "correct the name in targets=",
                f"one of {', '.join(stores)}" if stores else "a store that init declares",
                store,
                store,
            )
        elif store in found.lineages:
            try:
                found.lineages[store].resolve(target)
            except LineageError as error:
                of_code = Finding.of("target", error, store=store)
                yield replace(of_code, summary=f"{reference}: {of_code.summary}")


def _unscripted(found: Survey, reference: str, store: str) -> Finding:
    return Finding(
        "code",
        f"{reference}: its store {store} has no migration script",
        f"`statemigrate new {argument(store)} -m MESSAGE`",
        "at least a baseline, which says what format the state has today",
        f"scripts of {', '.join(found.stores)}" if found.stores else "no script",
        store,
    )


def _compared(
    found: Survey, reference: str, declared: Declared, settings: DeploymentSettings
) -> Iterator[Finding]:
    lineage = found.lineages[declared.store]
    try:
        # As at a query's start on an empty checkpoint.
        plan_store(declared, lineage, None, settings)
    except StatemigrateError as error:
        of_code = Finding.of("code", error, store=declared.store)
        revision = lineage.resolve(settings.targets.get(declared.store, "head"))
        yield replace(of_code, summary=f"{reference}: {of_code.summary}", revision=revision)


# A script's functions as a rewrite calls them, and how they do on many entries.


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
        from statemigrate.inspect.rewrite_trial import through_a_table

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
        # What is derived from lenses is not for a rewrite alone.
        "upgrade_table": migration.upgrade_table is not None and migration.change is None,
        "upgrade": migration.upgrade is not None and takes_key(migration.upgrade),
    }
    return [name for name, there in has.items() if there]


@dataclass
class Outcomes:
    """How often something was ``tried``, how often the answer was yes, and why it failed.

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
