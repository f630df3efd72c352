"""A look at many checkpoints in a few facts: what each needs, in whose order, and what is next."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from statemigrate.commands.following.status import Status
from statemigrate.commands.following.store_status import StoreStatus
from statemigrate.configuration import NamedCheckpoint
from statemigrate.errors import StatemigrateError
from statemigrate.shell import argument

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

    It is stuck where only a person gets it on: values are quarantined, its scripts are broken, or
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
    """What was found at a checkpoint: its status, or why there is none."""

    checkpoint: NamedCheckpoint
    status: Status | None
    error: StatemigrateError | None = None

    @property
    def need(self) -> Need:
        """What it needs: the first of what its stores do; see `Fleet.only`."""
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
