"""How `status --all` looks: a line a store, and below what could not be read."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from statemigrate.cli.output import rows_of, sentence
from statemigrate.cli.views.pace import UNKNOWN, ago, clock, rate, time_left
from statemigrate.cli.views.status import behind_of, line_of
from statemigrate.commands.following.fleet import Fleet, Look
from statemigrate.commands.following.store_status import StoreStatus
from statemigrate.escapes import visible

_OF_STORE = ("store", "target", "state", "left", "quarantined")
_ONCE = ("checkpoint", "engine", "batch", "committed", *_OF_STORE)
_WATCHED = ("checkpoint", "batch", "committed", "store", "left", "a second", "time left")
_MARKED = "quarantined"


def fleet_parts(fleet: Fleet) -> Iterator[RenderableType]:
    """A table of all stores, what comes next where something is left, and every error."""
    yield rows_of(_ONCE, [row for each in fleet.looks for row in _rows(each)])
    behind = behind_of(fleet.behind, len(fleet.looks), "checkpoint")
    yield sentence(f"{fleet.left:,} left to migrate{behind}", style="bold")
    yield from _told(fleet)


def watched_parts(fleet: Fleet) -> Iterator[RenderableType]:
    """The same while it is looked at again and again: how fast each store goes, on 80 columns."""
    marks = any(
        _marks(store) for look in fleet.looks if look.status for store in look.status.stores
    )
    columns = (*_WATCHED, _MARKED) if marks else _WATCHED
    rows = [row[: len(columns)] for each in fleet.looks for row in _watched_rows(each)]
    yield rows_of(columns, rows)
    times = [look.status.taken_at for look in fleet.looks if look.status is not None]
    at = f"; looked at {clock(max(times))}" if times else ""
    behind = behind_of(fleet.behind, len(fleet.looks), "checkpoint")
    yield sentence(f"{fleet.left:,} left to migrate{behind}{at}", style="bold")
    yield from _told(fleet)


def fleet_lines(fleet: Fleet) -> Iterator[str]:
    """A later look, a line a checkpoint."""
    for look in fleet.looks:
        if look.status is None:
            yield f"{look.checkpoint.name}: cannot be read: {visible(look.error)}"
        else:
            yield f"{look.checkpoint.name}: {line_of(look.status)}"


def _told(fleet: Fleet) -> Iterator[RenderableType]:
    for look in fleet.looks:
        for step in _next_steps(look):
            yield sentence(step, mark=look.checkpoint.name, style="bold cyan")
    for look in fleet.looks:
        if look.error is not None:
            yield ""
            yield sentence(f": {look.error}", mark=look.checkpoint.name, style="bold red")


def _rows(look: Look) -> Iterator[tuple[str, ...]]:
    name, found = look.checkpoint.name, look.status
    if found is None:
        yield name, "cannot be read", *[""] * 7
        return
    place = (name, found.engine, str(found.batch), ago(found))
    for store in found.stores:
        cells = (_target(store), store.state, f"{store.left:,}", _quarantined(store))
        yield *place, store.store, *cells
    if not found.stores:
        yield *place, "none", "", "", "0", UNKNOWN


def _watched_rows(look: Look) -> Iterator[tuple[str, ...]]:
    name, found = look.checkpoint.name, look.status
    if found is None:
        yield name, "cannot", "be read", *[""] * 5
        return
    place = (name, str(found.batch), ago(found))
    for store in found.stores:
        left = f"{store.left:,}" + (" behind" if store.behind is not None else "")
        yield *place, store.store, left, rate(store), time_left(store), _quarantined(store)
    if not found.stores:
        yield *place, "none", "0", UNKNOWN, UNKNOWN, UNKNOWN


def _marks(store: StoreStatus) -> bool:
    return any(each.quarantined for each in store.families)


def _quarantined(store: StoreStatus) -> str:
    marked = [each.quarantined for each in store.families if each.quarantined is not None]
    return f"{sum(marked):,}" if marked else UNKNOWN


def _next_steps(look: Look) -> Iterator[str]:
    for store in look.status.stores if look.status is not None else ():
        if store.left or store.behind is not None or store.state == "unknown":
            yield f", {store.store}: {store.next_action}"


def _target(store: StoreStatus) -> str:
    return store.target if store.wanted is None else f"{store.target}, head {store.head}"
