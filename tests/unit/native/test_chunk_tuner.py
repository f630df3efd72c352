"""The size of chunks of a backfill on Spark's own state, against simulated batches."""

from collections import deque
from dataclasses import dataclass, field
from math import exp
from random import Random
from statistics import mean, pstdev

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from statemigrate.errors import StartupError
from statemigrate.native.chunks import BackfillLimits
from statemigrate.native.deployed_variables import Work
from statemigrate.native.pacing import IDLE_MILLISECONDS, Batch, ChunkTuner, Trigger

MOMENT = 1_763_000_000_000.0


@dataclass
class Query:
    """Batches that take what is said; the size of a chunk is chosen two batches before."""

    tuner: ChunkTuner
    start_ms: float = 500.0
    row_ms: float = 0.01
    entry_ms: float = 0.4
    chunk_ms: float = 0.0
    """What a chunk takes whatever its size is."""
    slowed_ms: float = 0.0
    """What live rows take longer beside a chunk: tasks see it, and take it for theirs."""
    rows: int = 100_000
    interval: float | None = None
    noise: float = 0.0
    wander: float = 0.0
    """How far the machine's speed goes from the usual one, from batch to batch and for a while."""
    steal: float = 0.0
    """How many batches take up to half as long again, by chance."""
    tells: bool = False
    """Whether tasks tell what they do, of which Spark knows nothing."""
    loops: float = 0.6
    """The part of a batch's time without a chunk that tasks see, and by ``seen`` of a chunk's."""
    seen: float = 1.0
    now: float = MOMENT
    random: Random = field(default_factory=lambda: Random(1))
    wandered: float = 0.0
    ahead: deque[int] = field(default_factory=deque)
    batches: list[Batch] = field(default_factory=list)

    @property
    def alone_ms(self) -> float:
        """What a batch takes without a chunk."""
        return self.start_ms + self.row_ms * self.rows

    def run(self, batches: int) -> list[Batch]:
        """So many batches."""
        for _ in range(batches):
            self._batch()
        return self.batches[-batches:]

    def _batch(self) -> None:
        while len(self.ahead) < 2:
            alone = self.tuner.wants_alone(self.ahead.count(0))
            self.ahead.append(0 if alone else self.tuner.entries)
        entries = self.ahead.popleft()
        slowness = self._slowness()
        took = (self.alone_ms + self._chunk_ms(entries)) * slowness
        work = self._work(entries, slowness) if self.tells else None
        batch = Batch(self.now, took, self.rows, entries, work)
        self.batches.append(batch)
        self.tuner = self.tuner.observe(batch)
        self.now += took
        if self.interval is not None and took < self.interval:
            self.now = (self.now // self.interval + 1) * self.interval + 2

    def _chunk_ms(self, entries: int) -> float:
        return self.chunk_ms + self.slowed_ms + self.entry_ms * entries if entries else 0.0

    def _work(self, entries: int, slowness: float) -> Work:
        """Four tasks on two cores, of which each sees its part a little longer or shorter."""
        chunk = self.entry_ms * entries * self.seen * slowness
        slowed = self.slowed_ms if entries else 0.0
        live = (self.loops * self.alone_ms + slowed) * slowness if self.rows else 0.0
        asked = 2 * chunk * (1 + self.random.gauss(0, 0.7 * self.wander))
        half = (live + chunk) / 2
        spans = [(self.now + at * half, self.now + (at + 1) * half) for at in (0, 0, 1, 1)]
        return Work(asked, tuple(spans))

    def _slowness(self) -> float:
        draw = self.random
        self.wandered = 0.7 * self.wandered + draw.gauss(0, 0.7 * self.wander)
        stolen = draw.uniform(1.2, 1.5) if draw.random() < self.steal else 1.0
        found = exp(self.wandered + draw.gauss(0, self.wander / 2)) * stolen
        return found * (1 + draw.uniform(-self.noise, self.noise))

    def granted(self, share: float, batches: list[Batch]) -> float:
        """What chunks take by their real cost, against the share, in the batches that had one."""
        with_chunk = [each for each in batches if each.entries]
        taken = mean(self._chunk_ms(each.entries) for each in with_chunk)
        return taken / (taken + self.alone_ms) / share

    def taken(self, batches: list[Batch]) -> float:
        """The part of their time that chunks took, in the batches that had one."""
        return mean(1 - self.alone_ms / each.milliseconds for each in batches if each.entries)


COSTS = st.builds(
    dict,
    start_ms=st.floats(200, 3_000),
    row_ms=st.floats(0.001, 0.05),
    entry_ms=st.floats(0.02, 5.0),
    rows=st.integers(1_000, 200_000),
)


@settings(max_examples=15)
@given(share=st.floats(0.1, 0.6), before=COSTS, after=COSTS, tells=st.booleans())
@example(
    share=0.1,
    before={"start_ms": 200.0, "row_ms": 0.03125, "entry_ms": 1.0, "rows": 1000},
    after={"start_ms": 200.0, "row_ms": 0.015625, "entry_ms": 3.0, "rows": 1000},
    tells=False,
)
def test_the_share_is_held_within_a_tenth_and_again_after_every_cost_has_changed(
    share, before, after, tells
):
    query = Query(ChunkTuner.start(BackfillLimits(share)), tells=tells, **before)
    for cost in (before, after):
        vars(query).update(cost)
        query.run(120)
        batches = query.run(20)
        # A chunk has whole entries, and one alone may be more than a tenth of the share.
        entry = query.entry_ms / query.alone_ms
        assert query.taken(batches) == pytest.approx(share, abs=max(0.1 * share, entry))
        slowest = max(each.milliseconds for each in batches)
        assert slowest <= 1.1 * query.alone_ms / (1 - share)
        assert 1 <= len([each for each in batches if not each.entries]) <= 2, "one batch in ten"


@pytest.mark.parametrize("tells", [False, True])
@pytest.mark.parametrize("factor", [0.3, 0.7, 2.0, 4.0])
def test_a_machine_that_becomes_slower_or_faster_is_noticed_before_long(factor, tells):
    query = Query(ChunkTuner.start(BackfillLimits(0.25)), noise=0.02, tells=tells)
    query.run(60)
    for name in ("start_ms", "row_ms", "entry_ms"):
        setattr(query, name, factor * getattr(query, name))
    fewest = min(each.entries for each in query.run(40) if each.entries)
    assert query.taken(query.run(20)) == pytest.approx(0.25, rel=0.15)
    assert fewest > 600 / 4, "chunks do not wither meanwhile"


@pytest.mark.parametrize("share", [0.25, 0.5])
@pytest.mark.parametrize("seed", range(10))
def test_noise_of_a_tenth_moves_the_share_by_less_than_a_tenth_of_it_in_the_mean(share, seed):
    query = Query(ChunkTuner.start(BackfillLimits(share)), noise=0.05, random=Random(seed))
    query.run(60)
    assert query.granted(share, query.run(200)) == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize(("wander", "apart", "most"), [(0.1, 0.12, 1.6), (0.3, 0.16, 2.5)])
@pytest.mark.parametrize(
    "beyond", [{}, {"chunk_ms": 100.0}, {"slowed_ms": 100.0}, {"seen": 0.85}], ids=str
)
def test_where_tasks_tell_what_they_do_much_noise_moves_the_share_little(
    beyond, wander, apart, most
):
    """With 0.3 as beside six runs of tests on two cores: batches of 1.4 to 5.5 seconds in turn."""
    found, largest = [], []
    for seed in range(20):
        noise = {"wander": wander, "steal": 0.1, "random": Random(seed)}
        tuner = ChunkTuner.start(BackfillLimits(0.25))
        query = Query(tuner, start_ms=1_200, row_ms=0.0, tells=True, **beyond, **noise)
        query.run(20)
        found.append(query.granted(0.25, query.run(40)))
        largest.append(max(each.entries for each in query.batches) * query.entry_ms / 400)
    assert mean(found) == pytest.approx(1, abs=0.12)
    assert pstdev(found) < apart
    assert max(largest) < most, "no chunk is much too large, the first ones neither"


def test_chunks_grow_no_faster_than_what_was_seen_of_them():
    query = Query(ChunkTuner.start(BackfillLimits(0.25)), entry_ms=0.005, row_ms=0.0, tells=True)
    batches = query.run(60)
    for at, batch in enumerate(batches[2:], start=2):
        seen = max((each.entries for each in batches[: at - 1]), default=0)
        assert batch.entries <= max(1_000, 2 * seen)
    assert batches[-1].entries == pytest.approx(500 / 3 / 0.005, rel=0.1)


@pytest.mark.parametrize("slower", [1.0, 1.4])
def test_on_a_machine_that_others_use_too_the_share_is_neither_more_nor_less_in_the_mean(slower):
    """Batches as they were measured there, beside two pairs of cores that others used as well."""
    found = []
    for seed in range(40):
        noise = {"wander": 0.1, "steal": 0.04, "random": Random(seed)}
        query = Query(ChunkTuner.start(BackfillLimits(0.25)), start_ms=680, row_ms=0.0, **noise)
        query.run(15)
        query.start_ms, query.entry_ms = slower * query.start_ms, slower * query.entry_ms
        found.append(query.granted(0.25, query.run(30)))
    assert mean(found) == pytest.approx(1, abs=0.07)
    assert pstdev(found) < 0.15, "and no run is led by a few batches"


@given(interval=st.sampled_from([1_000.0, 5_000.0, 10_000.0]), live=st.floats(0.2, 0.8), cost=COSTS)
def test_no_chunk_makes_a_batch_late_once_the_trigger_is_known(interval, live, cost):
    cost |= {"start_ms": live * interval, "row_ms": 0.0}
    query = Query(ChunkTuner.start(BackfillLimits(0.5)), interval=interval, **cost)
    query.run(120)
    assert query.tuner.trigger.interval == interval
    batches = query.run(30)
    assert max(each.milliseconds for each in batches) <= interval
    assert all(each.entries >= 1 for each in batches if each.entries)


def test_a_late_batch_halves_the_next_chunks_and_they_grow_again():
    query = Query(ChunkTuner.start(BackfillLimits(0.25)), interval=2_000.0, rows=50_000)
    query.run(60)
    settled = query.tuner.entries
    assert settled == pytest.approx(1_000 / 3 / 0.4, rel=0.1)
    query.entry_ms *= 5
    late = query.run(1)[0]
    assert query.tuner.trigger.missed(late) or late.entries == 0
    query.run(4)
    assert min(each.entries for each in query.batches[-3:] if each.entries) <= settled / 2
    query.entry_ms /= 5
    query.run(60)
    assert query.tuner.entries == pytest.approx(settled, rel=0.1)


def test_where_live_rows_alone_miss_the_trigger_a_chunk_has_a_key_still():
    query = Query(ChunkTuner.start(BackfillLimits(0.25)), interval=2_000.0, rows=50_000)
    query.run(20)
    query.rows, query.entry_ms = 1_000_000, 50.0
    batches = query.run(60)
    assert {each.entries for each in batches[-20:]} == {0, 1}


@settings(max_examples=15)
@given(rate=st.floats(10, 1_000), interval=st.sampled_from([None, 5_000.0]))
def test_a_rate_is_kept_as_long_as_it_takes_half_of_a_batch_at_most(rate, interval):
    query = Query(ChunkTuner.start(BackfillLimits.of(None, rate)), interval=interval, entry_ms=0.3)
    query.run(100)
    began, batches = query.now, query.run(100)
    found = sum(each.entries for each in batches) / (query.now - began) * 1000
    assert found == pytest.approx(rate, rel=0.1, abs=1)


def test_a_rate_that_is_too_much_takes_half_of_a_batch():
    query = Query(ChunkTuner.start(BackfillLimits.of(None, 1_000_000)))
    query.run(100)
    assert query.taken(query.run(20)) == pytest.approx(0.5, rel=0.1)


def test_without_live_rows_each_batch_has_a_chunk_of_some_seconds():
    query = Query(ChunkTuner.start(BackfillLimits(0.25)), rows=0, start_ms=300.0)
    query.run(40)
    batches = query.run(20)
    assert all(each.entries for each in batches)
    assert mean(each.milliseconds for each in batches) == pytest.approx(IDLE_MILLISECONDS, rel=0.1)


def test_batches_without_a_grid_tell_of_no_trigger_interval():
    trigger, now = Trigger(), MOMENT
    for number in range(200):
        batch = Batch(now, 700.0 + number, 10)
        trigger, now = trigger.after(batch), batch.ended + 3
    assert trigger.interval is None
    assert not trigger.missed(batch)


@pytest.mark.parametrize(("share", "rate"), [(0.0, None), (1.0, None), (-1, 5), (None, 0)])
def test_a_pace_that_cannot_be_kept_is_refused(share, rate):
    with pytest.raises(StartupError, match="backfill's"):
        BackfillLimits.of(share, rate)
