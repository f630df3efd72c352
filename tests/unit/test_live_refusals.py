"""A running query refuses what only a rewrite can do, before anything is touched."""

from dataclasses import replace

import pytest
from support.notes import FORMATS, MIDDLE, NEW, OLD, family, lineage

from statemigrate.deployment import Declared, DeploymentSettings, StoredStore, StorePlan, plan_store
from statemigrate.errors import StartupError
from statemigrate.formats import Struct
from statemigrate.migration import Lineage


def plan(found: StoredStore, scripts: Lineage, target: str = NEW) -> StorePlan:
    code = Declared("notes", "value", FORMATS[target].struct_type())
    return plan_store(code, scripts, found, DeploymentSettings(targets={"notes": target}))


def stored(revision, occupancy="something"):
    return StoredStore("value", (replace(family("notes", revision), occupancy=occupancy),))


ONLY_BY_REWRITING = {
    "new_key` and `rekey": {
        "new_key": Struct("user STRING"),
        "rekey": lambda key, value: {"user": str(key["user"])},
    },
    "merge": {"merge": lambda first, second: first},
    "upgrade(value, key)": {"upgrade": lambda value, key: value},
    "upgrade_table": {"upgrade": None, "upgrade_table": lambda table: table},
}


@pytest.mark.parametrize("names", ONLY_BY_REWRITING)
def test_a_script_that_only_a_rewrite_can_run_is_refused_by_name(names):
    first, last = lineage().migrations
    scripts = Lineage.build("notes", [first, replace(last, **ONLY_BY_REWRITING[names])])
    with pytest.raises(StartupError) as raised:
        plan(stored(MIDDLE), scripts)
    error = raised.value
    assert error.data == {"store": "notes", "revision": NEW}
    assert f"has `{names}`, which a running query cannot do" in error.summary
    assert "`statemigrate rewrite OLD NEW" in error.next_action


def test_what_is_before_the_target_of_a_rewrite_needs_none():
    first, last = lineage().migrations
    scripts = Lineage.build("notes", [first, replace(last, merge=lambda one, other: one)])
    assert plan(stored(OLD), scripts, MIDDLE).migrates_in_background
    assert plan(stored(MIDDLE, "nothing"), scripts).paths == (None,)
    assert plan(stored(NEW), scripts).paths == ()
