"""`plan` of code with `migrated`, `with_backfill` and `paged`: it touches no checkpoint."""

import sys
from types import ModuleType

import pytest
from support.file_hashes import file_hashes
from tally import AMOUNTS, AmountsTally, CentsTally, batch

from statemigrate import NewCode, migrated, plan, with_backfill

pytestmark = [pytest.mark.spark, pytest.mark.long]
BATCH = batch("first", range(9))


@pytest.fixture
def planned(pipeline, scripts, monkeypatch):
    """A function that plans other code for a checkpoint of plain code."""
    pipeline.feed(BATCH)
    pipeline.deploy_natively(CentsTally())
    folder = scripts.write()
    module = ModuleType("planned_live_code")
    monkeypatch.setitem(sys.modules, "planned_live_code", module)

    def planned(make):
        module.make = lambda rows: make(rows, folder)
        before = file_hashes(pipeline.checkpoint)
        target = NewCode("planned_live_code:make", {"rows": pipeline.rows}, "update")
        found = plan(str(pipeline.checkpoint), target=target, migrations=folder)
        assert file_hashes(pipeline.checkpoint) == before
        return found

    return planned


def asked(found):
    return [(each.name, each.verdict) for each in found.items if each.asks]


def verdicts(found):
    return {each.name: each.verdict for each in found.items}


def test_the_same_processor_asks_only_what_the_state_means(planned, pipeline):
    found = planned(lambda rows, _: pipeline.result(CentsTally(), rows))
    assert asked(found) == [("transform-with-state-0 meaning", "unknown")]
    assert verdicts(found)["tally"] == "same"


def test_a_changed_processor_with_scripts_migrates_live(planned, pipeline):
    def changed(rows, folder):
        place = {"migrations": folder, "checkpoint": pipeline.checkpoint}
        stream = with_backfill(rows, by="key", checkpoint=pipeline.checkpoint)
        return pipeline.result(migrated(AmountsTally(), **place), stream)

    found = planned(changed)
    assert verdicts(found)["tally"] == "live"
    (tally,) = [each for each in found.items if each.name == "tally"]
    assert AMOUNTS in tally.text
    assert ("source 1", "live") in asked(found)
    assert found.undo.endswith("--to tally=base")
    commands = [each.command.split()[1] for each in found.steps if each.command]
    assert commands == ["plan", "backfill", "dry-run", "status"]
    assert not found.stops


def commands(found):
    return [" ".join(each.command.split()[1:3]) for each in found.steps if each.command]


def test_a_processor_whose_script_is_written_is_to_be_declared_with_it(planned, pipeline):
    found = planned(lambda rows, _: pipeline.result(AmountsTally(), rows))
    assert verdicts(found)["tally"] == "live"
    checkpoint = str(pipeline.checkpoint)
    assert commands(found) == [f"plan {checkpoint}", "dry-run tally", f"status {checkpoint}"]
    assert any("statemigrate.stateful(" in each.text for each in found.steps)


def test_a_processor_whose_script_leads_elsewhere_needs_another_one(planned, pipeline):
    class Shorter(AmountsTally):
        ddl = "n BIGINT, amount DECIMAL(18,2), last STRING"

    found = planned(lambda rows, _: pipeline.result(Shorter(), rows))
    assert "new tally" in commands(found)


def test_without_a_folder_of_scripts_the_steps_begin_with_making_one(
    planned, pipeline, monkeypatch
):
    target = NewCode("planned_live_code:make", {"rows": pipeline.rows}, "update")
    module = sys.modules["planned_live_code"]
    monkeypatch.setattr(
        module, "make", lambda rows: pipeline.result(AmountsTally(), rows), raising=False
    )
    found = plan(str(pipeline.checkpoint), target=target, migrations=None)
    assert commands(found)[1:4] == ["init", "new tally", "new tally"]


class Forgetful(CentsTally):
    """Declares another variable, and not the old one."""

    def init(self, handle):
        self.other = handle.getValueState("other", "n INT")
        super().init(_Silent(handle))


class _Silent:
    def __init__(self, handle):
        self.handle = handle

    def getValueState(self, name, *arguments):
        return self.handle.getValueState(f"{name}_2", *arguments)


def test_a_variable_that_the_code_does_not_declare_is_reported(planned, pipeline):
    found = verdicts(planned(lambda rows, _: pipeline.result(Forgetful(), rows)))
    assert found["tally"] == "unnoticed"
    assert (found["other"], found["tally_2"]) == ("goes on", "goes on")
