"""`retire` and `quarantine`: what a migration leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import (
    Settings,
    checkpoint_named,
    file_to_write,
    reading_options,
    require_values,
)
from statemigrate.cli.output import console, print_json, print_json_text, print_line, print_rows
from statemigrate.errors import HIDDEN, values_hidden
from statemigrate.quoting import visible

if TYPE_CHECKING:
    from statemigrate.commands.quarantine import Quarantined
    from statemigrate.commands.retire import Retirement


@click.command(epilog="Example: statemigrate retire /data/checkpoint")
@checkpoint_named
@reading_options
def retire(settings: Settings, /, checkpoint: str, **options: Any) -> None:
    """Drop the empty older families of a stopped query.

    The command reads the committed state again before it drops a family. A query does the same at
    its next start. On Spark's own state only the query can drop families, and the command shows
    those that it will drop. Exit code 1 if a family still has values.
    """
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.retire import retire as drop

    with spark_when_needed() as spark:
        found = drop(checkpoint, **settings.of_one(spark, **options))
    if settings.json:
        print_json(asdict(found))
    else:
        _print_retirement(found, settings.words(checkpoint))
    if found.kept:
        click.get_current_context().exit(1)


@click.command(epilog="Example: statemigrate quarantine auctions /data/checkpoint")
@click.argument("store")
@checkpoint_named
@click.option(
    "--output",
    "path",
    metavar="FILE",
    callback=file_to_write,
    help="Also write the values to a file of JSON lines.",
)
@reading_options
def quarantine(
    settings: Settings, /, store: str, *, checkpoint: str, path: str | None, **options: Any
) -> None:
    """List the values of STORE that a backfill could not migrate, and why.

    The command tries each of them with the current scripts. After you have corrected the scripts,
    the query's next start tries the values again, and so does `backfill` on a stopped query. Exit
    code 1 if any still fails.
    """
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.quarantine import quarantine as left_behind

    if path is not None:
        require_values("quarantine --output")
    failing = 0
    with spark_when_needed() as spark:
        found = left_behind(store, checkpoint, **settings.of_one(spark, **options))
        if path is not None:
            failing = _write(found, path)
        else:
            listed = list(found)
            failing = sum(each.cause is not None for each in listed)
            _print_quarantined(settings, listed)
    if failing:
        click.get_current_context().exit(1)


def _print_retirement(found: Retirement, words: str) -> None:
    for name in found.dropped:
        print_line(f"Dropped {visible(name)}: it was empty")
    for name in found.later:
        print_line(
            f"{visible(name)} is empty: the first batch after the query's next start drops it"
        )
    for name, values in found.kept.items():
        print_line(f"Kept {visible(name)}: it holds {values:,} values")
    if found.kept:
        print_line(f"Next: statemigrate status --checkpoint {words}")
    elif not (found.dropped or found.later):
        print_line("Nothing to drop: every store has one family")


def _write(found: Iterator[Quarantined], path: str) -> int:
    from statemigrate.files.documents import replacing
    from statemigrate.formats.json_values import json_text

    written = failing = 0
    with replacing(Path(path), private=True) as stream:
        for each in found:
            written += 1
            failing += each.cause is not None
            stream.write(f"{json_text(asdict(each))}\n".encode())
    console().print(f"Wrote {written:,} values to {path}")
    return failing


def _print_quarantined(settings: Settings, found: list[Quarantined]) -> None:
    from statemigrate.formats.json_values import json_text

    if settings.json:
        print_json_text(json_text([_described(each) for each in found], indent=2))
    elif not found:
        console().print("Nothing was left behind")
    else:
        print_rows(
            ("family", "key", "why"),
            [(each.family, _key(each), each.cause or "would migrate now") for each in found],
        )


def _described(each: Quarantined) -> dict[str, Any]:
    hidden = {"key": HIDDEN, "value": HIDDEN} if values_hidden() else {}
    return {**asdict(each), **hidden}


def _key(each: Quarantined) -> str:
    from statemigrate.formats.json_values import json_text

    return HIDDEN if values_hidden() else json_text(each.key)
