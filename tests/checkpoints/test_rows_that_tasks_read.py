"""What tasks of a rewrite read from files is what Spark's own state reader gives, row by row."""

import shutil

import pytest
from state_queries import CHECKED, OPERATORS

from statemigrate.checkpoint.shape import describe
from statemigrate.errors import CorruptFileError, RewriteError
from statemigrate.files import LocalFiles
from statemigrate.rewrite.column_pairing import store_families as families_of
from statemigrate.rewrite.file_reading import stored_operator, survey_stored
from statemigrate.rewrite.partitioning import survey
from statemigrate.rewrite.reading import StateReader, rewriting_session

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]

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
]


def names(case):
    name, way, settings = case
    return "-".join([name, way, *settings]).replace(" ", "_")


@pytest.mark.parametrize("case", CASES, ids=names)
def test_every_row_is_the_one_that_spark_reads(spark, made, case):
    name, way, settings = case
    files = LocalFiles(made(name, way, **settings).checkpoint)
    shape = describe(files)
    session = rewriting_session(spark, shape)
    reader = StateReader(files, shape.batch, session)
    found = 0
    for operator in shape.operators:
        stored = stored_operator(files, shape, operator)
        assert stored is not None
        for family, place in families_of(operator):
            frame = reader.rows(operator, place)
            expected = [
                (row["partition"], row["key"], row["value"]) for row in frame.toArrow().to_pylist()
            ]
            rows = [
                (partition, key, value)
                for partition in range(stored.partitions)
                for keys, values in stored.rows(place, partition)
                for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True)
            ]
            assert sorted(map(repr, rows)) == sorted(map(repr, expected))
            # Hashes and partitions are computed in two ways, by Spark and without it.
            taken = survey_stored(session, stored, operator, place, family)
            assert taken == survey(frame, operator, place, family)
            found += len(rows)
    assert found


@pytest.mark.parametrize("way", ["rocksdb", "changelogs"])
def test_variables_are_left_to_spark(made, way):
    files = LocalFiles(made("variables", way).checkpoint)
    shape = describe(files)
    assert stored_operator(files, shape, shape.operators[0]) is None


def test_a_table_that_is_cut_is_refused_by_name(spark, made, tmp_path):
    root = tmp_path / "cut"
    shutil.copytree(made("aggregation", "rocksdb").checkpoint, root)
    files = LocalFiles(root)
    shape = describe(files)
    stored = stored_operator(files, shape, shape.operators[0])
    family, place = next(iter(families_of(shape.operators[0])))
    for table in root.rglob("*.sst"):
        content = table.read_bytes()
        table.write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))
    with pytest.raises(CorruptFileError, match=r"\.zip"):
        survey_stored(rewriting_session(spark, shape), stored, shape.operators[0], place, family)


def test_a_row_that_is_not_where_its_hash_says_is_refused_with_its_key(spark, made, tmp_path):
    root = tmp_path / "astray"
    shutil.copytree(made("aggregation", "hdfs").checkpoint, root)
    files = LocalFiles(root)
    shape = describe(files)
    (operator,) = shape.operators
    folders = [root / "state" / "0" / str(number) for number in range(2)]
    for name in ("1", "2", "3", "4"):
        pair = [folder / f"{name}.delta" for folder in folders]
        contents = [path.read_bytes() for path in pair]
        for path, content in zip(pair, reversed(contents), strict=True):
            path.write_bytes(content)
    stored = stored_operator(files, shape, operator)
    family, place = next(iter(families_of(operator)))
    with pytest.raises(RewriteError, match="not in the partition") as raised:
        survey_stored(rewriting_session(spark, shape), stored, operator, place, family)
    assert '"k": ' in raised.value.expected
