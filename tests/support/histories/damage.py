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


def damage(path: Path, how: str, random: Random) -> None:
    """Damage one file."""
    damaged = DAMAGES[how](path.read_bytes(), random)
    # A new file: an SST file may be a link to the one in the working copy.
    path.unlink()
    if damaged is not None:
        path.write_bytes(damaged)


def try_damages(
    story: Story, deployment: Deployment, damages: Mapping[Path, str], random: Random
) -> str:
    """Damage several files of a story and go on: as `try_damage`, and a repair comes before help.

    Returns ``"right"`` where the query goes on by itself, ``"repaired"`` where it does after a
    repair, or the name of the error.
    """
    intact = {path: path.read_bytes() for path in damages}
    for path, how in damages.items():
        damage(path, how, random)
    what = ", ".join(f"{path.relative_to(story.root)} {how}" for path, how in damages.items())
    try:
        found = _came_of_it(story, deployment)
        if found == "right":
            return found
        life = story.repaired(deployment)
        if life.ended == "returned" and life.value["is_whole"]:
            story.goes_on("run", deployment)
            return "repaired"
        for path, data in intact.items():
            path.unlink(missing_ok=True)
            path.write_bytes(data)
        story.goes_on("run", deployment)
    except WrongError as wrong:
        raise WrongError(f"{what}: {wrong}") from wrong
    return found


def try_damage(story: Story, deployment: Deployment, path: Path, how: str, seed: int) -> str:
    """Damage a file of a story and go on: all keys are right, or a named error says that not.

    Where there was an error, the story goes on once the file is as it was. Raises `WrongError`;
    returns ``"right"`` or the error's name.
    """
    intact = path.read_bytes()
    damage(path, how, Random(seed))
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
