"""An embedded query ends at any of its file operations, and nothing is lost or done twice.

A sample of the points of each scene; ``make soak`` goes on from there. What is durable after the
end is compared with the model, then a process with another hash seed goes on, and its state and
output are compared, through the working copy and without it.
"""

import errno
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import pytest
from support.crash.journal import Operation
from support.crash.library import Form
from support.crash.power import Rule
from support.histories.scenes import STAGES, Scene
from support.histories.story import Power, Story, WrongError

from statemigrate.embedded.continuation import require_committed
from statemigrate.embedded.layout import Layout

pytestmark = pytest.mark.kill
POINTS = 2
"""Points of each scene in each form: few enough for every run of the suite."""
STORES = {
    "first_batches": ("notes",),
    "commit": ("lists", "maps", "notes"),
    "snapshot_and_retention": ("notes", "lists"),
    "proving": ("lists", "notes"),
    "restore": ("maps", "notes"),
    "retire": ("lists", "more", "notes"),
    "rollback": ("lists", "maps", "more", "notes"),
    "backfill": ("notes",),
    "replay": ("lists", "notes"),
}
ENDS: dict[str, tuple[Form, Rule, int]] = {
    "killed before": ("before", "strict", 0),
    "killed after": ("after", "strict", 0),
    "write torn": ("torn", "strict", 0),
    "what was not synced is lost": ("lost", "strict", 0),
    "bytes that were not synced are lost": ("lost", "names", 0),
    "some of what was not synced is lost": ("lost", "mixed", 0),
    "disk full from there on": ("full", "strict", errno.ENOSPC),
    "disk fails once": ("fail once", "strict", errno.EIO),
}
USUAL = ("killed before", "write torn", "some of what was not synced is lost", "disk fails once")
"""The ends that `make test` tries; `make long` has the others."""


@dataclass
class Staged:
    story: Story
    scene: Scene
    operations: list[Operation]

    def chosen(self, salt: str) -> list[int]:
        """Numbers of operations, evenly spread over those that matter."""
        numbers = [n for n, each in enumerate(self.operations, 1) if _matters(each)]
        step = len(numbers) / POINTS
        start = crc32(salt.encode()) / (1 << 32) * step
        return [numbers[int(start + step * each)] for each in range(POINTS)]


def _matters(operation: Operation) -> bool:
    # RocksDB's log is for people, and its binding writes a file of settings byte by byte.
    name = Path(operation.path).name
    return not name.startswith("LOG") and (name, operation.kind) != ("rocksdict-config.json", "W")


@pytest.fixture(scope="module", params=STAGES)
def staged(request, nurseries, places) -> Staged:
    story = Story(places / request.param, nurseries)
    scene = STAGES[request.param](story, STORES[request.param])
    return Staged(story, scene, story.trace(scene.verb, scene.deployment, places / "scratch"))


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(each, marks=() if each in USUAL else pytest.mark.long(weight=1 / 4))
        for each in ENDS
    ],
)
def test_a_query_that_ends_anywhere_goes_on_as_if_it_had_not(staged, places, end):
    form, rule, error = ENDS[end]
    verb, deployment = staged.scene.verb, staged.scene.deployment
    for number in staged.chosen(end):
        story = staged.story.copied(places / "run")
        story.ends(verb, deployment, story.point(number, form, error=error), Power(rule, number))
        story.goes_on(verb, deployment)


def test_the_scene_of_proving_has_a_base_that_was_read_beside_its_batches(nurseries, places):
    story = Story(places / "proven", nurseries[:1])
    scene = STAGES["proving"](story, STORES["proving"])
    layout = Layout.of(story.root / "checkpoint")
    (before,) = require_committed(layout).partitions
    assert before.snapshot is not None
    assert before.snapshot.records is None
    story.goes_on(scene.verb, scene.deployment)
    (after,) = require_committed(layout).partitions
    assert after.base.snapshot is not None
    assert after.base.snapshot.records is not None
    assert after.base.changelogs


@pytest.mark.long
def test_the_harness_finds_an_engine_that_believes_any_working_copy(nurseries, places):
    story = Story(places / "believing", nurseries[:1])
    scene = STAGES["commit"](story, ("lists", "maps", "notes"))
    operations = story.trace("run_believing", scene.deployment, places / "scratch")
    tables = [n for n, each in enumerate(operations, 1) if each.path.endswith(".sst")]
    found = []
    for number in tables[:: max(len(tables) // 8, 1)]:
        run = story.copied(places / "run")
        try:
            run.ends("run_believing", scene.deployment, run.point(number, "before"))
            run.goes_on("run_believing", scene.deployment)
        except WrongError as wrong:
            found.append(str(wrong))
    assert found
