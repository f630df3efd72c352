"""`demo`: shows a migration through a crash, and checks that nothing was lost."""

from __future__ import annotations

import shlex
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
    from statemigrate.demo.verdict.rewritten import RewriteFigures

_FOLDER = "statemigrate-demo"
"""Where a demonstration is kept unless it is said."""


@click.command(epilog="Example: statemigrate demo --events 30000 --keys 10000")
@click.option(
    "--events",
    type=int,
    help="Number of events.  [default: 120000, or 300000 with --engine embedded or paged]",
)
@click.option(
    "--keys",
    type=int,
    help="Number of keys among them.  [default: 40000, or 100000 with --engine embedded or paged]",
)
@click.option(
    "--partitions",
    type=int,
    help="Partitions of the state.  [default: 2, or 4 with --engine embedded or paged]",
)
@click.option("--seed", default=7, show_default=True, help="Another seed, other events.")
@click.option(
    "--keep",
    "--directory",
    "kept",
    metavar="[FOLDER]",
    is_flag=False,
    flag_value=_FOLDER,
    type=click.Path(path_type=Path),
    help="Leave checkpoint, scripts, sink and jobs in a new or empty folder, by default "
    f"{_FOLDER}, and say what to type there.",
)
@click.option(
    "--engine",
    type=click.Choice(["native", "paged", "embedded", "rewrite"]),
    default="native",
    show_default=True,
    help="Where the state lives: in Spark's own store, there with many keys in a page, or in the "
    "embedded engine, where it migrates live; or is rewritten.",
)
@click.option(
    "--master",
    default="local[*]",
    show_default=True,
    help="Spark to run on, such as spark://HOST:7077; not with --engine embedded.",
)
@shared_options()
@click.pass_obj
def demo(
    settings: Settings,
    events: int | None,
    keys: int | None,
    partitions: int | None,
    seed: int,
    kept: Path | None,
    engine: str,
    master: str,
) -> None:
    """Migrate the state of a stream through a crash, and check every key.

    A stream of auctions runs an old processor and is killed in the middle of a batch. A new one,
    with another format of state, continues from the same checkpoint. In the end every key is
    compared with a batch computation over all events.

    With --engine rewrite it is an aggregation of Spark's, whose new code has one more column, other
    keys and another state store, and continues from a checkpoint that `rewrite` has made.

    Needs Java 17 or newer; uses the example's own migration, whatever --migrations says. Exits
    with 1 on any difference.
    """
    options = _options(engine, events, keys, partitions, seed=seed, master=master)
    from statemigrate.demo.stage.places import DemoFolder
    from statemigrate.files.java import require_java

    require_java()
    root = kept or Path(tempfile.mkdtemp(prefix="statemigrate-demo-"))
    try:
        folder = DemoFolder.create(root, options)
        figures = _run(options, folder, settings)
    except KeyboardInterrupt:
        if kept is None:
            shutil.rmtree(root, ignore_errors=True)
        raise
    if figures.is_good:
        _leave(folder, root, settings, is_kept=kept is not None)
        return
    if not settings.json:
        console().print(f"All files are in {root}")
    raise click.exceptions.Exit(1)


def _leave(folder: DemoFolder, root: Path, settings: Settings, *, is_kept: bool) -> None:
    from statemigrate.demo.keeping import keep, next_commands

    if is_kept:
        keep(folder)
        lines = [f"Kept in {root}. Next:", f"  cd {shlex.quote(str(root))}"]
        lines += [f"  {command}" for command in next_commands(folder)]
    else:
        shutil.rmtree(root)
        lines = ["Nothing of it is left; --keep leaves checkpoint, scripts and sink to look at."]
    if not settings.json:
        for line in lines:
            console().print(line)


def _options(*values: Any, **others: Any) -> DemoOptions:
    from statemigrate.demo.stage.options import DemoOptions

    try:
        return DemoOptions.sized(*values, **others)
    except StatemigrateError as error:
        raise click.UsageError(str(error)) from error


def _run(options: DemoOptions, folder: DemoFolder, settings: Settings) -> Figures | RewriteFigures:
    from statemigrate.cli.views.demo import DemoView
    from statemigrate.demo.run import run_demo
    from statemigrate.demo.steps import Finished

    figures: Figures | RewriteFigures | None = None
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
