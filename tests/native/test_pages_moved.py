"""Pages in another place: what was copied, forked or rewritten goes on as the original does."""

import shutil
from dataclasses import dataclass
from typing import Any

import pytest
from everything import BEGINNING, KEYS, OUTPUT, ROWS, Everything, by_batch, event
from paged_pipeline import PagedPipeline

from statemigrate.commands.rewrite import rewrite_checkpoint
from statemigrate.rewrite.fork import fork
from statemigrate.rewrite.sources import RewriteOptions

pytestmark = [pytest.mark.spark, pytest.mark.long]

PARTS = {"rows": ROWS, "output": OUTPUT, "by": ("name", "number"), "pages": 3}
LATER = [
    [event(*key, "add", 8) for key in [*KEYS, ("new", 3), ("newer", 4)]],
    [event(*key, "remove", 1) for key in KEYS] + [event("new", 3, "clear", 9)],
]


@dataclass
class Moved(PagedPipeline):
    """A query that reads what the original reads."""

    original: Any = None

    @property
    def input(self):
        return self.original.input


def copied(spark, old, new):
    shutil.copytree(old, new)


def forked(spark, old, new):
    fork(old, new)


def rewritten(spark, old, new):
    options = RewriteOptions(partitions=3)
    made = rewrite_checkpoint(old, new, options=options, migrations=None, apply=True, spark=spark)
    assert made.report is not None
    assert {path.name for path in (new / "state" / "0").glob("[0-9]*")} == {"0", "1", "2"}


def test_pages_in_another_place_go_on_as_the_original(spark, tmp_path):
    original = PagedPipeline(spark, tmp_path / "original", **PARTS)
    original.feed(*BEGINNING)
    original.deploy_natively(Everything())
    begun = original.stored_pages()
    places = []
    for move in (copied, forked, rewritten):
        moved = Moved(spark, tmp_path / move.__name__, **PARTS, original=original)
        moved.root.mkdir()
        move(spark, original.checkpoint, moved.checkpoint)
        assert moved.stored_pages() == begun
        places.append(moved)
    original.handed.clear()
    original.feed(*LATER)
    for each in (original, *places):
        each.deploy_natively(Everything())
    assert [sum(rows.values()) for rows in by_batch(original).values()] == [7, 6]
    for each in places:
        assert by_batch(each) == by_batch(original), each.root.name
        assert each.stored_pages() == original.stored_pages()
