"""A rewrite's driver ends at any file operation: no Spark starts there, or on all of it."""

import shutil

import pytest
from support.crash.journal import operations, stopped_at
from support.crash.library import Point
from support.crash.power import RULES, Disk
from support.new_checkpoints import is_published, is_shut
from support.offset_logs import tree
from support.spark_checkpoints import aggregation

from statemigrate.rewrite.claims import MAKING, MARK

pytestmark = pytest.mark.kill
LIFE = "support.crash.publishing:publishing"
SIZES = [
    # Of the operations a few for each run of the tests, and all of them where there is time.
    pytest.param(41, id="some points"),
    pytest.param(1, marks=pytest.mark.soak, id="all points"),
]


class Published:
    """The same checkpoint, made again and again."""

    def __init__(self, nurseries, places):
        self.nursery = nurseries[0]
        self.root = places / "published"
        self.journal = places / "journal-of-publishing"
        self.again(None)
        assert self.life.value is True
        self.whole = self.made()
        self.old = tree(self.root / "old")

    def made(self):
        """What is there, but for hidden files, and what says how it was made."""
        found = tree(self.root / "new").items()
        own = {n for n, _ in found if n.startswith(MAKING) or n == MARK}
        return {n: d for n, d in found if n not in own and not n.rpartition("/")[2].startswith(".")}

    def again(self, point, partitions=3):
        shutil.rmtree(self.root, ignore_errors=True)
        aggregation(self.root / "old")
        self.journal.unlink(missing_ok=True)
        return self.go_on(point, partitions)

    def go_on(self, point=None, partitions=3):
        self.life = self.nursery.run(LIFE, str(self.root), partitions, point=point)
        return self.life

    def point(self, number, form):
        return Point((str(self.root / "new"),), number, form, journal=str(self.journal))

    def points(self, every, shift):
        count = self.again(self.point(0, "count")).counted
        assert count > 60
        return range(1 + shift % every, count + 1, every)

    def check(self):
        """No Spark starts, and the same again, or first another plan, makes it; or it is there."""
        told = stopped_at(self.journal)
        assert tree(self.root / "old") == self.old, told
        if is_published(self.root / "new"):
            assert self.made() == self.whole, told
            return
        assert is_shut(self.root / "new"), told
        # It may have ended before it had made the directory.
        (self.root / "new").mkdir(exist_ok=True)
        shutil.copytree(self.root / "new", self.root / "copy")
        self.go_on()
        assert self.life.ended == "returned", (told, self.life.error)
        assert self.made() == self.whole, told
        shutil.rmtree(self.root / "new")
        (self.root / "copy").rename(self.root / "new")
        self.go_on(partitions=2)
        assert self.life.ended == "returned", (told, self.life.error)
        snapshots = {n: d for n, d in self.made().items() if n.endswith(".snapshot")}
        assert snapshots == {f"state/0/{each}/4.snapshot": b"of 2" for each in range(2)}, told


@pytest.fixture(scope="module")
def published(nurseries, places) -> Published:
    return Published(nurseries, places)


@pytest.mark.parametrize("every", SIZES)
@pytest.mark.parametrize("form", ["before", "torn", "after"])
def test_killed_anywhere_no_spark_starts_and_the_same_again_goes_on(published, form, every):
    for number in published.points(every, 3 * len(form)):
        assert published.again(published.point(number, form)).ended == "killed"
        published.check()


@pytest.mark.parametrize("every", SIZES)
@pytest.mark.parametrize("rule", RULES)
def test_after_a_loss_of_power_no_spark_starts_or_it_is_whole(published, rule, every):
    for number in published.points(every, 3 * len(rule)):
        shutil.rmtree(published.root)
        aggregation(published.root / "old")
        published.journal.unlink(missing_ok=True)
        disk = Disk([published.root])
        assert published.go_on(published.point(number, "lost")).ended == "killed"
        disk.replay(operations(published.journal))
        disk.lay_out(rule, number)
        published.check()
