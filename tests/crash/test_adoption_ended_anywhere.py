"""Adopting a checkpoint, and undoing it, ends at any file operation: the next run completes it."""

import errno
import shutil
import zlib
from pathlib import Path

import pytest
from support.crash.journal import operations, stopped_at
from support.crash.library import Point
from support.crash.power import RULES, Disk
from support.offset_logs import checkpoint, run_batch, tree

pytestmark = pytest.mark.kill
LIVES = "support.crash.adopting"
CONTROL = ['{"logOffset":7}', '{"logOffset":0}']
EVERY = 11
"""Of the operations each eleventh; the next form takes others."""


@pytest.fixture(scope="module")
def before(places) -> Path:
    """An existing query's checkpoint; its sources and state are nobody's business here."""
    return checkpoint(places / "existing", batches=3)


@pytest.fixture(scope="module")
def adopted(before, places, nurseries) -> Path:
    """The same, adopted, and run with the backfill source since."""
    root = Path(shutil.copytree(before, places / "adopted"))
    assert nurseries[0].run(f"{LIVES}:adopting", str(root)).value == "prepared"
    run_batch(root, 3, *CONTROL)
    return root


def queries_files(root: Path) -> dict[str, bytes | None]:
    """What Spark reads: all but the backup, and half-written files, which it passes over.

    A file without a checksum file is read as it is, with a wrong one it is not read at all.
    """
    found = {}
    for name, data in tree(root).items():
        path = root / name
        if name.startswith("statemigrate") or path.suffix == ".tmp":
            continue
        if path.name.startswith(".") and path.suffix == ".crc":
            described = path.with_name(path.name[1:-4])
            assert data == b"crc\0\0\0\2\0" + zlib.crc32(described.read_bytes()).to_bytes(4), name
        else:
            found[name] = data
    return found


class Tried:
    """A command ended at each of its operations, in one form, and run again."""

    def __init__(self, nurseries, places, template, function):
        self.nurseries, self.places, self.template = nurseries, places, template
        self.function = f"{LIVES}:{function}"
        self.root = places / "run"
        self.journal = places / "journal"
        self.count = 0
        self.done = queries_files(self.once(None))

    def once(self, point):
        """Run it on a fresh copy; the folder."""
        self.count += 1
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.template, self.root)
        self.journal.unlink(missing_ok=True)
        self.life = self.again(point)
        return self.root

    def again(self, point=None):
        nursery = self.nurseries[self.count % len(self.nurseries)]
        return nursery.run(self.function, str(self.root), point=point)

    def point(self, number, form, error=0):
        return Point((str(self.root),), number, form, error, journal=str(self.journal))

    def operations(self):
        self.once(self.point(0, "count"))
        return self.life.counted

    def completes(self):
        """Run again without trouble, it leaves what one run alone would have left."""
        life = self.again()
        # Killed after its last operation, it has nothing left to do, and says so.
        is_done = "[SM-ADOPT-013]" in life.error or "[SM-ADOPT-015]" in life.error
        assert life.ended == "returned" or is_done, life.error
        assert queries_files(self.root) == self.done, stopped_at(self.journal)


@pytest.fixture(params=["adopting", "undoing"])
def tried(request, nurseries, places, before, adopted) -> Tried:
    template = before if request.param == "adopting" else adopted
    return Tried(nurseries, places, template, request.param)


@pytest.mark.parametrize("form", ["before", "after", "torn"])
def test_killed_anywhere_it_is_completed_by_the_next_run(tried, form):
    count = tried.operations()
    assert count > 20
    for number in range(1 + len(form) % EVERY, count + 1, EVERY):
        tried.once(tried.point(number, form))
        assert tried.life.ended == "killed"
        tried.completes()


@pytest.mark.long(weight=1 / 15)
@pytest.mark.parametrize("rule", RULES)
def test_power_lost_anywhere_it_is_completed_by_the_next_run(tried, rule):
    for number in range(1 + len(rule) % EVERY, tried.operations() + 1, EVERY):
        shutil.rmtree(tried.root, ignore_errors=True)
        shutil.copytree(tried.template, tried.root)
        tried.journal.unlink()
        disk = Disk([tried.root])
        assert tried.again(tried.point(number, "lost")).ended == "killed"
        disk.replay(operations(tried.journal))
        disk.lay_out(rule, number)
        tried.completes()


@pytest.mark.long(weight=1 / 15)
@pytest.mark.parametrize(("form", "error"), [("full", errno.ENOSPC), ("fail once", errno.EIO)])
def test_where_the_disk_fails_it_says_so_and_is_completed_later(tried, form, error):
    for number in range(1 + len(form) % EVERY, tried.operations() + 1, EVERY):
        tried.once(tried.point(number, form, error))
        assert tried.life.ended == "returned" or tried.life.kind.startswith("package:"), (
            stopped_at(tried.journal),
            tried.life.error,
        )
        tried.completes()
