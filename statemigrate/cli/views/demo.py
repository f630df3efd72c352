"""How `demo` looks: acts, a line a batch, a bar where there is a terminal, and the verdict."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.table import Table

from statemigrate.cli.views.demo_of_rewrite import (
    PLAIN_COLUMNS,
    WIDTH,
    plain_line,
    print_refused,
    rewrite_summary,
    rewritten_table,
)
from statemigrate.demo.stage.batch import Batch
from statemigrate.demo.steps import (
    ActBegun,
    BatchDone,
    Finished,
    Killed,
    PlainBatchDone,
    Refused,
    Rewritten,
    Step,
)
from statemigrate.demo.verdict.comparison import Comparison
from statemigrate.demo.verdict.figures import Figures
from statemigrate.demo.verdict.rewritten import RewriteFigures

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

    def after(self, batch: Batch) -> str:
        self.touched += batch.touched
        self.backfilled += batch.backfilled
        self.total = self.total or self.done + batch.left
        return (
            f"migrated {self.touched:,} by touch, {self.backfilled:,} by backfill; "
            f"{batch.left:,} left"
        )


def _line(batch: Batch) -> str:
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


def _cells(comparison: Comparison) -> tuple[str, ...]:
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
