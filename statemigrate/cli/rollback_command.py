"""`rollback`: the way back to an older revision, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import (
    Settings,
    checkpoint_named,
    reading_options,
    stopped_option,
    wait_option,
)
from statemigrate.cli.output import print_found, print_line, print_rows

if TYPE_CHECKING:
    from statemigrate.commands.rollback import Rollback


@click.command(epilog="Example: statemigrate rollback /data/checkpoints/auctions --to base")
@checkpoint_named
@click.option(
    "--to",
    "to",
    metavar="[STORE=]REVISION",
    multiple=True,
    required=True,
    help="The revision to go back to, `base` for the oldest of all stores; may be repeated with "
    "the store's name.",
)
@click.option("--undo", is_flag=True, help="Remove the backfill source at the end.")
@click.option("--apply", is_flag=True, help="Do the next step.  [default: only show it]")
@click.option("--watch", is_flag=True, help="With --apply: follow until every value is back.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="With --watch: stop after this time.",
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="With --watch: time between two looks.",
)
@stopped_option
@wait_option("With --undo --apply: ")
@reading_options
def rollback(
    settings: Settings,
    /,
    *,
    checkpoint: str,
    to: tuple[str, ...],
    watch: bool,
    timeout: float,
    **options: Any,
) -> None:
    """Migrate the values of CHECKPOINT back to an older revision, step by step.

    The command shows the progress and the next step. Run it again after each step. Every script on
    the way needs a `downgrade`. With --apply, it does the next step as far as a command can. On
    Spark's own state it plans a backfill, which the query takes under the older code. On the
    embedded engine it migrates all values of a stopped query back at once.

    With --undo it removes the backfill source at the end, so that the earlier release starts again
    unchanged. That needs --to base and a stopped query.

    Exit code 0 when everything is back, 1 while something is left to do or if a check failed.
    """
    if watch and not options["apply"]:
        raise click.UsageError("--watch is for --apply.")
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.rollback import rollback as go_back

    with spark_when_needed() as spark:
        found = go_back(
            checkpoint,
            _revisions(to),
            timeout=timeout if watch else 0.0,
            progress=_silent if settings.json or not watch else _print_look,
            **settings.of_one(spark, **options),
        )
    print_found(settings, found, _print)
    if not found.is_done:
        click.get_current_context().exit(1)


def _revisions(to: tuple[str, ...]) -> str | Mapping[str, str]:
    pairs = [each.partition("=") for each in to]
    if len(pairs) == 1 and not pairs[0][1]:
        return to[0]
    if not all(store and revision for store, _, revision in pairs):
        raise click.UsageError("--to is one REVISION, or STORE=REVISION for each store.")
    if len({store for store, _, _ in pairs}) < len(pairs):
        raise click.UsageError("--to names a store twice.")
    return {store: revision for store, _, revision in pairs}


def _silent(found: Rollback) -> None:
    """Only the last look is printed."""


def _print_look(found: Rollback) -> None:
    print_line(f"batch {found.batch}: {found.left:,} values left")


def _print(found: Rollback) -> None:
    print_line(f"{found.checkpoint}: {found.engine}, batch {found.batch}")
    print_rows(("store", "back to", "written now", "back", "left"), _rows(found))
    for each in found.did:
        print_line(f"Done: {each}.")
    if found.is_done:
        print_line("Every value is back.")
    print_line(f"Next: {found.next_action}")


def _rows(found: Rollback) -> Iterator[tuple[str, ...]]:
    for each in found.stores:
        deployed = each.deployed or "not noted"
        yield each.store, each.target, deployed, f"{each.in_target:,}", f"{each.left:,}"
