"""`backfill --prepare`: makes room in an existing query's checkpoint for the backfill's source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import Settings
from statemigrate.cli.output import console, print_json
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from statemigrate.native.adoption import FileChange, Preparation


_CHECKSUMS = {
    "removed": "; remove its checksum file",
    "restored": "; restore its checksum file",
    "none": "",
}


def prepare(
    settings: Settings,
    checkpoint: str,
    *,
    apply: bool,
    undo: bool,
    declared: tuple[str, ...],
    stopped: bool,
    wait: float,
) -> None:
    """Add the backfill's source to the checkpoint, or remove it again, and print what was done."""
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


def _done(checkpoint: str, undo: bool, declared: tuple[str, ...], **options: Any) -> Preparation:
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.adopt import adopt as adopt_query
    from statemigrate.commands.adopt import undo_adoption

    if not undo:
        return adopt_query(checkpoint, **options)
    with spark_when_needed() as spark:
        return undo_adoption(checkpoint, declared=declared, spark=spark, **options)


def _lines(done: Preparation) -> Iterator[str]:
    if done.state == "nothing needed":
        yield f"Nothing to do: the offset log of {done.checkpoint} keeps its sources by name"
        yield (
            "Next: start the query with stateful or with_backfill; without them only while "
            f"`statemigrate backfill {argument(done.checkpoint)} --prepare --undo` does not refuse "
            "that"
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
    if done.state == "prepared":
        yield (
            "An older release, which has no backfill source, starts again only after "
            f"`statemigrate backfill {argument(done.checkpoint)} --prepare --undo --apply`; once "
            "values are migrated, after "
            f"`statemigrate rollback {argument(done.checkpoint)} --to base --undo`"
        )


def _next(done: Preparation) -> str:
    if not done.uncommitted:
        return _NEXT[done.state].format(argument(done.checkpoint))
    undo = " --undo" if done.state == "would undo" else ""
    return (
        "stop the query, and wait until its process has ended; then "
        f"`statemigrate backfill {argument(done.checkpoint)} --prepare{undo} --apply "
        "--stopped`, as its newest batch is not committed"
    )


def _change(file: FileChange) -> str:
    lines = [f"add the line {line}" for line in file.added]
    lines += [f"remove the last line {line}" for line in file.removed]
    return ", ".join(lines) + _CHECKSUMS[file.checksum]


_HEADS = {
    "would prepare": "Dry run: would make room for the backfill source in",
    "prepared": "Made room for the backfill source in",
    "would relocate": "Dry run: would make it name its own files, since it was moved to",
    "relocated": "Made it name its own files, since it was moved to",
    "would undo": "Dry run: would take the backfill source out of",
    "undone": "Took the backfill source out of",
}
_NEXT = {
    "would prepare": "stop the query, then `statemigrate backfill {} --prepare --apply`",
    "prepared": "start the query with its operator declared by stateful, or with with_backfill "
    "around its stream",
    "would relocate": "stop the query, then `statemigrate backfill {} --prepare --apply`",
    "relocated": "start the query here; never together with one on the place it was copied from",
    "would undo": "stop the query, then `statemigrate backfill {} --prepare --undo --apply`",
    "undone": "start the query without the backfill source",
}
