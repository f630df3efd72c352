"""How `demo` looks: acts, a line a batch, a bar where there is a terminal, and the verdict."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.table import Table

from statemigrate.cli.options import Settings, shared_options
from statemigrate.cli.output import console, print_json
from statemigrate.demo import (
    ActBegun,
    BatchDone,
    BatchOutcome,
    Figures,
    Finished,
    KeyComparison,
    Killed,
    PlainBatchDone,
    Previewed,
    PreviewedChange,
    PreviewFigures,
    Refused,
    RewriteFigures,
    RewritingFigures,
    Rewritten,
    Step,
)
from statemigrate.errors import StatemigrateError

if TYPE_CHECKING:
    from statemigrate.demo import DemoFolder, DemoOptions


# How `demo --engine rewrite` looks, where it differs from the others.


PLAIN_COLUMNS = ("batch", "events", "batch ms")
WIDTH = 11


def plain_line(batch: BatchOutcome) -> str:
    """A batch of a query that does not migrate."""
    cells = (f"{batch.number:,}", f"{batch.rows:,}", f"{batch.milliseconds:,.0f}")
    return "".join(cell.rjust(WIDTH) for cell in cells)


def print_refused(screen: Console, error: StatemigrateError) -> None:
    """Why a rewrite was refused."""
    screen.print(f"statemigrate rewrite: {error.headline}", style="yellow", soft_wrap=False)
    screen.print(f"Next: {error.next_action}", soft_wrap=False)


def rewritten_table(figures: RewritingFigures) -> Table:
    """What became of the rows of state."""
    table = Table("rows of state")
    for column in ("read", "written", "merged", "dropped", "by partition", "seconds"):
        table.add_column(column, justify="right")
    counts = (figures.read, figures.written, figures.merged, figures.dropped)
    table.add_row(
        "aggregation-0",
        *(f"{each:,}" for each in counts),
        " ".join(f"{each:,}" for each in figures.partitions),
        f"{figures.seconds:,.1f}",
    )
    return table


def rewrite_summary(figures: RewriteFigures) -> list[str]:
    """The lines under the verdict."""
    found = figures.rewriting
    verified = f"{len(found.problems)} problems" if found.problems else "no difference"
    return [
        f"Killed in batch {figures.crash.batch}; the same code began again with batch "
        f"{figures.rerun_batch} and ended with {figures.last_batch}; the new code went on with "
        f"{figures.first_batch}.",
        f"Rows of state: {found.read:,} read = {found.written:,} written + {found.merged:,} merged "
        f"+ {found.dropped:,} dropped; verify found {verified}.",
        f"Batch time, median: {figures.before.with_backfill:,.0f} ms before the rewrite, "
        f"{figures.after.with_backfill:,.0f} ms after it.",
        "Seconds: " + ", ".join(f"{name} {value}" for name, value in figures.seconds.items()) + ".",
    ]


# How `demo --engine preview` looks, where it differs from the others.


def print_previewed(screen: Console, change: PreviewedChange) -> None:
    """What differs between the new code and the old one."""
    table = Table(f"over {len(change.batches)} batches")
    for column in ("rows added", "missing", "changed"):
        table.add_column(column, justify="right")
    table.add_column("fields")
    for each in change.totals:
        counts = (f"{each[name]:,}" for name in ("added", "missing", "changed"))
        fields = ", ".join(f"{name} {count:,}" for name, count in each["fields"].items())
        table.add_row(each["store"], *counts, fields)
    screen.print(table)
    if change.example is not None:
        before, after = change.example["before"], change.example["after"]
        (entity,) = change.example["key"].values()
        differing = [name for name in before if before[name] != after.get(name)]
        cells = ", ".join(f"{name} {before[name]:,} -> {after[name]:,}" for name in differing)
        screen.print(f"For example {entity}: {cells}", soft_wrap=False)
    for text in change.unexpected:
        screen.print(f"not expected: {text}", style="bold red", soft_wrap=False)
    if not change.unexpected:
        screen.print("Nothing differs.", style="green")


def print_preview_verdict(screen: Console, figures: PreviewFigures) -> None:
    """Whether the fault was found, and nothing else."""
    seconds = ", ".join(f"{name} {value}" for name, value in figures.seconds.items())
    screen.print(f"Seconds: {seconds}.")
    screen.print()
    if figures.is_good:
        text = (
            "The fault was found by its fields before it counted, the corrected code makes no "
            "difference, and the checkpoint in production is as it was."
        )
        screen.print(text, style="bold green", soft_wrap=False)
    else:
        screen.print("The outcome is not what it must be.", style="bold red")


# Eighty columns of a terminal hold them.
_COLUMNS = ("batch", "events", "old left", "by touch", "backfilled", "batch ms", "ms without")


class DemoView:
    """Draws the steps as they come; as a context manager it gives the terminal back."""

    def __init__(self, screen: Console, *, quiet: bool) -> None:
        self._screen = screen
        self._quiet = quiet
        self._migrated = _Migrated()
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            console=screen,
            transient=True,
            disable=quiet or not screen.is_terminal,
        )
        self._task: TaskID | None = None
        self._has_header = False

    def __enter__(self) -> DemoView:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def show(self, step: Step) -> None:
        """Draw one step."""
        if self._quiet:
            return
        if isinstance(step, ActBegun):
            self._act(step)
        elif isinstance(step, BatchDone):
            self._batch(step)
        elif isinstance(step, PlainBatchDone):
            self._line(PLAIN_COLUMNS, plain_line(step.batch))
        elif isinstance(step, Killed):
            self._killed(step)
        elif isinstance(step, Refused):
            print_refused(self._screen, step.error)
        elif isinstance(step, Rewritten):
            self._screen.print(rewritten_table(step.figures))
        elif isinstance(step, Previewed):
            print_previewed(self._screen, step.change)
        else:
            self._finished(step)

    def _act(self, step: ActBegun) -> None:
        self._screen.print()
        self._screen.print(step.title, style="bold cyan")
        if step.explanation:
            self._screen.print(step.explanation, soft_wrap=False)
        self._has_header = False
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task("working", total=None)

    def _batch(self, step: BatchDone) -> None:
        self._line(_COLUMNS, _line(step.batch))
        if step.batch.retired:
            self._screen.print(f"{'dropped:':>{WIDTH}} {', '.join(step.batch.retired)}")
        if step.migrating and self._task is not None:
            text = self._migrated.after(step.batch)
            total, done = self._migrated.total, self._migrated.done
            self._bar.update(self._task, description=text, total=total, completed=done)

    def _line(self, columns: tuple[str, ...], text: str) -> None:
        if not self._has_header:
            self._screen.print("".join(name.rjust(WIDTH) for name in columns), style="bold")
            self._has_header = True
        self._screen.print(text)

    def _killed(self, step: Killed) -> None:
        crash = step.crash
        self._screen.print(
            f"SIGKILL in batch {crash.batch}: {crash.partitions_written} of {crash.partitions} "
            "partitions had written their part, the batch was not committed.",
            style="bold red",
        )

    def _finished(self, step: Finished) -> None:
        self._bar.stop()
        figures = step.figures
        if isinstance(figures, PreviewFigures):
            print_preview_verdict(self._screen, figures)
            return
        self._screen.print(_verdicts(figures), soft_wrap=False)
        is_rewrite = isinstance(figures, RewriteFigures)
        for line in _summary(figures):
            self._screen.print(line)
        for name, comparison in (("state", figures.state), ("output", figures.output)):
            for example in comparison.examples:
                self._screen.print(f"{name}: {example}", style="red")
        self._screen.print()
        if figures.is_good:
            twice = "counted twice" if is_rewrite else "migrated or counted twice"
            text = f"Every key is right: no value was lost, none was {twice}."
            self._screen.print(text, style="bold green")
        else:
            self._screen.print("The outcome is not what it must be.", style="bold red")


class _Migrated:
    """The sums over the batches of the second deployment."""

    def __init__(self) -> None:
        self.touched = self.backfilled = self.total = 0

    @property
    def done(self) -> int:
        return self.touched + self.backfilled

    def after(self, batch: BatchOutcome) -> str:
        self.touched += batch.touched
        self.backfilled += batch.backfilled
        self.total = self.total or self.done + batch.left
        return (
            f"migrated {self.touched:,} by touch, {self.backfilled:,} by backfill; "
            f"{batch.left:,} left"
        )


def _line(batch: BatchOutcome) -> str:
    alone = batch.without_backfill
    cells = (
        f"{batch.number:,}",
        f"{batch.rows:,}",
        f"{batch.left:,}",
        f"{batch.touched:,}",
        f"{batch.backfilled:,}",
        f"{batch.milliseconds:,.0f}",
        "-" if alone is None else f"{alone:,.0f}",
    )
    return "".join(cell.rjust(WIDTH) for cell in cells)


def _verdicts(figures: Figures | RewriteFigures) -> Table:
    columns = ("keys", "missing", "unexpected", "differing", "counted twice")
    table = Table("", title_style="bold", title="Compared with Spark SQL")
    for column in columns:
        table.add_column(column, justify="right")
    table.add_column("")
    table.add_row("the state", *_cells(figures.state))
    table.add_row("the output", *_cells(figures.output))
    return table


def _cells(comparison: KeyComparison) -> tuple[str, ...]:
    numbers = (
        comparison.keys,
        comparison.missing,
        comparison.unexpected,
        comparison.differing,
        comparison.counted_twice,
    )
    verdict = "equal" if comparison.is_equal else "DIFFERENT"
    return (*(f"{number:,}" for number in numbers), verdict)


def _summary(figures: Figures | RewriteFigures) -> list[str]:
    if isinstance(figures, RewriteFigures):
        return rewrite_summary(figures)
    migration, before, after = figures.migration, figures.before, figures.after
    alone = after.without_backfill
    return [
        f"Killed in batch {figures.crash.batch}; the second deployment began with batch "
        f"{figures.rerun_batch}.",
        f"Old values: {migration.old_values:,}; migrated by touch {migration.touched:,}, by "
        f"backfill {migration.backfilled:,}, left {migration.left:,}; families dropped: "
        f"{', '.join(migration.retired) or 'none'}.",
        f"Batch time, median: {before.with_backfill:,.0f} ms before the migration; "
        f"{after.with_backfill:,.0f} ms in the second deployment"
        + ("." if alone is None else f", {alone:,.0f} ms without its backfill."),
        "Seconds: " + ", ".join(f"{name} {value}" for name, value in figures.seconds.items()) + ".",
    ]


# `demo`: shows a migration through a crash, and checks that nothing was lost.


_FOLDER = "statemigrate-demo"
"""The default folder of a demonstration."""


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
    help="Keep checkpoint, scripts, sink and jobs in a new or empty folder, by default "
    f"{_FOLDER}, and show commands to try there.",
)
@click.option(
    "--engine",
    type=click.Choice(["native", "paged", "embedded", "rewrite", "preview"]),
    default="native",
    show_default=True,
    help="Spark's own state, pages in it, or the embedded engine, each with a live migration; or "
    "a rewrite; or a preview of new code.",
)
@click.option(
    "--master",
    default="local[*]",
    show_default=True,
    help="The Spark to use, such as spark://HOST:7077; not with --engine embedded.",
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

    An old processor reads a stream of auctions and is killed in the middle of a batch. A new one,
    with another format of state, continues from the same checkpoint. At the end every key is
    compared with a batch computation over all events.

    With --engine rewrite, the query is a Spark aggregation. Its new code has one more column, other
    keys and another state store, and continues from a checkpoint that `rewrite` has made.

    With --engine preview, new code with a fault is run on the last batches of the query, and
    compared; then the corrected code.

    The demo needs Java 17 or newer. It uses the example's own migration, whatever --migrations
    says. Exit code 1 if there is any difference.
    """
    options = _options(engine, events, keys, partitions, seed=seed, master=master)
    from statemigrate.demo import DemoFolder
    from statemigrate.files import require_java

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
    from statemigrate.demo import keep, next_commands

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
    from statemigrate.demo import DemoOptions

    try:
        return DemoOptions.sized(*values, **others)
    except StatemigrateError as error:
        raise click.UsageError(str(error)) from error


def _run(
    options: DemoOptions, folder: DemoFolder, settings: Settings
) -> Figures | RewriteFigures | PreviewFigures:
    from statemigrate.demo import Finished, run_demo

    figures: Figures | RewriteFigures | PreviewFigures | None = None
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
