"""`adopt`: makes room in an existing query's checkpoint for the backfill's own source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import (
    Settings,
    apply_option,
    checkpoint_named,
    shared_options,
    stopped_option,
    wait_option,
)
from statemigrate.cli.output import console, print_json
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from statemigrate.native.adoption import Adoption, FileChange


_CHECKSUMS = {
    "removed": "; remove its checksum file",
    "restored": "; restore its checksum file",
    "none": "",
}


@click.command(epilog="Example: statemigrate adopt /data/checkpoints/auctions --apply")
@checkpoint_named
@apply_option
@click.option("--undo", is_flag=True, help="Remove the control source again.")
@click.option(
    "--declared",
    multiple=True,
    metavar="FAMILY",
    help="With --undo: a newer family that the next code declares; may be repeated.",
)
@stopped_option
@wait_option("With --apply: ")
@shared_options()
@click.pass_obj
def adopt(
    settings: Settings,
    checkpoint: str,
    *,
    apply: bool,
    undo: bool,
    declared: tuple[str, ...],
    stopped: bool,
    wait: float,
) -> None:
    """Add the control source to the checkpoint of an existing query.

    The backfill of a query on Spark's own state has its own source, which is the last source of the
    query. A query that has had it from the first start does not need this command, nor does one
    with named sources. For any other query, the command adds the source to the checkpoint's offset
    log, and keeps a copy of what it changes. The next start must have the control source.

    Spark writes absolute paths into a checkpoint. If the checkpoint was moved or copied here, the
    command changes them to its own paths. Otherwise the query would not start, or would read
    another checkpoint's files.

    --undo fails while a family other than its store's oldest has values: code without the control
    source usually declares only the oldest, and Spark would forget the others. Migrate the values
    back with `statemigrate rollback` first.

    Stop the query first. Spark keeps no lock, and a query that waits for input looks like a stopped
    one. Without --apply the command changes nothing.
    """
    if declared and not undo:
        raise click.UsageError("--declared is for --undo.")
    if apply and wait > 1 and not settings.json:
        console(stderr=True).print(f"Watching {checkpoint} for {wait:g} seconds")
    done = _done(checkpoint, undo, declared, apply=apply, stopped=stopped, wait=wait)
    if settings.json:
        print_json(asdict(done))
        return
    screen = console()
    for line in _lines(done):
        screen.print(line)


def _done(checkpoint: str, undo: bool, declared: tuple[str, ...], **options: Any) -> Adoption:
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.adopt import adopt as adopt_query
    from statemigrate.commands.adopt import undo_adoption

    if not undo:
        return adopt_query(checkpoint, **options)
    with spark_when_needed() as spark:
        return undo_adoption(checkpoint, declared=declared, spark=spark, **options)


def _lines(done: Adoption) -> Iterator[str]:
    if done.state == "nothing needed":
        yield f"Nothing to do: the offset log of {done.checkpoint} keeps its sources by name"
        yield (
            "Next: start the query with stateful or with_backfill; without them only while "
            f"`statemigrate adopt {argument(done.checkpoint)} --undo` does not refuse that"
        )
        return
    yield f"{_HEADS[done.state]} {done.checkpoint}"
    if done.state not in ("would relocate", "relocated"):
        yield f"  sources without it: {done.sources}"
    for path in done.relocated:
        yield f"  {path}: name this place instead of {', '.join(done.moved_from)}"
    for file in done.files:
        yield f"  {file.path}: {_change(file)}"
    if done.moved is not None:
        yield f"  {done.moved}: move it to the originals"
    yield f"  originals are kept in {done.backup}"
    yield f"Next: {_next(done)}"
    if done.state == "adopted":
        yield (
            "An older release, which has no control source, starts again only after "
            f"`statemigrate adopt {argument(done.checkpoint)} --undo --apply`; once values are "
            f"migrated, after `statemigrate rollback {argument(done.checkpoint)} --to base --undo`"
        )


def _next(done: Adoption) -> str:
    if not done.uncommitted:
        return _NEXT[done.state].format(argument(done.checkpoint))
    undo = " --undo" if done.state == "would undo" else ""
    return (
        "stop the query, and wait until its process has ended; then "
        f"`statemigrate adopt {argument(done.checkpoint)}{undo} --apply --stopped`, as its "
        "newest batch is "
        "not committed"
    )


def _change(file: FileChange) -> str:
    lines = [f"add the line {line}" for line in file.added]
    lines += [f"remove the last line {line}" for line in file.removed]
    return ", ".join(lines) + _CHECKSUMS[file.checksum]


_HEADS = {
    "would adopt": "Dry run: would make room for the control source in",
    "adopted": "Made room for the control source in",
    "would relocate": "Dry run: would make it name its own files, since it was moved to",
    "relocated": "Made it name its own files, since it was moved to",
    "would undo": "Dry run: would take the control source out of",
    "undone": "Took the control source out of",
}
_NEXT = {
    "would adopt": "stop the query, then `statemigrate adopt {} --apply`",
    "adopted": "start the query with its operator declared by stateful, or with with_backfill "
    "around its stream",
    "would relocate": "stop the query, then `statemigrate adopt {} --apply`",
    "relocated": "start the query here; never together with one on the place it was copied from",
    "would undo": "stop the query, then `statemigrate adopt {} --undo --apply`",
    "undone": "start the query without the control source",
}
