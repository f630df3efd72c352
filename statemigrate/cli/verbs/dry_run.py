"""`dry-run`: a migration tried on the state a query has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from statemigrate.budget import BackfillOptions
from statemigrate.cli.checkpoints import all_option, checkpoint_or, checkpoint_said
from statemigrate.cli.options import (
    Settings,
    accept_edited_option,
    configuration,
    file_to_write,
    operator_option,
    shared_options,
    target_option,
)
from statemigrate.cli.output import print_json
from statemigrate.cli.progress import progress_bar
from statemigrate.files.documents.whole import replacing

if TYPE_CHECKING:
    from statemigrate.inspect.report.dry_run import DryRunReport


@click.command(
    "dry-run",
    epilog="Example: statemigrate dry-run auctions /data/cp --html report.html",
)
@click.argument("store", required=False)
@all_option
@checkpoint_or("file")
@click.option(
    "--from-file",
    "file",
    metavar="FILE",
    is_eager=True,
    help="Values to try instead of a checkpoint's: .avro or .jsonl, as `export` writes them.",
)
@click.option(
    "--from-revision",
    metavar="REVISION",
    help="Revision the file's values have.  [default: the one before the target]",
)
@click.option("--sample", metavar="N", type=click.IntRange(min=1), help="Try about N values.")
@click.option(
    "--budget-ms",
    type=click.FloatRange(min=1),
    default=BackfillOptions.idle_milliseconds,
    show_default=True,
    help="Backfill a batch, for the estimate (embedded engine).",
)
@click.option(
    "--keys-per-chunk",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Keys, or pages, a batch, for the estimate (Spark's own state).",
)
@click.option(
    "--junit",
    metavar="FILE",
    callback=file_to_write,
    help="Write the result as JUnit XML, for CI.",
)
@click.option(
    "--html", metavar="FILE", callback=file_to_write, help="Write the report as one HTML page."
)
@target_option
@accept_edited_option
@operator_option
@shared_options()
@click.pass_obj
def dry_run(  # noqa: PLR0913 - one parameter an option
    settings: Settings,
    store: str | None,
    *,
    every: bool,
    checkpoint: str | None,
    file: str | None,
    from_revision: str | None,
    sample: int | None,
    budget_ms: float,
    keys_per_chunk: int,
    junit: str | None,
    html: str | None,
    targets: dict[str, str],
    accept_edited: tuple[str, ...],
) -> None:
    """Take the values of STORE through its migrations, and write nothing.

    Reads the last committed batch of a query that may be running, runs what the query would run on
    every value, or on a sample, and reports what fails and why, what does not come back by the way
    back, what changes, and how long the backfill will take. Exit code 1 if a value fails, or if a
    field that had values keeps none and the script does not name it in `drops`. --all takes every
    store with scripts of all checkpoints that have a name.
    """
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.dry_run import dry_run as try_out
    from statemigrate.commands.dry_run import dry_run_file
    from statemigrate.inspect.trial.estimate import Pace

    shared: dict[str, Any] = {
        "migrations": settings.migrations,
        "targets": targets,
        "sample": sample,
    }
    if every:
        _refuse_beside_all(store)
        pace = Pace(budget_ms, keys_per_chunk)
        _try_all(settings, junit, accept_edited=accept_edited, pace=pace, **shared)
        return
    if store is None:
        raise click.UsageError("Missing argument 'STORE', or --all.")
    if (checkpoint is None) == (file is None):
        raise click.UsageError("Name either a query's CHECKPOINT, or values with --from-file.")
    if file is not None:
        report = dry_run_file(store, file, revision=from_revision, **shared)
    else:
        assert checkpoint is not None  # noqa: S101 - one of the two is given
        bar = progress_bar("values", shown=not settings.json)
        with spark_when_needed() as spark, bar as move:
            report = try_out(
                store,
                checkpoint,
                pace=Pace(budget_ms, keys_per_chunk),
                accept_edited=accept_edited,
                operator=settings.operator,
                stores=configuration().stores,
                spark=spark,
                progress=move,
                **shared,
            )
    _write(report, junit, html)
    _print(settings, report)
    if not report.in_order:
        click.get_current_context().exit(1)


def _refuse_beside_all(store: str | None) -> None:
    """Raise `click.UsageError` for what names one store or checkpoint, or makes one page of it."""
    given = click.get_current_context().get_parameter_source
    said = ["STORE"] if store else []
    if checkpoint_said():
        said.append("CHECKPOINT")
    for name, option in _OF_ONE.items():
        if given(name) is ParameterSource.COMMANDLINE:
            said.append(option)
    if said:
        raise click.UsageError(
            f"--all is every store of every checkpoint that has a name, without {', '.join(said)}."
        )


_OF_ONE = {
    "checkpoint": "--checkpoint",
    "file": "--from-file",
    "from_revision": "--from-revision",
    "html": "--html",
    "operator": "--operator",
}


def _try_all(settings: Settings, junit: str | None, **shared: Any) -> None:
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.cli.views.dry_run import print_trials
    from statemigrate.commands.dry_run_all import dry_run_all

    with spark_when_needed() as spark:
        checkpoints = configuration().checkpoints.values()
        found = dry_run_all(checkpoints, stores=configuration().stores, spark=spark, **shared)
    if junit is not None:
        from statemigrate.inspect.report.junit import junit_of

        _write_private(junit, junit_of({each.name: each.found for each in found.trials}))
    if settings.json:
        print_json(found.to_json())
    else:
        print_trials(found)
    if not found.in_order:
        click.get_current_context().exit(1)


def _write(report: DryRunReport, junit: str | None, html: str | None) -> None:
    if junit is not None:
        from statemigrate.inspect.report.junit import junit_xml

        _write_private(junit, junit_xml(report))
    if html is not None:
        from statemigrate.inspect.report.html import html_page

        _write_private(html, html_page(report))


def _write_private(path: str, text: str) -> None:
    # A report shows keys and values.
    with replacing(Path(path), private=True) as stream:
        stream.write(text.encode())


def _print(settings: Settings, report: DryRunReport) -> None:
    if settings.json:
        print_json(report.to_json())
        return
    from statemigrate.cli.views.dry_run import print_report

    print_report(report)
