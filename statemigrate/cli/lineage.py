"""`history`, `heads` and `show`: the verbs that read scripts."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import click

from statemigrate.cli.options import Settings, shared_options
from statemigrate.cli.output import console, print_json, print_rows

if TYPE_CHECKING:
    from statemigrate.scripts import Details, Entry


@click.command(epilog="Example: statemigrate history auctions")
@click.argument("store", required=False)
@shared_options()
@click.pass_obj
def history(settings: Settings, store: str | None) -> None:
    """List the scripts of STORE, or of every store, newest first."""
    from statemigrate.scripts import ScriptFolder

    entries = ScriptFolder(settings.migrations).history(store)
    if settings.json:
        print_json([entry.to_json() for entry in entries])
    elif not entries:
        _say_empty()
    for name, group in [] if settings.json else groupby(entries, lambda e: e.migration.store):
        console().print(name, style="bold cyan")
        columns = ("  revision", "follows", "", "way back", "message")
        print_rows(columns, [_row(entry) for entry in group])


@click.command(epilog="Example: statemigrate heads --json")
@shared_options()
@click.pass_obj
def heads(settings: Settings) -> None:
    """List the newest script of every store."""
    from statemigrate.scripts import ScriptFolder

    entries = ScriptFolder(settings.migrations).heads()
    if settings.json:
        print_json([entry.to_json() for entry in entries])
    elif not entries:
        _say_empty()
    else:
        rows = [(e.migration.store, e.migration.revision, e.migration.message) for e in entries]
        print_rows(("store", "head", "message"), rows)


@click.command(epilog="Example: statemigrate show auctions@head")
@click.argument("revision")
@shared_options()
@click.pass_obj
def show(settings: Settings, revision: str) -> None:
    """Show one script and how it changes the format.

    REVISION is an id or the beginning of one, STORE for its head, or STORE@ followed by an id,
    head, base+1 or -1.
    """
    from statemigrate.scripts import ScriptFolder

    details = ScriptFolder(settings.migrations).show(revision)
    if settings.json:
        print_json(details.to_json())
    else:
        _print_details(details)


def _row(entry: Entry) -> tuple[str, ...]:
    migration = entry.migration
    return (
        f"  {migration.revision}",
        migration.down_revision or ("-" if migration.is_baseline else "base"),
        _marks(entry),
        _way_back(entry),
        migration.message,
    )


def _marks(entry: Entry) -> str:
    baseline = ["baseline"] if entry.migration.is_baseline else []
    return ", ".join([*(["head"] if entry.is_head else []), *baseline, *_questions(entry)])


def _questions(entry: Entry) -> list[str]:
    number = len(entry.migration.questions)
    return [f"{number} question{'s' if number > 1 else ''}"] if number else []


def _way_back(entry: Entry) -> str:
    if entry.migration.is_baseline:
        return "-"
    return "yes" if entry.migration.is_reversible else "no"


def _print_details(details: Details) -> None:
    migration, screen = details.migration, console()
    lines = {
        "revision": f"{migration.revision} {_marks(details)}".rstrip(),
        "store": migration.store,
        "follows": _row(details)[1],
        "message": migration.message,
        "script": migration.path,
        "way back": _way_back(details),
    }
    for name, text in lines.items():
        screen.print(f"{name + ':':<10}", style="bold", end="")
        screen.print(text)
    screen.print()
    screen.print(str(details.comparison or migration.new))


def _say_empty() -> None:
    console().print("No migration scripts yet. Next: statemigrate new STORE -m MESSAGE")
