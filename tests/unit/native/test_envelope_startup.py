"""Which scripts of an envelope's store may still be corrected."""

import pytest
from support.script_files import script

from statemigrate.deployment import DeploymentSettings, plan_store
from statemigrate.errors import StartupError
from statemigrate.native.deployment_check import StoreRecord
from statemigrate.native.variables_startup import declared_by, stored_envelopes
from statemigrate.scripts import ScriptFolder

FIRST, SECOND = "aaaa11112222", "bbbb33334444"


@pytest.fixture
def lineage(tmp_path):
    """Two scripts, the second of which was corrected after it was deployed."""
    script(tmp_path / "m", FIRST, new='Struct("b BIGINT")')
    script(tmp_path / "m", SECOND, FIRST, old='Struct("b BIGINT")', new='Struct("c BIGINT")')
    return ScriptFolder(tmp_path / "m").lineage("auctions")


def deployed(lineage, *revisions):
    """The plan over envelopes of these revisions, after a deployment with another second script."""
    checksums = {each.revision: each.checksum for each in lineage.migrations}
    known = StoreRecord((), 3, {**checksums, SECOND: "as it was deployed"})
    stored = stored_envelopes(lineage, revisions, known)
    return plan_store(
        declared_by(lineage, DeploymentSettings()), lineage, stored, DeploymentSettings()
    )


@pytest.mark.parametrize("stored", [(), ("base",), ("base", FIRST)])
def test_a_script_that_no_value_was_stored_with_may_be_corrected(lineage, stored):
    plan = deployed(lineage, *stored)
    # What is noted for the next start is the script as it is now.
    assert plan.stored().applied[SECOND] == lineage.migrations[1].checksum


@pytest.mark.parametrize("stored", [(SECOND,), ("base", SECOND)])
def test_one_that_a_value_was_stored_with_may_not(lineage, stored):
    with pytest.raises(StartupError, match=SECOND) as caught:
        deployed(lineage, *stored)
    assert "edited" in str(caught.value) or "changed" in str(caught.value)


def test_a_script_before_the_stored_revision_was_applied_too(lineage):
    checksums = {FIRST: "as it was deployed", SECOND: lineage.migrations[1].checksum}
    stored = stored_envelopes(lineage, (SECOND,), StoreRecord((), 3, checksums))
    assert stored.applied[FIRST] == "as it was deployed"
