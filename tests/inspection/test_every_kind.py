"""Lists, maps, values that expire and envelopes, looked at from outside."""

import json
from typing import Any

import pytest
import words
from click.testing import CliRunner
from function_deployments import Deployments
from native_pipeline import NativePipeline
from pipelines import no_backfill
from pyspark.sql.streaming import StatefulProcessor
from tally import AMOUNTS, CENTS, CentsTally, Scripts, batch

from statemigrate import dry_run, migrated, open_state, status
from statemigrate.cli import main
from statemigrate.scripts import ScriptFolder

pytestmark = [pytest.mark.spark, pytest.mark.long]
ADDED = {f"k{n}": [f"w{i}" for i in range(n % 4 + 1)] * 2 for n in range(12)}


def rows(added: dict[str, list[str]]) -> list[tuple[str, str, str]]:
    return [(key, word, "add") for key, each in added.items() for word in each]


class Deployed:
    """Words in a list and a map; those of ``k0`` to ``k3`` are migrated."""

    def __init__(self, spark: Any, root: Any, engine: str) -> None:
        self.engine = engine
        self.pipeline = NativePipeline(
            spark, root / "pipeline", rows=words.ROWS, output=words.OUTPUT
        )
        self.folder = ScriptFolder.create(root / "migrations")
        for store, revision in (("words", words.LIST), ("counts", words.MAP)):
            text = words.SCRIPT.format(revision=revision, store=store)
            (self.folder.versions / f"{store}.py").write_text(f'"""Change."""\n{text}')
        self.pipeline.feed(rows(ADDED))
        self.deploy(words.Words())
        self.touched = [f"k{n}" for n in range(4)]
        self.pipeline.feed([(key, "new", "add") for key in self.touched])
        self.deploy(migrated(words.NewWords(), migrations=self.folder.directory))

    def deploy(self, processor: StatefulProcessor) -> None:
        if self.engine == "native":
            self.pipeline.deploy_natively(processor)
        else:
            self.pipeline.deploy(processor, backfill=no_backfill())

    @property
    def all_words(self) -> dict[str, list[str]]:
        return {key: [*each, *(["new"] * (key in self.touched))] for key, each in ADDED.items()}

    def run(self, *words: str) -> Any:
        where = ("--checkpoint", str(self.pipeline.checkpoint))
        return CliRunner().invoke(
            main, ["--migrations", str(self.folder.directory), *words, *where]
        )


@pytest.fixture(params=["embedded", "native"], scope="module")
def deployed(request, spark, tmp_path_factory) -> Deployed:
    return Deployed(spark, tmp_path_factory.mktemp(request.param), request.param)


def test_lists_are_read_whole_and_in_order(deployed):
    with open_state(deployed.pipeline.checkpoint, migrations=deployed.folder.directory) as state:
        found = {key: value for (key,), value in state["words"].entries()}
    assert {key: [each["text"]["word"] for each in value] for key, value in found.items()} == (
        deployed.all_words
    )
    elements = [each["text"] for value in found.values() for each in value]
    assert all(each["length"] == len(each["word"]) for each in elements)


def test_maps_are_read_key_by_key(deployed):
    with open_state(deployed.pipeline.checkpoint, migrations=deployed.folder.directory) as state:
        assert state["counts"].key_columns == ("key", "word")
        found = {key: value["n"] for key, value in state["counts"].entries()}
    assert found == {
        (key, word): each.count(word) for key, each in deployed.all_words.items() for word in each
    }


def test_get_takes_the_map_s_own_key_or_all_of_them(deployed):
    one = deployed.run("get", "counts", "k7", "w2")
    assert json.loads(one.stdout)["n"] == 2
    every = [json.loads(line) for line in deployed.run("get", "counts", "k7").stdout.splitlines()]
    assert {each["key"]["word"]: each["value"]["n"] for each in every} == (
        {f"w{i}": 2 for i in range(4)}
    )
    whole = json.loads(deployed.run("get", "words", "k7").stdout)
    assert [each["text"]["word"] for each in whole] == ADDED["k7"]


