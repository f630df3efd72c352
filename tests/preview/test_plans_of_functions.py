"""What becomes of a function's values, whose types in Spark's state never change."""

import live_code as code
import pytest
from previewed_query import Query, events, named, scripts_of, write_means

from statemigrate import NewCode, plan
from statemigrate.commands.lock import lock

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    made = scripts_of(code, tmp_path, monkeypatch)
    write_means(made)
    (script,) = (made / "versions").glob("*.py")
    script.write_text(script.read_text() + DOWNGRADE)
    return made


STORES = "org.apache.spark.sql.execution.streaming.state"
DOWNGRADE = """

def downgrade(value):
    return {"n": value["n"], "sum": value["sum"]}
"""


def verdicts(query, function=None, migrations=None):
    target = None if function is None else NewCode(named(function), mode=query.mode)
    found = plan(query.checkpoint, target=target, migrations=migrations, spark=query.spark)
    of_stores = {each.name: each.verdict for each in found.items if each.operator}
    return {name: each for name, each in of_stores.items() if "meaning" not in name}, found


def go_on(query, function, number, count=7):
    """Run another batch, with rows of so many keys, by other code."""
    query.function, query.name = function, named(function)
    rows = [each for each in events(number) if int(each.split('"k')[2][0]) < count]
    (query.inputs[0] / f"{number}.json").write_text("\n".join(rows))
    query.run()


def test_a_plan_follows_a_function_through_its_migration_and_back(spark, tmp_path, scripts):
    query = Query(spark, tmp_path, code.function_totals, "update", batches=2)
    assert verdicts(query, code.function_totals, scripts)[0] == {"total": "same"}
    assert verdicts(query, migrations=scripts)[0] == {"total": "live"}
    found, planned = verdicts(query, code.function_means, scripts)
    assert found == {"total": "live"}
    commands = [each.command.split()[1] for each in planned.steps if each.command]
    assert [each for each in commands if each != "plan"] == ["dry-run", "status"]
    assert planned.undo.endswith("--to total=base")
    go_on(query, code.function_means, 5, count=3)
    assert verdicts(query, code.function_means, scripts)[0] == {"total": "goes on"}
    assert verdicts(query, migrations=scripts)[0] == {"total": "goes on"}
    found, planned = verdicts(query, code.function_totals, scripts)
    assert found == {"total": "live"}
    assert planned.undo.endswith(f"--to total={code.MEANS}")
    go_on(query, code.function_means, 6)
    assert verdicts(query, code.function_means, scripts)[0] == {"total": "same"}
    assert verdicts(query, migrations=scripts)[0] == {"total": "same"}


def test_without_its_scripts_a_functions_state_is_not_called_the_same(spark, tmp_path, scripts):
    query = Query(spark, tmp_path, code.function_totals, "update", batches=1)
    assert verdicts(query, code.unmarked_function, scripts)[0] == {"groups-0": "cannot"}
    assert verdicts(query)[0] == {"groups-0": "unknown"}
    (script,) = (scripts / "versions").glob("*.py")
    script.unlink()
    found, planned = verdicts(query, code.function_means, scripts)
    assert found == {"total": "cannot"}
    (text,) = [each.text for each in planned.items if each.name == "total"]
    assert "store total has no migration script" in text


def test_a_lock_file_has_the_revision_that_a_function_writes(spark, tmp_path, scripts):
    file = tmp_path / "state.lock"

    def checked(function, check=True):
        found = lock(named(function), file=file, mode="update", check=check, spark=spark)
        # One of the functions has a source less, since it has no backfill.
        return [(e.name, e.verdict) for e in found.changes if e.name != "sources"]

    checked(code.function_totals, check=False)
    assert checked(code.function_totals) == []
    assert checked(code.function_means) == [("total", "live")]
    checked(code.function_means, check=False)
    assert checked(code.function_totals) == [("total", "live")]
    assert checked(code.unmarked_function) == [("groups-0", "cannot")]
    checked(code.unmarked_function, check=False)
    assert checked(code.unmarked_function) == []
    assert checked(code.function_totals) == [("groups-0", "unknown")]


def test_a_guarded_start_takes_the_revision_that_a_record_has(spark, tmp_path, scripts):
    query = Query(spark, tmp_path, code.function_totals, "update", batches=1)
    lock(named(code.function_totals), checkpoint=query.checkpoint, mode="update", spark=spark)
    query.is_guarded = True
    go_on(query, code.function_means, 3)
    assert verdicts(query, code.function_means, scripts)[0] == {"total": "same"}


@pytest.mark.parametrize("provider", ["RocksDBStateStoreProvider", "HDFSBackedStateStoreProvider"])
def test_keys_with_a_timeout_alone_have_no_revision(spark, tmp_path, scripts, provider):
    settings = {
        "spark.sql.streaming.stateStore.providerClass": f"{STORES}.{provider}",
        # With processing time Spark would run empty batches without end.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        query = Query(spark, tmp_path, code.timed_function, "update", batches=2)
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    query.checkpoint = query.checkpoint.rename(tmp_path / 'it\'s "moved"')
    assert verdicts(query, code.timed_function, scripts)[0] == {"total": "same"}
    assert verdicts(query, code.function_means, scripts)[0]["total"] == "live"
    assert verdicts(query, migrations=scripts)[0] == {"total": "live"}
