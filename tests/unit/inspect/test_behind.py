"""Newer scripts than what is deployed are told of: nothing left to migrate is not nothing left."""

import json
import os
import time
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from support import checkpoints
from support.checkpoints import FAMILY, KEY, NEW, OLD, REVISION
from support.fleets import BEHIND, FINISHED, FLEET, named
from support.metric_points import points

from statemigrate import Behind, Fleet, StatusMetrics, rollback, status, status_page
from statemigrate.cli import main, watching
from statemigrate.commands.deployed_revisions import behind
from statemigrate.commands.fleet import Look
from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.versions import publish_manifest
from statemigrate.formats import Struct
from statemigrate.migration import Lineage, Migration

TARGET = StoredFamily(f"items@{REVISION}", REVISION, NEW)


def deployed(layout, version, *families, entries):
    """A version of which only the families and their counts matter."""
    states = (PartitionState(entries=entries),)
    stores = {"items": StoredStore("value", families)}
    publish_manifest(layout, Manifest(version, KEY.jsonValue(), states, stores, {}))
    done = layout.checkpoint / "commits" / str(version)
    done.parent.mkdir(exist_ok=True)
    done.touch()


@pytest.fixture
def layout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checkpoints.scripts(tmp_path)
    return Layout.of(tmp_path / "checkpoint")


def run(*words, code):
    done = CliRunner().invoke(main, [*words])
    assert done.exit_code == code, done.output
    return done.stdout


def store_of(layout, **options):
    (store,) = status(layout.checkpoint, **options).stores
    return store


def test_a_wholly_old_checkpoint_is_behind_and_its_number_of_values_is_not_made_up(layout):
    deployed(layout, 0, FAMILY, entries={"items": None})
    store = store_of(layout)
    assert (store.left, store.state, store.is_current, store.is_done) == (0, "behind", False, False)
    assert store.behind == Behind(REVISION, "base", (REVISION,), None)
    assert "deploy the code for " + REVISION in store.next_action


def test_what_code_was_deployed_for_is_migrating_and_then_migrated(layout):
    deployed(layout, 0, TARGET, FAMILY, entries={"items": 5, TARGET.name: None})
    store = store_of(layout)
    assert (store.state, store.behind, store.is_current, store.is_done) == (
        "migrating",
        None,
        True,
        False,
    )
    deployed(layout, 1, TARGET, entries={TARGET.name: None})
    store = store_of(layout)
    assert (store.state, store.is_current, store.is_done) == ("migrated", True, True)


def test_after_a_roll_back_only_what_lies_in_older_formats_counts(layout):
    """The head's family holds two values: of the five that are left, three in the target."""
    deployed(layout, 0, FAMILY, TARGET, entries={"items": 0, TARGET.name: 2})
    store = store_of(layout)
    assert (store.state, store.left) == ("behind", 2)
    assert store.behind.scripts == (REVISION,)


BASELINE = f'''"""The first."""
from statemigrate.formats import Struct

revision = "eeee00000000"
down_revision = None
branch_labels = ("items",)
store = "items"
old = None
new = Struct("{OLD.ddl}")
'''


def test_the_way_back_to_state_of_before_a_baseline_is_named(layout):
    """Spark's state has such values at ``base``, which the scripts name as their baseline."""
    versions = layout.checkpoint.parent / "migrations" / "versions"
    (versions / "baseline.py").write_text(BASELINE)
    later = checkpoints.SCRIPT.replace("down_revision = None", 'down_revision = "eeee00000000"')
    (versions / "amounts.py").write_text(later.replace('branch_labels = ("items",)\n', ""))
    deployed(layout, 0, FAMILY, TARGET, entries={"items": 0, TARGET.name: 2})
    store = store_of(layout)
    assert (store.target, store.left, store.goes_back) == ("eeee00000000", 2, True)
    assert store.next_action == (
        f"statemigrate rollback {layout.checkpoint} --to items=eeee00000000 says how the values "
        "go back"
    )
    (back,) = rollback(layout.checkpoint, {"items": "eeee00000000"}).stores
    assert (back.deployed, back.families) == ("eeee00000000", {TARGET.name: 2})
    deployed(layout, 1, TARGET, FAMILY, entries={TARGET.name: None, "items": 2})
    store = store_of(layout)
    assert (store.target, store.left, store.goes_back) == (REVISION, 2, False)


