"""What is in no chunk yet is told in keys, and of pages in the entries that they have."""

from io import BytesIO

import pyarrow as pa
import pytest
from pyarrow import parquet

from statemigrate.native.backfill_progress import keys_uncut
from statemigrate.native.chunks import (
    ENTRIES,
    WAITING,
    BackfillLimits,
    BlocksLeft,
    ChunkFiles,
    PlanRecord,
)

COUNTS = [[3, 1, 4], [1, 5]]
PLAN = "0123456789ab"


@pytest.fixture
def files(tmp_path):
    found = ChunkFiles(str(tmp_path))
    for number, counts in enumerate(COUNTS):
        written = BytesIO()
        table = pa.table({"number": list(range(len(counts))), ENTRIES: counts})
        parquet.write_table(table, written)
        name = f"{WAITING}/{PLAN}/part-{number:05}-x.c000.snappy.parquet"
        found.files.put(name, written.getvalue())
    return found


@pytest.mark.parametrize("entries", [14, None], ids=["pages", "keys"])
def test_what_is_left_falls_by_what_each_chunk_has(files, entries):
    plan = PlanRecord(PLAN, 5, 0, -1, BackfillLimits.of(0.5, None), ("tally",), entries)
    files.write_plan(plan)
    assert files.plan() == plan
    assert plan.counted == (entries or 5)
    blocks, left = BlocksLeft(files, PLAN, None), []
    while True:
        left.append(keys_uncut(files, plan, files.written()))
        if blocks.cut(4) is None:
            break
    assert left == ([14, 10, 6, 5, 0] if entries else [5, 3, 2, 1, 0])


def test_a_plan_of_fixed_chunks_has_nothing_left_to_cut(files):
    assert keys_uncut(files, PlanRecord(PLAN, 5, 2, -1, None, None, 14), files.written()) == 0
