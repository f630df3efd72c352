"""`get`, `export`, `sql`, `diff` and `browse`: the verbs that show state and change nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import (
    Settings,
    all_option,
    checkpoint_and_key,
    checkpoint_named,
    configuration,
    configured_mask,
    file_to_write,
    match_option,
    named_by,
    named_paths,
    operator_option,
    reading_options,
    require_values,
    shared_options,
    target_option,
)
from statemigrate.cli.output import (
    cell_text,
    console,
    print_json,
    print_json_text,
    print_line,
    print_rows,
    progress_bar,
)
from statemigrate.errors import rows_hidden

if TYPE_CHECKING:
    from statemigrate.commands.diff import StoreDiff
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


@click.command(
    epilog="""Example: statemigrate sql 'SELECT count(*) FROM orders' /data/checkpoint"""
)
@click.argument("query")
@checkpoint_named
@all_option
@match_option
@click.option("--batch", type=int, metavar="N", help="Batch to read.  [default: the newest]")
@click.option(
    "--on-error",
    type=click.Choice(("raise", "null")),
    default="raise",
    help="What to do with a value that does not migrate: stop, or show nulls and an `_error`.",
)
@target_option
@operator_option
@shared_options()
@click.pass_obj
def sql(
    settings: Settings,
    /,
    query: str,
    *,
    checkpoint: str,
    every: bool,
    match: str | None,
    **options: Any,
) -> None:
    """Print the rows that QUERY, one SELECT, gives over the stores of a checkpoint.

    Each store is a table of its name, with the columns of its keys and values and with
    `_partition`, `_revision`, `_expires_at` and `_batch`. A name with a hyphen needs double quotes,
    as in `"aggregation-0"`. The query may be running. DuckDB answers; it opens no file, and nothing
    is written. It comes with `pip install 'statemigrate[sql]'`.

    --all opens every checkpoint that has a name in pyproject.toml, each a schema of its name, as in
    `SELECT * FROM orders."aggregation-0"`.
    """
    require_values("sql")
    if every and (checkpoint or options["batch"] is not None or settings.operator is not None):
        raise click.UsageError("--all takes checkpoints from pyproject.toml, at the newest batch.")
    if match and not every:
        raise click.UsageError("--match is for --all.")
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.sql import sql as selected

    known = configuration()
    with spark_when_needed() as spark:
        reading = settings.of_one(spark, stores=known.stores, mask=configured_mask(), **options)
        if every:
            found = selected(query, checkpoints=named_by(match), **reading)
        else:
            found = selected(query, checkpoint, **reading)
    if settings.json:
        from statemigrate.formats import json_text

        print_json_text(json_text(found.to_json(), indent=2))
        return
    print_rows(found.columns, ([cell_text(each) for each in row] for row in found.rows))


@click.command(epilog="Example: statemigrate browse /data/checkpoint")
@checkpoint_named
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port.  [default: a free one]"
)
@click.option(
    "--open/--no-open",
    "open_page",
    default=True,
    help="Whether to open the page in your browser.  [default: open]",
)
@click.option(
    "--export",
    metavar="FILE",
    callback=file_to_write,
    help="Write one HTML page with everything to FILE, and serve nothing.",
)
@target_option
@operator_option
@shared_options()
@click.pass_obj
def browse(
    settings: Settings,
    /,
    *,
    checkpoint: str,
    port: int,
    open_page: bool,
    export: str | None,
    **options: Any,
) -> None:
    """Show the state of a checkpoint in a browser on this machine.

    The pages have the stores with their sizes, keys by partition, rows, the life of a key, what
    changed between two batches, and what is migrated. The server listens on this machine alone, and
    its address has a random token. It only reads, and the query may be running. Ctrl-C ends it.
    """
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.browse import browse as serve
    from statemigrate.commands.browse import browse_page
    from statemigrate.files import replacing

    known = configuration()
    with spark_when_needed() as spark:
        reading = settings.of_one(spark, stores=known.stores, mask=configured_mask(), **options)
        if export is not None:
            page = browse_page(checkpoint, **reading)
            with replacing(Path(export), private=True) as stream:
                stream.write(page.encode("utf-8", "replace"))
            print_json({"path": export}) if settings.json else print_line(f"Wrote {export}")
            return
        with serve(checkpoint, port=port, open_page=open_page, **reading) as server:
            if settings.json:
                print_json({"url": server.url})
            else:
                print_line(f"{server.url}\nCtrl-C ends it.")
            try:
                server.wait()
            except KeyboardInterrupt:
                return


_MOST = 200
"""Rows of a store that are printed for people."""


@click.command(epilog="Example: statemigrate diff /data/checkpoint --from 8100 --to 8123")
@click.argument("places", nargs=-1, required=True, metavar="OLD [NEW]", callback=named_paths)
@click.option("--store", metavar="STORE", help="The store to compare.  [default: all]")
@click.option(
    "--from", "before", type=int, metavar="N", help="Batch before.  [default: the one before]"
)
@click.option("--to", "after", type=int, metavar="M", help="Batch after.  [default: the newest]")
@click.option(
    "--key", metavar="WORD", multiple=True, help="Beginning of a key; once for each column."
)
@target_option
@operator_option
@shared_options()
@click.pass_obj
def diff(
    settings: Settings,
    /,
    places: tuple[str, ...],
    *,
    key: tuple[str, ...],
    store: str | None,
    **options: Any,
) -> None:
    """Print what differs in state between two batches of OLD, or between OLD and NEW.

    A row is added, removed or changed; of a changed row each column that differs shows both values.
    Only what has changed is read where files tell it. The query may be running. Exit code 1 if
    something differs.
    """
    if len(places) > 2:
        raise click.UsageError("diff takes one checkpoint, or an old one and a new one.")
    if key and store is None:
        raise click.UsageError("--key needs the store that it is a key of: --store STORE.")
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.diff import diff as compare
    from statemigrate.formats import json_text

    known = configuration()
    with spark_when_needed() as spark:
        found = compare(
            *places,
            store=store,
            key=key,
            most=None if settings.json else _MOST,
            **settings.of_one(spark, stores=known.stores, mask=configured_mask(), **options),
        )
    if settings.json:
        print_json_text(json_text(found.to_json(), indent=2))
    else:
        print_line(f"Batch {found.before:,} against batch {found.after:,}")
        for each in found.stores:
            _print_store(each)
    if not found.is_same:
        click.get_current_context().exit(1)


def _print_store(found: StoreDiff) -> None:
    if found.only_in is not None:
        print_line(f"{found.store}: only {found.only_in}")
        return
    counts = found.counts
    text = ", ".join(f"{count:,} {change}" for change, count in counts.items())
    print_line(f"{found.store}: {text}")
    if rows_hidden() or found.table is None or not sum(counts.values()):
        return
    rows = found.table.to_pylist()
    print_rows(("change", *found.key, *found.value), (_cells(found, row) for row in rows))
    if left := sum(counts.values()) - found.table.num_rows:
        print_line(f"... and {left:,} more; --json prints all")


def _cells(found: StoreDiff, row: dict[str, Any]) -> list[str]:
    before = row["_before"] or {}
    cells = [str(row["_change"]), *(cell_text(row[name]) for name in found.key)]
    for name in found.value:
        old, new = before.get(name), row[name]
        match row["_change"]:
            case "removed":
                cells.append(cell_text(old))
            case "changed" if repr(old) != repr(new):
                cells.append(f"{cell_text(old)} -> {cell_text(new)}")
            case _:
                cells.append(cell_text(new))
    return cells
