"""`current` and `log`: what is applied where, since when, and by which version of the code."""

from __future__ import annotations

import click

from statemigrate.cli.checkpoints import all_option, checkpoint_named, match_option, named_by
from statemigrate.cli.options import (
    Settings,
    check_heads_option,
    looking,
    operator_option,
    shared_options,
    target_option,
)
from statemigrate.cli.output import print_json
from statemigrate.configuration import NamedCheckpoint


@click.command(epilog="Example: statemigrate current /data/checkpoint")
@checkpoint_named
@all_option
@match_option
@check_heads_option
@target_option
@operator_option
@shared_options()
@click.pass_obj
def current(
    settings: Settings,
    checkpoint: str,
    targets: dict[str, str],
    *,
    every: bool,
    match: str | None,
    check_heads: bool,
) -> None:
    """Show the revision of each store, since when it has it, and by which code.

    The revision is read from the committed state, and so are the older ones whose values are still
    to migrate; time and code are the log's. The query may be running. --all has every checkpoint
    that has a name, and exit code 1 if one of them cannot be read. With --check-heads the exit code
    is 1 as well if a store's revision is not known to be the head of its scripts.
    """
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.cli.views.log import print_current, print_currents
    from statemigrate.commands.following.current import current as look
    from statemigrate.commands.following.current import current_of_all

    if every and checkpoint:
        raise click.UsageError("--all is every checkpoint.")
    _check_match(match, every)
    with spark_when_needed() as spark:
        shared = looking(settings, targets, spark)
        if not every:
            found = look(checkpoint, operator=settings.operator, **shared)
            if settings.json:
                print_json(found.to_json())
            else:
                print_current(found)
            if check_heads and not found.is_current:
                click.get_current_context().exit(1)
            return
        all_found = current_of_all(named_by(match), **shared)
    if settings.json:
        print_json([each.to_json() for each in all_found])
    else:
        print_currents(all_found)
    is_current = all(each.current is not None and each.current.is_current for each in all_found)
    if any(each.error for each in all_found) or (check_heads and not is_current):
        click.get_current_context().exit(1)


def _check_match(match: str | None, every: bool) -> None:
    if match is not None and not every:
        raise click.UsageError("--match is for --all.")


@click.command(epilog="Example: statemigrate log /data/checkpoint --limit 20")
@checkpoint_named
@all_option
@match_option
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=1), help="The newest N events.  [default: all]"
)
@shared_options()
@click.pass_obj
def log(
    settings: Settings, checkpoint: str, limit: int | None, *, every: bool, match: str | None
) -> None:
    """List what was done to a checkpoint, newest first: when, by whom, with which code.

    It is kept in the checkpoint: the first start of each deployment, and what commands did. A start
    of which no batch was committed says so. --all has every checkpoint that has a name, in one
    list. Exit code 1 if part of a log is damaged, or one cannot be read.
    """
    _check_match(match, every)
    if every and checkpoint:
        raise click.UsageError("--all is every checkpoint.")
    if every:
        _log_of_all(settings, named_by(match), limit)
        return
    from statemigrate.cli.views.log import print_log
    from statemigrate.commands.following.log import log as read

    found = read(checkpoint, limit=limit)
    if settings.json:
        print_json(found.to_json())
    else:
        print_log(found)
    if found.damaged:
        click.get_current_context().exit(1)


def _log_of_all(
    settings: Settings, checkpoints: tuple[NamedCheckpoint, ...], limit: int | None
) -> None:
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.cli.views.log import print_logs
    from statemigrate.commands.following.log import log_of_all

    with spark_when_needed():
        found = log_of_all(checkpoints, limit=limit)
    if settings.json:
        print_json([each.to_json() for each in found])
    else:
        print_logs(found, limit)
    if any(each.log is None or each.log.damaged for each in found):
        click.get_current_context().exit(1)
