"""Orders of deployment on pages, under each trigger that ends or goes on, by a frozen processor."""

import dataclasses

import pytest
from paged_pipeline import FORMATS, PagedPipeline
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import migrated
from statemigrate.errors import StartupError

pytestmark = [pytest.mark.spark, pytest.mark.long]
KEYS = range(24)


@dataclasses.dataclass(frozen=True)
class FrozenAmounts(AmountsTally):
    states: list = dataclasses.field(default_factory=list, compare=False)

    def init(self, handle):
        self.states.append(handle.getValueState("tally", self.ddl))

    @property
    def state(self):
        return self.states[-1]


class Deployments:
    """A query on pages, and what it must hold when pages migrate whole."""

    def __init__(self, spark, place):
        self.pipeline = PagedPipeline(spark, place, pages=6)
        self.expected = Expected()
        self.fed = 0

    def run(self, processor, revision, keys, **trigger):
        """Deploy it with a row for each of the keys; the query ends by itself, or is stopped."""
        self.pipeline.feed(batch(f"n{self.fed}", keys))
        self.rows = batch(f"n{self.fed}", keys)
        self.fed += 1
        self.run_again(processor, revision, **trigger)

    def run_again(self, processor, revision, **trigger):
        """Deploy it on what was fed last."""
        query = self.pipeline.start(self.pipeline.result(processor), **trigger)
        if "processingTime" in trigger:
            query.processAllAvailable()
            query.stop()
        assert query.awaitTermination(240)
        self.expected.process(self.rows, revision)
        for held in self.pages():
            if held & {row[0] for row in self.rows}:
                for key in held:
                    self.expected.move(key, revision)
        self.check()

    def run_killed(self, processor, revision, keys):
        """As `run`, but as if the batch had been killed before it was committed."""
        before = self.expected.copy()
        self.run(processor, revision, keys, availableNow=True)
        self.expected = before
        commits = self.pipeline.checkpoint / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        for name in (f"{last}", f".{last}.crc"):
            (commits / name).unlink(missing_ok=True)

    def pages(self):
        found = self.pipeline.entries(FORMATS).values()
        return [{key for values in page.values() for key in values} for page in found]

    def check(self):
        found = {name: {} for name in FORMATS}
        for page in self.pipeline.entries(FORMATS).values():
            for name, values in page.items():
                found[name] |= values
        assert found == self.expected.stored(CENTS, AMOUNTS)
        assert self.pipeline.handed_rows == self.expected.output

    def revisions(self):
        return {value[4] for value in self.expected.values.values()}


def test_code_comes_and_goes_and_every_entry_takes_each_step_once(spark, tmp_path, scripts):
    d, folder, back = Deployments(spark, tmp_path), scripts.write(), {"targets": {"tally": "base"}}
    new = FrozenAmounts()
    d.run(CentsTally(), CENTS, KEYS, availableNow=True)
    d.run(migrated(new, migrations=folder), AMOUNTS, KEYS[:2], once=True)
    assert d.revisions() == {CENTS, AMOUNTS}
    # What is in pages already is what code without scripts, or scripts that are gone, cannot read.
    with pytest.raises(StartupError):
        d.pipeline.result(CentsTally())
    with pytest.raises(StartupError):
        d.pipeline.result(migrated(FrozenAmounts(), migrations=scripts.write(amounts=None)))
    scripts.write()
    again = migrated(FrozenAmounts(), migrations=folder)
    d.run(again, AMOUNTS, KEYS[:3], processingTime="10 milliseconds")
    d.run(migrated(CentsTally(), migrations=folder, **back), CENTS, KEYS[2:5], availableNow=True)
    assert d.revisions() <= {CENTS, AMOUNTS}
    d.run(migrated(FrozenAmounts(), migrations=folder), AMOUNTS, KEYS, availableNow=True)
    assert d.revisions() == {AMOUNTS}
    d.run(migrated(CentsTally(), migrations=folder, **back), CENTS, KEYS, once=True)
    # The end: no page has anything of the newer revision, and code may be as it was at first.
    d.run(CentsTally(), CENTS, KEYS[:4], availableNow=True)


def test_a_killed_batch_is_run_again_by_whatever_code_comes_next(spark, tmp_path, scripts):
    d, folder, back = Deployments(spark, tmp_path), scripts.write(), {"targets": {"tally": "base"}}
    now = {"availableNow": True}

    def made(code, **settings):
        return migrated(code(), migrations=folder, **settings)

    d.run(CentsTally(), CENTS, KEYS, **now)
    # What was not committed binds nobody: neither code as it was, nor other scripts.
    d.run_killed(made(FrozenAmounts), AMOUNTS, KEYS[:2])
    d.run_again(CentsTally(), CENTS, **now)
    d.run_killed(CentsTally(), CENTS, KEYS[:2])
    d.run_again(made(FrozenAmounts), AMOUNTS, **now)
    assert d.revisions() == {CENTS, AMOUNTS}
    d.run_killed(made(CentsTally, **back), CENTS, KEYS)
    with pytest.raises(StartupError, match="not one script"):
        d.pipeline.result(CentsTally())
    d.run_again(made(FrozenAmounts), AMOUNTS, **now)
    assert d.revisions() == {AMOUNTS}
    d.run_killed(made(FrozenAmounts), AMOUNTS, KEYS[4:6])
    d.run_again(made(CentsTally, **back), CENTS, **now)
    assert d.revisions() == {CENTS, AMOUNTS}
