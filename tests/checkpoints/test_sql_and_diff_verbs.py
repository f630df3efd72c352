"""`sql` and `diff` typed over a query's checkpoint, and what starts for it."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

import statemigrate
from statemigrate.cli.main import main

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def checkpoint(made):
    return made("aggregation", "rocksdb").checkpoint


def typed(*words, code=0):
    result = CliRunner().invoke(main, [str(each) for each in words])
    assert result.exit_code == code, result.output
    return result.output


def test_sql_prints_rows_for_people_and_for_machines(checkpoint):
    query = "SELECT k, \"count\" FROM \"aggregation-0\" WHERE k IN ('a', 'bb') ORDER BY k"
    assert [each.split() for each in typed("sql", query, checkpoint).splitlines()] == [
        ["k", "count"],
        ["a", "8"],
        ["bb", "7"],
    ]
    found = json.loads(typed("--json", "sql", query, checkpoint))
    assert found == {"batch": 3, "columns": ["k", "count"], "rows": [["a", 8], ["bb", 7]]}
    older = json.loads(typed("--json", "sql", query, checkpoint, "--batch", 1))
    assert (older["batch"], older["rows"][0][1] < 8) == (1, True)


def test_sql_is_refused_where_values_are_hidden_or_the_statement_writes(checkpoint):
    assert "--values" in typed("--no-values", "sql", "SELECT 1", checkpoint, code=2)
    assert "SM-SQL-001" in typed("sql", "CREATE TABLE a AS SELECT 1", checkpoint, code=1)


def test_diff_shows_what_changed_between_two_batches(checkpoint):
    found = json.loads(typed("--json", "diff", checkpoint, "--from", 1, "--to", 3, code=1))
    (store,) = found["stores"]
    table = statemigrate.open_state(checkpoint, migrations=None)["aggregation-0"]
    assert store["changed"] == table.changes(1, 3).num_rows > 0
    words = ["--from", 1, "--to", 3, "--store", "aggregation-0", "--key", "a"]
    found = json.loads(typed("--json", "diff", checkpoint, *words, code=1))
    (row,) = found["stores"][0]["rows"]
    assert (row["k"], row["count"]) == ("a", table.get("a")["count"])
    assert row["_before"]["count"] == table.at(1).get("a")["count"]
    hidden = typed("--no-values", "diff", checkpoint, "--from", 1, "--to", 3, code=1)
    assert "936" not in hidden
    assert typed("diff", checkpoint, "--from", 3, "--to", 3)
    assert "SM-STATE-033" in typed("diff", checkpoint, "--store", "nothing", code=1)


def test_get_shows_the_life_of_a_key_over_the_batches(checkpoint):
    table = statemigrate.open_state(checkpoint, migrations=None)["aggregation-0"]
    expected = [(each["_batch"], each["count"]) for each in table.history("a").to_pylist()]
    assert len(expected) > 1
    words = ("get", "aggregation-0", checkpoint, "a", "--batches")
    found = json.loads(typed("--json", *words))
    assert [(each["batch"], each["value"]["count"]) for each in found["changes"]] == expected
    assert found["changes"][0]["change"] == "first"
    lines = [each.split()[0] for each in typed(*words).splitlines()[1:]]
    assert lines == [str(batch) for batch, _ in expected]
    assert typed("get", "aggregation-0", checkpoint, "nothing", "--batches", code=1)
    same = statemigrate.get("aggregation-0", checkpoint, "a", migrations=None, batches=True)
    assert same.equals(table.history("a"))


@pytest.mark.long
def test_two_checkpoints_of_the_same_rows_do_not_differ(made, checkpoint):
    other = made("aggregation", "hdfs").checkpoint
    assert statemigrate.diff(checkpoint, other, migrations=None).is_same
    found = statemigrate.diff(checkpoint, other, before=1, migrations=None)
    within = statemigrate.diff(checkpoint, before=1, after=3, migrations=None)
    assert found.stores[0].counts == within.stores[0].counts
    assert not found.is_same


@pytest.mark.long(weight=1 / 4)
def test_a_masked_column_is_a_hash_in_both(checkpoint, tmp_path, monkeypatch):
    (tmp_path / "statemigrate.toml").write_text('mask = ["k"]\n')
    monkeypatch.chdir(tmp_path)
    found = json.loads(typed("--json", "sql", 'SELECT k FROM "aggregation-0"', checkpoint))
    keys = {row[0] for row in found["rows"]}
    assert "a" not in keys
    changed = json.loads(typed("--json", "diff", checkpoint, "--from", 1, code=1))
    assert {row["k"] for row in changed["stores"][0]["rows"]} <= keys


@pytest.mark.parametrize(
    "words",
    [
        ("get", "aggregation-0", "CHECKPOINT", "a"),
        ("export", "aggregation-0", "CHECKPOINT", "--output", "-"),
        ("status", "CHECKPOINT"),
        ("sql", 'SELECT 1 FROM "aggregation-0"', "CHECKPOINT"),
        ("diff", "CHECKPOINT", "--from", "3", "--to", "3"),
    ],
    ids=lambda words: words[0],
)
def test_no_java_starts_to_look_at_state(checkpoint, words, tmp_path):
    # Without any Java that could be found, a start would fail.
    code = (
        "import sys\n"
        "from statemigrate.cli.main import main\n"
        f"main({[str(checkpoint) if each == 'CHECKPOINT' else each for each in words]!r})\n"
    )
    empty = {"PATH": "/nowhere", "JAVA_HOME": "/nowhere", "HOME": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=empty,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout


@pytest.mark.long
def test_sql_asks_all_named_checkpoints_each_a_schema(made, checkpoint, tmp_path, monkeypatch):
    other = made("windows", "hdfs").checkpoint
    (tmp_path / "statemigrate.toml").write_text(
        f'[checkpoints]\norders = {str(checkpoint)!r}\n"it\'s" = {str(other)!r}\n'
    )
    monkeypatch.chdir(tmp_path)
    query = (
        'SELECT (SELECT count(*) FROM orders."aggregation-0"), '
        '(SELECT count(*) FROM "it\'s"."aggregation-0")'
    )
    found = json.loads(typed("--json", "sql", query, "--all"))
    expected = [
        statemigrate.open_state(each, migrations=None)["aggregation-0"].count()
        for each in (checkpoint, other)
    ]
    assert found["rows"] == [expected]
    assert found["batches"] == {
        name: statemigrate.open_state(each, migrations=None).batch
        for name, each in (("orders", checkpoint), ("it's", other))
    }
    joined = 'SELECT k FROM orders."aggregation-0" JOIN "it\'s"."aggregation-0" USING (k)'
    assert json.loads(typed("--json", "sql", joined, "--all"))["rows"]
    some = 'SELECT count(*) FROM orders."aggregation-0"'
    assert json.loads(typed("--json", "sql", some, "--all", "--match", "ord*"))["rows"] == [
        expected[:1]
    ]
    assert "SM-SQL-002" in typed("sql", query, "--all", "--match", "ord*", code=1)
    assert "SM-SQL-001" in typed("sql", "DROP SCHEMA orders CASCADE", "--all", code=1)
    typed("sql", query, "--all", "--batch", 1, code=2)
    same = statemigrate.sql(some, checkpoints={"orders": checkpoint}, migrations=None)
    assert (same.batch, same.rows) == (None, [tuple(expected[:1])])


def test_sql_over_all_checkpoints_leaves_none_out_that_cannot_be_read(
    checkpoint, tmp_path, monkeypatch
):
    (tmp_path / "statemigrate.toml").write_text(
        f"[checkpoints]\norders = {str(checkpoint)!r}\ngone = '{tmp_path}/gone'\n"
    )
    monkeypatch.chdir(tmp_path)
    assert "gone" in typed("sql", "SELECT 1", "--all", code=1)
