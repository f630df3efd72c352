"""`diff`: what differs in state between two batches, or between two checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import (
    Settings,
    configuration,
    configured_mask,
    named_paths,
    operator_option,
    shared_options,
    target_option,
)
from statemigrate.cli.output import cell_text, print_json_text, print_line, print_rows
from statemigrate.errors import rows_hidden

if TYPE_CHECKING:
    from statemigrate.commands.diff import StoreDiff

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
