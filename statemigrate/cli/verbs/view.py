"""`get` and `export`: the logical view of a checkpoint's stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import (
    Settings,
    checkpoint_option,
    operator_option,
    require_values,
    shared_options,
    target_option,
)
from statemigrate.cli.output import console, print_json, print_json_text
from statemigrate.cli.progress import progress_bar

if TYPE_CHECKING:
    from statemigrate.state.reader import StateReader


@click.command(epilog="Example: statemigrate get auctions 42 --checkpoint /data/checkpoint")
@click.argument("store")
@click.argument("key", nargs=-1, required=True)
@checkpoint_option
@target_option
@operator_option
@shared_options()
@click.pass_obj
def get(
    settings: Settings,
    store: str,
    key: tuple[str, ...],
    checkpoint: str,
    targets: dict[str, str],
) -> None:
    """Print what STORE holds under KEY, in the target format.

    KEY has one word for each column that the query groups by, and for map state one for each column
    of the map's own key; with fewer words, all keys that begin with them are printed. Exit code 1
    if there is none.
    """
    require_values("get")
    from statemigrate.state.keys import key_from_texts

    with opened(settings, store, checkpoint, targets) as reader:
        wanted = key_from_texts(reader.key_type(store), key)
        names = reader.key_columns(store)
        found = [(dict(zip(names, k, strict=True)), v) for k, v in reader.entries(store, wanted)]
        whole = len(wanted) == len(names)
    _print_found(settings, found, whole=whole)
    if not found:
        console(stderr=True).print(f"Store {store} has no value under {' '.join(key)}.")
        click.get_current_context().exit(1)


@click.command(
    epilog="Example: statemigrate export auctions --checkpoint /data/cp --to all.parquet"
)
@click.argument("store")
@checkpoint_option
@click.option(
    "--to", "path", required=True, metavar="FILE", help="File ending in .parquet, .avro or .jsonl."
)
@target_option
@operator_option
@shared_options()
@click.pass_obj
def export(
    settings: Settings, store: str, checkpoint: str, path: str, targets: dict[str, str]
) -> None:
    """Write every key of STORE with its value, in the target format, to one file.

    Whatever is migrated so far; the query may be running. Each record has a `key` and a `value`.
    """
    require_values("export")
    from statemigrate.commands.export import check_target
    from statemigrate.commands.export import export as write

    # Said before Spark takes its time to start.
    check_target(path)
    with (
        opened(settings, store, checkpoint, targets) as reader,
        progress_bar("keys", shown=not settings.json) as move,
    ):
        keys = write(reader, store, path, tick=lambda done: move(done, None))
        batch = reader.batch
    if settings.json:
        print_json({"store": store, "keys": keys, "batch": batch, "path": path})
    else:
        console().print(f"Wrote {keys:,} keys of {store}, as of batch {batch}, to {path}")


@contextmanager
def opened(
    settings: Settings, store: str, checkpoint: str, targets: dict[str, str]
) -> Iterator[StateReader]:
    """A reader of the checkpoint, with a Spark session where that is needed."""
    from statemigrate.cli.session import session_for
    from statemigrate.state.opening import require_store
    from statemigrate.state.reader import StateReader

    require_store(checkpoint, store)
    with (
        session_for(checkpoint) as spark,
        StateReader(
            checkpoint,
            migrations=settings.scripts(),
            targets=targets,
            operator=settings.operator,
            spark=spark,
        ) as reader,
    ):
        yield reader


def _print_found(settings: Settings, found: list[tuple[Any, Any]], *, whole: bool) -> None:
    from statemigrate.formats.json_values import json_text

    if whole:
        for _, value in found:
            print_json_text(json_text(value, indent=2))
    elif settings.json:
        print_json_text(json_text([{"key": key, "value": value} for key, value in found], indent=2))
    else:
        for key, value in found:
            print_json_text(json_text({"key": key, "value": value}))
