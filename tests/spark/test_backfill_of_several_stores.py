"""One processor, two stores, only one of which migrates."""

import pytest
from pyspark.sql import Row
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import migrated

pytestmark = pytest.mark.spark


class _Visits:
    """A second store beside the tally: how often a key was seen."""

    def init(self, handle):
        super().init(handle)
        self.visits = handle.getValueState("visits", "times BIGINT")

    def handleInputRows(self, key, rows, timer_values):
        (times,) = self.visits.get() or (0,)
        self.visits.update((times + 1,))
        yield from super().handleInputRows(key, rows, timer_values)


class CentsAndVisits(_Visits, CentsTally):
    pass


class AmountsAndVisits(_Visits, AmountsTally):
    pass


@pytest.mark.long(weight=1 / 3)
def test_the_store_without_scripts_is_left_alone(pipeline, scripts):
    first, second = batch("first", range(30)), batch("second", range(20, 45))
    expected = Expected()
    pipeline.feed(first)
    expected.process(first, CENTS)
    pipeline.deploy(
        migrated(CentsAndVisits(), migrations=scripts.write(), targets={"tally": "base"})
    )
    pipeline.feed(second)
    progress = pipeline.deploy(migrated(AmountsAndVisits(), migrations=scripts.write()))
    expected.process(second, AMOUNTS)
    expected.drain(AMOUNTS)
    visits = {f"k{n}": {"times": 1 + (20 <= n < 30)} for n in range(45)}
    assert pipeline.stored() == {**expected.stored(AMOUNTS), "visits": visits}
    assert sum(each.touched + each.backfilled for each in progress) == 30


class WithoutVisits(AmountsAndVisits):
    """Stops using ``visits``."""

    def init(self, handle):
        AmountsTally.init(self, handle)

    def handleInputRows(self, key, rows, timer_values):
        for row in AmountsTally.handleInputRows(self, key, rows, timer_values):
            yield Row(**row.asDict())


@pytest.mark.long(weight=1 / 3)
def test_a_store_that_is_no_longer_declared_stays_in_the_checkpoint(pipeline, scripts):
    pipeline.feed(batch("first", range(10)))
    code = migrated(AmountsAndVisits(), migrations=scripts.write())
    pipeline.deploy(code)
    pipeline.feed(batch("second", range(10)))
    pipeline.deploy(migrated(WithoutVisits(), migrations=scripts.write()))
    pipeline.feed(batch("third", range(10)))
    pipeline.deploy(code)
    stored = pipeline.stored()
    assert stored["visits"] == {f"k{n}": {"times": 2} for n in range(10)}
    assert {value["n"] for value in stored[f"tally@{AMOUNTS}"].values()} == {3}