@pytest.mark.parametrize("store", ["words", "counts"])
def test_a_dry_run_tries_every_element_and_entry(deployed, store):
    report = dry_run(store, deployed.pipeline.checkpoint, migrations=deployed.folder.directory)
    left = {key: each for key, each in ADDED.items() if key not in deployed.touched}
    if store == "words":
        expected = sum(len(each) for each in left.values())
    else:
        # Of a map only the entries that were written are migrated, and those are new ones.
        expected = sum(len(set(each)) for each in ADDED.values())
    (family,) = report.families
    assert (family.stored, family.passed, family.failed, family.differing) == (
        expected,
        expected,
        0,
        0,
    )
    assert report.kind == ("list" if store == "words" else "map")


def test_status_has_both_stores(deployed):
    found = status(deployed.pipeline.checkpoint, migrations=deployed.folder.directory)
    left = {each.store: each.left for each in found.stores}
    assert left["words"] == sum(
        len(each) for key, each in ADDED.items() if key not in deployed.touched
    )
    assert set(left) == {"words", "counts"}


def test_an_export_of_lists_has_arrays(deployed, tmp_path):
    path = tmp_path / "words.jsonl"
    assert deployed.run("export", "words", "--output", str(path)).exit_code == 0
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert {
        each["key"]["key"]: [element["text"]["word"] for element in each["value"]] for each in found
    } == deployed.all_words


class ExpiringCents(CentsTally):
    def init(self, handle):
        self.state = handle.getValueState("tally", self.ddl, 600_000)


def test_values_that_expire_are_tried_like_any_other(spark, tmp_path, scripts):
    conf = "spark.sql.streaming.noDataMicroBatches.enabled"
    spark.conf.set(conf, "false")
    try:
        pipeline = NativePipeline(spark, tmp_path / "pipeline", time_mode="ProcessingTime")
        pipeline.feed(batch("first", range(10)))
        pipeline.deploy_natively(ExpiringCents())
    finally:
        spark.conf.unset(conf)
    folder = scripts.write()
    (family,) = dry_run("tally", pipeline.checkpoint, migrations=folder).families
    assert (family.tried, family.failed) == (10, 0)
    with open_state(pipeline.checkpoint, migrations=folder) as state:
        assert state["tally"].get("k4")["n"] == 1


def test_envelopes_are_state_like_any_other(spark, tmp_path):
    scripts = Scripts(tmp_path / "migrations")
    folder = scripts.write()
    deployments = Deployments(NativePipeline(spark, tmp_path / "pipeline"), folder)
    deployments.process(CENTS, batch("first", range(20)))
    deployments.process(AMOUNTS, batch("second", range(5)))
    checkpoint = deployments.pipeline.checkpoint
    report = dry_run("tally", checkpoint, migrations=folder)
    (family,) = report.families
    assert (report.engine, family.stored, family.passed, report.in_target) == ("native", 15, 15, 5)
    found = status(checkpoint, migrations=folder)
    assert (found.left, found.stores[0].target, found.stores[0].in_target) == (15, AMOUNTS, 5)
    with open_state(checkpoint, migrations=folder) as state:
        values = {key: (value["n"], value["last"]) for (key,), value in state["tally"].entries()}
    assert values == {f"k{n}": (2, "second") if n < 5 else (1, "first") for n in range(20)}


def test_a_store_that_is_empty_is_no_trouble(spark, tmp_path, scripts):
    for engine in ("embedded", "native"):
        folder = scripts.write()
        pipeline = NativePipeline(spark, tmp_path / engine)

        class Forgetful(CentsTally):
            def handleInputRows(self, key, rows, timer_values):
                list(rows)
                self.state.clear()
                yield from ()

        pipeline.feed(batch("first", range(6)))
        if engine == "native":
            pipeline.deploy_natively(Forgetful())
        else:
            pipeline.deploy(Forgetful(), backfill=no_backfill())
        report = dry_run("tally", pipeline.checkpoint, migrations=folder, sample=10)
        assert (report.tried, report.stored, report.backfill) == (0, 0, None)
        assert status(pipeline.checkpoint, migrations=folder).left == 0
        with open_state(pipeline.checkpoint, migrations=folder) as state:
            assert list(state["tally"].entries()) == []
