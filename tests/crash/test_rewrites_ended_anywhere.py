"""A rewrite ends at any file operation: there is no new checkpoint, or a whole one."""

import json
import re
import shutil

import pytest
from support.crash.armed_daemon import ORDER
from support.crash.journal import operations, stopped_at
from support.crash.library import Point, compiler
from support.crash.nursery import Nursery
from support.new_checkpoints import is_published, is_shut

LIVES = "support.crash.rewriting"
FORMS = ("before", "torn", "after")
pytestmark = [pytest.mark.kill, pytest.mark.spark]


class Rewritten:
    """The same checkpoint, rewritten again and again."""

    def __init__(self, nursery, root, order):
        self.nursery, self.root, self.order = nursery, root, order
        self.journal = root / "journal"
        root.mkdir()
        assert self.live("making", "old", [1, 2, 3]) != []
        shutil.copytree(root / "old", root / "twin")
        assert self.live("rewriting") > 0
        self.whole = self.names()
        # What the twin gives is what every new checkpoint has to give.
        self.expected = self.live("making", "twin", [4, 9])

    def live(self, life, *arguments):
        """What a life that nothing happens to returns."""
        found = self.nursery.run(f"{LIVES}:{life}", str(self.root), *arguments)
        assert found.ended == "returned", found.error
        return found.value

    def names(self):
        """What is in the new checkpoint, but for what is another name each time."""
        found = [str(each.relative_to(self.root)) for each in (self.root / "new").rglob("*")]
        return sorted(re.sub(r"(SSTs/\d+)-[0-9a-f-]{36}", r"\1", name) for name in found)

    def begin(self):
        shutil.rmtree(self.root / "new", ignore_errors=True)
        self.journal.unlink(missing_ok=True)
        self.order.unlink(missing_ok=True)

    def point(self, number=0, form="count"):
        return Point((str(self.root / "new"),), number, form, journal=str(self.journal))

    def tell_workers(self, point, *, again):
        self.order.write_text(json.dumps({"point": point.to_json(), "again": again}))

    def sampled(self, many):
        """Of the operations in the journal, the first and last of each kind on each kind of file.

        Not more than about so ``many``, evenly over all of them.
        """
        kinds = {}
        for number, each in enumerate(operations(self.journal), start=1):
            kinds.setdefault((each.kind, _kind_of(each.path)), []).append(number)
        found = sorted({number for each in kinds.values() for number in (each[0], each[-1])})
        assert len(found) > 10
        step = max(1, len(found) // many)
        return found[step // 2 :: step]

    def check(self, *, goes_on):
        """None or a whole one; where there is none, the same again makes it."""
        told = stopped_at(self.journal)
        if not is_published(self.root / "new"):
            assert is_shut(self.root / "new"), told
            # It reads back and compares every row before it publishes them.
            self.live("rewriting")
            assert self.names() == self.whole, told
        else:
            assert self.live("verifying") == [], told
        if goes_on:
            assert self.live("going_on", "new") == self.expected, told


def _kind_of(path):
    return re.sub(r"[0-9a-f]{32}|[0-9a-f-]{36}|\d+", "N", path)


@pytest.fixture(scope="module")
def rewritten(places):
    assert compiler() is not None, "no C compiler; next: sh scripts/ensure-compiler.sh"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(ORDER, str(places / "order"))
        nursery = Nursery(0, [LIVES])
    try:
        yield Rewritten(nursery, places / "rewritten", places / "order")
    finally:
        nursery.close()


SIZES = [
    # A few points for each run of the tests, and all of them where there is time.
    pytest.param(2, marks=pytest.mark.long, id="some points"),
    pytest.param(1000, marks=pytest.mark.soak, id="all points"),
]
SOAKED = [pytest.param(each.values[0], marks=pytest.mark.soak, id=each.id) for each in SIZES]


@pytest.mark.parametrize("many", SIZES)
def test_a_driver_killed_anywhere_leaves_no_checkpoint_or_a_whole_one(rewritten, many):
    rewritten.begin()
    life = f"{LIVES}:rewriting"
    assert rewritten.nursery.run(life, str(rewritten.root), point=rewritten.point()).counted > 50
    points = rewritten.sampled(many)
    for place, number in enumerate(points):
        rewritten.begin()
        point = rewritten.point(number, FORMS[place % 3])
        assert rewritten.nursery.run(life, str(rewritten.root), point=point).ended == "killed"
        rewritten.check(goes_on=place == len(points) - 1)


@pytest.mark.parametrize("many", SOAKED)
def test_where_workers_are_killed_anywhere_the_same_again_goes_on(rewritten, many):
    for place, number in enumerate(points := worker_points(rewritten, many)):
        rewritten.begin()
        rewritten.tell_workers(rewritten.point(number, FORMS[place % 3]), again=True)
        life = rewritten.nursery.run(f"{LIVES}:rewriting", str(rewritten.root))
        assert life.ended == "raised"
        assert not is_published(rewritten.root / "new")
        rewritten.order.unlink()
        rewritten.check(goes_on=place == len(points) - 1)


@pytest.mark.parametrize("many", SOAKED)
def test_a_task_that_is_tried_again_leaves_nothing_beside_what_it_made(rewritten, many):
    for place, number in enumerate(points := worker_points(rewritten, many)):
        rewritten.begin()
        rewritten.tell_workers(rewritten.point(number, FORMS[place % 3]), again=False)
        rewritten.live("rewriting")
        assert rewritten.names() == rewritten.whole, stopped_at(rewritten.journal)
        if place == len(points) - 1:
            rewritten.check(goes_on=True)


def worker_points(rewritten, many):
    """Of what the first task that writes does to files."""
    rewritten.begin()
    rewritten.tell_workers(rewritten.point(), again=False)
    rewritten.live("rewriting")
    return rewritten.sampled(many)
