"""Looking at one checkpoint, or at all of them, once or again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

from rich.console import Group, RenderableType

from statemigrate.cli.output import print_json, print_line, print_parts
from statemigrate.cli.redrawing import Draw, redrawn
from statemigrate.cli.views.fleet import fleet_lines, fleet_parts, watched_parts
from statemigrate.cli.views.status import line_of, parts_of
from statemigrate.commands.following.fleet import Fleet
from statemigrate.commands.following.status import Status
from statemigrate.commands.following.summary import NEEDS, Need
from statemigrate.commands.following.watching import Watched, WatchedFleet


class Told(Protocol):
    """What can be told to machines."""

    def to_json(self) -> dict[str, Any]:
        """Its parts."""


Found = TypeVar("Found", bound=Told)


@dataclass(frozen=True)
class Looks(Generic[Found]):
    """How something is looked at and shown: once, in a frame of many, and as lines of a log.

    Of what was found ``shown`` is the part to be shown.

    ``after`` adds rates to a look, from those before it.
    """

    look: Callable[[], Found]
    after: Callable[[Found], Found]
    is_done: Callable[[Found], bool]
    once: Callable[[Found], Iterable[RenderableType]]
    frame: Callable[[Found], Iterable[RenderableType]]
    lines: Callable[[Found], Iterable[str]]
    shown: Callable[[Found], Found] = lambda found: found


def looks_at_one(look: Callable[[], Status]) -> Looks[Status]:
    """One checkpoint."""
    return Looks(
        look,
        Watched().after,
        lambda found: found.is_done,
        parts_of,
        parts_of,
        lambda f: [line_of(f)],
    )


def looks_at_all(look: Callable[[], Fleet], needs: Collection[Need] = NEEDS) -> Looks[Fleet]:
    """All that have a name, of which those with one of ``needs`` are shown.

    What cannot be read is not known to be done.
    """
    return Looks(
        look,
        WatchedFleet().after,
        lambda found: found.is_done,
        fleet_parts,
        watched_parts,
        fleet_lines,
        lambda found: found.only(needs),
    )


def show_once(looks: Looks[Found], *, as_json: bool) -> Found:
    """Look, print what was found, and return it."""
    found = looks.look()
    if as_json:
        print_json(looks.shown(found).to_json())
    else:
        print_parts(looks.once(looks.shown(found)))
    return found


def watch(
    looks: Looks[Found], interval: float, note: Callable[[Found], None], *, as_json: bool
) -> Found:
    """Look every ``interval`` seconds until all is deployed and migrated, or Ctrl-C; the last look.

    ``note`` is told each of them.
    """
    found = looks.after(looks.look())
    with suppress(KeyboardInterrupt), nullcontext() if as_json else redrawn() as draw:
        show = _as_json if as_json else _shown(looks, draw)
        show(looks.shown(found))
        note(found)
        while not looks.is_done(found):
            time.sleep(interval)
            found = looks.after(looks.look())
            show(looks.shown(found))
            note(found)
    return found


def _as_json(found: Told) -> None:
    print_json(found.to_json())


def _shown(looks: Looks[Found], draw: Draw | None) -> Callable[[Found], None]:
    if draw is not None:
        return lambda found: draw(Group(*looks.frame(found)))
    looked = count()

    def add(found: Found) -> None:
        if not next(looked):
            print_parts(looks.frame(found))
            return
        for line in looks.lines(found):
            print_line(line)

    return add