def test_what_was_asked_for_is_what_counts_and_what_is_unknown_is_not_current(layout):
    deployed(layout, 0, FAMILY, entries={"items": None})
    asked = store_of(layout, targets={"items": "base"})
    assert (asked.state, asked.is_current, asked.head) == ("migrated", True, REVISION)
    deployed(layout, 1, TARGET, entries={TARGET.name: None})
    ahead = store_of(layout, targets={"items": "base"})
    assert (ahead.state, ahead.is_current, ahead.wanted) == ("ahead", False, "base")
    later = StoredFamily("items@ffff", "ffff", NEW)
    deployed(layout, 2, later, entries={later.name: None})
    unknown = store_of(layout)
    assert (unknown.state, unknown.is_current, unknown.behind) == ("unknown", False, None)
    assert "bring back the script of ffff" in unknown.next_action


FORMATS = [Struct(f"a INT, b{number} INT") for number in range(4)]
STEPS = [
    Migration(
        revision=f"r{number}",
        down_revision=f"r{number - 1}" if number > 1 else None,
        store="s",
        old=FORMATS[number - 1],
        new=FORMATS[number],
        upgrade=dict,
        downgrade=dict,
    )
    for number in (1, 2, 3)
]


def test_every_pair_of_revisions_is_counted_from_the_families():
    lineage = Lineage.build("s", STEPS)
    names = {revision: f"f-{revision}" for revision in lineage.revisions}
    families = {r: StoredFamily(names[r], r, f) for r, f in zip(names, FORMATS, strict=True)}
    for at, target in enumerate(lineage.revisions):
        others = [families[each] for each in lineage.revisions if each != target]
        stored = StoredStore("value", (families[target], *others))
        for to, wanted in enumerate(lineage.revisions):
            found = behind(
                lineage, wanted, stored, {name: 10**i for i, name in enumerate(names.values())}
            )
            if to <= at:
                assert found is None
                continue
            assert found.scripts == lineage.revisions[at + 1 : to + 1]
            assert found.values == 1111 - 10**to
            assert behind(lineage, wanted, stored, {}).values is None


def test_state_from_before_a_baseline_is_at_the_baseline():
    start = Migration(revision="r0", down_revision=None, store="s", old=None, new=FORMATS[0])
    lineage = Lineage.build("s", [start])
    stored = StoredStore("value", (StoredFamily("s", "base", FORMATS[0]),))
    assert behind(lineage, lineage.head, stored, {"s": 7}) is None


def test_the_exit_code_fails_where_it_was_asked_to(layout):
    (layout.checkpoint.parent / "pyproject.toml").write_text(
        '[tool.statemigrate]\ncheckpoints = {shop = "checkpoint"}\n'
    )
    deployed(layout, 0, FAMILY, entries={"items": None})
    shown = run("status", "shop", code=0)
    assert "once the newest scripts are deployed, 1 of 1 store behind" in shown
    assert "0 left" not in shown
    assert "in the target's format" not in shown
    assert f"behind: {store_of(layout).behind}" in shown
    for words in (
        ("status", "shop"),
        ("status", "--all"),
        ("status", "--revisions", "shop"),
        ("status", "--revisions", "--all"),
    ):
        run(*words, code=0)
        run(*words, "--check-heads", code=1)
        run(*words, "--check-heads", "--target", "items=base", code=0)
    assert "1 checkpoint: 1 is behind its scripts" in run("status", "--all", code=0)
    found = json.loads(run("status", "--all", "--json", "--check-heads", code=1))
    assert (found["behind"], found["is_current"]) == (["shop"], False)
    (store,) = found["checkpoints"][0]["status"]["stores"]
    assert (store["state"], store["behind"]["scripts"]) == ("behind", [REVISION])
    assert json.loads(run("status", "--revisions", "shop", "--json", code=0))["is_current"] is False
    deployed(layout, 1, TARGET, FAMILY, entries={"items": 5, TARGET.name: None})
    for words in (("status", "shop"), ("status", "--revisions", "shop")):
        run(*words, "--check-heads", code=0)
    assert status(layout.checkpoint, revisions=True).is_current
    (layout.checkpoint.parent / "migrations" / "versions" / "amounts.py").write_text("revision = ")
    for words in (("status", "shop"), ("status", "--revisions", "shop")):
        run(*words, code=0)
        run(*words, "--check-heads", code=1)


