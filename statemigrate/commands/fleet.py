"""The status of all of a project's checkpoints: one that cannot be read hides no other."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from statemigrate.commands.status import Status, StoreStatus, status, summed
from statemigrate.configuration import NamedCheckpoint
from statemigrate.errors import StatemigrateError
from statemigrate.quoting import argument
from statemigrate.state import Project

if TYPE_CHECKING:
    from statemigrate.native import Spark


# Looking at every checkpoint that has a name: what is wrong with one hides no other.


Found = TypeVar("Found")
Named = Mapping[str, str | Path] | Iterable[NamedCheckpoint]
"""Checkpoints that have a name: their paths by it, or with targets of their own."""


def named_checkpoints(checkpoints: Named) -> tuple[NamedCheckpoint, ...]:
    """The checkpoints in their order."""
    if isinstance(checkpoints, Mapping):
        return tuple(NamedCheckpoint(name, str(path)) for name, path in checkpoints.items())
    return tuple(checkpoints)


def look_at_each(
    checkpoints: Iterable[NamedCheckpoint],
    look: Callable[[str, Project], Found],
    project: Project,
) -> Iterator[tuple[NamedCheckpoint, Found | None, StatemigrateError | None]]:
    """What ``look`` finds at each checkpoint, or why it finds nothing.

    It is given the path, and the project with the checkpoint's own targets and operator.
    """
    for named in checkpoints:
        found = found_or_error(named, partial(look, named.path, project.at(named)))
        if isinstance(found, StatemigrateError):
            yield named, None, found
        else:
            yield named, found, None


def found_or_error(named: NamedCheckpoint, look: Callable[[], Found]) -> Found | StatemigrateError:
    """What a look at a checkpoint finds, or the error in its place."""
    try:
        return look()
    except StatemigrateError as error:
        return error
    except OSError as error:
        return StatemigrateError(
            "SM-CONFIG-001", f"{named.path} cannot be read: {error}", path=named.path
        )


# A look at many checkpoints in a few facts: what each needs, in whose order, and what is next.


Need = Literal["unreadable", "stuck", "behind", "migrating", "in order"]
NEEDS: tuple[Need, ...] = ("unreadable", "stuck", "behind", "migrating", "in order")
"""What a checkpoint or store needs, a person's attention first; see `need_of`."""
IN_WORDS: Mapping[Need, tuple[str, str]] = {
    "unreadable": ("cannot be read", "cannot be read"),
    "stuck": ("is stuck", "are stuck"),
    "behind": ("is behind its scripts", "are behind their scripts"),
    "migrating": ("is migrating", "are migrating"),
    "in order": ("is in order", "are in order"),
}
"""Each for one and for several."""


def need_of(store: StoreStatus) -> Need:
    """What a store needs.

    It is stuck where only a person gets it on: values have failed, its scripts are broken, or
    the deployed revision's script is not there. "behind" and "migrating" are its states, "ahead"
    counts as behind what was asked for; the rest is in order.
    """
    if store.quarantined or store.state == "unknown":
        return "stuck"
    if store.state in ("behind", "ahead"):
        return "behind"
    return "migrating" if store.left else "in order"


def need_of_all(stores: Iterable[StoreStatus]) -> Need:
    """The first of what several stores need."""
    return min(map(need_of, stores), key=NEEDS.index, default="in order")


@dataclass(frozen=True)
class Look:
    """The result for a checkpoint: its status, or the reason why there is none."""

    checkpoint: NamedCheckpoint
    status: Status | None
    error: StatemigrateError | None = None

    @property
    def need(self) -> Need:
        """Its need: the first one of its stores; see `Fleet.only`."""
        return "unreadable" if self.status is None else need_of_all(self.status.stores)

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "name": self.checkpoint.name,
            "path": self.checkpoint.path,
            "need": self.need,
            "status": None if self.status is None else self.status.to_json(),
            "error": None if self.error is None else self.error.to_json(),
        }


