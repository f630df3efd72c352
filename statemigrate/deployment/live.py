"""What a running query can do of a store's scripts, and the error for what it cannot."""

from __future__ import annotations

from statemigrate.errors import StartupError
from statemigrate.migration import Lineage, Path, Step


def live_path(lineage: Lineage, source: str, target: str) -> Path:
    """The way from one revision to another that values are taken while a query runs.

    Raises LineageError where there is none, and `StartupError` where only a rewrite of the whole
    checkpoint can go it, since keys change or meet.
    """
    path = lineage.path(source, target)
    step = path.only_by_rewriting
    if step is not None:
        raise only_by_rewriting(step)
    return path


def only_by_rewriting(step: Step) -> StartupError:
    """A script that has what no running query can do."""
    names = " and ".join(f"`{name}`" for name in step.only_by_rewriting)
    return StartupError(
        "SM-START-010",
        f"store {step.store}: {step.script or step.revision} has {names}, which a running query "
        "cannot do",
        expected="`upgrade(value)` alone: a value is migrated when it is touched, under its key",
        found=names,
        next_action="stop the query and `statemigrate rewrite OLD NEW --code MODULE:FUNCTION`, "
        "which makes a new checkpoint from the old one; or deploy code whose target is "
        f"{step.source}",
        store=step.store,
        revision=step.revision,
    )
