"""`new --rebase`: one chain again, after two branches of a team were merged."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING

from statemigrate.cli.options import Settings
from statemigrate.cli.output import console, print_found
from statemigrate.quoting import visible

if TYPE_CHECKING:
    from statemigrate.commands.rebase import Rebase
    from statemigrate.scripts import RebasedScript


def rebase(
    settings: Settings, store: str, checkpoint: str | None, onto: str | None, *, apply: bool
) -> None:
    """Put one of the store's two branches of scripts on top of the other, and print the changes."""
    from statemigrate.commands.rebase import rebase as put_on_top

    found = put_on_top(
        store, onto=onto, apply=apply, migrations=settings.migrations, checkpoint=checkpoint
    )
    print_found(settings, found, _print)


def _print(found: Rebase) -> None:
    screen = console()
    number = len(found.scripts)
    verb = "follow" if number > 1 else "follows"
    screen.print(
        f"{number} script{'s' if number > 1 else ''} of {visible(found.store)} {verb} "
        f"{visible(found.onto)}{'' if found.written else ', if you want'}",
        style="bold",
    )
    for each in found.scripts:
        screen.print()
        for line in _difference(each):
            screen.print(visible(line), style=_STYLES.get(line[:1]), soft_wrap=True)
    screen.print()
    for text in found.questions:
        screen.print(f"? {visible(text)}", style="yellow")
    screen.print(f"Next: {visible(found.next_action)}")


_STYLES = {"+": "green", "-": "red"}


def _difference(script: RebasedScript) -> list[str]:
    lines = (script.before.split("\n"), script.text.split("\n"))
    path = str(script.path)
    return list(unified_diff(*lines, path, path, lineterm="", n=1))
