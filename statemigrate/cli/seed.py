"""`seed`: a new checkpoint whose state comes from tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import Settings, named_paths, shared_options, target_option
from statemigrate.cli.output import print_json, print_sentence, progress_bar
from statemigrate.cli.rewrite import described_options, new_code_options, plan_or_make

if TYPE_CHECKING:
    from statemigrate.rewrite.fork import Fork


_EPILOG = (
    "Example: statemigrate seed checkpoints/orders --code jobs:orders --from history/orders.parquet"
)


@click.command(epilog=_EPILOG)
@click.argument("new", callback=named_paths)
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
    help="Revision of a table; the scripts of its store migrate it to the head.",
)
@new_code_options
@described_options
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

    Without --apply, the command only shows its plan for every column and its questions. The exit
    code is 1 while a question is open. NEW is a directory that does not exist yet. The query starts
    there as if it had run two batches.

    A column goes into the field of state with the same name; use --take STORE.FIELD=COLUMN if the
    names differ. For a table of an older --revision, the store's scripts migrate its rows. The
    command finds out the query's state by running its code on empty streams (--code), or from a
    checkpoint that the code made elsewhere (--like).
    """
    from statemigrate.cli.rewrite import print_seeding
    from statemigrate.commands.seed import seed as make_seeded

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


# `fork`: copies a query's checkpoint as it was after a committed batch.


@click.command(epilog="Example: statemigrate fork /data/checkpoints/orders /backup/orders-11-22")
@click.argument("old", callback=named_paths)
@click.argument("new", callback=named_paths)
@click.option(
    "--at-batch",
    type=click.IntRange(min=0),
    metavar="N",
    help="The batch to copy, if Spark still keeps it.  [default: the last committed one]",
)
@click.option("--new-id", is_flag=True, help="Give the new query an id of its own.")
@click.option(
    "--without-state",
    is_flag=True,
    help="Confirm that the query has no state, and so no folder `state`.",
)
@shared_options()
@click.pass_obj
def fork(settings: Settings, /, old: str, new: str, **given: Any) -> None:
    """Copy the checkpoint OLD, as it was after a committed batch, to NEW.

    Use the copy as a backup, for staging, or to try a change on real state: the query continues in
    NEW from that batch, as it would have in OLD. The command copies files and never decodes them.
    Both places are paths or URIs of any file system that Spark reaches. The command only reads OLD,
    and its query may be running.

    The copy keeps the query id, so sinks that remember the batches of a query, such as Delta's,
    treat both as the same query. If both continue and write to the same such sink, use --new-id.
    """
    from statemigrate.rewrite.fork import fork as fork_checkpoint

    with progress_bar(f"Copying {old}", shown=not settings.json) as progress:
        done = fork_checkpoint(old, new, **given, progress=progress)
    if settings.json:
        print_json(asdict(done))
        return
    for line in _lines(done):
        print_sentence(line)


def _lines(done: Fork) -> Iterator[str]:
    yield f"{done.new} has the state after batch {done.batch}"
    yield f"  {done.files:,} files, {done.bytes:,} bytes; query {done.query_id}"
    if done.uncommitted is not None:
        yield f"  batch {done.uncommitted}, which {done.old} has begun, is not in it"
    for each in done.left:
        yield f"  not carried over: {each}"
    yield "Next: start the query there; never two that write to one sink under one query id"
