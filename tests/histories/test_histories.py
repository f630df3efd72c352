"""A sample of the histories that ``make soak ENGINE=native`` goes on with."""

import pytest
from embedded_lives import EmbeddedLives
from generate import embedded_history, history, paged_history
from history import History, Life
from paged_lives import PagedLives
from session import Session
from shrinking import shrunk
from trial import Trial, WrongError, run

pytestmark = pytest.mark.spark

SEEDS = [1, 3]
EMBEDDED_SEEDS = [8]
PAGED_SEEDS = [3]


@pytest.fixture(scope="module")
def session(spark, tmp_path_factory):
    return Session(tmp_path_factory.mktemp("warehouse"), spark)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_is_right_in_every_key_after_every_life(session, tmp_path, seed):
    figures = run(session, tmp_path / "history", history(seed))
    assert figures.values


@pytest.mark.long
@pytest.mark.parametrize("seed", EMBEDDED_SEEDS)
def test_a_history_of_embedded_queries_is_right_in_every_key(session, tmp_path, seed):
    made = _in_one_process(embedded_history(seed))
    assert run(session, tmp_path / "history", made, engine=EmbeddedLives).values


@pytest.mark.long
@pytest.mark.parametrize("seed", PAGED_SEEDS)
def test_a_history_of_pages_is_right_in_every_key(session, tmp_path, seed):
    made = _in_one_process(paged_history(seed))
    assert run(session, tmp_path / "history", made, engine=PagedLives).values


def _in_one_process(made: History) -> History:
    for life in made.lives:
        life.end = ["sink", 1] if life.end and life.end[0] == "process" else life.end
    return made


FEED = [[[0, [["set", 0]]], [1, [["set", 1]]]]]


def test_a_value_that_is_lost_is_seen(session, tmp_path, monkeypatch):
    from model import Model

    keep = Model.shown_store
    monkeypatch.setattr(
        Model, "shown_store", lambda self, store, held: keep(self, store, {"profile": None})
    )
    life = Life({"profile": 0}, {"profile": 0}, FEED, code="plain")
    with pytest.raises(WrongError, match="batch 0 said wrong in 2 of 2 keys"):
        run(session, tmp_path / "history", History({"profile": "BIGINT"}, "string", [life]))


@pytest.mark.long
def test_a_family_that_a_rerun_filled_is_read_before_spark_lists_it(session, tmp_path):
    said = [[[0, [["set", 2]]]]]
    first = Life({"profile": 0}, {"profile": 0}, FEED, code="plain", end=["sink", 1])
    newer = Life({"profile": 1}, {"profile": 1}, said, end=["processor", 0, 0])
    refused = Life({"profile": 1}, {"profile": 1}, [], backfill=True)
    last = Life({"profile": 1}, {"profile": 1}, said)
    made = History({"profile": "BIGINT"}, "string", [first, newer, refused, last])
    trial = Trial(session, tmp_path, made)
    trial.run()
    # Each life's end compares what is read with the model.
    assert trial.story.count("  killed as planned") == 2
    assert "not read" not in str(trial.story)
    assert trial.figures.values > 0


def test_a_history_repeats_from_its_seed_and_from_its_line():
    assert history(7) == history(7)
    assert History.of(history(7).text()) == history(7)


def test_a_failing_history_is_made_as_short_as_it_still_fails():
    found = next(each for each in map(history, range(100)) if _has_blind(each))
    short = shrunk(found, _has_blind, seconds=60)
    assert len(short.lives) == 1
    assert len(short.lives[0].before) == 0
    assert _has_blind(short)


def _has_blind(made: History) -> bool:
    return any("blind" in str(life.feed) for life in made.lives[:-1] or made.lives)
