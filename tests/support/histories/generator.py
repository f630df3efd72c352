"""Histories at random: deployments, crashes, lost folders and copies, all of it from one seed."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from support.crash.library import Form
from support.crash.power import RULES, Rule
from support.histories.commands import Batch, Command, Verb
from support.histories.lives import Deployment
from support.histories.story import Verb as Life
from support.histories.values import REVISIONS, STORES

KEYS = 14
Happening = Literal[
    "working copy lost", "working copy kept", "working copy of then", "checkpoint moved",
    "checkpoint backed up", "checkpoint of then",
]  # fmt: skip
_HAPPENINGS: tuple[Happening, ...] = (
    "working copy lost", "working copy kept", "working copy of then", "checkpoint moved",
    "checkpoint backed up", "checkpoint of then",
)  # fmt: skip


@dataclass(frozen=True)
class Crash:
    """A life that ends early: after which part of its operations (0 to 1), how, what is lost."""

    form: Form
    part: float
    rule: Rule = "strict"
    seed: int = 0

    @property
    def error(self) -> int:
        return errno.ENOSPC if self.form == "full" else errno.EIO


@dataclass(frozen=True)
class Deploy:
    """A deployment with new input: its lives that end early, and the one that does not, if any."""

    verb: Life
    deployment: Deployment
    batches: tuple[Batch, ...] = ()
    crashes: tuple[Crash, ...] = ()
    finishes: bool = True
    """Otherwise what is left of the input is for the next deployment, whatever that is."""


Step = Deploy | Happening


def history(seed: int, length: int = 8) -> list[Step]:
    """The history of a seed."""
    random = Random(seed)
    partitions = random.choice((1, 1, 2, 3))
    stores = random.sample(tuple(STORES), random.randint(1, 4))
    steps: list[Step] = [
        Deploy("run", _deployment(random, stores, partitions, "base"), _batches(random, stores, 1))
    ]
    for _ in range(length):
        if random.random() < 0.25:
            steps.append(random.choice(_HAPPENINGS))
        else:
            steps.append(_deploy(random, stores, partitions))
    return steps


def simpler(steps: Sequence[Step]) -> list[list[Step]]:
    """Histories a little shorter than one, those that leave out most first."""
    found = [[*steps[:at], *steps[at + 1 :]] for at in range(len(steps))]
    for at, step in enumerate(steps):
        if isinstance(step, Deploy):
            found += [[*steps[:at], less, *steps[at + 1 :]] for less in _less(step)]
    return found


def _less(step: Deploy) -> list[Deploy]:
    crashes, batches = step.crashes, step.batches
    found = [replace(step, crashes=(*crashes[:n], *crashes[n + 1 :])) for n in range(len(crashes))]
    found += [replace(step, batches=(*batches[:n], *batches[n + 1 :])) for n in range(len(batches))]
    for number, batch in enumerate(batches):
        for key in batch:
            less = {each: rows for each, rows in batch.items() if each != key}
            found.append(replace(step, batches=(*batches[:number], less, *batches[number + 1 :])))
    return found


def _deploy(random: Random, stores: list[str], partitions: int) -> Deploy:
    used = (
        stores if random.random() < 0.8 else random.sample(stores, random.randint(1, len(stores)))
    )
    deployment = _deployment(random, used, partitions, random.choice(REVISIONS))
    verb: Life = "backfill" if random.random() < 0.2 else "run"
    batches = () if verb == "backfill" else _batches(random, used, random.randint(0, 3))
    crashes = tuple(_crash(random) for _ in range(random.choice((0, 1, 1, 1, 2, 3))))
    finishes = not crashes or random.random() < 0.7
    return Deploy(verb, deployment, batches, crashes, finishes)


def _deployment(
    random: Random, stores: Sequence[str], partitions: int, revision: str
) -> Deployment:
    return Deployment(
        tuple(sorted(stores)),
        revision,
        partitions=partitions,
        snapshot_every=random.choice((1, 2, 3, 10)),
        retain=random.choice((2, 3, 100)),
        backfill=random.random() < 0.7,
        chunk=random.choice((1, 3, 1_000)),
        retire=random.random() < 0.7,
        write_on_read=random.random() < 0.8,
        tables=random.random() < 0.4,
    )


def _crash(random: Random) -> Crash:
    form: Form = random.choice(("before", "after", "torn", "lost", "lost", "full", "fail once"))
    return Crash(form, random.random(), random.choice(RULES), random.randrange(1 << 16))


def _batches(random: Random, stores: Sequence[str], count: int) -> tuple[Batch, ...]:
    return tuple(_batch(random, stores) for _ in range(count))


def _batch(random: Random, stores: Sequence[str]) -> Batch:
    keys = random.sample(range(KEYS), random.randint(0, KEYS))
    return {
        key: [_command(random, random.choice(stores)) for _ in range(random.randint(1, 3))]
        for key in sorted(keys)
    }


def _command(random: Random, store: str) -> Command:
    verbs: tuple[Verb, ...] = ("put", "put", "bump", "read", "delete")
    kind = STORES[store]
    if kind == "list":
        verbs = (*verbs, "append", "append")
    if kind == "map":
        verbs = (*verbs, "clear")
    verb = random.choice(verbs)
    count = {"put": random.randint(1, 3) if kind == "list" else 1, "append": random.randint(1, 3)}
    seeds = tuple(random.randrange(1 << 16) for _ in range(count.get(verb, 0)))
    return Command(store, verb, seeds, random.randint(0, 2))
