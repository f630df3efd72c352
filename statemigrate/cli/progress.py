"""Progress bars, on stderr, for people only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from statemigrate.cli.output import console
from statemigrate.escapes import visible


@contextmanager
def progress_bar(what: str, *, shown: bool) -> Iterator[Callable[[int, int | None], None]]:
    """A bar for the length of a block; the function moves it to ``done`` of ``total``.

    Without a terminal, or with ``shown`` false, nothing is printed.
    """
    if not (shown and sys.stderr.isatty()):
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,.0f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(visible(what), total=None)

        def move(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        yield move
