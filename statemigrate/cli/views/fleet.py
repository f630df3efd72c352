"""How `status --all` looks: the totals, a line a store, and what is next, each once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType

from statemigrate.cli.output import rows_of, sentence
from statemigrate.cli.views.pace import UNKNOWN, ago, clock, rate, time_left
from statemigrate.cli.views.status import line_of
from statemigrate.commands.following.fleet import Fleet, Look
from statemigrate.commands.following.store_status import StoreStatus
from statemigrate.commands.following.summary import IN_WORDS, NEEDS, in_words, need_of
from statemigrate.errors import StatemigrateError
from statemigrate.escapes import visible
from statemigrate.inspect.report.text import counted

_ONCE = ("checkpoint", "store", "state", "left", "quarantined", "batch", "committed", "target")
_WATCHED = ("checkpoint", "batch", "committed", "store", "left", "a second", "time left")
_MARKED = "quarantined"
_FEW = 6
"""Names that are listed; of more the others are counted."""


def fleet_parts(fleet: Fleet) -> Iterator[RenderableType]:
    """The totals, all stores with those first that need a person, and what comes next."""
    yield _totals(fleet)
    yield ""
    yield rows_of(_ONCE, [row for each in fleet.by_need for row in _rows(each)])
    yield from _told(fleet)


def _totals(fleet: Fleet, at: str = "") -> RenderableType:
    head = counted(len(fleet.looks), "checkpoint")
    needs = f": {in_words(fleet.totals)}" if fleet.looks else ""
    left = f"{counted(fleet.left, 'value')} left to migrate"
    return sentence(f"{head}{needs}; {left}{at}", style="bold")


def watched_parts(fleet: Fleet) -> Iterator[RenderableType]:
    """The same while it is looked at again and again: how fast each store goes, on 80 columns."""
    marks = any(
        _marks(store) for look in fleet.looks if look.status for store in look.status.stores
    )
    columns = (*_WATCHED, _MARKED) if marks else _WATCHED
    rows = [row[: len(columns)] for each in fleet.by_need for row in _watched_rows(each)]
    times = [look.status.taken_at for look in fleet.looks if look.status is not None]
    at = f"; looked at {clock(max(times))}" if times else ""
    yield _totals(fleet, at)
    yield rows_of(columns, rows)
    yield from _told(fleet)


def fleet_lines(fleet: Fleet) -> Iterator[str]:
    """A later look, a line a checkpoint."""
    for look in fleet.looks:
        if look.status is None:
            yield f"{look.checkpoint.name}: cannot be read: {visible(look.error)}"
        else:
            yield f"{look.checkpoint.name}: {line_of(look.status)}"


def _told(fleet: Fleet) -> Iterator[RenderableType]:
    unread = [look for look in fleet.by_need if look.error is not None]
    yield from unread_parts((look.checkpoint.name, look.error) for look in unread)
    if fleet.next_steps:
        yield ""
    for step in fleet.next_steps:
        names = [f"{checkpoint}, {store}" for checkpoint, store in step.of]
        if len(names) > 1:
            names = [f"{counted(len(names), 'store')} of {_listed(name for name, _ in step.of)}"]
        yield sentence(f" {names[0]}: {step.text}", mark="Next:", style="bold cyan")


def unread_parts(
    unread: Iterable[tuple[str, StatemigrateError | None]],
) -> Iterator[RenderableType]:
    """What cannot be read and why, a line each; what to do then once."""
    todo: dict[str, list[str]] = {}
    for number, (name, error) in enumerate(unread):
        if error is None:
            continue
        if not number:
            yield ""
        found = "" if error.found is None else f"; found {error.found}"
        yield sentence(f": {error.headline}{found}", mark=name, style="bold red")
        if error.next_action is not None:
            todo.setdefault(error.next_action, []).append(name)
    for text, names in todo.items():
        yield sentence(f" {_listed(names)}: {text}", mark="Next:", style="bold cyan")


def _listed(names: Iterable[str]) -> str:
    known = [*dict.fromkeys(names)]
    rest = len(known) - _FEW
    return ", ".join(known[:_FEW]) + (f" and {rest:,} more" if rest > 0 else "")


def _rows(look: Look) -> Iterator[tuple[str, ...]]:
    name, found = look.checkpoint.name, look.status
    if found is None:
        yield name, "", IN_WORDS["unreadable"][0], *[""] * 5
        return
    place = (str(found.batch), ago(found))
    for store in sorted(found.stores, key=lambda each: NEEDS.index(need_of(each))):
        cells = (store.state, f"{store.left:,}", _quarantined(store))
        yield name, store.store, *cells, *place, _target(store)
    if not found.stores:
        yield name, "none", "", "0", UNKNOWN, *place, ""


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


def _target(store: StoreStatus) -> str:
    return store.target if store.wanted is None else f"{store.target}, head {store.head}"
