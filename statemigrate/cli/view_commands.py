"""`get` and `export`: the logical view of a checkpoint's stores."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import (
    Settings,
    checkpoint_and_key,
    checkpoint_named,
    configuration,
    configured_mask,
    reading_options,
    require_values,
)
from statemigrate.cli.output import console, print_json, print_json_text, print_rows, progress_bar

if TYPE_CHECKING:
    from statemigrate.commands.view import Life


@click.command(epilog="Example: statemigrate get auctions /data/checkpoint 42")
@click.argument("store")
@checkpoint_and_key
@click.option(
    "--batches", is_flag=True, help="Print each change of the value over the batches still there."
)
@reading_options
def get(
    settings: Settings,
    /,
    store: str,
    key: tuple[str, ...],
    *,
    checkpoint: str,
    batches: bool,
    **options: Any,
) -> None:
    """Print the value of KEY in STORE, in the target's format.

    KEY has one word for each column that the query groups by, and for map state one for each column
    of the map's own key. With fewer words, the command prints all keys that begin with them. A key
    as a dry run prints it, a list in JSON, is one word. Omit CHECKPOINT if an option, a variable or
    the configuration names one. Exit code 1 if there is no such key.
    """
    require_values("get")
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.view import find, find_life

    known = {"stores": configuration().stores, "mask": configured_mask()}
    if batches:
        options.pop("accept_edited")
        with spark_when_needed() as spark:
            life = find_life(store, checkpoint, key, **settings.of_one(spark, **known, **options))
        _print_life(settings, life)
        if not life.table.num_rows:
            _exit_without(store, key)
        return
    with spark_when_needed() as spark:
        found = find(store, checkpoint, key, **settings.of_one(spark, **known, **options))
    _print_found(settings, found.entries, whole=found.is_one)
    if not found.entries:
        _exit_without(store, key)


@click.command(epilog="Example: statemigrate export auctions /data/cp --output all.parquet")
@click.argument("store")
@checkpoint_named
@click.option(
    "--output",
    "path",
    required=True,
    metavar="FILE",
    help="File ending in .parquet, .avro or .jsonl; - for lines of JSON on standard output.",
)
@reading_options
def export(
    settings: Settings, /, store: str, *, checkpoint: str, path: str, **options: Any
) -> None:
    """Write every key of STORE with its value, in the target's format, to one file.

    The values are in that format even if they have not migrated yet. The query may be running. Each
    record has a `key` and a `value`. With `--output -` the command reads everything and then writes
    to standard output.
    """
    require_values("export")
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.view import export as write

    bar = progress_bar("keys", shown=not settings.json)
    is_output = path == "-"
    to: Any = sys.stdout.buffer if is_output else path
    with spark_when_needed() as spark, bar as move:
        done = write(
            store,
            checkpoint,
            to,
            progress=move,
            **settings.of_one(
                spark, stores=configuration().stores, mask=configured_mask(), **options
            ),
        )
    if settings.json:
        print_json(asdict(done), stderr=is_output)
    else:
        keys, batch = done.keys, done.batch
        place = "standard output" if is_output else path
        text = f"Wrote {keys:,} keys of {store}, as of batch {batch}, to {place}"
        console(stderr=is_output).print(text)


def _exit_without(store: str, key: Sequence[str]) -> None:
    console(stderr=True).print(f"Store {store} has no value under {' '.join(key)}.")
    click.get_current_context().exit(1)


def _print_life(settings: Settings, life: Life) -> None:
    from statemigrate.formats import json_text

    if settings.json:
        print_json_text(json_text(life.to_json(), indent=2))
        return
    rows = [
        (
            f"{each['batch']:,}",
            each["change"],
            json_text(each["key"]),
            "" if each["value"] is None else json_text(each["value"]),
            each["revision"] or "",
        )
        for each in life.changes()
    ]
    if rows:
        print_rows(("batch", "change", "key", "value", "revision"), rows)


def _print_found(settings: Settings, found: Sequence[tuple[Any, Any]], *, whole: bool) -> None:
    from statemigrate.formats import json_text

    if whole:
        for _, value in found:
            print_json_text(json_text(value, indent=2))
    elif settings.json:
        print_json_text(json_text([{"key": key, "value": value} for key, value in found], indent=2))
    else:
        for key, value in found:
            print_json_text(json_text({"key": key, "value": value}))
