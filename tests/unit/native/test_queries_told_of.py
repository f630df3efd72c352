"""Which queries the listener of a session tells feeders of, and what that asks of checkpoints."""

from types import SimpleNamespace

import pytest

from statemigrate.native.chunks import ChunkFiles
from statemigrate.native.deployed_variables import Work
from statemigrate.native.feeder import Feeding


class Told:
    """A feeder that only notes what it was told."""

    def __init__(self, query):
        self.query, self.asked, self.told, self.works = query, 0, [], []
        directory = SimpleNamespace(query_id=self._query_id)
        self.files = SimpleNamespace(
            location=f"place of {query}", path="/chunks", directory=directory
        )

    def _query_id(self):
        self.asked += 1
        if isinstance(self.query, Exception):
            raise self.query
        return self.query

    def begin(self):
        self.told.append("begin")

    def idle(self):
        self.told.append("idle")

    def after(self, batch):
        self.told.append((batch.milliseconds, batch.rows, batch.entries))
        self.works.append(batch.work)


@pytest.fixture(autouse=True)
def telling(monkeypatch):
    module = "statemigrate.native.feeder.Feeder"
    monkeypatch.setattr(f"{module}.begin", Told.begin)
    monkeypatch.setattr(f"{module}.idle", Told.idle)


def work_of(query, batch):
    """What tasks have told of a batch: of the one query's, and of no other's."""
    return Work(10.0, ((1_000.0, 1_000.0 + batch),)) if query == "mine" else None


def listening(*feeders):
    listener = Feeding(work_of)
    listener._feeders = {feeder.files.location: feeder for feeder in feeders}
    return listener


def event(query, run):
    return SimpleNamespace(id=query, runId=run)


def progress(query, run, rows, keys):
    sources = [
        SimpleNamespace(description="FileStreamSource[file:/input]", numInputRows=rows),
        SimpleNamespace(description="FileStreamSource[file:/chunks]", numInputRows=keys),
    ]
    batch = {"id": query, "runId": run, "sources": sources, "timestamp": "2026-01-01T00:00:00.000Z"}
    batch["batchId"] = 8
    return SimpleNamespace(
        progress=SimpleNamespace(**batch, durationMs={"triggerExecution": 70}),
    )


def test_a_query_is_found_at_its_start_and_told_of_each_batch():
    mine, other = Told("mine"), Told("other")
    listener = listening(other, mine)
    listener.onQueryStarted(event("mine", "1"))
    listener.onQueryProgress(progress("mine", "1", 5, 3))
    listener.onQueryIdle(event("mine", "1"))
    assert mine.told == ["begin", (70.0, 5, 3), "idle"]
    assert other.told == []
    assert mine.works == [Work(10.0, ((1_000.0, 1_008.0),))]


def test_the_batches_of_other_queries_ask_no_checkpoint_anything():
    feeders = [Told(f"query {number}") for number in range(3)]
    listener = listening(*feeders)
    listener.onQueryStarted(event("foreign", "1"))
    asked = [feeder.asked for feeder in feeders]
    for _ in range(4):
        listener.onQueryProgress(progress("foreign", "1", 5, 0))
        listener.onQueryIdle(event("foreign", "1"))
    assert [feeder.asked for feeder in feeders] == asked == [1, 1, 1]
    assert [feeder.told for feeder in feeders] == [[], [], []]


def test_what_is_told_of_a_run_after_the_next_start_is_nothing_of_that():
    mine = Told("mine")
    listener = listening(mine)
    listener.onQueryStarted(event("mine", "1"))
    listener.onQueryStarted(event("mine", "2"))
    listener.onQueryProgress(progress("mine", "1", 4, 3))
    listener.onQueryTerminated(event("mine", "1"))
    listener.onQueryProgress(progress("mine", "2", 5, 3))
    listener.onQueryTerminated(event("mine", "2"))
    listener.onQueryProgress(progress("mine", "2", 6, 3))
    assert mine.told == ["begin", "begin", (70.0, 5, 3)]


def test_one_feeder_cuts_the_chunks_of_a_checkpoint_however_often_its_query_starts(tmp_path):
    listener = Feeding(work_of)
    for _ in range(2):
        listener.add(ChunkFiles(tmp_path / "checkpoint"))
    first = list(listener._feeders.values())
    listener.add(ChunkFiles(tmp_path / "checkpoint"))
    listener.add(ChunkFiles(tmp_path / "other"))
    assert list(listener._feeders.values())[:-1] == first
    assert len(first) == 1


def test_a_checkpoint_that_cannot_be_read_leaves_the_others_their_chunks(caplog):
    lost, mine = Told(OSError("gone")), Told("mine")
    listener = listening(lost, mine)
    listener.onQueryStarted(event("mine", "1"))
    listener.onQueryProgress(progress("mine", "1", 5, 3))
    assert mine.told == ["begin", (70.0, 5, 3)]
    assert "place of gone" in caplog.text
