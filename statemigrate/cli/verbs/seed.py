"""`seed`: a new checkpoint whose state comes from tables."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from statemigrate.cli.checkpoints import places_named
from statemigrate.cli.options import Settings, shared_options, target_option
from statemigrate.cli.verbs.rewrite import new_code_options, plan_or_make, said_options

_EPILOG = (
    "Example: statemigrate seed checkpoints/orders --code jobs:orders --from history/orders.parquet"
)


@click.command(epilog=_EPILOG)
@click.argument("new", callback=places_named)
@click.option(
    "--from",
    "tables",
    metavar="[STORE=]TABLE",
    multiple=True,
    required=True,
    help="A folder or file of Parquet or JSON with the keys and values of a store.",
)
@click.option(
    "--revision",
    "revisions",
    metavar="[STORE=]REVISION",
    multiple=True,
    help="Revision that a table is of; the scripts of its store bring it to the head.",
)
@new_code_options
@said_options
@target_option
@shared_options()
@click.pass_obj
def seed(
    settings: Settings,
    /,
    new: str,
    tables: tuple[str, ...],
    revisions: tuple[str, ...],
    targets: dict[str, str],
    **given: Any,
) -> None:
    """Make the checkpoint NEW of a query that has not run, with state from tables.

    Without --apply this only says what becomes of every column and what it has to ask: exit code 1
    while a question is open. NEW is a directory that is not there yet. The query goes on from
    there as after its second batch.

    A column goes into the field of state that has its name; --take STORE.FIELD=COLUMN says it where
    names differ. A table may be of an older --revision, whose scripts say what becomes of its rows.
    The query's code is run on empty streams to see what it keeps (--code), or has
    made a checkpoint elsewhere (--like).
    """
    from statemigrate.cli.views.rewrite import print_seeding
    from statemigrate.commands.rewriting.seed import seed as make_seeded

    make = partial(
        make_seeded, new, _tables(tables), targets=targets, revisions=_revisions(revisions)
    )
    plan_or_make(make, settings, given, print_seeding)


def _revisions(given: tuple[str, ...]) -> dict[str, str]:
    """By store; without a name of the only one."""
    found: dict[str, str] = {}
    for each in given:
        store, _, revision = each.rpartition("=")
        if not revision or store in found:
            raise click.UsageError("--revision takes STORE=REVISION, each store once.")
        found[store] = revision
    return found


def _tables(given: tuple[str, ...]) -> dict[str, str]:
    """By store; without a name for the only one. A path may have an equals sign after a slash."""
    found: dict[str, str] = {}
    for each in given:
        store, equals, place = each.partition("=")
        if not equals or "/" in store:
            store, place = "", each
        if not place or store in found:
            raise click.UsageError("--from takes STORE=TABLE, each store once.")
        found[store] = place
    return found
