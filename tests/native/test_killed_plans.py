"""Planning and pausing a backfill of pages, killed before any change of a file, are made again."""

from contextlib import contextmanager
from itertools import count

import pytest
from paged_pipeline import TallyPages, check_families
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import backfill, backfill_status, migrated, pause_backfill
from statemigrate.commands.current import log
from statemigrate.files.confined import ConfinedPath
from statemigrate.native.chunks import ChunkFiles
from statemigrate.native.operators import chunk_files

pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.long]
CHANGES = ("rename_to", "link_to", "unlink", "remove_tree")


class Dead(BaseException):
    """What is dead cleans up nothing, so that the disk stays as it is."""


def die(*_):
    raise Dead


@contextmanager
def dying_after(number, monkeypatch):
    """After so many changes of local files there is no further one, as if it were killed."""
    calls = count()
    with monkeypatch.context() as patched:
        for name in CHANGES:
            original = getattr(ConfinedPath, name)
            patched.setattr(ConfinedPath, name, until_dead(original, calls, number))
        yield


def until_dead(change, calls, number):
    def changed(*given, **named):
        if next(calls) >= number:
            raise Dead
        return change(*given, **named)

    return changed


def deaths_in(command, monkeypatch):
    """Begin a command anew until it comes to its end, each time killed one change later."""
    for number in count():
        try:
            with dying_after(number, monkeypatch):
                command()
        except Dead:
            yield number
        else:
            return


def test_plans_and_pauses_that_are_killed_may_be_made_again(spark, scripts, tmp_path, monkeypatch):
    pages, expected, folder = TallyPages(spark, tmp_path, pages=8), Expected(), scripts.write()
    pages.feed(rows := batch("first", range(40)))
    pages.deploy_natively(CentsTally())
    expected.process(rows, CENTS)
    at, given = pages.checkpoint, {"migrations": folder, "keys_per_chunk": 3}
    for command in (lambda: backfill(at, **given), lambda: pause_backfill(at)):
        deaths = 0
        for _ in deaths_in(command, monkeypatch):
            deaths += 1
            assert log(at).entries
            assert chunk_files(at).plan() is None or chunk_files(at).written()
        assert deaths > 2
        status = backfill_status(at, migrations=folder)
        assert (status.keys_left, status.consumed) == (40, 0)
    # A plan without its last file: the chunks that it has are taken, as far as they go.
    with monkeypatch.context() as patched:
        patched.setattr(ChunkFiles, "write_plan", die)
        with pytest.raises(Dead):
            backfill(at, **given)
    left = sorted(chunk_files(at).written())
    assert len(left) == 3
    (at / "statemigrate" / "control" / "pages" / "chunks" / left[0]).unlink()
    pages.deploy_natively(migrated(AmountsTally(), migrations=folder))
    again = backfill(at, **given)
    assert 0 < again.keys < 40
    pages.deploy_natively(migrated(AmountsTally(), migrations=folder))
    expected.drain(AMOUNTS)
    check_families(pages, expected, CENTS, AMOUNTS)
