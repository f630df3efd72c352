"""`status`: how far a migration is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from statemigrate.cli.options import (
    Settings,
    accept_edited_option,
    all_option,
    check_heads_option,
    checkpoint_named,
    chosen_mode,
    configuration,
    file_to_write,
    match_option,
    named_by,
    operator_option,
    require_all_values,
    shared_options,
    target_option,
)
from statemigrate.cli.output import console, print_json_text, print_rows
from statemigrate.commands.fleet import NEEDS, Need
from statemigrate.errors import HIDDEN, values_hidden
from statemigrate.files import replacing

if TYPE_CHECKING:
    from statemigrate.cli.watching import ToJson, WatchedView
    from statemigrate.commands.fleet import Fleet
    from statemigrate.commands.quarantine import FailedValue
    from statemigrate.commands.status import Status


# `status --failed`: the values that a backfill could not migrate, and why.


def print_failed(
    settings: Settings, store: str, checkpoint: str, path: str | None, **options: Any
) -> None:
    """List the values of ``store`` that fail, or write them to ``path``.

    Exit code 1 if any does.
    """
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.quarantine import quarantine as left_behind

    if path is not None:
        require_all_values("status --failed --output")
    failing = 0
    with spark_when_needed() as spark:
        found = left_behind(store, checkpoint, **settings.of_one(spark, **options))
        if path is not None:
            failing = _write_failures(found, path)
        else:
            listed = list(found)
            failing = sum(each.cause is not None for each in listed)
            _print_quarantined(settings, listed)
    if failing:
        click.get_current_context().exit(1)


def _write_failures(found: Iterator[FailedValue], path: str) -> int:
    from statemigrate.files import replacing
    from statemigrate.formats import json_text

    written = failing = 0
    with replacing(Path(path), private=True) as stream:
        for each in found:
            written += 1
            failing += each.cause is not None
            stream.write(f"{json_text(asdict(each))}\n".encode())
    console().print(f"Wrote {written:,} values to {path}")
    return failing


def _print_quarantined(settings: Settings, found: list[FailedValue]) -> None:
    from statemigrate.formats import json_text

    if settings.json:
        print_json_text(json_text([_described(each) for each in found], indent=2))
    elif not found:
        console().print("Nothing was left behind")
    else:
        print_rows(
            ("family", "key", "why"),
            [(each.family, _key(each), each.cause or "would migrate now") for each in found],
        )


def _described(each: FailedValue) -> dict[str, Any]:
    hidden = {"key": HIDDEN, "value": HIDDEN} if values_hidden() else {}
    return {**asdict(each), **hidden}


def _key(each: FailedValue) -> str:
    from statemigrate.formats import json_text

    return HIDDEN if values_hidden() else json_text(each.key)


Found = TypeVar("Found", bound="ToJson")


@click.command(epilog="Example: statemigrate status /data/checkpoint --watch")
@checkpoint_named
@all_option
@match_option
@click.option(
    "--only",
    type=click.Choice([each.replace(" ", "-") for each in NEEDS]),
    multiple=True,
    help="With --all: show only checkpoints that cannot be read, and stores that are stuck, "
    "behind their scripts, migrating, or in order; may be repeated.",
)
@click.option(
    "--watch",
    is_flag=True,
    help="Repeat until no value is left and no store is behind its scripts.",
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
    help="Also write an HTML page; with --watch at each look.",
)
@click.option(
    "--revisions",
    is_flag=True,
    help="Count nothing: show only the revision of each store, since when, and by which code.",
)
@click.option(
    "--failed",
    metavar="STORE",
    help="List the values of STORE that a backfill could not migrate, and why.",
)
@click.option(
    "--output",
    metavar="FILE",
    callback=file_to_write,
    help="With --failed: write the values to a file of JSON lines instead.",
)
@target_option
@accept_edited_option
@operator_option
@shared_options()
@click.pass_obj
def status(  # noqa: PLR0913 - one parameter an option
    settings: Settings,
    checkpoint: str,
    interval: float,
    targets: dict[str, str],
    accept_edited: tuple[str, ...],
    *,
    revisions: bool,
    failed: str | None,
    output: str | None,
    html: str | None,
    watch: bool,
    check_heads: bool,
    every: bool,
    match: str | None,
    only: tuple[str, ...],
) -> None:
    """Show how much is left to migrate, where and how fast, and the next step.

    Counts are exact, as of the last committed batch. The query may be running. --all prints a line
    for each store of all named checkpoints, those that need attention first, and exits with 1 if it
    cannot read one of them. A store is stuck if values have failed, if its scripts are broken,
    or if the deployed script is missing. --match selects checkpoints, --only selects lines.

    A store is behind if there are newer scripts than the deployed one. Nothing is left to migrate
    to the deployed revision then, but every value may be in an old format. With --check-heads the
    exit code is 1 then.

    With --watch the command draws the same again in its place. If the output is not a terminal, it
    adds lines for each look. It computes rate and time left from the looks of the last minute; the
    first look shows neither. Ctrl-C ends it.

    --revisions reads the revision of each store from the committed state, and also the older
    revisions of values that are still to migrate. Time and code are from the log of the checkpoint.

    --failed tries each value that did not migrate with the current scripts. After you have
    corrected the scripts, the query's next start tries the values again, and so does `backfill` on
    a stopped query. Exit code 1 if any still fails.
    """
    from statemigrate.cli.session import spark_when_needed

    place = ("checkpoint", "place", "operator", "targets")
    fleet_options = (*place, "every", "match", "check_heads")
    chosen_mode(
        {"revisions": fleet_options, "failed": (*place, "accept_edited", "output")},
        (*fleet_options, "only", "watch", "interval", "html"),
    )
    if every and checkpoint:
        raise click.UsageError("--all is every checkpoint that has a name; name none.")
    if (match or only) and not every:
        raise click.UsageError("--match and --only are for --all.")
    if revisions:
        from statemigrate.cli.revisions import show_revisions

        show_revisions(settings, checkpoint, targets, match, every=every, check_heads=check_heads)
        return
    if failed is not None:
        print_failed(
            settings, failed, checkpoint, output, targets=targets, accept_edited=accept_edited
        )
        return
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
    looks: WatchedView[Found], *, interval: float | None, html: str | None, as_json: bool
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


def _at_one(checkpoint: str, named: dict[str, Any]) -> WatchedView[Status]:
    from statemigrate.cli.watching import looks_at_one
    from statemigrate.commands.verbs import status as look

    return looks_at_one(partial(look, checkpoint, **named))


def _needs(only: tuple[str, ...]) -> frozenset[Need]:
    return frozenset(each for each in NEEDS if each.replace(" ", "-") in only or not only)


def _at_all(match: str | None, needs: frozenset[Need], named: dict[str, Any]) -> WatchedView[Fleet]:
    from statemigrate.cli.watching import looks_at_all
    from statemigrate.commands.fleet import status_of_all

    return looks_at_all(partial(status_of_all, named_by(match), **named), needs)
