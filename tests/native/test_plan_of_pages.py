"""`plan` of code whose state is on pages: the verdict on each store, not on pages alone."""

import sys
from functools import partial
from types import ModuleType

import pytest
from paged_pipeline import TallyPages
from support.file_hashes import file_hashes
from tally import AMOUNTS, AmountsTally, CentsTally, batch

from statemigrate import NewCode, migrated, paged, plan, stateful

pytestmark = pytest.mark.spark
BATCH = batch("first", range(9))


class Shorter(AmountsTally):
    """A format that no script leads to."""

    ddl = "n BIGINT, amount DECIMAL(18,2), last STRING"


class Other(CentsTally):
    """Another store."""

    def init(self, handle):
        self.other = handle.getValueState("other", "n INT")
        self.tally = self.other


@pytest.fixture
def planned(spark, tmp_path, scripts, monkeypatch):
    """A function that plans other code for a checkpoint of plain code on pages."""
    pipeline, folder = TallyPages(spark, tmp_path / "pipeline"), scripts.write()
    pipeline.feed(BATCH)
    pipeline.deploy_natively(CentsTally())
    module = ModuleType("planned_pages")
    monkeypatch.setitem(sys.modules, "planned_pages", module)

    def planned(make, migrations=folder, call=paged, **options):
        given = {"by": "key", "output": pipeline.output, "checkpoint": pipeline.checkpoint}
        module.make = lambda rows: call(rows, processor=make(), **{**given, **options})
        before = file_hashes(pipeline.checkpoint)
        target = NewCode("planned_pages:make", {"rows": pipeline.rows}, "update")
        found = plan(str(pipeline.checkpoint), target=target, migrations=migrations)
        assert file_hashes(pipeline.checkpoint) == before
        return found

    planned.folder, planned.pipeline = folder, pipeline
    return planned


def verdicts(found):
    return {each.name: each.verdict for each in found.items}


def commands(found):
    return [each.command.split()[1] for each in found.steps if each.command]


def test_the_same_format_on_pages_is_the_same(planned):
    found = verdicts(planned(CentsTally, migrations=None))
    assert found["tally"] == "same"
    assert not any(name.startswith("statemigrate") for name in found)


@pytest.mark.long(weight=1 / 3)
@pytest.mark.parametrize("call", ["paged", "stateful"])
def test_another_format_with_its_script_is_live(planned, call):
    if call == "paged":
        found = planned(lambda: migrated(AmountsTally(), migrations=planned.folder))
    else:
        whole = partial(stateful, migrations=planned.folder, pages=4)
        found = planned(AmountsTally, call=whole)
    (tally,) = [each for each in found.items if each.name == "tally"]
    assert tally.verdict == "live"
    assert AMOUNTS in tally.text
    assert commands(found) == ["plan", "dry-run", "status"]
    assert found.undo.endswith("--to tally=base")


@pytest.mark.long
def test_a_format_that_no_script_leads_to_is_live_by_a_new_script(planned):
    found = planned(lambda: migrated(Shorter(), migrations=planned.folder))
    assert verdicts(found)["tally"] == "live"
    assert commands(found) == ["plan", "new", "dry-run", "status"]
    found = planned(Shorter, migrations=None)
    assert verdicts(found)["tally"] == "live"
    (new,) = [each.command for each in found.steps if " new tally" in each.command]
    assert f"--from-checkpoint {planned.pipeline.checkpoint} --to" in new


@pytest.mark.long(weight=1 / 3)
def test_a_store_that_one_of_both_has_is_reported(planned):
    found = verdicts(planned(Other, migrations=None))
    assert (found["other"], found["tally"]) == ("goes on", "goes on")


@pytest.mark.long(weight=1 / 3)
def test_pages_of_another_key_are_none_that_the_code_can_read(planned):
    found = verdicts(planned(CentsTally, migrations=None, by="name"))
    assert found["transform-with-state-0 key"] == "cannot"
