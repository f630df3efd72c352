"""Looking at one checkpoint, or at all of them, once or again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from rich.console import Group, RenderableType

from statemigrate.cli.output import (
    Draw,
    partition_counts,
    print_json,
    print_line,
    print_parts,
    redrawn,
    rows_of,
    sentence,
)
from statemigrate.commands.fleet import (
    IN_WORDS,
    NEEDS,
    Fleet,
    Look,
    Need,
    Watched,
    WatchedFleet,
    in_words,
    need_of,
)
from statemigrate.commands.status import Status, StoreStatus
from statemigrate.errors import StatemigrateError
from statemigrate.inspect import counted, rough
from statemigrate.quoting import visible

if TYPE_CHECKING:
    from statemigrate.native import PlannedBackfill

# How old a commit is, how fast a store is migrated and how long that takes, in words.


UNKNOWN = "-"


def clock(seconds: float) -> str:
    """The local time of day."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def ago(found: Status) -> str:
    """How long ago the last batch was committed."""
    return UNKNOWN if found.age is None else f"{rough(found.age)} ago"


def committed(found: Status) -> str:
    """When the last batch was committed, and how long ago that is."""
    if found.committed_at is None:
        return "committed at a time that nothing tells"
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.committed_at))
    return f"committed {at}, {ago(found)}"


def rate(store: StoreStatus) -> str:
    """Values a second, as a cell."""
    if store.rate is None:
        return UNKNOWN
    return f"{store.rate:,.1f}" if 0 < store.rate < 10 else f"{store.rate:,.0f}"


def time_left(store: StoreStatus) -> str:
    """How long the rest takes at that rate, as a cell."""
    return UNKNOWN if store.seconds is None or not store.left else rough(store.seconds)


def pace(store: StoreStatus, over: float | None) -> str:
    """The rate and the time left, as the end of a sentence; nothing where no rate is known."""
    if store.rate is None or not (store.left or store.rate):
        return ""
    seen = "" if over is None else f" over {rough(over)}"
    if not store.rate:
        return f"; nothing moved{seen}"
    rest = "" if store.seconds is None or not store.left else f", {rough(store.seconds)} left"
    return f"; {rate(store)} values a second{seen}{rest}"


# How `status` looks: a head with the last commit and the totals, and a part for each store.


def parts_of(found: Status) -> Iterator[RenderableType]:
    """The whole of a status, part below part."""
    yield sentence(f"{found.checkpoint}: {found.engine}, batch {found.batch}")
    yield sentence(f"  {committed(found)}; looked at {clock(found.taken_at)}")
    yield sentence(f"  {_status_totals(found)}")
    if found.backfill is not None:
        yield sentence(f"  {_planned(found.backfill)}")
    if found.rewritten is not None:
        from statemigrate.cli.rewrite_output import report_parts

        yield from report_parts(found.rewritten)
    for store in found.stores:
        yield from _store(store, found.over)


def _planned(backfill: PlannedBackfill) -> str:
    done = f"{backfill.consumed:,} of {counted(backfill.chunks, 'chunk')} processed"
    uncut = (
        f"; {backfill.keys_uncut:,} are in no chunk yet: the running query cuts them"
        if backfill.keys_uncut
        else ""
    )
    return f"backfill: {done}, planned for {counted(backfill.keys_planned, 'key')}{uncut}"


def behind_of(names: Sequence[str], number: int, noun: str) -> str:
    """How many are behind their scripts, as a part of a sentence; nothing where none is."""
    if not names:
        return ""
    return f", {len(names):,} of {counted(number, noun)} behind"


def _still(left: int, waiting: int | None) -> str:
    """What is left where newer scripts are not deployed: to do now, and after the deployment."""
    values = "an unknown number of values" if waiting is None else counted(waiting, "value")
    later = f"{values} to migrate once the newest scripts are deployed"
    return f"{left:,} left to migrate now, {later}" if left else later


def line_of(found: Status) -> str:
    """A later look in one line: what changes from one to the next."""
    stores = (
        visible(f"{each.store} {_left_of(each)}{pace(each, found.over)}") for each in found.stores
    )
    return " | ".join((f"{clock(found.taken_at)} batch {found.batch}, {ago(found)}", *stores))


def _left_of(store: StoreStatus) -> str:
    behind = "" if store.behind is None else f"behind {store.behind.head}"
    left = f"{store.left:,} left" if store.left or not behind else ""
    return ", ".join(filter(None, (left, behind)))


