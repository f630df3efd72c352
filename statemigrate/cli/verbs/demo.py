"""`demo`: shows a migration through a crash, and checks that nothing was lost."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import Settings, shared_options
from statemigrate.cli.output import console, print_json
from statemigrate.errors import StatemigrateError

if TYPE_CHECKING:
    from statemigrate.demo.stage.options import DemoOptions
    from statemigrate.demo.stage.places import DemoFolder
    from statemigrate.demo.verdict.figures import Figures


@click.command(epilog="Example: statemigrate demo --events 30000 --keys 10000")
@click.option("--events", default=300_000, show_default=True, help="Number of events.")
@click.option("--keys", default=100_000, show_default=True, help="Number of keys among them.")
@click.option("--partitions", default=4, show_default=True, help="Partitions of the state.")
@click.option("--seed", default=7, show_default=True, help="Another seed, other events.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    help="New or empty directory to use, and to keep.  [default: a temporary one]",
)
@click.option(
    "--engine",
    type=click.Choice(["embedded", "native"]),
    default="embedded",
    show_default=True,
    help="Where the state lives: in the embedded engine or in Spark's own store.",
)
@click.option(
    "--master",
    default="local[*]",
    show_default=True,
    help="Spark to run on, such as spark://HOST:7077; a cluster needs --engine native.",
)
@shared_options()
@click.pass_obj
def demo(
    settings: Settings,
    events: int,
    keys: int,
    partitions: int,
    seed: int,
    directory: Path | None,
    engine: str,
    master: str,
) -> None:
    """Migrate the state of a stream through a crash, and check every key.

    A stream of auctions runs an old processor and is killed in the middle of a batch. A new one,
    with another format of state, continues from the same checkpoint. In the end every key is
    compared with a batch computation over all events.

    Needs Java 17 or newer; uses the example's own migration, whatever --migrations says. Exits
    with 1 on any difference.
    """
    options = _options(events, keys, partitions, seed, engine, master)
    from statemigrate.demo.stage.places import DemoFolder
    from statemigrate.files.java import require_java

    require_java()
    root = directory or Path(tempfile.mkdtemp(prefix="statemigrate-demo-"))
    try:
        figures = _run(options, DemoFolder.create(root, options), settings)
    except KeyboardInterrupt:
        if directory is None:
            shutil.rmtree(root, ignore_errors=True)
        raise
    if directory is None and figures.is_good:
        shutil.rmtree(root)
    elif not settings.json:
        console().print(f"All files are in {root}")
    if not figures.is_good:
        raise click.exceptions.Exit(1)


def _options(*values: Any) -> DemoOptions:
    from statemigrate.demo.stage.options import DemoOptions

    try:
        return DemoOptions(*values)
    except StatemigrateError as error:
        raise click.UsageError(str(error)) from error


def _run(options: DemoOptions, folder: DemoFolder, settings: Settings) -> Figures:
    from statemigrate.cli.views.demo import DemoView
    from statemigrate.demo.run import run_demo
    from statemigrate.demo.steps import Finished

    figures: Figures | None = None
    view = DemoView(console(), quiet=settings.json)
    # Closing the steps ends their processes, whatever ends the loop.
    with view, closing(run_demo(options, folder)) as steps:
        for step in steps:
            view.show(step)
            if isinstance(step, Finished):
                figures = step.figures
    assert figures is not None  # noqa: S101 - the last step has them, or an error was raised
    if settings.json:
        print_json(figures.to_json())
    return figures
