"""The embedded engine holds, and migrates, state of types that Avro has not."""

import pytest
from beyond_avro import STORES, Beyond, text, value
from pipelines import Pipeline
from tally import Scripts

from statemigrate import migrated
from statemigrate.formats import Struct
from statemigrate.processor.rows import TupleCodec

pytestmark = pytest.mark.spark

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
PARTS = {"rows": "key STRING, n INT", "output": "key STRING, seen STRING"}


def told(pipeline):
    return {batch: sorted(rows) for batch, rows in pipeline.handed_by_batch.items() if rows}


@pytest.mark.long
def test_every_value_is_migrated_as_it_was(spark, tmp_path):
    scripts = Scripts(tmp_path / "migrations")
    folder = scripts.write(amounts=None)
    for number, (store, ddl) in enumerate(STORES.items()):
        script = SCRIPT.format(revision=f"dddd0000000{number:x}", store=store, ddl=ddl)
        (scripts.folder.versions / f"{store}.py").write_text(script)
    plain, ours = (Pipeline(spark, tmp_path / name, **PARTS) for name in ("plain", "ours"))
    for pipeline in (plain, ours):
        pipeline.feed([(key, n) for n, key in enumerate("abc")])
        pipeline.deploy(Beyond())
        # By the last batch the backfill has had the third key.
        pipeline.feed([("a", 5), ("b", 6)], [("c", 7)])
    plain.deploy(Beyond())
    ours.deploy(migrated(Beyond(), migrations=folder))
    assert told(ours) == told(plain)
    assert [len(rows) for rows in told(ours).values()] == [3, 2, 1]
    seen = dict(ours.handed_by_batch[1])
    rows = TupleCodec(Struct(STORES["value"]).struct_type())
    first = rows.to_tuple(rows.to_value(rows.take(value(0))))
    assert seen["a"].startswith(repr((text(first),))[:-2])