def _status_totals(found: Status) -> str:
    if found.behind:
        return _still(found.left, found.waiting) + behind_of(
            found.behind, len(found.stores), "store"
        )
    left = f"{found.left:,} left to migrate"
    held = [each.in_target for each in found.stores if each.in_target is not None]
    if not held:
        return left
    return f"{left}, {sum(held):,} in the target's format"


def _store(store: StoreStatus, over: float | None) -> Iterator[RenderableType]:
    yield ""
    line = f"  {store.kind} state, target {store.target}, {store.head_in_words}"
    yield sentence(line, mark=store.store, style="bold cyan")
    if store.families:
        yield rows_of(
            ("  family", "values left", "by partition", "failed"),
            [
                (
                    f"  {each.name}",
                    f"{each.values:,}",
                    partition_counts(each.partitions.values()),
                    "-" if each.quarantined is None else f"{each.quarantined:,}",
                )
                for each in store.families
            ],
        )
    if store.behind is not None:
        yield sentence(f" {store.behind}", mark="  behind:", style="bold yellow")
    if store.complement is not None:
        size, values = store.complement.size, store.complement.values
        yield sentence(f"  complement: {size:,} bytes of {values:,} values")
    yield sentence(f"  dual access: {'on' if store.is_dual else 'off'}{pace(store, over)}")
    yield sentence(f"  Next: {store.next_action}")


# How `status --all` looks: the totals, a line a store, and what is next, each once.


_ONCE = ("checkpoint", "store", "state", "left", "failed", "batch", "committed", "target")
_WATCHED = ("checkpoint", "batch", "committed", "store", "left", "a second", "time left")
_MARKED = "failed"
_FEW = 6
"""Names that are listed; of more the others are counted."""


def fleet_parts(fleet: Fleet) -> Iterator[RenderableType]:
    """The totals, all stores with those first that need a person, and what comes next."""
    yield _totals(fleet)
    yield ""
    yield rows_of(_ONCE, [row for each in fleet.by_need for row in _rows(each)])
    yield from _errors_and_next_steps(fleet)


def _totals(fleet: Fleet, at: str = "") -> RenderableType:
    head = counted(len(fleet.looks), "checkpoint")
    needs = f": {in_words(fleet.totals)}" if fleet.looks else ""
    left = f"{counted(fleet.left, 'value')} left to migrate"
    if fleet.behind:
        left = _still(fleet.left, fleet.waiting)
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
    yield from _errors_and_next_steps(fleet)


def fleet_lines(fleet: Fleet) -> Iterator[str]:
    """A later look, a line a checkpoint."""
    for look in fleet.looks:
        if look.status is None:
            yield f"{look.checkpoint.name}: cannot be read: {visible(look.error)}"
        else:
            yield f"{look.checkpoint.name}: {line_of(look.status)}"


def _errors_and_next_steps(fleet: Fleet) -> Iterator[RenderableType]:
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


class ToJson(Protocol):
    """An object that has a form as JSON."""

    def to_json(self) -> dict[str, Any]:
        """Its parts."""


Found = TypeVar("Found", bound=ToJson)


@dataclass(frozen=True)
class WatchedView(Generic[Found]):
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


def looks_at_one(look: Callable[[], Status]) -> WatchedView[Status]:
    """One checkpoint."""
    return WatchedView(
        look,
        Watched().after,
        lambda found: found.is_done,
        parts_of,
        parts_of,
        lambda f: [line_of(f)],
    )


def looks_at_all(look: Callable[[], Fleet], needs: Collection[Need] = NEEDS) -> WatchedView[Fleet]:
    """All that have a name; those with one of ``needs`` are shown.

    What cannot be read is not known to be done.
    """
    return WatchedView(
        look,
        WatchedFleet().after,
        lambda found: found.is_done,
        fleet_parts,
        watched_parts,
        fleet_lines,
        lambda found: found.only(needs),
    )


def show_once(looks: WatchedView[Found], *, as_json: bool) -> Found:
    """Look, print what was found, and return it."""
    found = looks.look()
    if as_json:
        print_json(looks.shown(found).to_json())
    else:
        print_parts(looks.once(looks.shown(found)))
    return found


def watch(
    looks: WatchedView[Found], interval: float, note: Callable[[Found], None], *, as_json: bool
) -> Found:
    """Look every ``interval`` seconds until all is deployed and migrated, or Ctrl-C; the last look.

    ``note`` gets each of them.
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


def _as_json(found: ToJson) -> None:
    print_json(found.to_json())


def _shown(looks: WatchedView[Found], draw: Draw | None) -> Callable[[Found], None]:
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
