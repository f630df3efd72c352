"""`new --rebase`, `new --squash` and `new --edit --lens`: scripts that are there, changed."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING

import click

from statemigrate.cli.options import Settings, configuration
from statemigrate.cli.output import console, print_found
from statemigrate.quoting import visible

if TYPE_CHECKING:
    from statemigrate.commands.lens_edit import LensEdit
    from statemigrate.commands.rebase import Rebase
    from statemigrate.commands.squash import Squash
    from statemigrate.inspect import Unequal


def rebase(
    settings: Settings, store: str, checkpoint: str | None, onto: str | None, *, apply: bool
) -> None:
    """Put one of the store's two branches of scripts on top of the other, and print the changes."""
    from statemigrate.commands.rebase import rebase as put_on_top

    found = put_on_top(
        store, onto=onto, apply=apply, migrations=settings.migrations, checkpoint=checkpoint
    )
    print_found(settings, found, _print_rebase)


def _print_rebase(found: Rebase) -> None:
    screen = console()
    number = len(found.scripts)
    verb = "follow" if number > 1 else "follows"
    screen.print(
        f"{number} script{'s' if number > 1 else ''} of {visible(found.store)} {verb} "
        f"{visible(found.onto)}{'' if found.written else ', if you want'}",
        style="bold",
    )
    for each in found.scripts:
        path = str(each.path)
        screen.print()
        _print_difference((each.before, path), (each.text, path), lines_around=1)
    screen.print()
    for text in found.questions:
        screen.print(f"? {visible(text)}", style="yellow")
    screen.print(f"Next: {visible(found.next_action)}")


_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def _print_difference(
    before: tuple[str, str], after: tuple[str, str], lines_around: int = 3
) -> None:
    """Print how one text differs from another, each with the name of its file."""
    (old, old_name), (new, new_name) = before, after
    lines = (old.split("\n"), new.split("\n"))
    screen = console()
    for line in unified_diff(*lines, old_name, new_name, lineterm="", n=lines_around):
        screen.print(visible(line), style=_STYLES.get(line[:1]), soft_wrap=True)


def squash(
    settings: Settings, store: str, revision: str, accept_unknown: tuple[str, ...], *, apply: bool
) -> None:
    """Print one script for those up to a revision, and write it if asked to."""
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.squash import squash as squashed

    with spark_when_needed() as spark:
        found = squashed(
            store,
            revision,
            apply=apply,
            checkpoints=tuple(configuration().checkpoints.values()),
            accept_unknown=accept_unknown,
            migrations=settings.migrations,
            stores=configuration().stores,
            spark=spark,
        )
    print_found(settings, found, _print_squash)


def _print_squash(found: Squash) -> None:
    screen = console()
    if not found.written:
        for line in found.text.rstrip("\n").split("\n"):
            screen.print(visible(line), style="green", soft_wrap=True)
        screen.print()
    screen.print(f"One script for {', '.join(map(visible, found.replaces))}", style="bold")
    for name in found.known:
        screen.print(f"Checkpoint {visible(name)} needs none of the others")
    for name in found.unknown:
        place = visible(_UNKNOWN.get(name, name))
        screen.print(f"? {place} was not read: does it need them?", style="yellow")
    if found.written:
        screen.print(f"Wrote {visible(str(found.path))}")
        kept = "may be removed" if found.is_declared else "are called by it"
        screen.print(
            f"The others are in {visible(str(found.path.parent.parent))}/squashed and {kept}"
        )
    screen.print(f"Next: {visible(found.next_action)}")


_UNKNOWN = {"unknown": "Any checkpoint (the configuration names none)"}


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
    print_found(settings, found, _print_edit)
    if not found.is_proven:
        click.get_current_context().exit(1)


def _print_edit(found: LensEdit) -> None:
    screen = console()
    if found.text is not None:
        path = str(found.path)
        _print_difference((found.before, path), (found.text, f"{path} with lenses"))
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
