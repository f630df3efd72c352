"""Whether the code declares what its target revisions hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from statemigrate.deployment import Declared, Settings, plan_store
from statemigrate.errors import LineageError, StatemigrateError
from statemigrate.inspect.checking.report import Finding
from statemigrate.scripts.survey import Survey
from statemigrate.shell import argument

if TYPE_CHECKING:
    from statemigrate.inspect.checking.code import Code


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
        from statemigrate.inspect.checking.code import code_in

        try:
            code = code_in(reference)
        except StatemigrateError as error:
            yield Finding.of("code", error)
            continue
        settings = Settings(targets={**targets, **code.targets})
        yield from _of_code(found, reference, code, settings, without_target)


def _of_code(
    found: Survey,
    reference: str,
    code: Code,
    settings: Settings,
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
    found: Survey, reference: str, declared: Declared, settings: Settings
) -> Iterator[Finding]:
    lineage = found.lineages[declared.store]
    try:
        # As at a query's start on an empty checkpoint.
        plan_store(declared, lineage, None, settings)
    except StatemigrateError as error:
        of_code = Finding.of("code", error, store=declared.store)
        revision = lineage.resolve(settings.targets.get(declared.store, "head"))
        yield replace(of_code, summary=f"{reference}: {of_code.summary}", revision=revision)
