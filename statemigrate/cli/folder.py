"""`init` and `new`: the verbs that write scripts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from statemigrate.cli.options import Settings, shared_options
from statemigrate.cli.output import console, print_json

if TYPE_CHECKING:
    from statemigrate.formats import Format


@click.command(epilog="Example: statemigrate init")
@shared_options()
@click.pass_obj
def init(settings: Settings) -> None:
    """Make a folder for migration scripts.

    It holds script.py.mako, the template of new scripts, and versions/, where they go. A folder
    that is one already stays as it is.
    """
    from statemigrate.scripts import ScriptFolder

    folder = ScriptFolder.create(settings.migrations)
    if settings.json:
        print_json({"directory": str(folder.directory)})
    else:
        console().print(f"Migration scripts go to {folder.versions}")
        console().print("Next: statemigrate new STORE -m MESSAGE")


@click.command(epilog="Example: statemigrate new auctions -m 'split item and price'")
@click.argument("store")
@click.option("-m", "--message", required=True, help="What changes, in one line.")
@click.option(
    "--from",
    "old",
    metavar="FORMAT",
    help="Format of the first script's `old`: Spark DDL, or the path of an .avsc file.",
)
@click.option("--to", "new", metavar="FORMAT", help="Format to fill in as `new`, likewise.")
@click.option("--baseline", is_flag=True, help="Only record the format the state has today.")
@shared_options()
@click.pass_obj
def new(
    settings: Settings,
    store: str,
    message: str,
    old: str | None,
    new: str | None,
    baseline: bool,
) -> None:
    """Write a new migration script for STORE.

    It follows the store's newest script and takes its format as `old`; a store's first script
    starts the store's branch. The formats and `upgrade` that are still open are yours to write.
    """
    from statemigrate.scripts import ScriptFolder

    path = ScriptFolder(settings.migrations).new(
        store, message, old=_format(old), new=_format(new), baseline=baseline
    )
    steps = _next_steps(store, baseline, bool(new))
    if settings.json:
        print_json({"path": str(path), "store": store, "next": steps})
        return
    screen = console()
    screen.print(f"Wrote {path}")
    for step in steps:
        screen.print(f"Next: {step}")


def _format(text: str | None) -> Format | None:
    from statemigrate.formats import Avro, Struct

    if text is None:
        return None
    return Avro(Path(text)) if text.endswith(".avsc") else Struct(text)


def _next_steps(store: str, baseline: bool, has_new: bool) -> list[str]:
    formats = [] if has_new else ["write the format in `new`, and check `old`"]
    functions = [] if baseline else ["write `upgrade`, and `downgrade` if there is a way back"]
    return [*formats, *functions, f"statemigrate show {store}"]