@dataclass(frozen=True)
class NextStep:
    """What to do next, once for all that it is for: checkpoints by name, each with its stores.

    ``text`` has CHECKPOINT and STORE in place of names, where it is for several.
    """

    text: str
    of: tuple[tuple[str, str], ...]

    def to_json(self) -> dict[str, object]:
        """The parts, for machines."""
        stores = [{"checkpoint": checkpoint, "store": store} for checkpoint, store in self.of]
        return {"step": self.text, "count": len(self.of), "stores": stores}


def next_steps(looks: Iterable[Look]) -> tuple[NextStep, ...]:
    """What is to be done about all that is not in order, each once, in the order of the looks."""
    found: dict[str, list[tuple[str, StoreStatus]]] = {}
    for look in looks:
        for store in look.status.stores if look.status is not None else ():
            if need_of(store) != "in order" or store.families:
                text = _general(store, look.checkpoint.name)
                found.setdefault(text, []).append((look.checkpoint.name, store))
    return tuple(_step(text, of) for text, of in found.items())


def _step(text: str, of: list[tuple[str, StoreStatus]]) -> NextStep:
    own = text if len(of) > 1 else of[0][1].next_action
    return NextStep(own, tuple((name, store.store) for name, store in of))


_VERB = "statemigrate [a-z-]+ "


def _general(store: StoreStatus, checkpoint: str) -> str:
    """What is next for a store, as it is for any other one in the same state."""
    name, own = re.escape(argument(checkpoint)), re.escape(argument(store.store))
    # Names are looked for where commands have them: a word of the sentence may be the same.
    text = re.sub(f"({_VERB}){own}(?= )", r"\1STORE", f"{store.next_action} ")
    text = re.sub(f"({_VERB}(?:STORE )?(?:--checkpoint )?){name}(?=[ ;,`])", r"\1CHECKPOINT", text)
    text = re.sub(r"[0-9][0-9,]* chunks? of its backfill waits? ", "its backfill waits ", text)
    return re.sub(r"shows why [0-9][0-9,]* fail ", "shows why values fail ", text).rstrip()


def totals(looks: Iterable[Look]) -> dict[Need, int]:
    """How many checkpoints need what, those that none needs left out."""
    counted = Counter(look.need for look in looks)
    return {need: counted[need] for need in NEEDS if counted[need]}


def sorted_by_need(looks: Iterable[Look]) -> Iterator[Look]:
    """What needs a person first; of equal need as they were named."""
    yield from sorted(looks, key=lambda look: NEEDS.index(look.need))


def in_words(counts: Mapping[Need, int]) -> str:
    """The totals as a part of a sentence."""
    return ", ".join(f"{n:,} {IN_WORDS[need][n != 1]}" for need, n in counts.items())


def by_name(found: Status, name: str) -> Status:
    """The same, in whose commands the checkpoint is named as the project does."""
    place, called = re.escape(argument(found.checkpoint)), argument(name)
    pattern = f"({_VERB}(?:[^;,]*? )?){place}(?=[ ;,`]|$)"

    def renamed(store: StoreStatus) -> StoreStatus:
        text = re.sub(pattern, lambda match: f"{match[1]}{called}", store.next_action)
        return replace(store, next_action=text)

    return replace(found, stores=tuple(map(renamed, found.stores)))


__all__ = ["Fleet", "Look", "status_of_all"]


