"""`dry-run`: a migration tried on the state a query has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from statemigrate.budget import BackfillOptions
from statemigrate.cli.options import (
    Settings,
    all_option,
    checkpoint_or,
    configuration,
    file_to_write,
    has_checkpoint_argument,
    reading_options,
)
from statemigrate.cli.output import (
    console,
    print_found,
    print_rows,
    print_sentence,
    progress_bar,
)
from statemigrate.commands.dry_run import Trials
from statemigrate.errors import values_hidden
from statemigrate.files import replacing
from statemigrate.inspect import (
    DryRunReport,
    Failure,
    FamilyTrial,
    ValueExample,
    already,
    backfill,
    broken,
    constant,
    counted,
    duration,
    growth,
    headline,
    loss,
    meetings,
    round_trips,
    sample,
    verdict,
)
from statemigrate.quoting import argument, visible, visible_lines


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
    help="Revision of the file's values.  [default: the one before the target]",
)
@click.option("--sample", metavar="N", type=click.IntRange(min=1), help="Try about N values.")
@click.option(
    "--budget-ms",
    type=click.FloatRange(min=1),
    default=BackfillOptions.idle_milliseconds,
    show_default=True,
    help="Backfill time in each batch, for the estimate (embedded engine).",
)
@click.option(
    "--keys-per-chunk",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Keys, or pages, in each batch, for the estimate (Spark's own state).",
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
@reading_options
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
    """Run the values of STORE through its migrations, and write nothing.

    The command reads the last committed batch; the query may be running. It migrates every value as
    the query would, or a sample, and reports failures and their causes, values that do not survive
    the way back, the changes, and the time of a backfill. Exit code 1 if a value fails, if a field
    loses its values and the script does not name it in `drops`, or if a script's functions do not
    undo each other and it claims that they do, by lenses or by `lossless = True`. --all takes every
    store with scripts in all named checkpoints.
    """
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.verbs import dry_run as try_out
    from statemigrate.inspect import Pace, dry_run_file

    shared: dict[str, Any] = {"targets": targets, "sample": sample}
    paced = {"pace": Pace(budget_ms, keys_per_chunk), "accept_edited": accept_edited, **shared}
    if every:
        _refuse_with_all(store)
        _try_all(settings, junit, **paced)
        return
    if store is None:
        raise click.UsageError("Missing argument 'STORE', or --all.")
    if (checkpoint is None) == (file is None):
        raise click.UsageError("Name either a query's CHECKPOINT, or values with --from-file.")
    if file is not None:
        report = dry_run_file(
            store, file, migrations=settings.migrations, revision=from_revision, **shared
        )
    else:
        assert checkpoint is not None  # noqa: S101 - one of the two is given
        bar = progress_bar("values", shown=not settings.json)
        with spark_when_needed() as spark, bar as move:
            report = try_out(
                store,
                checkpoint,
                progress=move,
                **settings.of_one(spark, stores=configuration().stores, **paced),
            )
    _write(report, junit, html)
    print_found(settings, report, print_report)
    if not report.in_order:
        click.get_current_context().exit(1)


def _refuse_with_all(store: str | None) -> None:
    """Raise `click.UsageError` for what names one store or checkpoint, or makes one page of it."""
    given = click.get_current_context().get_parameter_source
    others = ["STORE"] if store else []
    if has_checkpoint_argument():
        others.append("CHECKPOINT")
    for name, option in _OF_ONE.items():
        if given(name) is ParameterSource.COMMANDLINE:
            others.append(option)
    if others:
        raise click.UsageError(
            f"--all is every store of every named checkpoint, without {', '.join(others)}."
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
    from statemigrate.commands.dry_run import dry_run_all

    with spark_when_needed() as spark:
        checkpoints = configuration().checkpoints.values()
        found = dry_run_all(checkpoints, **settings.of_all(spark, **shared))
    if junit is not None:
        from statemigrate.inspect import junit_of

        _write_private(junit, junit_of({each.name: each.found for each in found.trials}))
    print_found(settings, found, print_trials)
    if not found.in_order:
        click.get_current_context().exit(1)


def _write(report: DryRunReport, junit: str | None, html: str | None) -> None:
    if junit is not None:
        from statemigrate.inspect import junit_xml

        _write_private(junit, junit_xml(report))
    if html is not None:
        from statemigrate.inspect import html_page

        _write_private(html, html_page(report))


def _write_private(path: str, text: str) -> None:
    # A report shows keys and values.
    with replacing(Path(path), private=True) as stream:
        stream.write(text.encode())


# How `dry-run` looks: what migrates, what fails and why, what it costs, and what to do next.


_STYLES = {"good": "bold green", "doubtful": "bold yellow", "bad": "bold red"}
_FAMILIES = ("family\n  revision", "stored", "tried", "passed", "failed", "differing")
_FIELDS = ("  field", "effect", "values", "key", "before", "after")


def print_report(report: DryRunReport) -> None:
    """Print what a dry run found: the headline first, the verdict and the next step last.

    Text that comes from state is shown with an escape for each character that a terminal would act
    on.
    """
    _say(f"Dry run of {visible(report.store)} to {visible(report.target)}", "bold cyan")
    _say(headline(report), "bold")
    for sentence in (sample(report), already(report), meetings(report)):
        if sentence:
            _say(sentence)
    if report.families:
        _say()
        print_rows(_FAMILIES, [_row(family) for family in report.families], lines=True)
    if values_hidden():
        _say("Keys and values are not shown.")
    for family in report.families:
        _print_family(family)
    _print_costs(report)
    _print_verdict(report)


def print_trials(found: Trials) -> None:
    """Print every store's report, below its checkpoint's name, and each error in its place."""
    for trial in found.trials:
        _say(visible(trial.name), "bold magenta")
        if isinstance(trial.found, DryRunReport):
            print_report(trial.found)
        else:
            print_sentence(str(trial.found), mark="Error: ", style="bold red", lines=True)
        _say()
    if not found.trials:
        _say("No store of any checkpoint has scripts.")


def _print_family(family: FamilyTrial) -> None:
    if not family.tried:
        return
    _say()
    _say(f"{visible(family.family)} ({visible(family.revision)})", "bold cyan")
    if family.failed:
        _say(f"Failures: {counted(family.failed, 'value')}", "bold red")
    for failure in family.failures:
        _print_failure(failure)
    _print_field_outcomes(family)
    _say(f"Round trips: {round_trips(family)}")
    _print_differences(family)
    _print_broken_laws(family)
    if family.fields:
        _say(f"Fields, compared in {counted(family.looked_at, 'value')}:")
        print_rows(_FIELDS, _effects(family), lines=True)
    if family.passed:
        _say(f"Size as Avro: {growth(family.bytes_before, family.bytes_after)}.")


def _print_failure(failure: Failure) -> None:
    first, *rest = visible_lines(failure.cause)
    _data(f"  {counted(failure.values, 'value')}: {first}")
    for line in rest:
        _data(f"    {line}")
    for key in failure.keys:
        _data(f"    key {argument(key)}")


def _print_field_outcomes(family: FamilyTrial) -> None:
    for each in family.losses:
        style = None if each.meant else "bold red"
        _say(f"Lost: {visible(each.field)} {visible(loss(each))}", style)
    for one in family.constants:
        style = None if one.meant else "bold yellow"
        _say(f"Constant: {visible(one.field)} {visible(constant(one))}", style)


def _print_differences(family: FamilyTrial) -> None:
    for difference in family.differences:
        _data(f"  {visible(difference.field)}: {counted(difference.values, 'value')}")
        for example in difference.examples:
            key, before, after = _sides(example)
            _data(f"    key {key}: {before} came back as {after}")


def _print_broken_laws(family: FamilyTrial) -> None:
    for each in family.broken_laws:
        _say(f"Broken law: {visible(broken(each))}", "bold red")
        for example in each.examples:
            key, before, after = _sides(example)
            _data(f"    key {key}: {before}{'' if each.cause else f' came back as {after}'}")
        if each.smallest is not None:
            _, before, after = _sides(each.smallest)
            _data(f"    smallest: {before}{'' if each.cause else f' came back as {after}'}")


def _print_costs(report: DryRunReport) -> None:
    _say()
    if report.tried:
        rate = f"{report.rate:,.0f} a second"
        _say(f"Tried {counted(report.tried, 'value')} in {duration(report.seconds)}, {rate}.")
    if report.backfill is not None:
        _say(f"{backfill(report)} Estimated from: {visible(report.backfill.basis)}")


def _print_verdict(report: DryRunReport) -> None:
    found = verdict(report)
    _say(found.text, _STYLES[found.grade])
    _say(f"Next: {visible(found.next_action)}")


def _row(family: FamilyTrial) -> tuple[str, ...]:
    numbers = (family.stored, family.tried, family.passed, family.failed)
    return (
        f"{visible(family.family)}\n  {visible(family.revision)}",
        *(f"{number:,}" for number in numbers),
        f"{family.differing:,}" if family.reversible else "no way back",
    )


def _effects(family: FamilyTrial) -> list[tuple[str, ...]]:
    return [
        (
            f"  {visible(each.label)}",
            each.effect,
            f"{each.values:,}",
            *(_sides(each.examples[0]) if each.examples else ("", "", "")),
        )
        for each in family.fields
    ]


def _sides(example: ValueExample) -> tuple[str, str, str]:
    sides = (example.before, example.after)
    before, after = ("nothing" if side is None else visible(side) for side in sides)
    # As a shell takes it, for `statemigrate get`.
    return argument(example.key) if example.key else "", before, after


def _say(text: str = "", style: str | None = None) -> None:
    console().print(visible(text), style=style, soft_wrap=False)


def _data(line: str) -> None:
    # Not folded here, so that a key can be copied whole.
    console().print(visible(line))
