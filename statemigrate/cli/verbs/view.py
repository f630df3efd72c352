"""`get` and `export`: the logical view of a checkpoint's stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from statemigrate.cli.checkpoints import checkpoint_option
from statemigrate.cli.options import (
    Settings,
    accept_edited_option,
    configuration,
    operator_option,
    require_values,
    shared_options,
    target_option,
)
from statemigrate.cli.output import console, print_json, print_json_text
from statemigrate.cli.progress import progress_bar


@click.command(epilog="Example: statemigrate get auctions 42 --checkpoint /data/checkpoint")
@click.argument("store")
@click.argument("key", nargs=-1, required=True)
@checkpoint_option
@target_option
@accept_edited_option
@operator_option
@shared_options()
@click.pass_obj
def get(
    settings: Settings,
    store: str,
    key: tuple[str, ...],
    *,
    checkpoint: str,
    targets: dict[str, str],
    accept_edited: tuple[str, ...],
) -> None:
    """Print what STORE holds under KEY, in the target format.

    KEY has one word for each column that the query groups by, and for map state one for each column
    of the map's own key; with fewer words, all keys that begin with them are printed. Exit code 1
    if there is none.
    """
    require_values("get")
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.view import find

    with spark_when_needed() as spark:
        found = find(
            store,
            checkpoint,
            key,
            migrations=settings.migrations,
            targets=targets,
            accept_edited=accept_edited,
            operator=settings.operator,
            stores=configuration().stores,
            spark=spark,
        )
    _print_found(settings, found.entries, whole=found.is_one)
    if not found.entries:
        console(stderr=True).print(f"Store {store} has no value under {' '.join(key)}.")
        click.get_current_context().exit(1)


@click.command(
    epilog="Example: statemigrate export auctions --checkpoint /data/cp --output all.parquet"
)
@click.argument("store")
@checkpoint_option
@click.option(
    "--output",
    "path",
    required=True,
    metavar="FILE",
    help="File ending in .parquet, .avro or .jsonl.",
)
@target_option
@accept_edited_option
@operator_option
@shared_options()
@click.pass_obj
def export(
    settings: Settings,
    store: str,
    *,
    checkpoint: str,
    path: str,
    targets: dict[str, str],
    accept_edited: tuple[str, ...],
) -> None:
    """Write every key of STORE with its value, in the target format, to one file.

    Whatever is migrated so far; the query may be running. Each record has a `key` and a `value`.
    """
    require_values("export")
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.view import export as write

    bar = progress_bar("keys", shown=not settings.json)
    with spark_when_needed() as spark, bar as move:
        done = write(
            store,
            checkpoint,
            path,
            migrations=settings.migrations,
            targets=targets,
            accept_edited=accept_edited,
            operator=settings.operator,
            stores=configuration().stores,
            spark=spark,
            progress=move,
        )
    if settings.json:
        print_json(asdict(done))
    else:
        keys, batch = done.keys, done.batch
        console().print(f"Wrote {keys:,} keys of {store}, as of batch {batch}, to {path}")


def _print_found(settings: Settings, found: Sequence[tuple[Any, Any]], *, whole: bool) -> None:
    from statemigrate.formats.json_values import json_text

    if whole:
        for _, value in found:
            print_json_text(json_text(value, indent=2))
    elif settings.json:
        print_json_text(json_text([{"key": key, "value": value} for key, value in found], indent=2))
    else:
        for key, value in found:
            print_json_text(json_text({"key": key, "value": value}))
