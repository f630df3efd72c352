"""`status --failed`: the values that a backfill could not migrate, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import Settings, require_all_values
from statemigrate.cli.output import console, print_json_text, print_rows
from statemigrate.errors import HIDDEN, values_hidden

if TYPE_CHECKING:
    from statemigrate.commands.quarantine import FailedValue


def print_failed(
    settings: Settings, store: str, checkpoint: str, path: str | None, **options: Any
) -> None:
    """List the values of ``store`` that fail, or write them to ``path``.

    Exit code 1 if any does.
    """
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.quarantine import quarantine as left_behind

    if path is not None:
        require_all_values("status --failed --output")
    failing = 0
    with spark_when_needed() as spark:
        found = left_behind(store, checkpoint, **settings.of_one(spark, **options))
        if path is not None:
            failing = _write(found, path)
        else:
            listed = list(found)
            failing = sum(each.cause is not None for each in listed)
            _print_quarantined(settings, listed)
    if failing:
        click.get_current_context().exit(1)


def _write(found: Iterator[FailedValue], path: str) -> int:
    from statemigrate.files.documents import replacing
    from statemigrate.formats.json_values import json_text

    written = failing = 0
    with replacing(Path(path), private=True) as stream:
        for each in found:
            written += 1
            failing += each.cause is not None
            stream.write(f"{json_text(asdict(each))}\n".encode())
    console().print(f"Wrote {written:,} values to {path}")
    return failing


def _print_quarantined(settings: Settings, found: list[FailedValue]) -> None:
    from statemigrate.formats.json_values import json_text

    if settings.json:
        print_json_text(json_text([_described(each) for each in found], indent=2))
    elif not found:
        console().print("Nothing was left behind")
    else:
        print_rows(
            ("family", "key", "why"),
            [(each.family, _key(each), each.cause or "would migrate now") for each in found],
        )


def _described(each: FailedValue) -> dict[str, Any]:
    hidden = {"key": HIDDEN, "value": HIDDEN} if values_hidden() else {}
    return {**asdict(each), **hidden}


def _key(each: FailedValue) -> str:
    from statemigrate.formats.json_values import json_text

    return HIDDEN if values_hidden() else json_text(each.key)
