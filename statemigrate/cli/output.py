"""Prints for people and for machines."""

from __future__ import annotations

import json
import signal
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import Settings
from statemigrate.errors import HIDDEN, StatemigrateError, values_hidden
from statemigrate.quoting import printable, printable_json, visible

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from statemigrate.cli.screen import Screen


_FEW = 12
"""Partitions whose numbers fit on one line."""


def console(*, stderr: bool = False, soft_wrap: bool = True) -> Screen:
    """Return a console that takes every text as it is: messages are the user's own.

    With ``soft_wrap`` a line that is longer than the screen is the screen's to fold.
    """
    from statemigrate.cli.screen import Screen

    stream = sys.stderr if stderr else sys.stdout
    # What is read by another program is not folded to the width of a screen.
    width = None if stream.isatty() else 1000
    return Screen(
        file=stream, width=width, markup=False, emoji=False, highlight=False, soft_wrap=soft_wrap
    )


def print_found(settings: Settings, found: Any, print_text: Callable[[Any], None]) -> None:
    """Print what a command found, or all of a sequence: as JSON, or as ``print_text`` does."""
    if not settings.json:
        print_text(found)
    elif isinstance(found, Sequence):
        print_json([each.to_json() for each in found])
    else:
        print_json(found.to_json())


def print_json(document: Any, *, stderr: bool = False) -> None:
    """Print one JSON document."""
    print_json_text(json.dumps(document, indent=2, default=str), stderr=stderr)


def print_json_text(text: str, *, stderr: bool = False) -> None:
    """Print what is JSON already."""
    click.echo(printable_json(text), err=stderr)


def print_line(text: str, *, stderr: bool = False) -> None:
    """Print a line, or several, as they are."""
    click.echo(printable(text), err=stderr)


def print_sentence(text: str, *, mark: str = "", style: str = "", lines: bool = False) -> None:
    """Print a sentence after a mark in a style of its own; on a screen it is broken between words.

    Further lines are indented below it. A word that is longer than the screen, such as a path, is
    left whole, so that it can be copied.
    """
    console().print(sentence(text, mark=mark, style=style, lines=lines))


def sentence(text: str, *, mark: str = "", style: str = "", lines: bool = False) -> Text:
    """What `print_sentence` prints."""
    from rich.text import Text

    screen = console()
    line = f"{visible(mark)}{printable(text) if lines else visible(text)}"
    if screen.is_terminal:
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        line = "\n".join(
            textwrap.fill(
                each,
                screen.width,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
            for each in line.split("\n")
        )
    shown = Text(line)
    shown.stylize(style, 0, len(visible(mark)))
    return shown


def print_rows(
    columns: Iterable[str], rows: Iterable[Iterable[str]], *, lines: bool = False
) -> None:
    """Print a table; cells that do not fit the screen are folded, never cut.

    A line break in a cell is shown as an escape, unless cells have ``lines``.
    """
    console().print(rows_of(columns, rows, lines=lines), soft_wrap=False)


def cell_text(value: Any) -> str:
    """A plain value in a table: what JSON writes as a text stands without quotes."""
    from statemigrate.formats import json_text

    text = json_text(value)
    return str(json.loads(text)) if text.startswith('"') else text


def rows_of(columns: Iterable[str], rows: Iterable[Iterable[str]], *, lines: bool = False) -> Table:
    """What `print_rows` prints."""
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for column in columns:
        table.add_column(column if lines else visible(column), overflow="fold")
    for row in rows:
        table.add_row(*(row if lines else map(visible, row)))
    return table


def print_parts(parts: Iterable[RenderableType]) -> None:
    """Print sentences and tables, each as `print_sentence` and `print_rows` do."""
    from rich.table import Table

    for part in parts:
        console().print(part, soft_wrap=not isinstance(part, Table))


def partition_counts(counts: Iterable[int]) -> str:
    """How many there are in each partition, as a cell; of many partitions the least and most."""
    found = list(counts)
    if len(found) <= _FEW:
        return " ".join(f"{each:,}" for each in found)
    return f"{min(found):,} to {max(found):,} in each of {len(found):,}"


def print_error(error: StatemigrateError | OSError, settings: Settings) -> None:
    """Print an error to stderr: as JSON or in lines, with its traceback if asked for."""
    if settings.debug:
        print_line(_traceback(error), stderr=True)
    if settings.json:
        print_json({"error": _document(error)}, stderr=True)
        return
    screen = console(stderr=True)
    parts = _document(error)
    headline = error.headline if isinstance(error, StatemigrateError) else parts["summary"]
    screen.print(f"Error: {visible(headline)}", style="bold red")
    for name in ("expected", "found", "next"):
        if parts[name] is not None:
            screen.print(f"  {name}: ", style="bold", end="")
            screen.print(parts[name].replace("\n", "\n    "))


def interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """Ctrl-C, if it was that or led to it: PySpark, cleaning up, calls a Java that it ended."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


@contextmanager
def message_when_interrupted(text: Callable[[], str]) -> Iterator[None]:
    """Have ``text`` printed where Ctrl-C ends the block: how far it is, and what goes on."""
    try:
        yield
    except BaseException as error:
        found = interruption(error)
        if found is not None:
            found.add_note(text())
        raise


def print_interrupted(error: KeyboardInterrupt) -> None:
    """Print that Ctrl-C ended it, and the message for that case."""
    for line in ("Interrupted.", *getattr(error, "__notes__", ())):
        print_line(line, stderr=True)


def print_unexpected(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """What `sys.excepthook` is while a verb runs: the usual traceback, as text alone."""
    del kind, trace
    print_line(_traceback(error).rstrip("\n"), stderr=True)


def _traceback(error: BaseException) -> str:
    if not values_hidden():
        return "".join(traceback.format_exception(error))
    # The texts of exceptions may show what is in the state; the places do not.
    lines = traceback.format_tb(error.__traceback__)
    return "".join(["Traceback (most recent call last):\n", *lines, f"{type(error).__name__}\n"])


def _document(error: StatemigrateError | OSError) -> dict[str, Any]:
    if isinstance(error, OSError):
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return {**dict.fromkeys(("expected", "found", "next")), **_head(error, text)}
    return {
        **_head(error, error.summary),
        "expected": None if error.expected is None else str(error.expected),
        "found": None if error.found is None else str(error.found),
        "next": error.next_action,
        "data": _data(error.data),
    }


def _data(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "key": HIDDEN} if values_hidden() and "key" in data else data


def _head(error: Exception, summary: str) -> dict[str, Any]:
    return {
        "kind": type(error).__name__,
        "code": getattr(error, "code", None),
        "summary": summary,
    }


# Progress bars, on stderr, for people only.


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


# What is shown again and again: in one place of a terminal, elsewhere line below line.


Draw = Callable[["RenderableType"], None]


@contextmanager
def redrawn() -> Iterator[Draw | None]:
    """A function that draws over what it drew before; None where there is no place for that.

    What is higher than the terminal is cut at its end while it is drawn again, and whole at last.
    """
    screen = console(soft_wrap=False)
    if not screen.is_terminal or screen.is_dumb_terminal:
        yield None
        return
    from rich.live import Live

    with Live(
        console=screen,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="ellipsis",
    ) as live:

        def draw(frame: RenderableType) -> None:
            with _whole():
                live.update(frame, refresh=True)

        yield draw


@contextmanager
def _whole() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block: half a frame cannot be drawn over."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
