"""Stories up to the moment before something that is worth interrupting."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from support.histories.commands import Batch, Command
from support.histories.lives import Deployment
from support.histories.story import Story, Verb
from support.histories.values import STORES

KEYS = 12


@dataclass(frozen=True)
class Scene:
    """What comes next in a story: the life to interrupt, and how it is deployed."""

    verb: Verb
    deployment: Deployment


Stage = Callable[[Story, tuple[str, ...]], Scene]


def first_values(stores: tuple[str, ...]) -> Batch:
    """A value of each key in each store."""
    return {key: [_put(store, key) for store in stores] for key in range(KEYS)}


def changes(stores: tuple[str, ...]) -> Batch:
    """Reads, writes and deletes that come out differently when they are done twice."""
    rows: Batch = {}
    for key in range(0, KEYS, 2):
        rows[key] = [
            Command(store, "append", (50 + key,))
            if STORES[store] == "list"
            else Command(store, "bump", (), key % 3)
            for store in stores
        ]
    rows[1] = [Command(store, "delete", (), 1) for store in stores]
    rows[KEYS] = [_put(store, KEYS) for store in stores]
    return rows


def first_batches(story: Story, stores: tuple[str, ...]) -> Scene:
    story.feed(first_values(stores), changes(stores))
    return Scene("run", Deployment(stores, "base", snapshot_every=1))


def commit(story: Story, stores: tuple[str, ...]) -> Scene:
    old = _started(story, stores)
    story.feed(changes(stores))
    return Scene("run", replace(old, revision="r1", snapshot_every=10, chunk=3))


def snapshot_and_retention(story: Story, stores: tuple[str, ...]) -> Scene:
    old = _started(story, stores, partitions=2, snapshot_every=1)
    story.feed(changes(stores), changes(stores), changes(stores))
    return Scene("run", replace(old, revision="r1", snapshot_every=1, retain=2))


def proving(story: Story, stores: tuple[str, ...]) -> Scene:
    """A snapshot that is read back while batches go on, and becomes the base."""
    old = Deployment(stores, "base", snapshot_every=2, retain=2)
    story.feed(first_values(stores), changes(stores))
    story.goes_on("run_proving", old)
    story.feed(changes(stores), {}, changes(stores), {}, changes(stores))
    return Scene("run_proving", replace(old, revision="r1"))


def restore(story: Story, stores: tuple[str, ...]) -> Scene:
    old = _started(story, stores, snapshot_every=2)
    story.feed(changes(stores), changes(stores))
    story.goes_on("run", old)
    shutil.rmtree(story.root / "working")
    (story.root / "working").mkdir()
    story.feed(changes(stores))
    return Scene("run", replace(old, revision="r2", snapshot_every=10))


def retire(story: Story, stores: tuple[str, ...]) -> Scene:
    old = _started(story, stores)
    new = replace(old, revision="r1", snapshot_every=10)
    story.feed(changes(stores))
    story.goes_on("run", replace(new, retire=False))
    story.feed(changes(stores))
    return Scene("run", new)


def rollback(story: Story, stores: tuple[str, ...]) -> Scene:
    old = _started(story, stores)
    story.feed(changes(stores))
    story.goes_on("run", replace(old, revision="r2", chunk=4))
    story.feed(changes(stores))
    return Scene("run", replace(old, revision="base", chunk=4))


def backfill(story: Story, stores: tuple[str, ...]) -> Scene:
    old = _started(story, stores)
    return Scene("backfill", replace(old, revision="r2"))


def replay(story: Story, stores: tuple[str, ...]) -> Scene:
    """The batch was run and its output handed over, but Spark has not committed it."""
    old = _started(story, stores)
    new = replace(old, revision="r1", snapshot_every=1, chunk=3)
    story.feed(changes(stores))
    story.goes_on("run", new)
    newest = story.root / "checkpoint" / "commits" / str(story.version)
    newest.unlink()
    story.rewind()
    return Scene("run", new)


STAGES: Mapping[str, Stage] = {
    stage.__name__: stage
    for stage in (
        first_batches, commit, snapshot_and_retention, proving, restore, retire, rollback, backfill,
        replay,
    )
}  # fmt: skip


def _started(
    story: Story, stores: tuple[str, ...], *, partitions: int = 1, snapshot_every: int = 10
) -> Deployment:
    deployment = Deployment(
        stores, "base", partitions=partitions, snapshot_every=snapshot_every, backfill=True
    )
    story.feed(first_values(stores))
    story.goes_on("run", deployment)
    return deployment


def _put(store: str, key: int) -> Command:
    seeds = (key, key + 1) if STORES[store] == "list" else (key,)
    return Command(store, "put", seeds, key % 3)
