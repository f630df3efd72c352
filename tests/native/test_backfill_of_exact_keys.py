"""A plan has exactly the keys that the state has: bytes tell keys apart, not Spark's equality."""

import math
import struct
from contextlib import closing
from decimal import Decimal
from types import SimpleNamespace

import pytest
from control_pipeline import ControlPipeline
from tally import AmountsTally, CentsTally

from statemigrate import backfill, backfill_status, migrated
from statemigrate.native.backfill_planning import OlderKeys
from statemigrate.native.chunks import ChunkFiles

pytestmark = pytest.mark.spark

KEY = (
    "key STRUCT<d: DOUBLE, f: FLOAT, s: STRING, n: DECIMAL(38,18), b: BINARY, "
    "t: STRUCT<x: DOUBLE, a: ARRAY<FLOAT>>, i: BIGINT>"
)
ZEROS = [0.0, -0.0, math.nan, math.inf, 5e-324, None]
EXTREMES = [
    ZEROS,
    [*ZEROS[:4], 2.0**-149, None],
    ["", "\u00e9", "e\u0301", "a", "A", "\x00", None],
    [Decimal("0E-18"), Decimal("1E-18"), Decimal("-1E-18"), None],
    [b"", b"\x00", b"\x00\x00", None],
    [(x, a) for x in ZEROS[:3] for a in ([], [0.0], [-0.0], [None], None)] + [None],
    [0, -1, 2**63 - 1, -(2**63), None],
]


def exact(value):
    """A key as what is the same only for the same bits."""
    if isinstance(value, float):
        return struct.pack(">d", value)
    return tuple(map(exact, value)) if isinstance(value, tuple | list) else value


def sets_apart(keys):
    return sorted((exact(tuple(key)) for key in keys), key=repr)


def stored(pipeline, variable):
    reader = pipeline.spark.read.format("statestore").option("stateVarName", variable)
    return sets_apart(row.key for row in reader.load(str(pipeline.checkpoint)).collect())


@pytest.mark.long
def test_a_plan_has_every_extreme_key_once_and_no_two_that_spark_takes_for_one(spark, tmp_path):
    usual = [values[0] for values in EXTREMES]
    keys = [
        (*usual[:at], value, *usual[at + 1 :])
        for at, values in enumerate(EXTREMES)
        for value in values
    ]
    distinct = {exact(key): key for key in keys}
    # As a list has it, with several rows a key; and a second family with some of the keys.
    rows = [(key, number % 2) for number, key in enumerate(distinct.values())]
    families = {
        "old": spark.createDataFrame(rows * 2, f"{KEY}, partition_id INT"),
        "older": spark.createDataFrame(rows[::3], f"{KEY}, partition_id INT"),
    }
    files = ChunkFiles(str(tmp_path))
    found = SimpleNamespace(read=lambda: families, path=str(tmp_path))
    with closing(OlderKeys(found)) as older:
        assert older.left.keys == len(distinct)
        assert older.left.families == {"old": len(rows), "older": len(rows[::3])}
        plan = older.write(files, "query", 1_000, None)
    chunks = [
        [tuple(row)[:-1] for row in spark.read.parquet(f"{files.location}/{name}").collect()]
        for name in sorted(files.written())
    ]
    assert plan.keys == len(distinct)
    assert sets_apart(key for chunk in chunks for key in chunk) == sorted(distinct, key=repr)
    for chunk in chunks:
        # Python's equality is Spark's here, but for NaN, of which there is one kind.
        same = spark.createDataFrame([(key,) for key in chunk], KEY).distinct().count()
        assert same == len(chunk)


@pytest.mark.long
def test_zeros_of_both_signs_are_migrated_each_by_its_own(spark, tmp_path, scripts):
    folder = scripts.write()
    rows = "k STRING, x DOUBLE, cents BIGINT, name STRING"
    pipeline = ControlPipeline(spark, tmp_path / "pairs", rows=rows, by=("k", "x"))
    # A batch for each: within one, Spark itself makes one group of them.
    for number in (0.0, -0.0):
        pipeline.feed([(key, number, 5, "n") for key in ("a", None)])
    pipeline.deploy_natively(CentsTally())
    before = stored(pipeline, "tally")
    assert len(set(before)) == len(before) == 4
    assert backfill_status(pipeline.checkpoint, migrations=folder).keys_left == 4
    plan = backfill(pipeline.checkpoint, migrations=folder, keys_per_chunk=100)
    # In one batch 0.0 and -0.0 would be one group, and only one of them would be touched.
    assert (plan.keys, plan.chunks) == (4, 2)
    pipeline.deploy_natively(migrated(AmountsTally(), migrations=folder))
    assert stored(pipeline, "tally") == []
    assert stored(pipeline, "tally@aaaa11112222") == before
