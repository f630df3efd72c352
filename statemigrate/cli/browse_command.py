"""`browse`: the state of a checkpoint in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from statemigrate.cli.options import (
    Settings,
    checkpoint_named,
    configuration,
    configured_mask,
    file_to_write,
    operator_option,
    shared_options,
    target_option,
)
from statemigrate.cli.output import print_json, print_line


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
