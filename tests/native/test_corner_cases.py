"""The corner cases of every type: plain Spark, a migrated state, pages and the embedded engine."""

import pytest
from corner_cases import STORES, CornerCases
from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline
from pipelines import Pipeline
from tally import Scripts

from statemigrate import migrated

pytestmark = [pytest.mark.spark, pytest.mark.long]

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
PARTS = {"rows": "key STRING, n INT", "output": "key STRING, n INT, seen STRING"}
BATCHES = [
    [(key, n) for n, key in enumerate("abcd")],
    [(key, n + 1) for n, key in enumerate("abcd")],
    [(key, n + 2) for n, key in enumerate("abcde")],
]


@pytest.fixture
def folder(tmp_path):
    scripts = Scripts(tmp_path / "migrations")
    path = scripts.write(amounts=None)
    for number, (store, ddl) in enumerate(STORES.items()):
        text = SCRIPT.format(revision=f"bbbb0000000{number:x}", store=store, ddl=ddl)
        (scripts.folder.versions / f"{store}.py").write_text(text)
    return path


def told(pipeline):
    return {batch: sorted(rows) for batch, rows in pipeline.handed_by_batch.items() if rows}


def test_a_migrated_state_pages_and_the_embedded_engine_tell_what_plain_spark_tells(
    spark, tmp_path, folder
):
    plain, ours = (NativePipeline(spark, tmp_path / name, **PARTS) for name in ("plain", "ours"))
    embedded = Pipeline(spark, tmp_path / "embedded", **PARTS)
    paged = PagedPipeline(spark, tmp_path / "paged", pages=2, **PARTS)
    for pipeline in (plain, ours, paged):
        pipeline.feed(*BATCHES[:1])
        pipeline.deploy_natively(CornerCases())
        pipeline.feed(*BATCHES[1:])
    plain.deploy_natively(CornerCases())
    ours.deploy_natively(migrated(CornerCases(), migrations=folder, checkpoint=ours.checkpoint))
    paged.deploy_natively(migrated(CornerCases(), migrations=folder))
    embedded.feed(*BATCHES)
    embedded.deploy(CornerCases())
    assert [len(rows) for rows in told(plain).values()] == [4, 4, 5]
    for batch, rows in told(plain).items():
        others = (told(each)[batch] for each in (ours, paged, embedded))
        for wanted, migrated_row, paged_row, embedded_row in zip(rows, *others, strict=True):
            assert migrated_row == wanted
            assert paged_row == wanted
            assert embedded_row == wanted
    # All keys were touched, so all values are migrated; the store without scripts is as it was.
    assert ours.state("value") == {}
    assert {"plain", *STORES} <= ours.variables()
