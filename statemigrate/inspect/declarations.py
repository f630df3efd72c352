"""Whether the code declares what its target revisions hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from statemigrate.deployment import Declared, Settings, plan_store
from statemigrate.errors import LineageError, StatemigrateError
from statemigrate.inspect.check_report import Finding
from statemigrate.inspect.code import declared_in
from statemigrate.scripts.survey import Survey


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

    Stores without scripts, with broken ones, or ``without_target`` have nothing to compare with.
    """
    for reference in references:
        try:
            declared = declared_in(reference)
        except StatemigrateError as error:
            yield Finding.of("code", error)
            continue
        for each in declared:
            if each.store in found.lineages and each.store not in without_target:
                yield from _compared(found, reference, each, targets)


def _compared(
    found: Survey, reference: str, declared: Declared, targets: Mapping[str, str]
) -> Iterator[Finding]:
    lineage = found.lineages[declared.store]
    try:
        # As at a query's start on an empty checkpoint.
        plan_store(declared, lineage, None, Settings(targets=targets))
    except StatemigrateError as error:
        of_code = Finding.of("code", error, store=declared.store)
        revision = lineage.resolve(targets.get(declared.store, "head"))
        yield replace(of_code, summary=f"{reference}: {of_code.summary}", revision=revision)
