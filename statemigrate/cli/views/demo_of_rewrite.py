"""How `demo --engine rewrite` looks, where it differs from the others."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from statemigrate.demo.stage.batch import Batch
from statemigrate.demo.verdict.rewritten import RewriteFigures, RewritingFigures
from statemigrate.errors import StatemigrateError

PLAIN_COLUMNS = ("batch", "events", "batch ms")
WIDTH = 11


def plain_line(batch: Batch) -> str:
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
