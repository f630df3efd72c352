"""Prints for people and for machines."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterable
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from statemigrate.cli.options import Settings
from statemigrate.errors import StatemigrateError


def console(*, stderr: bool = False) -> Console:
    """Return a console that takes every text as it is: messages are the user's own."""
    stream = sys.stderr if stderr else sys.stdout
    # What is read by another program is not folded to the width of a screen.
    width = None if stream.isatty() else 1000
    return Console(
        file=stream, width=width, markup=False, emoji=False, highlight=False, soft_wrap=True
    )


def print_json(document: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(document, indent=2, default=str))


def print_rows(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Print a table; cells that do not fit the screen are folded, never cut."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console().print(table, soft_wrap=False)


def print_error(error: StatemigrateError | OSError, settings: Settings) -> None:
    """Print an error to stderr: as JSON or in lines, with its traceback if asked for."""
    if settings.debug:
        click.echo("".join(traceback.format_exception(error)), err=True)
    if settings.json:
        click.echo(json.dumps({"error": _document(error)}, indent=2, default=str), err=True)
        return
    screen = console(stderr=True)
    parts = _document(error)
    screen.print(f"Error: {parts['summary']}", style="bold red")
    for name in ("expected", "found", "next"):
        if parts[name] is not None:
            screen.print(f"  {name}: ", style="bold", end="")
            screen.print(parts[name].replace("\n", "\n    "))


def _document(error: StatemigrateError | OSError) -> dict[str, Any]:
    if isinstance(error, OSError):
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return {**dict.fromkeys(("expected", "found", "next")), **_head(error, text)}
    return {
        **_head(error, error.summary),
        "expected": None if error.expected is None else str(error.expected),
        "found": None if error.found is None else str(error.found),
        "next": error.next_action,
        "data": error.data,
    }


def _head(error: Exception, summary: str) -> dict[str, Any]:
    return {"kind": type(error).__name__, "summary": summary}
