"""Spark's own state with `with_backfill`, beside an operator on pages without a name."""

from dataclasses import dataclass

import pytest
from two_paged import Counts, Model, NewCounts, NewTally, Tally, TwoPaged, write_scripts

import statemigrate
from statemigrate import backfill, backfill_status, migrated
from statemigrate.errors import CheckpointError

pytestmark = [pytest.mark.spark, pytest.mark.long]
KEYS, NAMES = 20, 7
TALLY = 0
"""Spark's number of the tally's operator."""


def rows(numbers):
    return [(f"k{number}", 3 * number + 7, f"n{number % NAMES}") for number in numbers]


@dataclass
class Beside(TwoPaged):
    """A tally by ``key`` in Spark's own state, and counts by ``name`` on pages."""

    names: tuple[str | None, str | None] = (None, None)

    def result(self, processor, stream=None):
        tally, counts = processor
        stream = self.stream() if stream is None else stream
        own = statemigrate.with_backfill(stream, "key", checkpoint=self.checkpoint, operator=TALLY)
        tallied = own.groupBy("key").transformWithState(tally, self.output, "Update", "None")
        return tallied.union(self.paged(stream, counts, "name", self.names[1], 3))


def test_each_is_backfilled_by_chunks_of_its_own(spark, scripts, tmp_path):
    query, model, folder = Beside(spark, tmp_path / "beside"), Model(), write_scripts(scripts)

    def deploy(*numbers):
        """Some keys are touched along with the chunks; the others migrate by chunks alone."""
        if numbers:
            query.feed(model.add(rows(numbers)))
        tally = migrated(NewTally(), migrations=folder, checkpoint=query.checkpoint, operator=TALLY)
        query.deploy_natively((tally, migrated(NewCounts(), migrations=folder)))

    query.feed(model.add(rows(range(KEYS))))
    query.deploy_natively((Tally(), Counts()))
    deploy(1)
    named = {"migrations": folder}
    with pytest.raises(CheckpointError, match="could be meant") as caught:
        backfill(query.checkpoint, **named)
    assert caught.value.data["operators"] == [0, 1]
    for operator, least in ((TALLY, KEYS - 1), ("", 1)):
        planned = backfill(query.checkpoint, keys_per_chunk=2, operator=operator, **named)
        assert planned.keys >= least
        assert planned.withdrawn == 0
    found = backfill_status(query.checkpoint, operator=TALLY, **named)
    assert (found.keys_left, found.waiting, found.unplanned) == (KEYS - 1, 10, ())
    deploy()
    for operator in (TALLY, ""):
        found = backfill_status(query.checkpoint, operator=operator, **named)
        assert (found.keys_left, found.waiting) == (0, 0)
        assert found.is_finished
    deploy(2, 40)
    assert query.values("counts", folder, "") == model.new_counts()
    assert query.values("tally", folder, TALLY) == model.new_tallies(
        lambda key: 0 if key == "k40" else 1
    )
