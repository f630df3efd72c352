"""What tasks of a rewrite read from files is what Spark's own state reader gives, row by row."""

import shutil

import pytest
from state_queries import CHECKED, OPERATORS, WAYS

from statemigrate.checkpoint.shape import describe
from statemigrate.errors import CorruptFileError, RewriteError
from statemigrate.files import LocalFiles
from statemigrate.rewrite.column_pairing import store_families as families_of
from statemigrate.rewrite.file_reading import FileReader, survey_stored
from statemigrate.rewrite.partitioning import survey
from statemigrate.rewrite.spark_reader import StateReader, rewriting_session

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]

AVRO = {"stateStore.encodingFormat": "avro"}
CASES = [
    *((name, "hdfs", {}) for name in OPERATORS),
    *((name, "rocksdb", {}) for name in OPERATORS),
    ("aggregation", "changelogs", {}),
    ("join", "changelogs with ids", {}),
    ("join", "rocksdb with ids", {}),
    ("join", "rocksdb", {"join.stateFormatVersion": "3"}),
    ("windows", "hdfs", CHECKED),
    ("windows", "rocksdb", CHECKED),
    *(("windows", way, CHECKED) for way in ("changelogs", "changelogs with ids")),
    ("join", "changelogs", CHECKED | {"join.stateFormatVersion": "3"}),
    *(("variables", way, {}) for way in WAYS if way != "hdfs"),
    *(("variables", way, AVRO) for way in ("rocksdb", "changelogs")),
    *(("expiring", way, {}) for way in ("rocksdb", "changelogs with ids")),
    ("expiring", "changelogs", CHECKED | AVRO),
]


def names(case):
    name, way, settings = case
    return "-".join([name, way, *settings]).replace(" ", "_")


@pytest.mark.parametrize("case", CASES, ids=names)
def test_every_row_is_the_one_that_spark_reads(spark, made, case):
    name, way, settings = case
    files = LocalFiles(made(name, way, **settings).checkpoint)
    # A query that runs by the clock may have begun one more batch.
    shape = describe(files, restarts=False)
    session = rewriting_session(spark, shape)
    states = StateReader(files, shape.batch, session)
    reader = FileReader(states, shape)
    found = 0
    for operator in shape.operators:
        for family, place in families_of(operator):
            expected, rows = states.rows(operator, place), reader.rows(operator, place)
            assert [each.dataType for each in rows.schema] == [
                each.dataType for each in expected.schema
            ]
            assert listed(rows) == listed(expected)
            # Hashes and partitions are computed in two ways, by Spark and without it.
            taken = survey_stored(session, reader.family(operator, place), family)
            assert taken == survey(expected, operator, place, family)
            found += taken.total.count
    assert found


def listed(frame):
    rows = frame.toArrow().to_pylist()
    return sorted(repr((row["partition"], row["key"], row["value"])) for row in rows)


def test_a_table_that_is_cut_is_refused_by_name(spark, made, tmp_path):
    root = tmp_path / "cut"
    shutil.copytree(made("aggregation", "rocksdb").checkpoint, root)
    files = LocalFiles(root)
    shape = describe(files)
    for table in root.rglob("*.sst"):
        content = table.read_bytes()
        table.write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))
    with pytest.raises(CorruptFileError) as raised:
        surveyed(spark, files, shape)
    assert raised.value.data["path"].endswith((".sst", ".zip"))


def surveyed(spark, files, shape):
    session = rewriting_session(spark, shape)
    reader = FileReader(StateReader(files, shape.batch, session), shape)
    family, place = next(iter(families_of(shape.operators[0])))
    return survey_stored(session, reader.family(shape.operators[0], place), family)


def test_a_row_that_is_not_where_its_hash_says_is_refused_with_its_key(spark, made, tmp_path):
    root = tmp_path / "astray"
    shutil.copytree(made("aggregation", "hdfs").checkpoint, root)
    files = LocalFiles(root)
    shape = describe(files)
    folders = [root / "state" / "0" / str(number) for number in range(2)]
    for name in ("1", "2", "3", "4"):
        pair = [folder / f"{name}.delta" for folder in folders]
        contents = [path.read_bytes() for path in pair]
        for path, content in zip(pair, reversed(contents), strict=True):
            path.write_bytes(content)
    with pytest.raises(RewriteError) as raised:
        surveyed(spark, files, shape)
    assert raised.value.code == "SM-REWRITE-044"
    assert '"k": ' in raised.value.expected
