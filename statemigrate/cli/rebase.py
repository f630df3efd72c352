"""`rebase`: one chain again, after two branches of a team were merged."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING

import click

from statemigrate.cli.options import Settings, optional_checkpoint, shared_options
from statemigrate.cli.output import console, print_found
from statemigrate.quoting import visible

if TYPE_CHECKING:
    from statemigrate.commands.rebase import Rebase
    from statemigrate.scripts.rebase import RebasedScript


@click.command(epilog="Example: statemigrate rebase auctions --apply")
@click.argument("store")
@optional_checkpoint("The branch that was applied to this checkpoint stays.")
@click.option("--onto", metavar="REVISION", help="The head of the branch that stays.")
@click.option("--apply", is_flag=True, help="Write the scripts.  [default: only show the changes]")
@shared_options()
@click.pass_obj
def rebase(
    settings: Settings, store: str, checkpoint: str | None, onto: str | None, apply: bool
) -> None:
    """Put one of STORE's two branches of scripts on top of the other.

    A store has two heads if two people each wrote a script on the same one. The branch that was
    applied stays, or else the older one. The scripts of the other branch follow it, and their
    formats get the fields of both branches. Their functions pass on fields that they do not know.
    If only one branch has a field, or if both have changed it, the script gets a QUESTION, and
    `statemigrate check` refuses it until you have answered.
    """
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
