"""Values of every type go through dual access as they go through Spark's own variables."""

from collections import Counter

import pytest
from everything import OUTPUT, PROFILE, ROWS, Everything, event, shown
from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline
from tally import Scripts

from statemigrate import migrated

pytestmark = pytest.mark.spark

FORMATS = {
    "profile": PROFILE,
    "history": "at TIMESTAMP, price DECIMAL(12,3)",
    "days": "total DECIMAL(20,3), names ARRAY<STRING>",
}
SCRIPT = '''"""A new revision that changes nothing, so that every value must come out as it was."""
from statemigrate.formats import Struct

revision = "{revision}"
down_revision = None
branch_labels = ("{store}",)
store = "{store}"
old = new = Struct("""{ddl}""")


def upgrade(value):
    return value
'''
KEYS = [("a", 1), ("a", None), (None, 2), ("b\x00", 1), (None, None)]
BEFORE = [
    [event(*key, "add", second) for key in KEYS for second in (1, 2, 3)],
    [event("a", 1, "add", 5, raw=None, tags=None, attributes=None)],
]
AFTER = [
    [
        event("a", 1, "add", 6),
        event("a", None, "rewrite", 7),
        event(None, 2, "clear", 8),
        event("b\x00", 1, "remove", 1),
    ],
    [event(*key, "add", second) for key in KEYS for second in (2, 9)],
]


def by_batch(pipeline):
    return {n: Counter(map(shown, rows)) for n, rows in pipeline.handed_by_batch.items() if rows}


@pytest.mark.long
def test_a_query_that_migrates_tells_the_same_as_one_that_does_not(spark, tmp_path):
    scripts = Scripts(tmp_path / "migrations")
    folder = scripts.write(amounts=None)
    for number, (store, ddl) in enumerate(FORMATS.items()):
        text = SCRIPT.format(revision=f"cccc0000000{number}", store=store, ddl=ddl)
        (scripts.folder.versions / f"{store}.py").write_text(text)
    parts = {"rows": ROWS, "output": OUTPUT, "by": ("name", "number")}
    plain, ours = (NativePipeline(spark, tmp_path / name, **parts) for name in ("plain", "ours"))
    paged = PagedPipeline(spark, tmp_path / "paged", pages=2, **parts)
    for pipeline in (plain, ours, paged):
        pipeline.feed(*BEFORE)
        pipeline.deploy_natively(Everything())
        pipeline.feed(*AFTER)
    plain.deploy_natively(Everything())
    ours.deploy_natively(migrated(Everything(), migrations=folder))
    paged.deploy_natively(migrated(Everything(), migrations=folder))
    assert len(by_batch(plain)) == 4
    assert by_batch(ours) == by_batch(plain)
    assert by_batch(paged) == by_batch(plain)
    # The keys of the later batches are migrated, to the values Spark itself would have.
    assert ours.state("profile") == {}
    assert ours.state("profile@cccc00000000") == plain.state("profile")
    assert ours.state("history@cccc00000001", "list") == plain.state("history", "list")
