"""How `status` looks: a head with the last commit and the totals, and a part for each store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from statemigrate.cli.output import partition_counts, rows_of, sentence
from statemigrate.cli.views.pace import ago, clock, committed, pace
from statemigrate.cli.views.rewrite import report_parts
from statemigrate.commands.following.status import Status
from statemigrate.commands.following.store_status import StoreStatus
from statemigrate.escapes import visible
from statemigrate.inspect.report.text import counted


def parts_of(found: Status) -> Iterator[RenderableType]:
    """The whole of a status, part below part."""
    yield sentence(f"{found.checkpoint}: {found.engine}, batch {found.batch}")
    yield sentence(f"  {committed(found)}; looked at {clock(found.taken_at)}")
    yield sentence(f"  {_totals(found)}")
    if found.rewritten is not None:
        yield from report_parts(found.rewritten)
    for store in found.stores:
        yield from _store(store, found.over)


def behind_of(names: Sequence[str], number: int, noun: str) -> str:
    """How many are behind their scripts, as a part of a sentence; nothing where none is."""
    if not names:
        return ""
    return f", {len(names):,} of {counted(number, noun)} behind"


def line_of(found: Status) -> str:
    """A later look in one line: what changes from one to the next."""
    stores = (
        visible(f"{each.store} {each.left:,} left{_behind(each)}{pace(each, found.over)}")
        for each in found.stores
    )
    return " | ".join((f"{clock(found.taken_at)} batch {found.batch}, {ago(found)}", *stores))


def _behind(store: StoreStatus) -> str:
    return "" if store.behind is None else f", behind {store.behind.head}"


def _totals(found: Status) -> str:
    left = f"{found.left:,} left to migrate{behind_of(found.behind, len(found.stores), 'store')}"
    held = [each.in_target for each in found.stores if each.in_target is not None]
    if not held:
        return left
    return f"{left}, {sum(held):,} in the target's format"


def _store(store: StoreStatus, over: float | None) -> Iterator[RenderableType]:
    yield ""
    said = f"  {store.kind} state, target {store.target}, {store.head_in_words}"
    yield sentence(said, mark=store.store, style="bold cyan")
    if store.families:
        yield rows_of(
            ("  family", "values left", "by partition", "quarantined"),
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
    yield sentence(f"  dual access: {'on' if store.is_dual else 'off'}{pace(store, over)}")
    yield sentence(f"  Next: {store.next_action}")
