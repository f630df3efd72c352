"""`doctor`: what keeps queries and commands from working, here, on the workers, at a checkpoint."""

from __future__ import annotations

import click

from statemigrate.cli.options import Settings, operator_option, optional_checkpoint, shared_options
from statemigrate.cli.output import print_found, print_rows, print_sentence
from statemigrate.commands.examination import Diagnosis

_STYLES = {"ok": "green", "warning": "bold yellow", "problem": "bold red"}


@click.command(epilog="Example: statemigrate doctor s3a://bucket/checkpoints/auctions")
@optional_checkpoint("Checkpoint directory to check, or its name in pyproject.toml.")
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
@operator_option
@shared_options()
@click.pass_obj
def doctor(settings: Settings, checkpoint: str | None, master: str | None, *, write: bool) -> None:
    """Check the requirements of queries and commands, and show how to fix problems.

    On this machine: PySpark, packages, Java, the temporary directory. On the workers: the same
    packages. At CHECKPOINT: whether its file system answers, and through which connector; the
    permissions to create, to create only once and to delete a file; whether Spark keeps batches as
    long as a look takes; chunk files; who uses it. The query may be running. Exit code 1 if there
    is a problem.
    """
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
