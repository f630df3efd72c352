"""Forking a checkpoint ends at any file operation: there is no new checkpoint, or a whole one."""

import errno
import shutil
from pathlib import Path

import pytest
from support.crash.journal import operations, stopped_at
from support.crash.library import Point
from support.crash.power import RULES, Disk
from support.new_checkpoints import is_published, is_shut
from support.offset_logs import tree
from support.spark_checkpoints import variables

from statemigrate.commands.current import log
from statemigrate.event_log.log import LOG
from statemigrate.rewrite.claims import MAKING

pytestmark = [pytest.mark.kill, pytest.mark.long]
LIVES = ("forking", "forking_with_state")
EVERY = 7
"""Of the operations each seventh; the next form takes others."""


def made(root):
    """What is in it, but for the log's documents and claims, which have the time in them."""
    found = {n: d for n, d in tree(root).items() if d is None or not n.startswith(LOG)}
    return {n: d for n, d in found.items() if not n.startswith(MAKING)}


class Forked:
    """The same checkpoint, forked again and again, in one form."""

    def __init__(self, nurseries, places, life):
        self.nursery, self.function = nurseries[0], f"support.crash.forking:{life}"
        self.root = places / life
        self.journal = places / "journal-of-forks"
        self.again(None)
        self.whole = made(self.root / "new")
        self.old = tree(self.root / "old")

    def again(self, point):
        self.prepare()
        return self.run(point)

    def prepare(self):
        shutil.rmtree(self.root, ignore_errors=True)
        for name in ("old", "computed"):
            variables(self.root / name)
        self.journal.unlink(missing_ok=True)

    def run(self, point):
        return self.nursery.run(self.function, str(self.root), point=point)

    def point(self, number, form, error=0):
        return Point((str(self.root / "new"),), number, form, error, journal=str(self.journal))

    def count(self):
        return self.again(self.point(0, "count")).counted

    def check(self):
        """Nothing that a Spark starts on, or all of it; what it was made from is as it was."""
        new = self.root / "new"
        if is_published(new):
            found = {n: d for n, d in made(new).items() if not Path(n).name.startswith(".")}
            assert found == self.whole, stopped_at(self.journal)
            assert [each.verb for each in log(new).entries] == ["fork"], stopped_at(self.journal)
        else:
            assert is_shut(new), stopped_at(self.journal)
        assert tree(self.root / "old") == self.old


@pytest.fixture(scope="module", params=LIVES)
def forked(nurseries, places, request) -> Forked:
    return Forked(nurseries, places, request.param)


@pytest.mark.parametrize("form", ["before", "after", "torn"])
def test_killed_anywhere_it_leaves_no_checkpoint_or_a_whole_one(forked, form):
    count = forked.count()
    assert count > 20
    for number in range(1 + len(form) % EVERY, count + 1, EVERY):
        assert forked.again(forked.point(number, form)).ended == "killed"
        forked.check()


@pytest.mark.parametrize("rule", RULES)
def test_after_a_loss_of_power_there_is_no_checkpoint_or_a_whole_one(forked, rule):
    for number in range(1 + len(rule) % EVERY, forked.count() + 1, EVERY):
        forked.prepare()
        disk = Disk([forked.root])
        life = forked.run(forked.point(number, "lost"))
        assert life.ended == "killed"
        disk.replay(operations(forked.journal))
        disk.lay_out(rule, number)
        forked.check()


@pytest.mark.parametrize(("form", "error"), [("full", errno.ENOSPC), ("fail once", errno.EIO)])
def test_where_the_disk_fails_it_says_so(forked, form, error):
    for number in range(1 + len(form) % EVERY, forked.count() + 1, EVERY):
        life = forked.again(forked.point(number, form, error))
        assert life.ended == "returned" or life.kind.startswith("package:"), (
            stopped_at(forked.journal),
            life.error,
        )
        forked.check()
