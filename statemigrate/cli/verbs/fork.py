"""`fork`: copies a query's checkpoint as it was after a committed batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.checkpoints import places_named
from statemigrate.cli.options import Settings, shared_options
from statemigrate.cli.output import print_json, print_sentence
from statemigrate.cli.progress import progress_bar

if TYPE_CHECKING:
    from statemigrate.rewrite.forking.fork import Fork


@click.command(epilog="Example: statemigrate fork /data/checkpoints/orders /backup/orders-11-22")
@click.argument("old", callback=places_named)
@click.argument("new", callback=places_named)
@click.option(
    "--at-batch",
    type=click.IntRange(min=0),
    metavar="N",
    help="The batch to go back to, if Spark still keeps it; the last committed one otherwise.",
)
@click.option("--new-id", is_flag=True, help="Give the new query an id of its own.")
@click.option(
    "--without-state",
    is_flag=True,
    help="The query keeps no state: there is no folder state to copy.",
)
@shared_options()
@click.pass_obj
def fork(settings: Settings, /, old: str, new: str, **given: Any) -> None:
    """Copy the checkpoint OLD, as it was after a committed batch, to NEW.

    For a backup, for staging, or for trying a change on real state: the query goes on in NEW from
    that batch, as it would have in OLD. Files are copied and never decoded. Both places are paths
    or URIs of any file system that Spark reaches; OLD is only read and may be of a running query.

    The query id is kept, so that sinks that remember batches of a query, like Delta's, take NEW for
    the same query. Where both go on and write to the same such sink, use --new-id.
    """
    from statemigrate.commands.rewriting.fork import fork as fork_checkpoint

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
