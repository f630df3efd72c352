"""`new --edit REVISION --lens`: lenses in place of a script's functions."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING

import click

from statemigrate.cli.options import Settings, configuration
from statemigrate.cli.output import console, print_found
from statemigrate.quoting import visible

if TYPE_CHECKING:
    from statemigrate.commands.lens_edit import LensEdit
    from statemigrate.inspect import Unequal


def declare_lenses(
    settings: Settings, revision: str, checkpoint: str | None, *, apply: bool
) -> None:
    """Print a script with lenses in place of its functions; exit code 1 if they are not equal."""
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.lens_edit import declare_lenses as declared

    with spark_when_needed() as spark:
        found = declared(
            revision,
            checkpoint=checkpoint,
            apply=apply,
            **settings.of_one(spark, stores=configuration().stores),
        )
    print_found(settings, found, _print)
    if not found.is_proven:
        click.get_current_context().exit(1)


def _print(found: LensEdit) -> None:
    screen = console()
    if found.text is not None:
        lines = unified_diff(
            found.before.split("\n"),
            found.text.split("\n"),
            str(found.path),
            f"{found.path} with lenses",
            lineterm="",
        )
        for line in lines:
            screen.print(visible(line), style=_STYLES.get(line[:1]), soft_wrap=True)
        screen.print()
        screen.print(_equal(found))
    for name, why in found.open_fields.items():
        screen.print(f"No lens for {visible(name or 'the script')}: {visible(why)}", style="yellow")
    for each in found.unequal:
        for line in _differing(each):
            screen.print(visible(line), style="yellow", soft_wrap=True)
    if found.taken:
        number = "1 value" if found.taken == 1 else f"{found.taken:,} values"
        screen.print(f"The functions fail for {number} that the lenses take")
    if found.written:
        screen.print(f"Wrote {visible(str(found.path))}")
    screen.print(f"Next: {visible(found.next_action)}")


_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def _equal(found: LensEdit) -> str:
    made_up = f"{found.made_up:,} made-up values"
    state = "" if found.of_state is None else f" and {found.of_state:,} of the checkpoint"
    return f"Both make the same of {made_up}{state}"


def _differing(each: Unequal) -> list[str]:
    where = "fail" if each.field is None else f"make another {each.field}"
    head = f"`{each.way}`: the lenses {where} for {each.values:,} values"
    if each.value is None:
        return [head]
    return [
        head,
        f"  the smallest: {each.value}",
        f"  by hand:   {each.by_hand}",
        *([f"  by lenses: {each.by_lenses}"] if each.by_lenses is not None else []),
    ]
