"""Whether the functions that only a rewrite runs take a script's examples, and made-up entries."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, cycle, islice, pairwise
from typing import Any

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.formats import Format, Value
from statemigrate.formats.made_up import MOST, made_up_values
from statemigrate.inspect.checking.functions import (
    EntryFunctions,
    Outcomes,
    culprit,
    entry_functions,
)
from statemigrate.inspect.checking.report import Finding
from statemigrate.inspect.trial.trial import cause_of
from statemigrate.migration import Migration

_PAIRS = 50
"""So many pairs of values are merged."""


def entry_findings(migration: Migration, key: Format | None, *, made_up: bool) -> Iterator[Finding]:
    """What is found by running ``rekey``, ``merge`` and ``upgrade_table`` on entries.

    ``key`` is the format of the keys before the script, None where no script says it. Each example
    with a key must be taken; with ``made_up``, what fails on every made-up entry is wrong, and what
    fails on some is a note where there are no examples.
    """
    if migration.old is None or not (entry_functions(migration) or migration.merge):
        return
    tried = _Tried(migration, migration.old, key)
    yield from tried.examples()
    if made_up:
        found = tried.made_up()
        # A question that is open may be about the very thing.
        yield from (each for each in found if each.severity == "error" or not migration.questions)


class _Tried:
    def __init__(self, migration: Migration, old: Format, key: Format | None) -> None:
        self._migration, self._old, self._key = migration, old, key
        self._functions = EntryFunctions(migration, old, key)
        self._names = entry_functions(migration)

    def examples(self) -> Iterator[Finding]:
        """What fails on them, and on what they become."""
        values: list[Value] = []
        for number, example in enumerate(self._migration.examples, 1):
            name = f"example {number}"
            if self._names and (example.key is None or self._key is None):
                yield from self._keyless(name)
                continue
            try:
                key = {} if self._key is None else self._key.conform(example.key or {})
                values += [value for _, value in self._functions.run(key, example.value)]
                differ = self._functions.forms_differ(key, example.value)
            except (TransformError, ValueMismatchError) as error:
                yield from self._failed(name, error)
                continue
            if differ:
                yield self._disagreeing(name)
        if self._migration.merge is not None and values:
            yield from self._merging(values, "what examples become", is_made_up=False)

    def made_up(self) -> Iterator[Finding]:
        """What fails on entries made up from the formats."""
        if self._names and self._key is None:
            yield self._unknown_keys()
        elif self._names and self._key is not None:
            yield from self._on_entries(self._key)
        if self._migration.merge is not None and not self._migration.examples:
            values = made_up_values(self._migration.new)
            yield from self._merging(values, "pairs of values made up from `new`", is_made_up=True)

    def _on_entries(self, key: Format) -> Iterator[Finding]:
        outcomes = Outcomes()
        for each, value in _entries(key, self._old):
            outcomes.add(partial(self._runs, each, value), {"key": each, "value": value})
        what = f"made-up entries, such as {outcomes.example}"
        yield from self._failures(outcomes, what, is_made_up=True)
        if outcomes.yes:
            yield self._disagreeing(f"{outcomes.yes:,} of {outcomes.tried:,} made-up entries")

    def _runs(self, key: Value, value: Value) -> bool:
        self._functions.run(key, value)
        return self._functions.forms_differ(key, value)

    def _merging(self, values: list[Value], of: str, *, is_made_up: bool) -> Iterator[Finding]:
        outcomes = Outcomes()
        same = ((each, each) for each in values[:1])
        for first, second in islice(chain(same, pairwise(values)), _PAIRS):
            question = partial(self._functions.order_matters, first, second)
            outcomes.add(question, [first, second])
        what = f"{of}, such as {outcomes.example}"
        yield from self._failures(outcomes, what, is_made_up=is_made_up)
        if outcomes.yes:
            yield self._finding(
                f"`merge` makes something else with its arguments changed about, for "
                f"{outcomes.yes:,} of {outcomes.tried:,} {of}",
                "let it make the same either way, as rows are read in any order; or leave it if "
                "such values do not meet",
                is_note=True,
            )

    def _failures(self, outcomes: Outcomes, of: str, *, is_made_up: bool) -> Iterator[Finding]:
        every = outcomes.failed == outcomes.tried
        is_note = is_made_up and (not every or bool(self._migration.examples))
        if not outcomes.failed or (is_made_up and self._migration.examples and not every):
            return
        (name, cause), count = outcomes.failures.most_common(1)[0]
        if name not in (*self._names, "merge"):
            return  # `upgrade` alone is tried elsewhere
        yield self._finding(
            f"`{name}` fails on {count:,} of {outcomes.tried:,} {of}",
            f"correct `{name}`, or give `examples` of entries that it takes",
            found=f"{cause}; {outcomes.note}",
            is_note=is_note,
            kind="made-up" if is_made_up else "example",
        )

    def _failed(self, name: str, error: TransformError | ValueMismatchError) -> Iterator[Finding]:
        if isinstance(error, ValueMismatchError):
            problem = f"the key of {name} is no key: {error.summary}"
            yield self._finding(problem, "correct the example", f"{error.found}", kind="example")
        elif culprit(error) in self._names and culprit(error) != "upgrade":
            yield self._finding(
                f"`{culprit(error)}` fails on {name}",
                f"correct `{culprit(error)}`, or the example",
                found=f"{cause_of(error)}; {error.found}",
                kind="example",
            )

    def _disagreeing(self, where: str) -> Finding:
        return self._finding(
            f"`upgrade_table` makes something else than the functions for plain values of {where}",
            "let both do the same: a rewrite runs `upgrade_table`, others run `upgrade`",
        )

    def _keyless(self, name: str) -> Iterator[Finding]:
        if self._names != ["upgrade"] and self._key is not None:
            yield self._finding(
                f"{name} has no key, so `{self._names[0]}` was not tried on it",
                "give the example as (old value, expected new value or None, key)",
                is_note=True,
            )

    def _unknown_keys(self) -> Finding:
        return self._finding(
            f"`{self._names[0]}` was not tried, as no script says what the keys are before it",
            "write a baseline with `new_key` first, as `statemigrate new STORE --from-checkpoint "
            "PATH` does; or try it on state with `statemigrate dry-run`",
            is_note=True,
        )

    def _finding(
        self,
        problem: str,
        next_action: str,
        found: str | None = None,
        *,
        is_note: bool = False,
        kind: Any = "made-up",
    ) -> Finding:
        migration = self._migration
        return Finding(
            kind,
            problem,
            next_action,
            found=found,
            store=migration.store,
            revision=migration.revision,
            path=migration.path,
            severity="note" if is_note else "error",
        )


def _entries(key: Format, old: Format) -> Iterator[tuple[Value, Value]]:
    keys, values = made_up_values(key), made_up_values(old)
    count = min(max(len(keys), len(values)), MOST)
    yield from islice(zip(cycle(keys), cycle(values), strict=False), count)
