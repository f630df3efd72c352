"""An aggregation with one more column goes on, on either provider, with other partitions."""

from collections import Counter

import pytest
from rewritten_code import totals, totals_and_largest
from rewritten_queries import accepting, rewritten, rows_of, run, session_with

pytestmark = pytest.mark.spark

BEFORE = [
    rows_of(*[(f"k{n % 7}", n) for n in range(40)], (None, 5)),
    rows_of(*[(f"k{n % 11}", n) for n in range(30)]),
]
AFTER = [
    rows_of(*[(f"k{n % 13}", n * 10) for n in range(50)], (None, 7)),
    rows_of(*[(f"k{n % 5}", -n) for n in range(20)]),
]


def expected(batches, since):
    """The rows of each batch: counts and sums of everything, the largest since a batch."""
    n, total, largest, found = Counter(), Counter(), {}, []
    for number, batch in enumerate(batches):
        for row in batch:
            k, v = row["k"], row["v"]
            n[k] += 1
            total[k] += v
            if number >= since:
                largest[k] = max(v, largest.get(k, v))
        touched = {row["k"] for row in batch}
        found.append(
            Counter(
                f"Row(k={k!r}, n={n[k]}, total={total[k]}, largest={largest.get(k)})"
                for k in touched
            )
        )
    return found


@pytest.mark.long
@pytest.mark.parametrize("provider", ["rocksdb", "hdfs"])
def test_one_more_column_and_other_partitions(spark, feed, tmp_path, provider):
    session = session_with(spark, provider)
    feed.add(*BEFORE)
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, totals, old)
    made = rewritten(
        spark,
        old,
        new,
        totals_and_largest,
        before=totals,
        answers=accepting("aggregation-0.max"),
        partitions=3,
    )
    family = made.report.families[0]
    assert family.read.count == family.total.count == 12
    assert sorted(family.written) == [0, 1, 2]
    feed.add(AFTER[0])
    first = run(session, feed, totals_and_largest, new)
    feed.add(AFTER[1])
    second = run(session, feed, totals_and_largest, new)
    assert {**first, **second} == dict(enumerate(expected(BEFORE + AFTER, 2)[2:], 2))
