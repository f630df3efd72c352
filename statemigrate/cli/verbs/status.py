"""`status`: how far a migration is."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import click

from statemigrate.cli.checkpoints import all_option, checkpoint_named
from statemigrate.cli.options import (
    Settings,
    configuration,
    operator_option,
    shared_options,
    target_option,
)
from statemigrate.cli.output import (
    console,
    partition_counts,
    print_json,
    print_rows,
    print_sentence,
)
from statemigrate.cli.views.rewrite import print_report

if TYPE_CHECKING:
    from statemigrate.commands.following.status import Status
    from statemigrate.commands.following.store_status import StoreStatus


@click.command(epilog="Example: statemigrate status --checkpoint /data/checkpoint --watch")
@checkpoint_named
@all_option
@click.option("--watch", is_flag=True, help="Look again and again until nothing is left.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    help="Seconds between two looks.",
)
@target_option
@operator_option
@shared_options()
@click.pass_obj
def status(
    settings: Settings,
    checkpoint: str,
    interval: float,
    targets: dict[str, str],
    *,
    watch: bool,
    every: bool,
) -> None:
    """Show what is left to migrate, where, how fast it goes, and what to do next.

    Counts are exact, as of the last committed batch; the query may be running. With --watch the
    rate and the time left are reckoned from one look to the next; Ctrl-C ends it. --all has a line
    for each store of all checkpoints, and exit code 1 if one of them cannot be read.
    """
    if every:
        _print_all(settings, checkpoint, targets, watch=watch)
        return
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.following.status import status as look

    with spark_when_needed() as spark:
        look_again = partial(
            look,
            checkpoint,
            migrations=settings.migrations,
            targets=targets,
            operator=settings.operator,
            stores=configuration().stores,
            spark=spark,
        )
        first = look_again()
        _print(settings, first)
        if watch:
            with suppress(KeyboardInterrupt):
                _watch(settings, first, interval, look_again)


def _print_all(
    settings: Settings, checkpoint: str, targets: dict[str, str], *, watch: bool
) -> None:
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.cli.views.fleet import print_fleet
    from statemigrate.commands.following.fleet import status_of_all

    if checkpoint or watch:
        raise click.UsageError("--all is every checkpoint, looked at once.")
    with spark_when_needed() as spark:
        found = status_of_all(
            configuration().checkpoints.values(),
            migrations=settings.migrations,
            targets=targets,
            stores=configuration().stores,
            spark=spark,
        )
    if settings.json:
        print_json(found.to_json())
    else:
        print_fleet(found)
    if not found.is_whole:
        click.get_current_context().exit(1)


def _watch(
    settings: Settings, first: Status, interval: float, look_again: Callable[[], Status]
) -> None:
    found = first
    while found.left:
        time.sleep(interval)
        found = look_again()
        _print(settings, found.since(first))


def _print(settings: Settings, found: Status) -> None:
    if settings.json:
        print_json(found.to_json())
        return
    when = time.strftime("%H:%M:%S", time.localtime(found.taken_at))
    print_sentence(f"{found.checkpoint}: {found.engine}, batch {found.batch}, at {when}")
    if found.rewritten is not None:
        print_report(found.rewritten)
    for store in found.stores:
        _print_store(store)


def _print_store(store: StoreStatus) -> None:
    screen = console()
    screen.print()
    said = f"  {store.kind} state, target {store.target}{_head(store)}"
    print_sentence(said, mark=store.store, style="bold cyan")
    if store.families:
        print_rows(
            ("  family", "values left", "by partition", "quarantined"),
            [
                (
                    f"  {each.name}",
                    f"{each.values:,}",
                    partition_counts(each.partitions.values()),
                    "-" if each.quarantined is None else f"{each.quarantined:,}",
                )
                for each in store.families
            ],
        )
    screen.print(f"  dual access: {'on' if store.is_dual else 'off'}{_pace(store)}")
    screen.print(f"  Next: {store.next_action}")


def _head(store: StoreStatus) -> str:
    if store.is_broken:
        return ", its scripts are broken"
    if store.head is None:
        return ", no scripts"
    return ", the head" if store.head == store.target else f"; the head is {store.head}"


def _pace(store: StoreStatus) -> str:
    if store.rate is None or store.seconds is None:
        return ""
    left = timedelta(seconds=round(store.seconds))
    return f"; {store.rate:,.0f} values a second, {left} left"
