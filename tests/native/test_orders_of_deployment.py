"""Every order in which code with and without `migrated` is deployed: docs/deployments.md."""

import pytest
from pyspark.sql.streaming import StatefulProcessor
from tally import (
    AMOUNTS,
    AMOUNTS_DDL,
    CENTS,
    NESTED_SCRIPT,
    AmountsTally,
    CentsTally,
    Expected,
    NestedTally,
    batch,
)

from statemigrate import migrated
from statemigrate.errors import StartupError

pytestmark = [pytest.mark.spark, pytest.mark.long]


class ByName(AmountsTally):
    """Plain code that knows the family by its own name."""

    def init(self, handle):
        self.state = handle.getValueState(f"tally@{AMOUNTS}", AMOUNTS_DDL)


class Other(StatefulProcessor):
    """Code of before there was a tally."""

    def init(self, handle):
        self.seen = handle.getValueState("seen", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        self.seen.update((sum(1 for _ in rows),))
        return iter(())

    def close(self):
        pass


class Deployments:
    def __init__(self, pipeline, scripts):
        self.pipeline, self.scripts = pipeline, scripts
        self.expected = Expected()
        self.numbers = iter(range(100))
        self.folder = scripts.write()

    def made(self, code, **settings):
        return migrated(
            code(), migrations=self.folder, checkpoint=self.pipeline.checkpoint, **settings
        )

    def run(self, processor, revision, keys):
        """Deploy it with a row for each of so many keys."""
        self.pipeline.feed(rows := batch(f"n{next(self.numbers)}", keys))
        self.pipeline.deploy_natively(processor)
        if revision is not None:
            self.expected.process(rows, revision)

    def kill_last_batch(self):
        """As if the last batch had been killed before it was committed."""
        commits = self.pipeline.checkpoint / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        for name in (f"{last}", f".{last}.crc"):
            (commits / name).unlink(missing_ok=True)

    def holds(self, *live):
        assert self.pipeline.all_state() == self.expected.stored(*live)


@pytest.fixture
def deployments(pipeline, scripts):
    return Deployments(pipeline, scripts)


def test_migrated_comes_off_after_the_end_and_back_after_plain_code_ran(deployments):
    d, back = deployments, {"targets": {"tally": "base"}}
    d.run(CentsTally(), CENTS, range(12))
    # Without checkpoint= nothing is compared, and all revisions are declared.
    d.run(migrated(AmountsTally(), migrations=d.folder), AMOUNTS, range(6))
    d.run(d.made(AmountsTally), AMOUNTS, range(12))
    d.holds(CENTS, AMOUNTS)
    d.run(d.made(AmountsTally), AMOUNTS, range(2))
    d.holds(AMOUNTS)
    # The end: off, by code that names the one family itself, and on again.
    d.run(ByName(), AMOUNTS, range(4, 14))
    d.run(d.made(CentsTally, **back), CENTS, range(14))
    d.holds(CENTS, AMOUNTS)
    d.run(d.made(CentsTally, **back), CENTS, range(1))
    d.holds(CENTS)
    # The other end: off, as the query was before it knew of migrations, and on again.
    d.run(CentsTally(), CENTS, range(10, 16))
    d.run(d.made(AmountsTally), AMOUNTS, range(5))
    d.holds(CENTS, AMOUNTS)
    # Off too early: what Spark has forgotten is missed when it comes back.
    d.run(CentsTally(), None, range(1))
    with pytest.raises(StartupError, match=f"does not know the family tally@{AMOUNTS} ran"):
        d.made(AmountsTally)


def test_a_killed_batch_that_other_code_ran_again_hides_no_family(deployments):
    d = deployments
    d.run(Other(), None, range(3))
    d.run(Other(), None, range(3))
    d.kill_last_batch()
    # Spark keeps the killed batch's list of variables, without the tally that is filled now.
    d.pipeline.deploy_natively(migrated(AmountsTally(), migrations=d.folder))
    d.expected.process(batch("n1", range(3)), AMOUNTS)
    assert d.pipeline.variables() == {"seen"}
    d.folder = d.scripts.write(nested=NESTED_SCRIPT)
    d.run(d.made(NestedTally), d.scripts.folder.lineage("tally").head, range(1, 5))
    d.holds(CENTS, AMOUNTS, d.scripts.folder.lineage("tally").head)


def test_a_deployment_that_failed_in_its_first_batch_may_come_again_after_plain_code(deployments):
    d = deployments
    d.run(CentsTally(), CENTS, range(8))
    d.run(d.made(AmountsTally), None, range(4))
    d.kill_last_batch()
    d.pipeline.deploy_natively(CentsTally())
    d.expected.process(batch("n1", range(4)), CENTS)
    # Spark lists the failed deployment's family until here, and it was empty all the time.
    d.run(CentsTally(), CENTS, range(3))
    d.run(d.made(AmountsTally), AMOUNTS, range(2, 6))
    d.holds(CENTS, AMOUNTS)


def test_plain_code_after_a_batch_that_migrated_code_ran_again_is_missed_too(deployments):
    d = deployments
    d.run(CentsTally(), CENTS, range(8))
    d.run(CentsTally(), None, range(4))
    d.kill_last_batch()
    # The killed code's list of variables stays: Spark never lists the family that is filled now.
    d.pipeline.deploy_natively(d.made(AmountsTally))
    d.expected.process(batch("n1", range(4)), AMOUNTS)
    d.run(CentsTally(), None, range(2))
    with pytest.raises(StartupError, match=f"does not know the family tally@{AMOUNTS} ran"):
        d.made(AmountsTally)


def test_plain_code_that_runs_a_killed_batch_of_migrated_code_again_is_missed(deployments):
    d = deployments
    d.run(CentsTally(), CENTS, range(8))
    d.run(d.made(AmountsTally), AMOUNTS, range(4))
    d.run(d.made(AmountsTally), None, range(2))
    d.kill_last_batch()
    # Plain code that fails in the batch too has done nothing.
    d.pipeline.deploy_natively(CentsTally())
    d.kill_last_batch()
    d.pipeline.deploy_natively(d.made(AmountsTally))
    d.expected.process(batch("n2", range(2)), AMOUNTS)
    d.run(d.made(AmountsTally), None, range(6))
    d.kill_last_batch()
    d.holds(CENTS, AMOUNTS)
    # Spark lists the family still, for which this code has not looked.
    d.pipeline.deploy_natively(CentsTally())
    with pytest.raises(StartupError, match=f"does not know the family tally@{AMOUNTS} ran"):
        d.made(AmountsTally)
