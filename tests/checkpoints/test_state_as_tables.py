"""A query's state opened as tables, at any batch that is there, without Spark."""

import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import statemigrate
from statemigrate import CheckpointError, SqlError, ValueMismatchError, open_state

pytestmark = pytest.mark.spark

SYSTEM = {"_partition", "_revision", "_expires_at", "_batch", "_index"}


def opened(query, **options):
    return open_state(query.checkpoint, migrations=None, **options)


def by_spark(spark, query, batch):
    """The counts that Spark's reader finds by key, at a batch."""
    reader = spark.read.format("statestore").option("batchId", batch).load(str(query.checkpoint))
    return {row.key.k: row.value["count"] for row in reader.collect()}


@pytest.fixture(scope="module", params=["hdfs", "rocksdb", "changelogs", "changelogs with ids"])
def query(made, request):
    return made("aggregation", request.param)


def test_a_store_is_a_table_of_its_keys_and_values(query):
    state = opened(query)
    assert (state.stores, state.batch, state.batches) == (("aggregation-0",), 3, (0, 1, 2, 3))
    table = state["aggregation-0"]
    found = table.to_arrow()
    assert [each for each in table.columns if each not in SYSTEM] == ["k", "count", "sum", "max"]
    assert table.key_columns == ("k",)
    assert sorted(map(str, found["k"].to_pylist())) == sorted(
        ["", "None", "a", "bb", "ccc", "z" * 40, "ключ"]
    )
    assert set(found["_batch"].to_pylist()) == {3}
    assert set(found["_revision"].to_pylist()) == {"base"}
    assert table.count() == found.num_rows == len(table.to_pandas()) == table.to_polars().height


def test_columns_that_are_named_are_read_alone_and_another_name_is_refused(query):
    table = opened(query)["aggregation-0"]
    assert table.to_arrow(["sum", "_batch"]).to_pydict() == {
        name: table.to_arrow()[name].to_pylist() for name in ("sum", "_batch")
    }
    assert list(table.to_pandas(["sum"]).columns) == table.to_polars(["sum"]).columns == ["sum"]
    with pytest.raises(ValueMismatchError, match="no column total") as refused:
        list(table.batches(["total"]))
    assert (refused.value.code, refused.value.data["field"]) == ("SM-VALUE-014", "total")


@pytest.mark.long(weight=1 / 3)
def test_every_batch_is_what_spark_reads_at_it(spark, query):
    for batch in opened(query).batches:
        rows = opened(query, batch=batch)["aggregation-0"].to_arrow().to_pylist()
        if query.checkpoint.joinpath("commits", "3").read_text().startswith("v1"):
            assert {row["k"]: row["count"] for row in rows} == by_spark(spark, query, batch)
        assert {row["_batch"] for row in rows} == {batch}


def test_a_key_is_looked_up_and_a_missing_one_is_none(query):
    table = opened(query)["aggregation-0"]
    for row in table.to_arrow().to_pylist():
        assert table.get(row["k"]) == {name: row[name] for name in ("count", "sum", "max")}
        assert table.under(row["k"]).to_pylist() == [row]
    assert table.get("nobody") is None


@pytest.mark.long(weight=1 / 3)
@pytest.mark.parametrize("name", ["no keys", "limit"])
@pytest.mark.parametrize("way", ["hdfs", "changelogs"])
def test_a_store_without_key_columns_has_one_value(made, name, way):
    state = opened(made(name, way))
    table = state[state.stores[0]]
    (row,) = table.to_arrow().to_pylist()
    assert table.key_columns == ()
    assert table.get() == {name: each for name, each in row.items() if name not in SYSTEM}
    assert table.under().to_pylist() == [row]
    assert table.history().to_pylist()[-1]["_batch"] <= state.batch
    with pytest.raises(ValueMismatchError):
        table.get("a")


@pytest.mark.parametrize("key", [(7,), (b"a",), (), ("a", "b")])
def test_a_key_of_another_type_or_width_is_refused(query, key):
    with pytest.raises(ValueMismatchError) as error:
        opened(query)["aggregation-0"].get(*key)
    assert error.value.code == "SM-VALUE-012"


@pytest.mark.long(weight=1 / 3)
def test_what_differs_between_two_batches_is_what_their_tables_differ_in(query):
    state = opened(query)
    for before, after in ((0, 1), (1, 3), (3, 0), (2, 2)):
        old, new = (
            {row["k"]: row for row in state.at(n)["aggregation-0"].to_arrow().to_pylist()}
            for n in (before, after)
        )
        expected = {
            (key, "added" if key not in old else "removed" if key not in new else "changed")
            for key in {*old, *new}
            if key not in old or key not in new or old[key]["sum"] != new[key]["sum"]
            or old[key]["count"] != new[key]["count"]
        }  # fmt: skip
        found = state["aggregation-0"].changes(before, after).to_pylist()
        assert {(row["k"], row["_change"]) for row in found} == expected
        for row in found:
            if row["_change"] != "added":
                assert row["_before"]["sum"] == old[row["k"]]["sum"]


