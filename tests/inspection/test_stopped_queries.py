"""Backfilling, retiring and listing what failed, while the query is stopped."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from native_pipeline import NativePipeline
from pipelines import no_backfill
from tally import (
    AMOUNTS,
    AMOUNTS_SCRIPT,
    CENTS,
    AmountsTally,
    CentsTally,
    Expected,
    Scripts,
    batch,
)

from statemigrate import backfill, migrated
from statemigrate.cli import main
from statemigrate.errors import CheckpointError, CheckpointInUseError, TransformError

pytestmark = pytest.mark.spark
KEYS = 60
PICKY = AMOUNTS_SCRIPT.replace(
    'amount = Decimal(value["cents"]).scaleb(-2)',
    'amount = Decimal(value["cents"]).scaleb(-2)\n'
    '    if value["cents"] % 2:\n'
    '        raise ValueError("odd")',
)
ODD = [number for number in range(KEYS) if (3 * number + 7) % 2]


@pytest.fixture
def pipeline(spark, tmp_path) -> NativePipeline:
    made = NativePipeline(spark, tmp_path / "pipeline")
    made.feed(batch("first", range(KEYS)))
    return made


@pytest.fixture
def expected() -> Expected:
    made = Expected()
    made.process(batch("first", range(KEYS)), CENTS)
    return made


def run(folder: Path, *words: Any) -> Any:
    return CliRunner().invoke(main, ["--migrations", str(folder), *map(str, words)])


def test_a_stopped_query_is_backfilled_to_the_end_and_goes_on(pipeline, scripts, expected):
    folder = scripts.write()
    pipeline.deploy(CentsTally())
    result = run(folder, "backfill", "--checkpoint", pipeline.checkpoint)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"Migrated {KEYS} values; 0 are left.\n")
    expected.drain(AMOUNTS)
    assert pipeline.stored() == expected.stored(CENTS, AMOUNTS)
    pipeline.feed(batch("second", range(10, KEYS + 10)))
    progress = pipeline.deploy(migrated(AmountsTally(), migrations=folder))
    expected.process(batch("second", range(10, KEYS + 10)), AMOUNTS)
    assert pipeline.stored() == expected.stored(AMOUNTS)
    assert pipeline.handed_rows == expected.output
    assert sum(each.touched + each.backfilled for each in progress) == 0
    assert [name for each in progress for name in each.retired] == ["tally"]


@pytest.mark.long(weight=1 / 6)
def test_it_may_be_interrupted_and_goes_on(pipeline, scripts, expected, monkeypatch):
    folder = scripts.write()
    pipeline.deploy(CentsTally())
    from dataclasses import replace

    from statemigrate.embedded import offline as stopped

    monkeypatch.setattr(stopped, "_CHUNK", replace(stopped._CHUNK, initial_rows=7, maximum_rows=7))
    seen: list[tuple[int, int]] = []

    def interrupt(done: int, all_of_them: int) -> None:
        seen.append((done, all_of_them))
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backfill(pipeline.checkpoint, migrations=folder, progress=interrupt)
    assert seen == [(7, KEYS), (14, KEYS)]
    half = pipeline.stored()
    assert (len(half["tally"]), len(half[f"tally@{AMOUNTS}"])) == (KEYS - 14, 14)
    done = backfill(pipeline.checkpoint, migrations=folder)
    assert (done.migrated, done.quarantined, dict(done.left)) == (KEYS - 14, 0, {"tally": 0})
    expected.drain(AMOUNTS)
    assert pipeline.stored() == expected.stored(CENTS, AMOUNTS)


def test_the_way_back_is_a_target_too(pipeline, scripts, expected):
    folder = scripts.write()
    pipeline.deploy(migrated(AmountsTally(), migrations=folder))
    done = backfill(pipeline.checkpoint, migrations=folder, targets={"tally": "base"})
    assert done.migrated == KEYS
    assert {each["moved"] for each in pipeline.stored()["tally"].values()} == {100}


def test_a_value_that_fails_stops_it_and_names_the_key(pipeline, scripts):
    folder = scripts.write(PICKY)
    pipeline.deploy(CentsTally())
    before = pipeline.stored()
    with pytest.raises(TransformError, match="odd") as caught:
        backfill(pipeline.checkpoint, migrations=folder)
    assert caught.value.data["key"] in [(f"k{number}",) for number in ODD]
    assert pipeline.stored() == before


@pytest.mark.long(weight=1 / 5)
def test_quarantined_values_are_listed_exported_and_tried_again(
    pipeline, scripts, expected, tmp_path
):
    folder = scripts.write(PICKY)
    pipeline.deploy(CentsTally())
    where = ("--checkpoint", pipeline.checkpoint)
    result = run(folder, "backfill", *where, "--on-error", "quarantine", "--json")
    assert json.loads(result.stdout) == {
        "migrated": KEYS - len(ODD),
        "quarantined": len(ODD),
        "left": {"tally": len(ODD)},
    }
    status = json.loads(run(folder, "status", *where, "--json").stdout)
    assert status["stores"][0]["quarantined"] == len(ODD)
    assert f"shows why {len(ODD)} fail" in status["stores"][0]["next_action"]
    listed = run(folder, "status", "--failed", "tally", *where, "--json")
    assert listed.exit_code == 1
    found = json.loads(listed.stdout)
    assert sorted(each["key"][0] for each in found) == sorted(f"k{number}" for number in ODD)
    assert {each["family"] for each in found} == {"tally"}
    assert all(each["cause"].endswith("ValueError: odd") for each in found)
    values = {each["key"][0]: each["value"] for each in found}
    assert values == {
        key: value for key, value in expected.stored(CENTS)["tally"].items() if value["cents"] % 2
    }
    path = tmp_path / "failed.jsonl"
    assert run(folder, "status", "--failed", "tally", *where, "--output", path).exit_code == 1
    assert [json.loads(line) for line in path.read_text().splitlines()] == found
    scripts.write()
    # The script was applied to this checkpoint as it was, and is another now.
    refused = run(folder, "status", "--failed", "tally", *where)
    assert "was edited after it was applied" in refused.stderr
    accept = ("--accept-edited", AMOUNTS)
    corrected = run(folder, "status", "--failed", "tally", *where, *accept, "--json")
    assert (corrected.exit_code, {each["cause"] for each in json.loads(corrected.stdout)}) == (
        0,
        {None},
    )
    report = json.loads(run(folder, "dry-run", "tally", *where, *accept, "--json").stdout)
    assert (report["tried"], report["failed"]) == (len(ODD), 0)
    again = run(folder, "backfill", *where, *accept, "--json")
    assert json.loads(again.stdout) == {
        "migrated": len(ODD),
        "quarantined": 0,
        "left": {"tally": 0},
    }
    expected.drain(AMOUNTS)
    assert pipeline.stored() == expected.stored(CENTS, AMOUNTS)


@pytest.mark.long(weight=1 / 5)
def test_what_is_empty_is_retired_and_what_is_not_is_kept(pipeline, scripts, expected):
    folder = scripts.write()
    pipeline.deploy(CentsTally())
    kept = run(folder, "backfill", "--retire", "--checkpoint", pipeline.checkpoint)
    assert (kept.exit_code, kept.stdout.splitlines()[0]) == (
        1,
        f"Kept tally: it holds {KEYS} values",
    )
    backfill(pipeline.checkpoint, migrations=folder)
    dropped = run(folder, "backfill", "--retire", "--checkpoint", pipeline.checkpoint)
    assert (dropped.exit_code, dropped.stdout) == (0, "Dropped tally: it was empty\n")
    expected.drain(AMOUNTS)
    assert pipeline.stored() == expected.stored(AMOUNTS)
    again = run(folder, "backfill", "--retire", "--checkpoint", pipeline.checkpoint)
    assert (again.exit_code, again.stdout) == (0, "Nothing to drop: every store has one family\n")
    pipeline.feed(batch("second", range(5)))
    pipeline.deploy(migrated(AmountsTally(), migrations=folder))
    expected.process(batch("second", range(5)), AMOUNTS)
    assert pipeline.stored() == expected.stored(AMOUNTS)


@pytest.mark.long(weight=1 / 6)
def test_a_running_query_is_left_alone(pipeline, scripts):
    folder = scripts.write()
    running = pipeline.query(CentsTally()).start()
    try:
        running.processAllAvailable()
        before = pipeline.stored()
        with pytest.raises(CheckpointInUseError, match="stop that query first"):
            backfill(pipeline.checkpoint, migrations=folder)
        result = run(folder, "backfill", "--retire", "--checkpoint", pipeline.checkpoint)
        assert result.exit_code == 1
        assert "expected: no other running query" in result.stderr
    finally:
        running.stop()
    assert pipeline.stored() == before


@pytest.mark.long
def test_on_spark_s_own_state_the_query_does_it(pipeline, scripts):
    folder = scripts.write()
    pipeline.deploy_natively(CentsTally())
    with pytest.raises(CheckpointError, match="has run without the backfill source"):
        backfill(pipeline.checkpoint, migrations=folder)
    kept = run(folder, "backfill", "--retire", "--checkpoint", pipeline.checkpoint)
    assert (kept.exit_code, kept.stdout.splitlines()[0]) == (
        1,
        f"Kept tally: it holds {KEYS} values",
    )
    pipeline.feed(batch("second", range(KEYS)))
    pipeline.deploy_natively(
        migrated(AmountsTally(), migrations=folder, checkpoint=pipeline.checkpoint)
    )
    later = run(folder, "backfill", "--retire", "--checkpoint", pipeline.checkpoint)
    expected = "tally is empty: the first batch after the query's next start drops it\n"
    assert (later.exit_code, later.stdout) == (0, expected)


@pytest.mark.long(weight=1 / 3)
def test_what_would_fail_on_spark_s_own_state_is_listed(pipeline, scripts):
    pipeline.deploy_natively(CentsTally())
    folder = scripts.write(PICKY)
    where = ("--checkpoint", pipeline.checkpoint)
    listed = run(folder, "status", "--failed", "tally", *where, "--json")
    found = json.loads(listed.stdout)
    assert sorted(each["key"][0] for each in found) == sorted(f"k{number}" for number in ODD)
    scripts.write()
    none = run(folder, "status", "--failed", "tally", *where)
    assert (none.exit_code, none.stdout) == (0, "Nothing was left behind\n")


@pytest.mark.long(weight=1 / 5)
@pytest.mark.parametrize("engine", ["embedded", "native"])
def test_a_first_script_is_written_from_what_the_state_holds(pipeline, tmp_path, engine):
    if engine == "native":
        pipeline.deploy_natively(CentsTally())
    else:
        pipeline.deploy(CentsTally(), backfill=no_backfill())
    scripts = Scripts(tmp_path / "fresh")
    result = run(scripts.directory, "new", "--from-checkpoint", pipeline.checkpoint)
    assert result.exit_code == 0, result.output
    lineage = scripts.folder.lineage("tally")
    (baseline,) = lineage.migrations
    assert baseline.is_baseline
    assert baseline.new.struct_type().simpleString() == (
        "struct<n:bigint,cents:bigint,last:string,moved:bigint>"
    )
    again = run(scripts.directory, "new", "--from-checkpoint", pipeline.checkpoint)
    assert again.stdout == "Nothing to record: every store of the checkpoint has scripts\n"
    # State from before the baseline is at its revision.
    status = json.loads(
        run(scripts.directory, "status", "--checkpoint", pipeline.checkpoint, "--json").stdout
    )
    assert (status["stores"][0]["head"], status["left"]) == (lineage.head, 0)
