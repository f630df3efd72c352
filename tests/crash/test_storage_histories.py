"""Histories of deployments at random, as ``make soak`` runs them: a few, the same on every run."""

from random import Random

import pytest
from support.histories import generator
from support.histories.generator import Deploy, history, simpler
from support.histories.lives import Deployment
from support.histories.model import Held, Model
from support.histories.playing import Player
from support.histories.story import Story, WrongError
from support.histories.values import Note

pytestmark = pytest.mark.kill


@pytest.fixture
def player(nurseries, places) -> Player:
    return Player(places / "played", nurseries)


@pytest.mark.parametrize("seed", [2, 3])
def test_a_history_comes_out_as_the_model_says(player, seed):
    played = player.play(history(seed, 5))
    assert played.failure is None
    assert played.lives > 3
    assert played.values > 0


def test_all_of_a_history_follows_from_its_seed():
    assert history(7) == history(7)
    assert history(7) != history(8)


def test_a_history_has_every_kind_of_step_and_end():
    steps = [step for seed in range(100) for step in history(seed)]
    deploys = [step for step in steps if isinstance(step, Deploy)]
    assert {step for step in steps if not isinstance(step, Deploy)} == set(generator._HAPPENINGS)
    assert {step.verb for step in deploys} == {"run", "backfill"}
    assert {step.deployment.revision for step in deploys} == {"base", "r1", "r2"}
    forms = {crash.form for step in deploys for crash in step.crashes}
    assert forms == {"before", "after", "torn", "lost", "full", "fail once"}


def test_a_history_that_fails_is_made_shorter(player, monkeypatch):
    steps = history(4)
    wanted = next(step for step in reversed(steps) if isinstance(step, Deploy) and step.batches)

    def play(shorter):
        found = any(isinstance(s, Deploy) and s.deployment == wanted.deployment for s in shorter)
        return type("Played", (), {"failure": "wrong" if found else None})

    monkeypatch.setattr(player, "play", play)
    (shortest,) = player.shortened(steps, seconds=60)
    assert shortest.deployment == wanted.deployment
    assert (shortest.batches, shortest.crashes) == ((), ())
    assert simpler([]) == []


def test_the_model_knows_a_value_that_is_missing_doubled_or_another():
    model = Model()
    model.options["notes", 1, 0] = frozenset([Held("base", (Note(1),))])
    right = ("notes", "base", 1, 0, Held("base", (Note(1),)).shown("notes"))
    bumped = ("notes", "base", 1, 0, Held("base", (Note(1, bumps=1),)).shown("notes"))
    assert model.found([right]) == []
    assert ["missing" in each for each in model.found([])] == [True]
    assert ["is at base" in each for each in model.found([bumped])] == [True]
    twice = [right, ("notes", "r1", *right[2:])]
    assert ["in the families" in each for each in model.found(twice)] == [True]
    unknown = [right, ("notes", "base", 2, 0, "x")]
    assert ["not nothing" in each for each in model.found(unknown)] == [True]


def test_output_that_differs_from_the_model_is_found(nurseries, places):
    """A story whose model was told of another input."""
    story = Story(places / "told", nurseries)
    deployment = Deployment(("notes",), "base")
    random = Random(1)
    batch = {key: [generator._command(random, "notes")] for key in range(6)}
    batch[0] = [generator.Command("notes", "put", (4,))]
    story.feed(batch)
    story.goes_on("run", deployment)
    story.feed({0: [generator.Command("notes", "read")]})
    story.model.options["notes", 0, 0] = frozenset([Held("base", (Note(5),))])
    with pytest.raises(WrongError, match="notes"):
        story.goes_on("run", deployment)
