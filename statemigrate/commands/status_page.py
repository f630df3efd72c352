"""The status of one checkpoint, or of all of a project's, as one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from statemigrate.commands.deployed_revisions import Behind
from statemigrate.commands.fleet import IN_WORDS, Fleet, Look, NextStep, in_words, need_of_all
from statemigrate.commands.status import Status, StoreStatus
from statemigrate.configuration import NamedCheckpoint
from statemigrate.inspect import Bar, counted, rendered, rough, share_bar, utc_time


def status_page(found: Status | Fleet) -> str:
    """The status as an HTML page, without scripts and without external resources.

    All names and texts are escaped, and the page's own policy allows only its one style sheet. The
    page contains no key and no value of the state.
    """
    fleet = found if isinstance(found, Fleet) else _alone(found)
    return rendered(
        "status.mako",
        fleet=fleet,
        numbered=list(enumerate(fleet.by_need)),
        title=_title(fleet),
        verdict=_verdict(fleet),
        shown=_Shown(),
        made_at=utc_time(datetime.now(UTC).timestamp()),
        version=version("statemigrate"),
    )


@dataclass(frozen=True)
class ShownVerdict:
    """``grade`` is good, doubtful or bad, and names the colour."""

    grade: str
    headline: str
    text: str


def _alone(found: Status) -> Fleet:
    return Fleet((Look(NamedCheckpoint(found.checkpoint, found.checkpoint), found),))


def _title(fleet: Fleet) -> str:
    if len(fleet.looks) == 1:
        return fleet.looks[0].checkpoint.name
    return counted(len(fleet.looks), "checkpoint")


def _verdict(fleet: Fleet) -> ShownVerdict:
    unread = sum(each.error is not None for each in fleet.looks)
    statuses = [each.status for each in fleet.looks if each.status is not None]
    left = sum(1 for each in statuses if each.left)
    behind = _behind(fleet, len(statuses))
    if not fleet.left:
        headline = "All readable checkpoints are migrated." if unread else "Nothing is left."
    else:
        of = f" in {left:,} of {counted(len(statuses), 'checkpoint')}" if len(statuses) > 1 else ""
        headline = f"{counted(fleet.left, 'value')} left to migrate{of}."
    if behind:
        # Nothing left to migrate to what is deployed would read as if all were done.
        headline = f"{behind} {headline}" if fleet.left or unread else behind
    if unread:
        return ShownVerdict("bad", headline, f"{counted(unread, 'checkpoint')} cannot be read.")
    if any(store.quarantined for each in statuses for store in each.stores):
        return ShownVerdict("doubtful", headline, "Some values do not migrate.")
    if behind:
        return ShownVerdict(
            "doubtful", headline, "Values stay in old formats until code is deployed."
        )
    if any(store.state == "unknown" for each in statuses for store in each.stores):
        return ShownVerdict("doubtful", headline, "Some scripts are broken, or are not here.")
    if fleet.left:
        return ShownVerdict("doubtful", headline, "Reads look into the older stores as well.")
    return ShownVerdict("good", headline, "Every value has its target's format.")


def _behind(fleet: Fleet, number: int) -> str:
    """How many are behind, as a sentence; nothing where none is."""
    found = len(fleet.behind)
    if not found:
        return ""
    if number == 1:
        return "Behind its scripts: the newest are not deployed."
    verb = "is" if found == 1 else "are"
    return f"{found:,} of {counted(number, 'checkpoint')} {verb} behind: newer scripts exist."


def _bar_behind(store: StoreStatus, behind: Behind) -> Bar | None:
    if behind.values is None or store.in_target is None:
        return None
    new = store.in_target + store.left - behind.values
    return share_bar(store.store, {"migrated": new, "left": behind.values})


class _Shown:
    """What a status is in words, for the template."""

    def facts(self, found: Status) -> list[tuple[str, str]]:
        """The figures of a checkpoint, each with its name."""
        at = "unknown" if found.committed_at is None else utc_time(found.committed_at)
        age = "" if found.age is None else f", {rough(found.age)} earlier"
        return [
            ("Left to migrate", f"{found.left:,}"),
            ("Batch", f"{found.batch:,}"),
            ("Committed", f"{at}{age}"),
            ("Looked at", utc_time(found.taken_at)),
        ]

    def left(self, found: Status) -> str:
        """What a checkpoint is, in the list of all."""
        need = need_of_all(found.stores)
        return f"{found.left:,} left{', ' + need if need in ('behind', 'stuck') else ''}"

    def totals(self, fleet: Fleet) -> str:
        """How many checkpoints need what."""
        return f"{in_words(fleet.totals)}."

    def in_order(self, fleet: Fleet) -> str:
        """How many checkpoints need nothing, which are folded; nothing where none is in order."""
        found = fleet.totals.get("in order", 0)
        words = IN_WORDS["in order"][found != 1]
        return f"{counted(found, 'checkpoint')} {words}" if found else ""

    def count(self, step: NextStep) -> str:
        """For how many stores a step is."""
        return f"{counted(len(step.of), 'store')}:"

    def sections_of(
        self, step: NextStep, numbered: Sequence[tuple[int, Look]]
    ) -> list[tuple[int, str, str]]:
        """The checkpoints and stores that a step is for, with the numbers of their sections."""
        numbers = {look.checkpoint.name: number for number, look in numbered}
        return [(numbers[name], name, store) for name, store in step.of]

    def pace(self, store: StoreStatus, found: Status) -> str:
        """How fast a store is migrated, as far as that was seen."""
        if store.rate is None or not (store.left or store.rate):
            return ""
        seen = "" if found.over is None else f" over {rough(found.over)}"
        if not store.rate:
            return f"Nothing moved{seen}."
        rest = "" if store.seconds is None or not store.left else f", {rough(store.seconds)} left"
        return f"{store.rate:,.1f} values a second{seen}{rest}."

    def bar(self, store: StoreStatus) -> Bar | None:
        """How much of a store is migrated, where what the target holds is counted."""
        if store.in_target is None or not (store.left or store.in_target):
            return None
        if store.behind is not None:
            # What is in the deployed format is migrated only if that is where scripts lead.
            return _bar_behind(store, store.behind)
        counts = {"migrated": store.in_target, "left": store.left}
        return share_bar(f"{store.store}", counts)

    def error(self, look: Look) -> list[tuple[str, str]]:
        """The parts of what is wrong with a checkpoint."""
        error = look.error
        if error is None:
            return []
        parts: dict[str, Any] = {
            "Expected": error.expected,
            "Found": error.found,
            "Next": error.next_action,
        }
        return [(name, str(part)) for name, part in parts.items() if part is not None]
