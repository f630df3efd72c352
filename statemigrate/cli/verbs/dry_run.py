"""`dry-run`: a migration tried on the state a query has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from statemigrate.budget import BackfillOptions
from statemigrate.cli.options import (
    Settings,
    accept_edited_option,
    file_to_write,
    operator_option,
    shared_options,
    target_option,
)
from statemigrate.cli.output import print_json
from statemigrate.cli.progress import progress_bar
from statemigrate.files.whole import replacing

if TYPE_CHECKING:
    from statemigrate.inspect.report.dry_run import DryRunReport


@click.command(
    "dry-run",
    epilog="Example: statemigrate dry-run auctions --checkpoint /data/cp --html report.html",
)
@click.argument("store")
@click.option("--checkpoint", metavar="PATH", help="Checkpoint directory of the query.")
@click.option(
    "--from-file",
    "file",
    metavar="FILE",
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
    help="Keys a batch, for the estimate (Spark's own state).",
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
    store: str,
    *,
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
    field that had values keeps none and the script does not name it in `drops`.
    """
    from statemigrate.inspect.trial.estimate import Pace

    if (checkpoint is None) == (file is None):
        raise click.UsageError("Name either a query with --checkpoint, or values with --from-file.")
    pace = Pace(budget_ms, keys_per_chunk)
    if file is not None:
        report = _of_file(settings, store, file, from_revision, sample, targets)
    else:
        assert checkpoint is not None  # noqa: S101 - one of the two is given
        report = _of_checkpoint(settings, store, checkpoint, sample, pace, targets, accept_edited)
    _write(report, junit, html)
    _print(settings, report)
    if not report.in_order:
        click.get_current_context().exit(1)


def _of_checkpoint(
    settings: Settings,
    store: str,
    checkpoint: str,
    sample: int | None,
    pace: object,
    targets: dict[str, str],
    accept_edited: tuple[str, ...],
) -> DryRunReport:
    from statemigrate.cli.session import local_session
    from statemigrate.inspect.trial.run import dry_run as run
    from statemigrate.inspect.trial.run import read_lineages
    from statemigrate.state.opening import require_store

    # Said before Spark takes its time to start.
    lineage = read_lineages(settings.migrations, store)[store]
    lineage.resolve(targets.get(store, "head"))
    require_store(checkpoint, store)
    with local_session() as spark, progress_bar("values", shown=not settings.json) as move:
        return run(
            store,
            checkpoint,
            migrations=settings.migrations,
            targets=targets,
            sample=sample,
            accept_edited=accept_edited,
            pace=pace,  # type: ignore[arg-type]
            operator=settings.operator,
            spark=spark,
            tick=move,
        )


def _of_file(
    settings: Settings,
    store: str,
    file: str,
    revision: str | None,
    sample: int | None,
    targets: dict[str, str],
) -> DryRunReport:
    from statemigrate.inspect.trial.file import dry_run_file

    return dry_run_file(
        store,
        file,
        migrations=settings.migrations,
        revision=revision,
        targets=targets,
        sample=sample,
    )


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
