"""`doctor --repair`: what is damaged in a checkpoint, and what it is made whole from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import Settings
from statemigrate.cli.output import print_found, print_line, print_rows

if TYPE_CHECKING:
    from statemigrate.commands.repair import Repair


def repair(settings: Settings, checkpoint: str, **options: Any) -> None:
    """List the damage of a checkpoint or repair it; exit code 1 if anything stays damaged."""
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.repair import repair as make_whole

    with spark_when_needed() as spark:
        found = make_whole(checkpoint, **settings.of_one(spark, **options))
    print_found(settings, found, _print)
    if not found.is_whole:
        click.get_current_context().exit(1)


def _print(found: Repair) -> None:
    print_line(f"{found.checkpoint}: {found.engine}, batch {found.batch}")
    if found.findings:
        rows = [(each.subject, each.found, _outcome(each)) for each in found.findings]
        print_rows(("what", "found", "repair"), rows)
    else:
        print_line("Nothing is damaged.")
    for each in found.did:
        print_line(f"Done: {each}.")
    print_line(f"Next: {found.next_action}")


def _outcome(finding: Any) -> str:
    if finding.remedy is None:
        return "nothing makes up for it"
    return f"done: {finding.remedy}" if finding.repaired else finding.remedy
