"""`check`: what can be wrong before any state is touched, for every commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from statemigrate.cli.options import (
    Settings,
    configuration,
    optional_checkpoint,
    shared_options,
    target_option,
)
from statemigrate.cli.output import console, print_json

if TYPE_CHECKING:
    from statemigrate.inspect.check_report import CheckReport


@click.command(epilog="Example: statemigrate check --code pipeline.totals:Totals")
@optional_checkpoint("Also compare with the scripts that were applied to this checkpoint.")
@click.option(
    "--code",
    metavar="MODULE:OBJECT",
    multiple=True,
    help="A processor, to compare its declared schemas, or a function for "
    "applyInPandasWithState; may be repeated.  [default: the `code` of all checkpoints in "
    "pyproject.toml]",
)
@target_option
@click.option(
    "--record",
    is_flag=True,
    help="Record the applied scripts of CHECKPOINT in applied.json, for checks without it.",
)
@click.option(
    "--made-up/--no-made-up",
    default=True,
    show_default=True,
    help="Try each script on values made up from its formats.",
)
@shared_options()
@click.pass_obj
def check(
    settings: Settings,
    code: tuple[str, ...],
    targets: Mapping[str, str],
    checkpoint: str | None,
    *,
    record: bool,
    made_up: bool,
) -> None:
    """Check all scripts, and the code that needs them.

    Run it at every commit: it needs neither state nor Java. Every script must be complete, the
    scripts of a store must form one chain, and applied scripts must be unchanged. Examples must
    migrate, `upgrade` must not fail on every value made up from `old`, and no question may be open.
    The command prints each finding on one line. If there is any, the exit code is 1; notes do not
    count.
    """
    from statemigrate.commands.applied import record_applied
    from statemigrate.commands.check import check as check_scripts

    if record and checkpoint is None:
        raise click.UsageError("--record needs CHECKPOINT.")
    if record and checkpoint is not None:
        path = record_applied(checkpoint, migrations=settings.migrations)
        if not settings.json:
            console().print(f"Wrote what was applied to {path}")
    report = check_scripts(
        code=code or _configured_code(),
        checkpoint=checkpoint,
        made_up=made_up,
        migrations=settings.migrations,
        targets=targets,
    )
    _print(settings, report)
    if not report.passed:
        raise click.exceptions.Exit(1)


def _configured_code() -> tuple[str, ...]:
    named = configuration().checkpoints.values()
    return tuple(dict.fromkeys(code for each in named for code in each.code))


def _print(settings: Settings, report: CheckReport) -> None:
    if settings.json:
        print_json([finding.to_json() for finding in (*report.findings, *report.notes)])
        return
    for finding in (*report.findings, *report.notes):
        console().print(str(finding))
    if report.passed:
        console().print(_verdict(report.scripts, report.stores))


def _verdict(scripts: int, stores: int) -> str:
    counted = "1 script" if scripts == 1 else f"{scripts} scripts"
    verb = "is" if scripts == 1 else "are"
    return f"{counted} of {stores} store{'' if stores == 1 else 's'} {verb} in order"
