"""`new STORE --squash REVISION`: one script in the place of several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.cli.options import Settings, configuration
from statemigrate.cli.output import console, print_found
from statemigrate.quoting import visible

if TYPE_CHECKING:
    from statemigrate.commands.squash import Squash


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
    print_found(settings, found, _print)


def _print(found: Squash) -> None:
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
