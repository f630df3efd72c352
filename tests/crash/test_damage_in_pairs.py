"""Durable files damaged alone and in pairs: all values are the model's, or an error says why not.

Where what is left is enough, it is the former: the test works out by itself, from the manifests,
what each file is needed for.
"""

import json
import shutil
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random

import pytest
from support.histories.commands import Command
from support.histories.damage import try_damages
from support.histories.lives import Deployment
from support.histories.story import Story

pytestmark = pytest.mark.kill
STORES = ("lists", "notes")
DEPLOYED = Deployment(STORES, "base", snapshot_every=4, retain=30, backfill=False)
HOW = ("deleted", "flipped", "cut")
KEYS = 60


@pytest.fixture(scope="module")
def staged(nurseries, places) -> Story:
    """A base, a snapshot that was not read back, changelogs after both, and a batch to come."""
    story = Story(places / "paired", nurseries)
    story.feed({key: rows("put", "append", key) for key in range(KEYS)})
    for turn in range(9):
        story.feed({turn: rows("put", "append", turn), KEYS + turn: rows("put", "append", turn)})
    story.goes_on("run", DEPLOYED)
    story.feed({1: rows("put", "append", 99)})
    return story


def rows(note: str, element: str, value: int) -> list[Command]:
    return [Command("notes", note, (value,)), Command("lists", element, (value,))]


@dataclass(frozen=True)
class Needs:
    """What a checkpoint's last committed version needs: its manifest, and one whole chain."""

    manifest: Path
    chains: tuple[frozenset[Path], ...]

    def suffice(self, damaged: set[Path], *, has_copy: bool) -> bool:
        if self.manifest in damaged:
            return False
        return has_copy or any(not chain & damaged for chain in self.chains)


def needs_of(root: Path) -> Needs:
    checkpoint = root / "checkpoint"
    version = max(int(each.name) for each in (checkpoint / "commits").iterdir())
    (manifest,) = (checkpoint / "statemigrate/versions").glob(f"{version}-*.json")
    (partition,) = json.loads(manifest.read_text())["body"]["partitions"]
    folder = checkpoint / "statemigrate/partitions/0"
    chains = []
    for chain in (partition, partition["base"]):
        files = {folder / each["file"]["name"] for each in chain["changelogs"]}
        if chain["snapshot"] is not None:
            listing = folder / chain["snapshot"]["file"]["name"]
            content = json.loads(listing.read_text())["body"]["files"]
            files |= {listing} | {folder / "files" / e["stored"] for e in content if "stored" in e}
        chains.append(frozenset(files))
    return Needs(manifest, tuple(chains))


def durable(root: Path) -> list[Path]:
    folder = root / "checkpoint/statemigrate"
    files = [*(folder / "versions").iterdir(), *(folder / "partitions").rglob("*")]
    return sorted(each for each in files if each.is_file() and not each.name.startswith("1000000"))


def tried(staged: Story, places: Path, damages: dict[Path, str], *, has_copy: bool, seed: int):
    """What came of it, and whether what is left was enough."""
    story = staged.copied(places / "run")
    if not has_copy:
        shutil.rmtree(story.root / "working")
        (story.root / "working").mkdir()
    here = {story.root / path: how for path, how in damages.items()}
    enough = needs_of(story.root).suffice(set(here), has_copy=has_copy)
    return try_damages(story, DEPLOYED, here, Random(seed)), enough


def test_there_are_two_chains_of_which_either_is_enough(staged):
    first, base = needs_of(staged.root).chains
    assert first - base
    assert base - first


@pytest.mark.long
def test_a_file_alone_never_loses_a_value_that_another_one_has(staged, places):
    outcomes = {}
    needed = needs_of(staged.root)
    of_last = {needed.manifest}.union(*needed.chains)
    # Of those that only older versions name, a few: none of them is in the way of the last one.
    others = [path for path in durable(staged.root) if path not in of_last][::6]
    files = [path.relative_to(staged.root) for path in (*sorted(of_last), *others)]
    for number, path in enumerate(files):
        damages = {path: HOW[number % len(HOW)]}
        came, enough = tried(staged, places, damages, has_copy=False, seed=number)
        outcomes[path] = came
        assert came == "right" or not enough, (path, came)
    assert {"right", "package:CorruptFileError"} <= set(outcomes.values()) | {"repaired"}


PAIRS = [pytest.param(seed, 12) for seed in (1, 2)]
MORE = [pytest.param(seed, 60, marks=pytest.mark.long) for seed in range(3, 9)]


@pytest.mark.long(weight=1 / 3)
@pytest.mark.parametrize(("seed", "draws"), [*PAIRS, *MORE])
def test_pairs_of_files_at_random(staged, places, seed, draws):
    random = Random(seed)
    files = [path.relative_to(staged.root) for path in durable(staged.root)]
    # Most files are of older versions; those of the last one come as often.
    needed = needs_of(staged.root)
    of_last = [each.relative_to(staged.root) for chain in needed.chains for each in sorted(chain)]
    ways = list(product(HOW, HOW))
    for _ in range(draws):
        pair = (random.choice(of_last), random.choice([*files, *of_last]))
        damages = dict(zip(pair, random.choice(ways), strict=True))
        has_copy = random.random() < 0.3
        came, enough = tried(staged, places, damages, has_copy=has_copy, seed=random.randrange(999))
        if enough and not has_copy:
            assert came == "right", (damages, came)
        if enough:
            # Altered files beside a proven copy are found by reading back, or by a repair.
            assert came in ("right", "repaired"), (damages, came)
