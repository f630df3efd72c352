"""Each file of a checkpoint and of a working copy damaged: all keys are right, or an error says."""

from pathlib import Path

import pytest
from support.histories.damage import DAMAGES, damageable, try_damage
from support.histories.lives import Deployment
from support.histories.scenes import Scene, changes, first_values
from support.histories.story import Story

pytestmark = pytest.mark.kill
STORES = ("lists", "notes")


@pytest.fixture(scope="module")
def staged(nurseries, places) -> tuple[Story, Scene]:
    """A snapshot, changelogs before and after it, two revisions, and a batch to come."""
    story = Story(places / "damaged", nurseries)
    deployment = Deployment(STORES, "base", snapshot_every=3, retain=3, chunk=2)
    story.feed(first_values(STORES))
    story.goes_on("run", deployment)
    deployment = Deployment(STORES, "r1", snapshot_every=3, retain=3, chunk=2, retire=False)
    story.feed(changes(STORES), changes(STORES), changes(STORES))
    story.goes_on("run", deployment)
    story.feed(changes(STORES))
    return story, Scene("run", deployment)


def kind_of(path: Path) -> str:
    """Files of one kind are read in one way, whatever their number or hash."""
    if path.parent.name == "files":
        return f"content of {path.stat().st_size.bit_length()}"
    return "".join(each for each in path.name if not each.isdigit())[-12:]


@pytest.mark.long(weight=1 / 3)
@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_file_is_named_or_does_not_matter(staged, places, how):
    template, scene = staged
    came_of_it = {}
    # Every second kind, the others with the next damage: all of them together is what soak does.
    turn = list(DAMAGES).index(how) % 2
    for number, path in enumerate(one_of_each_kind(template)[turn::2]):
        story = template.copied(places / "run")
        damaged = story.root / path
        came_of_it[path] = try_damage(story, scene.deployment, damaged, how, number)
    # Not everything is needed, nor is everything spare.
    assert "right" in came_of_it.values()
    assert "package:CorruptFileError" in came_of_it.values()


def one_of_each_kind(story: Story) -> list[Path]:
    """Of each kind of file the newest: what the next batch reads."""
    kinds = {}
    for path in damageable(story.root):
        kinds[path.relative_to(story.root).parts[0], kind_of(path)] = path
    return [path.relative_to(story.root) for path in kinds.values()]