def test_the_life_of_a_key_has_a_row_for_each_change(query):
    table = opened(query)["aggregation-0"]
    rows = table.history("a").to_pylist()
    sums = [
        (batch, value["sum"])
        for batch in (0, 1, 2, 3)
        if (value := table.at(batch).get("a")) is not None
    ]
    changed = [each for n, each in enumerate(sums) if not n or each[1] != sums[n - 1][1]]
    assert [(row["_batch"], row["sum"]) for row in rows] == changed
    assert [row["_change"] for row in rows[1:]] == ["changed"] * (len(rows) - 1)


def test_a_batch_or_a_store_that_is_not_there_is_named(query):
    with pytest.raises(CheckpointError) as error:
        opened(query, batch=99)
    assert (error.value.code, error.value.data["batch"]) == ("SM-CHECKPOINT-016", 99)
    with pytest.raises(CheckpointError) as error:
        opened(query)["aggregation-1"]
    assert error.value.code == "SM-STATE-033"


WRITING = (
    "ATTACH 'other.db'",
    "PRAGMA enable_profiling",
    "LOAD httpfs",
    "CALL pragma_version()",
    'INSERT INTO "aggregation-0" SELECT * FROM "aggregation-0"',
    'DELETE FROM "aggregation-0"',
    'DROP VIEW "aggregation-0"',
    "EXPORT DATABASE 'folder'",
    "CHECKPOINT",
    "PREPARE a AS SELECT 1",
    "SET VARIABLE a = 1",
    "",
)
REACHING_OUT = (
    "SELECT getenv('PATH')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM parquet_metadata('/etc/passwd')",
    "SELECT * FROM 'http://127.0.0.1:1/a.parquet'",
    "SELECT * FROM sqlite_scan('a', 'b')",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO 'out.csv'",
)


@pytest.mark.long(weight=1 / 3)
def test_sql_reads_the_tables_and_nothing_else(query, tmp_path):
    state = opened(query)
    found = state.sql('SELECT count(*) AS n, sum("count") AS rows FROM "aggregation-0"')
    assert found.to_pylist() == [{"n": 7, "rows": 48}]
    twice = 'SELECT a.k FROM "aggregation-0" a JOIN "aggregation-0" b USING (k)'
    assert state.sql(twice).num_rows == 6
    (tmp_path / "secret.csv").write_text("a\n1\n")
    for code, statement in (
        ("SM-SQL-001", "CREATE TABLE t AS SELECT 1"),
        ("SM-SQL-001", f"COPY (SELECT 1) TO '{tmp_path}/out.csv'"),
        ("SM-SQL-001", "SELECT 1; SELECT 2"),
        ("SM-SQL-001", "INSTALL httpfs"),
        ("SM-SQL-001", "SET enable_external_access = true"),
        ("SM-SQL-002", f"SELECT * FROM '{tmp_path}/secret.csv'"),  # noqa: S608
        ("SM-SQL-002", f"SELECT * FROM read_text('{tmp_path}/secret.csv')"),  # noqa: S608
        ("SM-SQL-002", "SELECT nothing FROM nowhere"),
        ("SM-SQL-002", "SELECT * FROM query"),
        *(("SM-SQL-001", each) for each in WRITING),
        *(("SM-SQL-002", each) for each in REACHING_OUT),
    ):
        with pytest.raises(SqlError) as error:
            state.sql(statement)
        assert error.value.code == code, statement
    assert not (tmp_path / "out.csv").exists()
    with pytest.raises(duckdb.Error):
        state.duckdb().execute("SET enable_external_access = true")


def test_named_columns_are_hashed_alike_everywhere(query):
    plain, masked = opened(query)["aggregation-0"], opened(query, mask=["k"])["aggregation-0"]
    values = masked.to_arrow()["k"].to_pylist()
    assert masked.schema.field("k").type == pa.string()
    assert not {*filter(None, values)} & {*filter(None, plain.to_arrow()["k"].to_pylist())}
    assert len({*values}) == 7
    (row,) = masked.under("a").to_pylist()
    assert row["k"] in values
    assert row["sum"] == plain.get("a")["sum"]


