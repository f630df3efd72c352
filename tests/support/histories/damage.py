"""Damage to the files of a checkpoint and of a working copy, and what may come of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from support.histories.lives import Deployment
from support.histories.story import RefusedError, Story, WrongError


def _flipped(data: bytes, random: Random) -> bytes:
    if not data:
        return b"\x00"
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]


def _cut(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data))] if data else b""


def _longer(data: bytes, random: Random) -> bytes:
    return data + random.randbytes(random.randint(1, 64))


DAMAGES: Mapping[str, Callable[[bytes, Random], bytes | None]] = {
    "flipped": _flipped,
    "cut": _cut,
    "longer": _longer,
    "emptied": lambda _data, _random: b"",
    "deleted": lambda _data, _random: None,
}


def damageable(root: Path) -> list[Path]:
    """The files of the checkpoint and of the working copies that somebody reads again."""
    folders = (root / "checkpoint" / "statemigrate", root / "working")
    files = [each for folder in folders for each in sorted(folder.rglob("*")) if each.is_file()]
    return [each for each in files if not each.name.startswith("LOG")]


def try_damage(story: Story, deployment: Deployment, path: Path, how: str, seed: int) -> str:
    """Damage a file of a story and go on: all keys are right, or a named error says that not.

    Where there was an error, the story goes on once the file is as it was. Raises `WrongError`;
    returns ``"right"`` or the error's name.
    """
    intact = path.read_bytes()
    damaged = DAMAGES[how](intact, Random(seed))
    if damaged is None:
        path.unlink()
    else:
        # A new file: an SST file may be a link to the one in the working copy.
        path.unlink()
        path.write_bytes(damaged)
    what = f"{path.relative_to(story.root)} {how}, seed {seed}"
    try:
        found = _came_of_it(story, deployment)
        if found == "right":
            return found
        if path.is_relative_to(story.root / "working"):
            # What the errors about a working copy advise.
            shutil.rmtree(story.root / "working")
        else:
            path.write_bytes(intact)
        story.goes_on("run", deployment)
    except WrongError as wrong:
        raise WrongError(f"{what}: {wrong}") from wrong
    return found


def _came_of_it(story: Story, deployment: Deployment) -> str:
    try:
        life = story.tries("run", deployment)
    except RefusedError as refused:
        # Seen by whoever has no working copy to believe.
        return refused.kind
    return "right" if life.ended == "returned" else life.kind
