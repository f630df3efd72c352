"""Files with ids in their names and rows in Avro are written as Spark writes them, and go on."""

import json

import pytest
import rewritten_code as code
from rewritten_queries import PROVIDER, PROVIDERS, rewritten, rows_of, run, session_with
from variables_code import variables

from statemigrate.checkpoint.shape import describe
from statemigrate.commands.rewrite import verify
from statemigrate.errors import UnsupportedError
from statemigrate.files import LocalFiles

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]

IDS = "spark.sql.streaming.stateStore.checkpointFormatVersion"
ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
ROWS = [(f"k{n % 6}", n, 100 + n) for n in range(24)]


def goes_on(spark, session, feed, old, new, function, **options):
    """Rewrite, and hold two batches, a start for each, against those of the old query."""
    rewritten(spark, old, new, partitions=3, **options)
    assert verify(old, new, spark=spark).problems == ()
    for rows in (rows_of(("k1", 1, 130), ("new", 2, 140)), rows_of(("k1", 3, 150), ("k2", 4, 160))):
        feed.add(rows)
        given = run(session, feed, function, new)
        assert given == run(session, feed, function, old)
        assert len(given) == 1


def test_files_get_ids_where_they_had_some_or_where_it_is_asked_for(spark, feed, tmp_path):
    with_ids = session_with(spark, "rocksdb", **{IDS: "2"})
    feed.add(rows_of(*ROWS[:12]), rows_of(*ROWS[12:]))
    old, new, plain, again = (tmp_path / name for name in ("old", "new", "plain", "again"))
    run(with_ids, feed, code.totals, old)
    rewritten(spark, old, plain, conf={IDS: "1"})
    assert describe(LocalFiles(plain)).commits[1].state_ids is None
    rewritten(spark, plain, again, conf={IDS: "2"})
    goes_on(spark, with_ids, feed, old, new, code.totals)
    commit = json.loads((new / "commits" / "1").read_text().split("\n")[1])
    ids = commit["stateUniqueIds"]["0"]
    assert len(ids) == 3
    for partition, (unique_id,) in enumerate(ids):
        assert (new / "state" / "0" / str(partition) / f"2_{unique_id}.changelog").is_file()
    found = run(with_ids, feed, code.totals, again)
    assert sorted(found) == [2, 3]
    hdfs = {PROVIDER: PROVIDERS["hdfs"].class_name, IDS: "2"}
    with pytest.raises(UnsupportedError, match="has no files with ids"):
        rewritten(spark, old, tmp_path / "no", conf=hdfs)


@pytest.mark.parametrize("way", ["unsaferow avro", "avro unsaferow", "avro avro"])
def test_variables_change_their_encoding(spark, feed, tmp_path, way):
    before, after = way.split()
    session = session_with(spark, "rocksdb", **{ENCODING: before})
    feed.add(rows_of(*ROWS[:12]), rows_of(*ROWS[12:]))
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, variables, old)
    goes_on(spark, session, feed, old, new, variables, conf={ENCODING: after})
    assert describe(LocalFiles(new)).conf[ENCODING] == after
