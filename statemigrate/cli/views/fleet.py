"""How `status --all` looks: a line a store, and below what could not be read."""

from __future__ import annotations

from collections.abc import Iterator

from statemigrate.cli.output import console, print_rows, print_sentence
from statemigrate.commands.following.fleet import Fleet, Look
from statemigrate.commands.following.store_status import StoreStatus

_COLUMNS = ("checkpoint", "engine", "batch", "store", "target", "values left", "quarantined")


def print_fleet(fleet: Fleet) -> None:
    """Print a table of all stores, what comes next where something is left, and every error."""
    print_rows(_COLUMNS, [row for each in fleet.looks for row in _rows(each)])
    for look in fleet.looks:
        for step in _next_steps(look):
            print_sentence(step, mark=look.checkpoint.name, style="bold cyan")
    for look in fleet.looks:
        if look.error is not None:
            console().print()
            print_sentence(f": {look.error}", mark=look.checkpoint.name, style="bold red")


def _rows(look: Look) -> Iterator[tuple[str, ...]]:
    name, found = look.checkpoint.name, look.status
    if found is None:
        yield name, "cannot be read", "", "", "", "", ""
        return
    for store in found.stores:
        marked = [each.quarantined for each in store.families if each.quarantined is not None]
        quarantined = f"{sum(marked):,}" if marked else "-"
        place = (name, found.engine, str(found.batch))
        yield *place, store.store, _target(store), f"{store.left:,}", quarantined
    if not found.stores:
        yield name, found.engine, str(found.batch), "none", "", "0", "-"


def _next_steps(look: Look) -> Iterator[str]:
    for store in look.status.stores if look.status is not None else ():
        if store.left or _is_behind(store):
            yield f", {store.store}: {store.next_action}"


def _target(store: StoreStatus) -> str:
    return f"{store.target}, head {store.head}" if _is_behind(store) else store.target


def _is_behind(store: StoreStatus) -> bool:
    return store.head is not None and store.head != store.target
