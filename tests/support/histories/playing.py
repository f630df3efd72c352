"""Playing a history, and making one that fails shorter."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from support.crash.nursery import Nursery
from support.histories.commands import Command
from support.histories.damage import DAMAGES, damageable, try_damage
from support.histories.generator import Crash, Deploy, Happening, Step, simpler
from support.histories.lives import Deployment
from support.histories.story import Power, Story, WrongError


@dataclass
class Played:
    """What a history came to: lives, those of them that were ended, values compared."""

    lives: int = 0
    kills: int = 0
    values: int = 0
    failure: str | None = None


class Player:
    """Plays histories below a folder, which is emptied before each."""

    def __init__(self, root: Path, nurseries: Sequence[Nursery]) -> None:
        self._root = root
        self._nurseries = nurseries

    def play(self, steps: Sequence[Step]) -> Played:
        """Play a history; what is wrong, if anything, with the step at which it is."""
        shutil.rmtree(self._root, ignore_errors=True)
        played = Played()
        scene = _Scene(self._root, Story(self._root / "0", self._nurseries), played)
        for number, step in enumerate(steps):
            try:
                scene.do(step)
            except WrongError as wrong:
                played.failure = f"step {number}: {wrong}"
                break
        played.values += scene.story.values
        if played.failure is None:
            self._damage(scene, steps, played)
        return played

    def _damage(self, scene: _Scene, steps: Sequence[Step], played: Played) -> None:
        """Where all went well, a file at the end of the history is damaged."""
        last = next((each for each in reversed(steps) if isinstance(each, Deploy)), None)
        files = damageable(scene.story.root)
        if last is None or not files:
            return
        random = Random(repr(last))
        story = scene.story.copied(self._root / "damaged")
        story.feed({0: [Command(last.deployment.stores[0], "read")]})
        path = random.choice(files)
        path = story.root / path.relative_to(scene.story.root)
        try:
            try_damage(story, last.deployment, path, random.choice(list(DAMAGES)), 1)
        except WrongError as wrong:
            played.failure = f"after the last step: {wrong}"
        played.lives += 1
        played.values += story.values

    def shortened(self, steps: Sequence[Step], *, seconds: float) -> list[Step]:
        """A shorter history that fails too, found within a time."""
        end = time.monotonic() + seconds
        shortest, again = list(steps), True
        while again:
            again = False
            for less in simpler(shortest):
                if time.monotonic() > end:
                    return shortest
                if less and self.play(less).failure is not None:
                    shortest, again = less, True
                    break
        return shortest


class _Scene:
    """Where a history is: the story's place, and what was kept of it."""

    def __init__(self, root: Path, story: Story, played: Played) -> None:
        self.story = story
        self._root = root
        self._played = played
        self._places = 1
        self._backup: Story | None = None

    def do(self, step: Step) -> None:
        if isinstance(step, Deploy):
            self._deploy(step)
        else:
            self._happen(step)

    def _deploy(self, step: Deploy) -> None:
        if step.verb == "backfill" and self.story.version < 0:
            return
        self.story.feed(*step.batches)
        for crash in step.crashes:
            self._crash(step, crash)
        if step.finishes:
            self.story.goes_on(step.verb, step.deployment)
            self._played.lives += 1

    def _crash(self, step: Deploy, crash: Crash) -> None:
        scratch = self._root / "scratch"
        made = len(self.story.trace(step.verb, step.deployment, scratch))
        number = 1 + int(crash.part * max(made - 1, 0))
        point = self.story.point(number, crash.form, error=crash.error)
        life = self.story.ends(step.verb, step.deployment, point, Power(crash.rule, crash.seed))
        self._played.lives += 1
        self._played.kills += life.ended != "returned"

    def _happen(self, what: Happening) -> None:
        root = self.story.root
        working, kept = root / "working", self._root / "kept"
        if what == "working copy lost":
            _replace(working, None)
        elif what == "working copy kept":
            _replace(kept, working)
        elif what == "working copy of then" and kept.exists():
            _replace(working, kept)
        elif what == "checkpoint moved":
            self._move(self.story)
        elif what == "checkpoint backed up":
            self._backup = self.story.copied(self._root / "backup")
        elif what == "checkpoint of then" and self._backup is not None:
            # The working copy stays: it is ahead of the checkpoint now, or on another way.
            self._move(self._backup, working)

    def _move(self, story: Story, working: Path | None = None) -> None:
        before, self._places = self.story, self._places + 1
        moved = story.copied(self._root / str(self._places))
        if working is not None:
            _replace(moved.root / "working", working)
        shutil.rmtree(before.root)
        moved.values = before.values
        self.story = moved


def _replace(folder: Path, by: Path | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if by is None:
        folder.mkdir()
    else:
        shutil.copytree(by, folder)


__all__ = ["Deployment", "Played", "Player"]
