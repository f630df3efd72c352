"""`plan` of a query of the embedded engine: its stores, under the code that is to start on them."""

import shlex
import sys
from types import ModuleType

import pytest
from click.testing import CliRunner
from support.file_hashes import file_hashes
from tally import AMOUNTS, CENTS, CENTS_DDL, AmountsTally, CentsTally, batch

from statemigrate import NewCode, migrated, plan
from statemigrate.cli import main
from statemigrate.errors import CodeError

pytestmark = [pytest.mark.spark, pytest.mark.long(weight=1 / 3)]


class Shorter(AmountsTally):
    """A format that no script leads to."""

    ddl = "n BIGINT, amount DECIMAL(18,2), last STRING"


@pytest.fixture
def planned(pipeline, scripts, monkeypatch):
    """A function that plans other code for a checkpoint that code without scripts has made."""
    folder = scripts.write()
    pipeline.feed(batch("first", range(9)))
    pipeline.deploy(CentsTally())
    module = ModuleType("planned_embedded")
    monkeypatch.setitem(sys.modules, "planned_embedded", module)

    def planned(made, migrations=folder, **options):
        module.made = made
        inputs = {} if hasattr(made, "handleInputRows") else {"rows": pipeline.rows}
        before = file_hashes(pipeline.checkpoint)
        target = NewCode("planned_embedded:made", inputs, **options)
        found = plan(str(pipeline.checkpoint), target=target, migrations=migrations)
        assert file_hashes(pipeline.checkpoint) == before
        return found

    planned.folder, planned.pipeline = folder, pipeline
    return planned


def verdicts(found):
    return {each.name: each.verdict for each in found.items}


def commands(found):
    return [each.command.split()[1] for each in found.steps if each.command]


def query_of(planned, processor, by="key"):
    """Code that makes its query itself."""

    def made(rows):
        planned.pipeline.stream, stream = (lambda: rows), planned.pipeline.stream
        planned.pipeline.by = by
        try:
            return planned.pipeline.query(processor())
        finally:
            planned.pipeline.stream = stream

    return made


def test_the_same_processor_has_nothing_to_do(planned):
    found = planned(CentsTally, migrations=None)
    assert (verdicts(found), found.asks) == ({"tally": "same"}, False)
    assert (found.batch, found.size > 0, found.undo) == (0, True, "")


def test_a_changed_processor_with_its_script_is_live_until_its_values_have_gone(planned):
    changed = migrated(migrations=planned.folder)(type("Changed", (AmountsTally,), {}))
    found = planned(changed)
    assert verdicts(found) == {"tally": "live"}
    assert commands(found) == ["dry-run", "status"]
    assert found.undo.endswith(f"--to tally={CENTS}")
    planned.pipeline.feed(batch("second", range(3)))
    planned.pipeline.deploy(changed())
    found = planned(changed)
    assert verdicts(found) == {"tally": "same"}


def test_the_time_of_a_backfill_is_from_the_size_of_the_state(planned):
    found = planned(migrated(migrations=planned.folder)(type("Changed", (AmountsTally,), {})))
    assert f"about {found.size // 40:,} rows of state, if each takes 40 bytes" in found.basis
    (seconds,) = [each.seconds for each in found.steps if each.seconds is not None]
    assert seconds == pytest.approx(found.size // 40 / 119_000)


def test_code_without_migrated_is_to_be_marked(planned):
    found = planned(AmountsTally)
    assert verdicts(found) == {"tally": "live"}
    assert commands(found) == ["dry-run", "status"]
    assert any("statemigrate.migrated" in each.text for each in found.steps)


def test_migrating_has_a_time(planned):
    found = planned(AmountsTally)
    (seconds,) = [each.seconds for each in found.steps if each.seconds is not None]
    assert 0 < seconds < 1
    assert found.basis
    assert planned(CentsTally).basis == ""


def test_a_format_that_no_script_leads_to_is_live_by_a_command_that_works(planned, tmp_path):
    found = planned(migrated(Shorter(), migrations=planned.folder))
    assert (verdicts(found), commands(found)) == ({"tally": "live"}, ["new", "dry-run", "status"])
    found = planned(Shorter, migrations=None)
    (new,) = [each.command for each in found.steps if " new tally" in each.command]
    assert f"--from-checkpoint {planned.pipeline.checkpoint}" in new
    folder = str(tmp_path / "migrations")
    done = CliRunner().invoke(main, ["--migrations", folder, *shlex.split(new)[1:]])
    assert done.exit_code == 0, done.output
    written = "".join(path.read_text() for path in (tmp_path / "migrations/versions").glob("*.py"))
    assert CENTS_DDL.split(",")[0].split()[0] in written
    assert "amount" in written


def test_a_function_that_makes_the_query_says_its_key_too(planned):
    found = planned(query_of(planned, CentsTally), migrations=None)
    assert verdicts(found) == {"key": "same", "tally": "same", "processor": "same"}
    found = planned(query_of(planned, CentsTally, by="name"), migrations=None)
    assert verdicts(found)["key"] == "cannot"
    assert commands(found) == []


class Living(CentsTally):
    """Its values are to expire, which this engine does not have."""

    def init(self, handle):
        self.state = handle.getValueState("tally", self.ddl, ttlDurationMs=60_000)


def test_what_the_start_refuses_is_in_the_plan(planned):
    found = planned(Living, migrations=None)
    assert verdicts(found) == {"tally": "same", "tally time to live": "cannot"}
    options = planned.pipeline.options
    planned.pipeline.options = lambda **given: options(partitions=5, **given)
    found = planned(query_of(planned, CentsTally), migrations=None)
    assert verdicts(found)["partitions"] == "cannot"
    assert commands(found) == []


def test_scripts_alone_say_how_far_they_lead(planned):
    checkpoint = planned.pipeline.checkpoint
    found = plan(str(checkpoint), migrations=planned.folder)
    assert (verdicts(found), commands(found)) == ({"tally": "live"}, ["dry-run", "plan"])
    assert AMOUNTS in found.items[0].text
    assert verdicts(plan(str(checkpoint), migrations=None)) == {"tally": "goes on"}


def test_code_of_another_engine_is_refused_by_name(planned):
    with pytest.raises(CodeError) as caught:
        planned(lambda rows: rows.groupBy("key").count())
    assert caught.value.code == "SM-CODE-017"
    with pytest.raises(CodeError) as caught:
        planned(CentsTally, old_code="planned_embedded:made")
    assert caught.value.code == "SM-CODE-018"
