"""`fork`: copies a query's checkpoint as it was after a committed batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import Settings, named_paths, shared_options
from statemigrate.cli.output import print_json, print_sentence, progress_bar

if TYPE_CHECKING:
    from statemigrate.rewrite import Fork


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
    from statemigrate.rewrite import fork as fork_checkpoint

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
