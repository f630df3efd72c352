"""`init` and `history`: the folder of scripts, and what reads it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from statemigrate.cli.options import (
    Settings,
    all_option,
    chosen_mode,
    match_option,
    named_by,
    optional_checkpoint,
    shared_options,
)
from statemigrate.cli.output import console, print_found, print_json, print_rows
from statemigrate.quoting import visible, visible_lines

if TYPE_CHECKING:
    from statemigrate.lenses import Change
    from statemigrate.scripts import Details, Entry


@click.command(epilog="Example: statemigrate init")
@shared_options()
@click.pass_obj
def init(settings: Settings) -> None:
    """Make a folder for migration scripts.

    The folder has script.py.mako, the template of new scripts, and versions/, the folder of the
    scripts. The command does not change an existing folder of scripts.
    """
    from statemigrate.commands.scripts import init as make

    versions = make(migrations=settings.migrations)
    if settings.json:
        print_json({"directory": str(versions.parent)})
    else:
        console().print(f"Migration scripts go to {versions}")
        console().print("Next: statemigrate new STORE -m MESSAGE")


@click.command(epilog="Example: statemigrate history auctions")
@click.argument("store", required=False)
@optional_checkpoint(
    "Without STORE: list the deployments and commands on this checkpoint. With it: mark the "
    "scripts that were applied to this checkpoint, by its path or name."
)
@all_option
@match_option
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help="With a checkpoint or --all: the newest N events.  [default: all]",
)
@click.option("--heads", is_flag=True, help="List only the newest script of every store.")
@click.option("--show", metavar="REVISION", help="Show one script and how it changes the format.")
@shared_options()
@click.pass_obj
def history(
    settings: Settings,
    store: str | None,
    checkpoint: str | None,
    *,
    every: bool,
    match: str | None,
    limit: int | None,
    heads: bool,
    show: str | None,
) -> None:
    """List the scripts of STORE, or of every store, newest first, with their dates.

    The list includes broken and unfinished scripts, with their problems. If there are any, the exit
    code is 1.

    With --heads, a store has several lines if its scripts form no chain. --show prints one script:
    REVISION is an id or the beginning of one, STORE for its head, or STORE@ followed by an id,
    head, base+1 or -1. For a broken or unfinished script, it shows the readable parts.

    With --checkpoint and no STORE, the command lists what was done to that checkpoint, newest
    first: when, by whom and with which code. The checkpoint has the log: the first start of each
    deployment, and the changes by commands. The list marks a start without a committed batch. --all
    merges the logs of all named checkpoints into one list. Exit code 1 if part of a log is damaged,
    or if one cannot be read.
    """
    chosen_mode(
        {"heads": (), "show": (), "every": ("match", "limit")},
        ("store", "checkpoint", "place", "limit"),
    )
    if heads:
        _heads(settings)
    elif show is not None:
        from statemigrate.commands.scripts import show as details_of

        print_details(settings, details_of(show, migrations=settings.migrations))
    elif every:
        from statemigrate.cli.revisions import show_logs

        show_logs(settings, named_by(match), limit)
    elif checkpoint is not None and store is None:
        from statemigrate.cli.revisions import show_log

        show_log(settings, checkpoint, limit)
    elif limit is not None:
        raise click.UsageError("--limit is for --checkpoint without STORE, or for --all.")
    else:
        _history(settings, store, checkpoint)


def _history(settings: Settings, store: str | None, checkpoint: str | None) -> None:
    from statemigrate.commands.scripts import history as scripts_of

    entries = scripts_of(store, migrations=settings.migrations, checkpoint=checkpoint)
    if settings.json:
        print_json([entry.to_json() for entry in entries])
    elif not entries:
        _say_empty()
    for name, group in [] if settings.json else groupby(entries, lambda entry: entry.store):
        of_store = list(group)
        console().print(visible(name or "(no store)"), style="bold cyan")
        columns = ("  revision", "follows", "", "way back", "created", "message")
        print_rows(columns, [_row(entry) for entry in of_store])
        _print_faults(of_store)
    _exit_with(entries)


def _heads(settings: Settings) -> None:
    from statemigrate.commands.scripts import heads as newest

    entries = newest(migrations=settings.migrations)
    if settings.json:
        print_json([entry.to_json() for entry in entries])
    elif not entries:
        _say_empty()
    else:
        rows = [
            tuple(map(visible, (e.store or "-", e.revision or "-", e.message))) for e in entries
        ]
        print_rows(("store", "head", "message"), rows)
        _print_faults(entries)
    _exit_with(entries)


def print_details(settings: Settings, details: Details) -> None:
    """Print one script and its problems; exit code 1 if there are any."""
    print_found(settings, details, _print_details)
    _exit_with([details])


def _row(entry: Entry) -> tuple[str, ...]:
    return (
        f"  {visible(entry.revision or '-')}",
        _follows(entry),
        _marks(entry),
        _way_back(entry),
        _created(entry),
        visible(entry.message or Path(entry.path).name),
    )


def _created(entry: Entry) -> str:
    """The day, of what alembic writes; another text as it is, and nothing where nobody says."""
    text = entry.created or "-"
    return visible(text[:10] if _DAY.match(text) else text)


_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}([ T]|$)")


def _follows(entry: Entry) -> str:
    is_baseline = entry.migration is not None and entry.migration.is_baseline
    return visible(entry.down_revision or ("-" if is_baseline else "base"))


def _marks(entry: Entry) -> str:
    migration = entry.migration
    marks = {
        "head": entry.is_head,
        "applied": bool(entry.applied),
        "baseline": migration is not None and migration.is_baseline,
        "broken": bool(entry.faults),
    }
    return ", ".join([*(mark for mark, holds in marks.items() if holds), *_questions(entry)])


def _questions(entry: Entry) -> list[str]:
    number = len(entry.migration.questions) if entry.migration else 0
    return [f"{number} question{'s' if number > 1 else ''}"] if number else []


def _way_back(entry: Entry) -> str:
    if entry.migration is None:
        return "?"
    if entry.migration.is_baseline:
        return "-"
    return "yes" if entry.migration.is_reversible else "no"


def _print_details(details: Details) -> None:
    migration, screen = details.migration, console()
    lines = {
        "revision": f"{details.revision or '-'} {_marks(details)}".rstrip(),
        "store": details.store or "-",
        "follows": _follows(details),
        "message": details.message,
        **({"created": details.created} if details.created else {}),
        "script": details.path,
        "way back": _way_back(details),
        **({"drops": ", ".join(migration.drops)} if migration and migration.drops else {}),
        **(_declared(migration.change) if migration and migration.change else {}),
        **({"keys": str(details.new_key)} if details.new_key else {}),
        **({"rewrite": _by_rewriting(details)} if details.only_by_rewriting else {}),
    }
    for name, text in lines.items():
        screen.print(f"{name + ':':<10}", style="bold", end="")
        screen.print(visible(text))
    if details.comparison is not None or details.new is not None:
        screen.print()
        for line in _change(details):
            screen.print(line)
    for line in _meanings(details):
        screen.print(visible(line))
    _print_faults([details])


def _declared(change: Change) -> dict[str, str]:
    """The lenses of a script, and what does not come back as it was."""
    losses = {"loses": "; ".join(change.losses)} if change.losses else {}
    return {"change": "; ".join(change.words)} | losses


def _change(details: Details) -> list[str]:
    """How the format changes, a line or more a field; of a baseline the format, on one line."""
    if details.comparison is not None:
        return visible_lines(str(details.comparison))
    return [visible(details.new)]


def _by_rewriting(details: Details) -> str:
    return f"only a rewrite runs {', '.join(details.only_by_rewriting)}"


def _meanings(details: Details) -> list[str]:
    """What the columns of an aggregation's value are; nothing of any other store."""
    from statemigrate.checkpoint.operators import meanings
    from statemigrate.formats import Struct

    is_aggregation = (details.store or "").startswith("aggregation-")
    if not is_aggregation or not isinstance(details.new, Struct):
        return []
    meaning_lines = meanings(details.new.to_json()["schema"])
    return (
        ["", "What the columns are:", *(f"  {each}" for each in meaning_lines)]
        if meaning_lines
        else []
    )


def _print_faults(entries: Sequence[Entry]) -> None:
    """Each fault once, also where it is one of several scripts."""
    screen = console()
    faults = dict.fromkeys(fault for entry in entries for fault in entry.faults)
    for fault in faults:
        screen.print(f"  Wrong: {visible(fault.headline)}", style="bold red", soft_wrap=False)
        for name, text in (("expected", fault.expected), ("found", fault.found)):
            if text is not None:
                first = visible_lines(str(text))[0]
                screen.print(f"    {name}: {first}", soft_wrap=False)
        if fault.next_action:
            screen.print(f"    Next: {visible(fault.next_action)}", soft_wrap=False)


def _exit_with(entries: Sequence[Entry]) -> None:
    if any(entry.faults for entry in entries):
        click.get_current_context().exit(1)


def _say_empty() -> None:
    console().print("No migration scripts yet. Next: statemigrate new STORE -m MESSAGE")
