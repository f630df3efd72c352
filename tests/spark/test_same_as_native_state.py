"""The same processor class on Spark's own state and on the embedded engine: the same rows."""

import datetime as dt
from collections import Counter
from decimal import Decimal

import pytest
from everything import BEGINNING, KEYS, OUTPUT, ROWS, Everything, KeyCounter, by_batch, event
from pipelines import Pipeline

pytestmark = pytest.mark.spark

UTC = dt.UTC
ODD_STRINGS = ["", None, "a", "a\x00", "a\x00b", "a'b\"c\\", "ключ", "\U0001f600", " a ", "a/b@c%"]
MOMENTS = [
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    dt.datetime(2024, 2, 29, 12, 0, 0, 1, UTC),
    dt.datetime(1900, 1, 1, tzinfo=UTC),
    None,
]
DAYS = [dt.date(1, 1, 1), dt.date(1969, 12, 31), None, dt.date(9999, 12, 31)]
NUMBERS = [0, -1, 2**31 - 1, -(2**31), None]


def both(spark, root, processor, batches, **parts) -> Pipeline:
    """Run natively and embedded; assert that all rows of all batches are the same."""
    native, embedded = (Pipeline(spark, root / name, **parts) for name in ("native", "embedded"))
    for pipeline in (native, embedded):
        pipeline.feed(*batches)
    native.run_natively(processor)
    embedded.deploy(processor)
    assert sum(map(len, native.handed_by_batch.values())) > 0
    assert by_batch(embedded) == by_batch(native)
    return embedded


@pytest.mark.long
def test_value_list_and_map_state_with_nested_values(spark, tmp_path):
    batches = [
        *BEGINNING,
        [event(*key, "add", 8, tags=[], attributes={}) for key in [*KEYS, ("new", 3)]],
        [event(*key, "clear", 9) for key in KEYS[:2]],
        [event(*key, "add", 2) for key in KEYS],
    ]
    parts = {"rows": ROWS, "output": OUTPUT, "by": ("name", "number")}
    embedded = both(spark, tmp_path, Everything(), batches, **parts)
    assert len(embedded.stored()["profile"]) == 6
    assert embedded.stored()["days"][None, 2, dt.date(2025, 3, 3), 2]["names"] == [None]


@pytest.mark.long
@pytest.mark.parametrize(
    ("columns", "keys"),
    [
        ("k STRING", [(each,) for each in ODD_STRINGS]),
        ("k TIMESTAMP", [(each,) for each in MOMENTS]),
        ("k DATE", [(each,) for each in DAYS]),
        (
            "s STRING, i INT, d DATE, t TIMESTAMP, m DECIMAL(38,18), o BOOLEAN, b BINARY, y BYTE",
            [
                (s, i, d, t, Decimal(number).scaleb(-18), number % 2 == 0, bytes([number, 0]), -1)
                for number, (s, i, d, t) in enumerate(
                    zip(ODD_STRINGS[:4], NUMBERS[:4], DAYS, MOMENTS, strict=True)
                )
            ]
            + [(None,) * 8, ("a", 1, None, None, None, None, b"", None)],
        ),
    ],
    ids=["strings", "timestamps", "dates", "several columns"],
)
def test_keys(spark, tmp_path, columns, keys):
    names = [column.split()[0] for column in columns.split(", ")]
    rows = f"{columns}, v INT"
    batches = [[(*key, n) for key in keys for n in range(2)], [(*key, 1) for key in keys[::2]]]
    output = "key STRING, n INT, share DOUBLE"
    pipeline = both(
        spark, tmp_path, KeyCounter(), batches, rows=rows, output=output, by=tuple(names)
    )
    assert len(pipeline.handed_by_batch[0]) == len(keys)
    assert len(pipeline.stored()["counter"]) == len(keys)


class OddlyNamed(KeyCounter):
    def handleInputRows(self, key, rows, timer_values):
        return map(tuple, super().handleInputRows(key, rows, timer_values))


def test_columns_may_have_odd_names(spark, tmp_path):
    rows = "`user id` STRING, `a.b` INT, `tick``s` INT"
    pipeline = Pipeline(
        spark, tmp_path, rows=rows, output="`a key` STRING, n INT, `sh.are` DOUBLE",
        by=("user id", "a.b", "tick`s"),
    )  # fmt: skip
    pipeline.feed([("x", 1, 2), ("x", 1, 2), ("x", 2, 2)])
    pipeline.deploy(OddlyNamed())
    assert pipeline.handed_rows == Counter({("('x', 1, 2)", 2, 0.0): 1, ("('x', 2, 2)", 1, 0.0): 1})
