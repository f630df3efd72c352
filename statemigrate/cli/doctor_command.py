"""`doctor`: what keeps queries and commands from working, here, on the workers, at a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import (
    Settings,
    accept_edited_option,
    apply_option,
    checkpoint_if,
    chosen_mode,
    named_paths,
    operator_option,
    shared_options,
    wait_option,
)
from statemigrate.cli.output import print_found, print_line, print_rows, print_sentence
from statemigrate.cli.rewrite_output import input_options, named_values
from statemigrate.commands.examination import Diagnosis

if TYPE_CHECKING:
    from statemigrate.commands.repair import Repair


# `doctor --repair`: what is damaged in a checkpoint, and what it is made whole from.


def _repair(settings: Settings, checkpoint: str, **options: Any) -> None:
    """List the damage of a checkpoint or repair it; exit code 1 if anything stays damaged."""
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.new_code import NewCode
    from statemigrate.commands.repair import repair

    code, inputs, mode = (options.pop(each) for each in ("code", "inputs", "mode"))
    sources = named_values("--source", options.pop("sources"))
    if code is None and (inputs or mode or sources):
        raise click.UsageError("--input, --output-mode and --source are for --code.")
    if code is not None:
        options["target"] = NewCode(code, named_values("--input", inputs), mode)
        options["sources"] = sources
    with spark_when_needed() as spark:
        found = repair(checkpoint, **settings.of_one(spark, **options))
    print_found(settings, found, _print_repairs)
    if not found.is_whole:
        click.get_current_context().exit(1)


def _print_repairs(found: Repair) -> None:
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


_STYLES = {"ok": "green", "warning": "bold yellow", "problem": "bold red"}


@click.command(epilog="Example: statemigrate doctor s3a://bucket/checkpoints/auctions")
@checkpoint_if("repair")
@click.option(
    "--write/--no-write",
    default=True,
    help="Whether to try the permissions at the checkpoint, with files that are removed again.  "
    "[default: try]",
)
@click.option(
    "--master",
    metavar="URL",
    help="The cluster whose workers to check, as for Spark: spark://..., yarn, k8s://...  "
    "[default: this machine's]",
)
@click.option(
    "--repair",
    is_flag=True,
    is_eager=True,
    help="List the damage of CHECKPOINT, whose query is stopped, and what replaces it.",
)
@apply_option
@click.option(
    "--back-to",
    metavar="BATCH",
    type=click.IntRange(min=0),
    help="With --repair, on the embedded engine: go back to an older complete version; the batches "
    "after it run again.",
)
@click.option(
    "--working-directory",
    metavar="DIR",
    help="With --repair, on the embedded engine: the working directory in the query's options.",
)
@click.option(
    "--new",
    metavar="NEW",
    callback=named_paths,
    help="With --repair, on Spark's own state: the new checkpoint.  [default: next to the old one]",
)
@click.option(
    "--code",
    metavar="MODULE:FUNCTION",
    help="With --repair, on Spark's own state: the query's code, which computes damaged state "
    "again.",
)
@input_options
@click.option(
    "--source",
    "sources",
    metavar="NAME=MODULE:FUNCTION",
    multiple=True,
    help="With --code: a function from the Spark session to the stream that the code calls NAME.",
)
@click.option(
    "--accept",
    metavar="NAME:DIGITS",
    multiple=True,
    help="With --repair, on Spark's own state: accept the proposal of a question, which shows this "
    "option.",
)
@wait_option("With --repair, on Spark's own state: ")
@accept_edited_option
@operator_option
@shared_options()
@click.pass_obj
def doctor(
    settings: Settings,
    /,
    checkpoint: str | None,
    master: str | None,
    *,
    write: bool,
    repair: bool,
    **options: Any,
) -> None:
    """Check the requirements of queries and commands, and show how to fix problems.

    On this machine: PySpark, packages, Java, the temporary directory. On the workers: the same
    packages. At CHECKPOINT: whether its file system answers, and through which connector; the
    permissions to create, to create only once and to delete a file; whether Spark keeps batches as
    long as a look takes; chunk files; who uses it. The query may be running. Exit code 1 if there
    is a problem.

    --repair repairs the state of a stopped query from its remaining files. It first lists missing
    and altered files, and their replacements. --apply makes the repair. Checksums and counts prove
    each step. With --code, damaged state of Spark's own is computed again, from the newest batch
    whose state is whole and the input of the batches since. The command names everything that has
    no replacement. Exit code 0 if nothing is wrong or everything is repaired, 1 otherwise.
    """
    chosen_mode(
        {"repair": ("checkpoint", "place", "operator", *options)},
        ("checkpoint", "place", "operator", "write", "master"),
    )
    if repair and checkpoint is not None:
        _repair(settings, checkpoint, **options)
        return
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.doctor import doctor as examine

    with spark_when_needed(master) as spark:
        found = examine(checkpoint, write=write, operator=settings.operator, spark=spark)
    print_found(settings, found, _print)
    if found.verdict == "problem":
        click.get_current_context().exit(1)


def _print(found: Diagnosis) -> None:
    print_rows(
        ("verdict", "what", "found"),
        [(each.verdict, each.subject, each.found) for each in found.examined],
    )
    for each in found.examined:
        if each.next_action is not None:
            mark = f"{each.verdict}, {each.subject}: "
            print_sentence(each.next_action, mark=mark, style=_STYLES[each.verdict])