def test_names_and_values_do_nothing_in_a_notebook(query, monkeypatch):
    state = opened(query)
    shown = state["aggregation-0"]._repr_html_()
    assert shown.count("<tr>") == 8
    assert "<script" not in state._repr_html_()
    monkeypatch.setenv("STATEMIGRATE_NO_VALUES", "1")
    assert "ключ" in shown
    assert "ключ" not in state["aggregation-0"]._repr_html_()


@pytest.mark.parametrize(
    ("name", "settings", "stores", "internal"),
    [
        pytest.param("join", {}, ["join-0.left", "join-0.right"], 2, marks=pytest.mark.long),
        pytest.param(
            "join",
            {"join.stateFormatVersion": "4"},
            ["join-0.left", "join-0.right"],
            2,
            marks=pytest.mark.long,
        ),
        pytest.param("groups", {}, ["groups-0"], 0, marks=pytest.mark.long),
        ("variables", {}, ["count", "numbers", "times"], 3),
    ],
    ids=str,
)
def test_stores_are_those_that_users_know_and_the_rest_is_internal(
    made, name, settings, stores, internal
):
    state = opened(made(name, "rocksdb", **settings))
    assert sorted(state.stores) == stores
    assert len(state.internal) == internal
    for each in (*state.stores, *state.internal):
        table = state[each]
        rows = table.to_arrow()
        assert rows.num_rows == table.count()
        for key in rows.select(list(table.key_columns)).slice(0, 3).to_pylist():
            assert table.under(*key.values()).num_rows


def test_a_list_is_under_its_key_in_order_and_a_map_by_both_keys(made):
    state = opened(made("variables", "rocksdb"))
    numbers, times = state["numbers"], state["times"]
    assert numbers.get("a") == [
        {"n": row["n"]}
        for row in sorted(numbers.to_arrow().to_pylist(), key=lambda row: row["_index"])
        if row["k"] == "a"
    ]
    (first, *_) = [row for row in times.to_arrow().to_pylist() if row["k"] == "a"]
    assert times.key_columns == ("k", "n")
    assert times.get("a", first["n"]) == {"at": first["at"]}
    assert times.under("a").num_rows == len(numbers.get("a"))


def test_the_batch_that_a_running_query_has_begun_is_not_read(made, tmp_path):
    root = tmp_path / "begun"
    shutil.copytree(made("aggregation", "rocksdb").checkpoint, root)
    shutil.copy(root / "offsets" / "3", root / "offsets" / "4")
    assert open_state(root, migrations=None).batch == 3


def test_a_version_that_is_removed_while_it_is_read_is_read_at_the_newest_batch(made, tmp_path):
    whole = made("aggregation", "hdfs").checkpoint
    root = tmp_path / "running"
    shutil.copytree(whole, root, ignore=shutil.ignore_patterns("*.crc"))
    (root / "commits" / "3").unlink()
    state = open_state(root, migrations=None)
    assert state.batch == 2
    # The query commits a batch, and removes the state of those before.
    shutil.copy(whole / "commits" / "3", root / "commits" / "3")
    kept = open_state(whole, migrations=None, batch=3)["aggregation-0"].to_arrow()
    for path in root.rglob("1.delta"):
        path.rename(path.with_name("1.gone"))
    asked = open_state(root, migrations=None, batch=2)
    with pytest.raises(CheckpointError) as error:
        asked["aggregation-0"].to_arrow()
    assert error.value.code == "SM-CHECKPOINT-023"
    for path in root.rglob("1.gone"):
        path.rename(path.with_name("1.delta"))
    assert open_state(root, migrations=None)["aggregation-0"].to_arrow().equals(kept)


def test_a_flipped_bit_in_a_table_is_named(made, tmp_path):
    root = tmp_path / "flipped"
    shutil.copytree(made("aggregation", "rocksdb").checkpoint, root)
    for path in root.rglob("*.sst"):
        content = bytearray(path.read_bytes())
        content[5] ^= 1
        path.write_bytes(content)
    with pytest.raises(CheckpointError) as error:
        open_state(root, migrations=None)["aggregation-0"].to_arrow()
    assert error.value.code == "SM-CHECKPOINT-031"


def test_neither_spark_nor_java_is_loaded(made):
    code = (
        "import sys, statemigrate\n"
        f"state = statemigrate.open_state({str(made('variables', 'rocksdb').checkpoint)!r})\n"
        "rows = sum(state[name].to_arrow().num_rows for name in state.stores)\n"
        "loaded = {each.partition('.')[0] for each in sys.modules}\n"
        "heavy = {'pyspark', 'py4j', 'rocksdict', 'fastavro', 'pandas', 'click'}\n"
        "print(rows, sorted(loaded & heavy))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path("/")
    )
    assert ran.stdout == "103 []\n"
    assert statemigrate.open_state is open_state