@pytest.mark.parametrize("words", [("checkpoint",), ("--all",)])
def test_a_watch_does_not_end_before_the_newest_scripts_are_deployed(layout, monkeypatch, words):
    (layout.checkpoint.parent / "pyproject.toml").write_text(
        '[tool.statemigrate]\ncheckpoints = {shop = "checkpoint"}\n'
    )
    deployed(layout, 0, FAMILY, entries={"items": None})
    later = iter([(FAMILY,), (TARGET, FAMILY), (TARGET,)])
    counts = {"items": 3, TARGET.name: None}

    def slept(_):
        families = next(later)
        version = 3 - later.__length_hint__()
        deployed(layout, version, *families, entries={f.name: counts[f.name] for f in families})

    monkeypatch.setattr(watching, "time", SimpleNamespace(**{**vars(time), "sleep": slept}))
    lines = run("status", *words, "--watch", code=0).splitlines()
    assert f"items behind {REVISION}" in lines[-3]
    assert "items 3 left" in lines[-2]
    assert "behind" not in lines[-2] + lines[-1]


def test_the_page_of_a_fleet_tells_who_is_behind():
    text = status_page(Fleet((named("sessions", FINISHED), named("bids", BEHIND))))
    assert "1 of 2 checkpoints is behind: newer scripts exist.<" in text
    assert 'class="verdict doubtful"' in text
    assert f"Behind: {BEHIND.stores[0].behind}." in text
    assert "2 scripts not deployed, 1,000 values in old formats" in text
    assert "0 left, behind" in text
    one = status_page(BEHIND)
    assert "Behind its scripts: the newest are not deployed.<" in one
    assert "Nothing is left" not in one
    assert "1,000 left" in one
    assert "1,000 migrated" not in one


def test_a_look_is_recorded_and_what_is_gone_keeps_no_number():
    reader = InMemoryMetricReader()
    metrics = StatusMetrics(meter_provider=MeterProvider([reader]))
    metrics.record(Fleet((named("bids", BEHIND), *FLEET.looks)))

    def value(name, **labels):
        return points(reader)["status." + name, *sorted(labels.items())]

    at = {"query": "bids", "engine": "native", "store": "bids"}
    assert (value("behind", **at), value("left", **at), value("unknown", **at)) == (2, 0, 0)
    assert value("left", query="auctions", engine="native", store="auctions") == 812_004
    assert (value("readable", query="gone"), value("readable", query="bids")) == (0, 1)
    metrics.record(Fleet((Look(named("bids", BEHIND).checkpoint, FINISHED),)))
    assert value("behind", **at) == 0


def test_the_example_that_looks_from_outside_records_a_project(layout, monkeypatch):
    """As it stands in examples/monitoring, with a server that is not started."""
    import runpy

    from support.monitoring import EXAMPLE

    (layout.checkpoint.parent / "pyproject.toml").write_text(
        '[tool.statemigrate]\ncheckpoints = {shop = "checkpoint"}\n'
    )
    deployed(layout, 0, FAMILY, entries={"items": None})
    monkeypatch.syspath_prepend(os.fspath(EXAMPLE))
    loop = runpy.run_path(os.fspath(EXAMPLE / "watch_status.py"))["look_for_ever"]
    looks = []

    class Recorder:
        def record(self, fleet):
            looks.append(fleet)

    def slept(_):
        raise KeyboardInterrupt

    monkeypatch.setitem(loop.__globals__, "StatusMetrics", Recorder)
    monkeypatch.setitem(loop.__globals__, "time", SimpleNamespace(**{**vars(time), "sleep": slept}))
    with pytest.raises(KeyboardInterrupt):
        loop()
    (fleet,) = looks
    assert fleet.behind == ("shop",)
