"""What `plan` says of a processor's variables, whose code writes one of several families."""

import live_code as code
import pytest
from previewed_query import Query, named, scripts_of, write_means
from test_plans_of_functions import DOWNGRADE, go_on, verdicts

from statemigrate.commands.lock import lock

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
CODE = {
    "stateful": (code.stateful_means, code.stateful_back),
    "migrated": (code.marked_means, code.marked_back),
}


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    made = scripts_of(code, tmp_path, monkeypatch)
    write_means(made)
    return made


@pytest.fixture
def downgrade(scripts):
    (script,) = (scripts / "versions").glob("*.py")
    script.write_text(script.read_text() + DOWNGRADE)


@pytest.mark.parametrize(("means", "back"), CODE.values(), ids=CODE)
@pytest.mark.usefixtures("downgrade")
def test_a_plan_follows_a_variable_through_its_migration_and_back(
    spark, tmp_path, scripts, means, back
):
    query = Query(spark, tmp_path, back, "update", batches=1)
    assert verdicts(query, back, scripts)[0] == {"total": "same"}
    found, planned = verdicts(query, means, scripts)
    assert found == {"total": "live"}
    assert planned.undo.endswith("--to total=base")
    go_on(query, means, 5, count=3)
    assert verdicts(query, means, scripts)[0] == {"total": "same"}
    found, planned = verdicts(query, back, scripts)
    assert found == {"total": "live"}
    (text,) = [each.text for each in planned.items if each.name == "total"]
    assert text == f"values go back from revision {code.MEANS} to base"
    assert planned.undo.endswith(f"--to total={code.MEANS}")
    go_on(query, back, 6, count=3)
    assert verdicts(query, back, scripts)[0] == {"total": "same"}
    found, planned = verdicts(query, means, scripts)
    assert found == {"total": "live"}
    assert planned.undo.endswith("--to total=base")


def test_values_that_no_script_brings_back_cannot_go_back(spark, tmp_path, scripts):
    query = Query(spark, tmp_path, code.marked_means, "update", batches=1)
    found, planned = verdicts(query, code.marked_back, scripts)
    assert found == {"total": "cannot"}
    (text,) = [each.text for each in planned.items if each.name == "total"]
    assert text.endswith("has no `downgrade`")
    assert verdicts(query, code.marked_means, scripts)[0] == {"total": "same"}
    found, planned = verdicts(query, code.plain_totals, scripts)
    assert found == {"total": "unnoticed"}
    (text,) = [each.text for each in planned.items if each.name == "total"]
    assert text.endswith("Spark deletes it with all its values")


@pytest.mark.usefixtures("scripts")
def test_a_lock_file_has_the_revision_that_a_processor_writes(spark, tmp_path):
    file = tmp_path / "state.lock"

    def checked(function, check=True):
        found = lock(named(function), file=file, mode="update", check=check, spark=spark)
        return [(each.name, each.verdict, each.text) for each in found.changes]

    def moved(one, other):
        text = f"the state has revision {one}, and the code writes {other}"
        return [("total", "live", text)]

    def lost(name):
        text = f"the code does not declare {name}: Spark deletes it with all its values"
        return [("total", "unnoticed", text)]

    checked(code.marked_means, check=False)
    assert checked(code.marked_means) == []
    assert checked(code.marked_back) == moved(code.MEANS, "base")
    assert checked(code.plain_means) == lost(f"total@{code.MEANS}")
    checked(code.marked_back, check=False)
    assert checked(code.marked_back) == []
    assert checked(code.marked_means) == moved("base", code.MEANS)
    checked(code.plain_totals, check=False)
    assert checked(code.marked_means) == moved("base", code.MEANS)
    began = (f"total@{code.MEANS}", "goes on", "it is new, and begins empty")
    assert checked(code.marked_back) == [began]
