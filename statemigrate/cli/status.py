"""`status`: how far a migration is."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from statemigrate.cli.options import (
    Settings,
    all_option,
    check_heads_option,
    checkpoint_named,
    configuration,
    file_to_write,
    match_option,
    named_by,
    operator_option,
    shared_options,
    target_option,
)
from statemigrate.commands.fleet import NEEDS, Need
from statemigrate.files.documents import replacing

if TYPE_CHECKING:
    from statemigrate.cli.watching import Looks, ToJson
    from statemigrate.commands.fleet import Fleet
    from statemigrate.commands.status import Status


Found = TypeVar("Found", bound="ToJson")


@click.command(epilog="Example: statemigrate status /data/checkpoint --watch")
@checkpoint_named
@all_option
@match_option
@click.option(
    "--only",
    type=click.Choice([each.replace(" ", "-") for each in NEEDS]),
    multiple=True,
    help="With --all: show only what cannot be read, is stuck, behind its scripts, migrating, or "
    "in order; may be repeated.",
)
@click.option(
    "--watch",
    is_flag=True,
    help="Look again and again until nothing is left, nor any store behind its scripts.",
)
@check_heads_option
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option(
    "--html",
    metavar="FILE",
    callback=file_to_write,
    help="Write one HTML page too; with --watch at each look.",
)
@target_option
@operator_option
@shared_options()
@click.pass_obj
def status(  # noqa: PLR0913 - one parameter an option
    settings: Settings,
    checkpoint: str,
    interval: float,
    targets: dict[str, str],
    *,
    html: str | None,
    watch: bool,
    check_heads: bool,
    every: bool,
    match: str | None,
    only: tuple[str, ...],
) -> None:
    """Show what is left to migrate, where, how fast it goes, and what to do next.

    Counts are exact, as of the last committed batch; the query may be running. --all has a line
    for each store of all checkpoints, what needs a person first, and exit code 1 if one of them
    cannot be read. It is stuck where values are quarantined, its scripts are broken, or the script
    of what is deployed is missing. --match looks at some of them, --only shows some.

    A store is behind while newer scripts exist than those that code was deployed for: nothing is
    left to migrate to what is deployed, and still every value may be in an old format.
    --check-heads makes the exit code 1 then.

    With --watch it is drawn again and again in its place; elsewhere than on a terminal lines are
    added for each look. Rate and time left are reckoned from what was seen within the last minute,
    and the first look claims neither. Ctrl-C ends it.
    """
    from statemigrate.cli.session import spark_when_needed

    if every and checkpoint:
        raise click.UsageError("--all is every checkpoint that has a name; name none.")
    if (match or only) and not every:
        raise click.UsageError("--match and --only are for --all.")
    with spark_when_needed() as spark:
        follow = partial(
            _follow, interval=interval if watch else None, html=html, as_json=settings.json
        )
        found: Status | Fleet
        if every:
            found = fleet = follow(
                _at_all(match, _needs(only), settings.of_all(spark, targets=targets))
            )
            is_whole = fleet.is_whole
        else:
            named = settings.of_one(spark, targets=targets, stores=configuration().stores)
            found = follow(_at_one(checkpoint, named))
            is_whole = True
    if not is_whole or (check_heads and not found.is_current):
        click.get_current_context().exit(1)


def _follow(
    looks: Looks[Found], *, interval: float | None, html: str | None, as_json: bool
) -> Found:
    from statemigrate.cli.watching import show_once, watch

    def note(found: Found) -> None:
        if html is not None:
            _write(html, looks.shown(found))

    if interval is None:
        found = show_once(looks, as_json=as_json)
        note(found)
        return found
    return watch(looks, interval, note, as_json=as_json)


def _write(path: str, found: Any) -> None:
    from statemigrate.commands.status_page import status_page

    with replacing(Path(path)) as stream:
        stream.write(status_page(found).encode())


def _at_one(checkpoint: str, named: dict[str, Any]) -> Looks[Status]:
    from statemigrate.cli.watching import looks_at_one
    from statemigrate.commands.verbs import status as look

    return looks_at_one(partial(look, checkpoint, **named))


def _needs(only: tuple[str, ...]) -> frozenset[Need]:
    return frozenset(each for each in NEEDS if each.replace(" ", "-") in only or not only)


def _at_all(match: str | None, needs: frozenset[Need], named: dict[str, Any]) -> Looks[Fleet]:
    from statemigrate.cli.watching import looks_at_all
    from statemigrate.commands.fleet import status_of_all

    return looks_at_all(partial(status_of_all, named_by(match), **named), needs)