@dataclass(frozen=True)
class Fleet:
    """The results for all checkpoints, in the order in which they were named.

    Output lists those first that need attention.
    """

    looks: tuple[Look, ...]

    @property
    def left(self) -> int:
        """Values in older families, of the readable checkpoints."""
        return sum(each.status.left for each in self.looks if each.status is not None)

    @property
    def waiting(self) -> int | None:
        """Values that migrate only once newer scripts are deployed; None if not known."""
        statuses = [each.status for each in self.looks if each.status is not None]
        return summed(each.waiting for each in statuses)

    @property
    def is_whole(self) -> bool:
        """Whether every checkpoint could be read."""
        return all(each.error is None for each in self.looks)

    @property
    def behind(self) -> tuple[str, ...]:
        """The checkpoints with a store whose deployed script is not the newest."""
        statuses = [(each.checkpoint.name, each.status) for each in self.looks]
        return tuple(name for name, found in statuses if found is not None and found.behind)

    @property
    def is_current(self) -> bool:
        """Whether every checkpoint could be read, and `Status.is_current` holds for each."""
        return all(each.status is not None and each.status.is_current for each in self.looks)

    @property
    def is_done(self) -> bool:
        """Whether every checkpoint could be read, and nothing is left to deploy or to migrate."""
        return all(each.status is not None and each.status.is_done for each in self.looks)

    @property
    def by_need(self) -> tuple[Look, ...]:
        """The results, with those first that need attention."""
        return tuple(sorted_by_need(self.looks))

    @property
    def totals(self) -> Mapping[Need, int]:
        """The number of checkpoints by need, without needs that no checkpoint has."""
        return totals(self.looks)

    @property
    def next_steps(self) -> tuple[NextStep, ...]:
        """The next steps, each once, with the checkpoints that need it."""
        return next_steps(self.by_need)

    def only(self, needs: Collection[Need]) -> Fleet:
        """Only the checkpoints with one of these needs.

        "unreadable"; "stuck" if values have failed, scripts are broken, or the deployed script
        is missing; "behind" the scripts, or the requested revision; "migrating" while values are
        left; and "in order".
        """
        return Fleet(tuple(each for each in self.looks if each.need in needs))

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "totals": dict(self.totals),
            "checkpoints": [each.to_json() for each in self.by_need],
            "next": [each.to_json() for each in self.next_steps],
            "left": self.left,
            "behind": list(self.behind),
            "is_current": self.is_current,
            "is_whole": self.is_whole,
        }


def status_of_all(
    checkpoints: Iterable[NamedCheckpoint],
    *,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> Fleet:
    """The `status` of every checkpoint; for an unreadable one, its error.

    ``targets`` apply to all checkpoints that do not have their own.
    """
    return look_at_all(checkpoints, Project(migrations, targets or {}, stores or {}, spark))


def look_at_all(checkpoints: Iterable[NamedCheckpoint], project: Project) -> Fleet:
    """Every checkpoint's status, as `status_of_all` says."""
    return Fleet(
        tuple(
            Look(named, None if found is None else by_name(found, named.name), error)
            for named, found, error in look_at_each(checkpoints, status, project)
        )
    )


# Looking again and again: rates are from what was seen, and one look claims none.


SPAN = 60.0
"""Seconds over which a rate is taken: batches come in bursts, and a pace changes."""


class Watched:
    """The looks at one checkpoint, those of about the last ``span`` seconds."""

    def __init__(self, span: float = SPAN) -> None:
        self._span = span
        self._looks: deque[Status] = deque()

    def after(self, found: Status) -> Status:
        """A new look, with rates since the oldest that is kept."""
        if self._looks and self._looks[-1].batch > found.batch:
            # Another checkpoint in the same place.
            self._looks.clear()
        while len(self._looks) > 1 and found.taken_at - self._looks[1].taken_at >= self._span:
            self._looks.popleft()
        self._looks.append(found)
        return found.since(self._looks[0]) if len(self._looks) > 1 else found.first


class WatchedFleet:
    """The looks at several checkpoints. One that cannot be read now is followed on later."""

    def __init__(self, span: float = SPAN) -> None:
        self._span = span
        self._watched: dict[str, Watched] = {}

    def after(self, found: Fleet) -> Fleet:
        """A new look at all of them, with rates."""
        return replace(found, looks=tuple(self._after(each) for each in found.looks))

    def _after(self, look: Look) -> Look:
        if look.status is None:
            return look
        watched = self._watched.setdefault(look.checkpoint.name, Watched(self._span))
        return replace(look, status=watched.after(look.status))


# How a command tells how far it is.


Progress = Callable[[int, int | None], None]
"""Gets from time to time how much is done, and of how much; None where that is unknown."""


def unseen(_done: int, _total: int | None) -> None:
    """Nobody looks."""
