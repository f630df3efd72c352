"""`check`: what can be wrong before any state is touched, for every commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from statemigrate.cli.options import (
    Settings,
    chosen_mode,
    configuration,
    optional_checkpoint,
    shared_options,
    target_option,
)
from statemigrate.cli.output import console, print_json, print_sentence
from statemigrate.cli.plan_command import print_items
from statemigrate.cli.rewrite_output import input_options, named_values
from statemigrate.configuration import TABLE
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from statemigrate.commands.lock import Locked
    from statemigrate.inspect import CheckReport


# `check --lock`: compares the meaning of code with a lock file, or records it.


def compare_or_write(
    settings: Settings,
    code: str,
    file: str | None,
    inputs: tuple[str, ...],
    mode: str | None,
    *,
    check: bool,
    checkpoint: str | None,
) -> None:
    """Compare code with a lock file, or write that, or the record of ``checkpoint``."""
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.lock import LOCK
    from statemigrate.commands.lock import lock as lock_meaning

    path, schemas = file or LOCK, named_values("--input", inputs)
    with spark_when_needed() as spark:
        found = lock_meaning(
            code,
            file=path,
            inputs=schemas,
            mode=mode,
            check=check,
            checkpoint=checkpoint,
            rules=configuration().rules,
            spark=spark,
        )
    written = checkpoint or path
    if settings.json:
        print_json({"file": written, **found.to_json()})
    elif not check:
        names = [each.name for each in found.meaning.operators]
        print_sentence(f"{written}: {', '.join(names) or 'no stateful operator'}")
        for name, value in found.unset.items():
            print_sentence(
                f"{name} is recorded as {value}, which is that of this machine: if the query has "
                f"another, set it in the code or in `spark` of {TABLE}, and run this again"
            )
        print_sentence(f"Next: {_next(names) if checkpoint else 'review and commit it'}")
    else:
        _print_checked(code, path, found)
    if found.asks:
        click.get_current_context().exit(1)


def _next(operators: Sequence[str]) -> str:
    from statemigrate.meaning import PROCESSOR

    if PROCESSOR in operators:
        return "restart the query: it compares each start with the record"
    return "deploy the query with `guarded`, which compares each start with the record"


def _print_checked(code: str, path: str, found: Locked) -> None:
    if not found.changes:
        print_sentence(f"{code} means what {path} says.")
        return
    print_items(found.changes)
    if not found.asks:
        return
    print_sentence(
        f"Next: `statemigrate plan CHECKPOINT --code {argument(code)} --lock {argument(path)}` "
        f"says what to do; if the change is meant, `statemigrate check --code {argument(code)} "
        f"--write-lock {argument(path)}` writes the file again"
    )


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
    "--write-heads",
    is_flag=True,
    help="Write heads.txt, the newest script of each store, for the scripts as they are.",
)
@click.option(
    "--made-up/--no-made-up",
    default=True,
    show_default=True,
    help="Try each script on values made up from its formats.",
)
@click.option(
    "--lock",
    metavar="FILE",
    type=click.Path(),
    help="Compare the meaning of the state of --code, a query's function, with this lock file.",
)
@click.option(
    "--write-lock",
    metavar="FILE",
    type=click.Path(),
    help="Record that meaning in a file to review and commit, as in state.lock.",
)
@click.option(
    "--record-meaning",
    is_flag=True,
    help="Record that meaning in CHECKPOINT, whose state the code wrote.",
)
@input_options
@shared_options()
@click.pass_obj
def check(  # noqa: PLR0913 - one parameter an option
    settings: Settings,
    code: tuple[str, ...],
    targets: Mapping[str, str],
    checkpoint: str | None,
    *,
    record: bool,
    write_heads: bool,
    made_up: bool,
    lock: str | None,
    write_lock: str | None,
    record_meaning: bool,
    inputs: tuple[str, ...],
    mode: str | None,
) -> None:
    """Check all scripts, and the code that needs them.

    Run it at every commit: it needs neither state nor Java. Every script must be complete, the
    scripts of a store must form one chain, and applied scripts must be unchanged. Examples must
    migrate, `upgrade` must not fail on every value made up from `old`, and no question may be open.
    The command prints each finding on one line. If there is any, the exit code is 1; notes do not
    count.

    With --lock, --write-lock or --record-meaning, the command checks no scripts. It runs the
    function of --code once, on empty streams, and lists what keys, windows, aggregate functions,
    filters and joins are computed from, one fact on each line. Equal code gives an equal file.
    --lock compares the code with the file, without any checkpoint, as in CI, and exits with 1 if
    the code has changed. --record-meaning is for a query whose starts were not guarded until now:
    name the code that is deployed. The query may be running.
    """
    of_lock = ("code", "inputs", "mode")
    chosen = chosen_mode(
        {
            "lock": of_lock,
            "write_lock": of_lock,
            "record_meaning": (*of_lock, "checkpoint", "place"),
        },
        ("code", "targets", "checkpoint", "place", "record", "write_heads", "made_up"),
    )
    if chosen is not None:
        if len(code) != 1:
            raise click.UsageError("Name one function of a query: --code MODULE:FUNCTION.")
        if record_meaning and checkpoint is None:
            raise click.UsageError("--record-meaning needs CHECKPOINT.")
        compare_or_write(
            settings,
            code[0],
            lock or write_lock,
            inputs,
            mode,
            check=lock is not None,
            checkpoint=checkpoint if record_meaning else None,
        )
        return
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
        write_heads=write_heads,
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
