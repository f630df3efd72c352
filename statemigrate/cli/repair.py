"""`repair`: what is damaged in a checkpoint, and what it is made whole from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import (
    Settings,
    accept_edited_option,
    apply_option,
    checkpoint_named,
    named_paths,
    operator_option,
    shared_options,
    wait_option,
)
from statemigrate.cli.output import print_found, print_line, print_rows

if TYPE_CHECKING:
    from statemigrate.commands.repair import Repair


@click.command(epilog="Example: statemigrate repair /data/checkpoints/auctions --apply")
@checkpoint_named
@apply_option
@click.option(
    "--back-to",
    metavar="BATCH",
    type=click.IntRange(min=0),
    help="On the embedded engine, go back to an older complete version; the batches after it run "
    "again.",
)
@click.option(
    "--working-directory",
    metavar="DIR",
    help="On the embedded engine, the working directory in the query's options.",
)
@click.option(
    "--new",
    metavar="NEW",
    callback=named_paths,
    help="On Spark's own state, the new checkpoint.  [default: next to the old one]",
)
@click.option(
    "--accept",
    metavar="NAME:DIGITS",
    multiple=True,
    help="On Spark's own state, accept the proposal of a question, which shows this option.",
)
@wait_option("On Spark's own state, ")
@accept_edited_option
@operator_option
@shared_options()
@click.pass_obj
def repair(settings: Settings, /, *, checkpoint: str, **options: Any) -> None:
    """Repair the state of a stopped query from its remaining files.

    The command first lists missing and altered files, and their replacements. --apply makes the
    repair. Checksums and counts prove each step. The command names everything that has no
    replacement.

    Exit code 0 if nothing is wrong or everything is repaired, 1 otherwise.
    """
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
