"""The logical view of both engines' checkpoints, half migrated: get, export, status."""

import json
import time
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from native_pipeline import NativePipeline
from pipelines import no_backfill
from tally import AMOUNTS, AMOUNTS_SCRIPT, CENTS, AmountsTally, CentsTally, Scripts, batch

from statemigrate import migrated, open_state, status
from statemigrate.cli import main
from statemigrate.errors import StartupError, ValueMismatchError

pytestmark = [pytest.mark.spark, pytest.mark.long(weight=1 / 12)]
KEYS, TOUCHED = 30, 12


class Half:
    """A query of which the keys below ``TOUCHED`` are migrated; not to be changed by a test."""

    def __init__(self, spark: Any, root: Path, engine: str) -> None:
        self.engine = engine
        self.folder = Scripts(root / "migrations").write()
        pipeline = NativePipeline(spark, root / "pipeline")
        self.checkpoint = str(pipeline.checkpoint)
        pipeline.feed(batch("first", range(KEYS)), batch("second", range(TOUCHED)))
        after = AmountsTally()
        if engine == "native":
            pipeline.input.joinpath("000001.parquet").rename(root / "later")
            pipeline.deploy_natively(CentsTally())
            (root / "later").rename(pipeline.input / "000001.parquet")
            pipeline.deploy_natively(
                migrated(after, migrations=self.folder, checkpoint=self.checkpoint)
            )
        else:
            pipeline.input.joinpath("000001.parquet").rename(root / "later")
            pipeline.deploy(CentsTally())
            (root / "later").rename(pipeline.input / "000001.parquet")
            pipeline.deploy(migrated(after, migrations=self.folder), backfill=no_backfill())

    def expected(self) -> dict[str, dict[str, Any]]:
        return {f"k{number}": self.value(number) for number in range(KEYS)}

    def value(self, number: int) -> dict[str, Any]:
        times = 2 if number < TOUCHED else 1
        name = "second" if number < TOUCHED else "first"
        amount = Decimal((3 * number + 7) * times).scaleb(-2)
        return {"n": times, "amount": amount, "last": name, "moved": 1}

    def run(self, *words: str) -> Any:
        runner = CliRunner()
        return runner.invoke(main, ["--migrations", str(self.folder), *words])


@pytest.fixture(params=["embedded", "native"], scope="module")
def half(request, spark, tmp_path_factory) -> Half:
    return Half(spark, tmp_path_factory.mktemp(request.param), request.param)


def as_json(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "amount": str(value["amount"])}


def test_every_key_is_read_once_in_the_target_format(half):
    with open_state(half.checkpoint, migrations=half.folder) as state:
        entries = list(state["tally"].entries())
        assert (state.engine, state.batch, state.stores) == (half.engine, 1, ("tally",))
        assert state["tally"].key_columns == ("key",)
    assert {key: value for (key,), value in entries} == half.expected()
    assert len(entries) == KEYS


def test_an_older_target_reads_the_way_back(half):
    with open_state(half.checkpoint, migrations=half.folder, targets={"tally": "base"}) as state:
        assert state["tally"].get("k3") == {"n": 2, "cents": 32, "last": "second", "moved": 101}
        assert state["tally"].get("k20") == {"n": 1, "cents": 67, "last": "first", "moved": 0}
        assert state["tally"].get("nobody") is None


def test_without_scripts_a_migrated_store_is_not_read(half):
    unscripted = open_state(half.checkpoint, migrations=None)
    with unscripted as state, pytest.raises(StartupError, match="no script"):
        list(state["tally"].entries())


@pytest.mark.parametrize("number", [0, 29])
def test_get_prints_one_value(half, number):
    result = half.run("get", "tally", f"k{number}", "--checkpoint", half.checkpoint)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == as_json(half.value(number))


def test_get_says_that_there_is_none(half):
    result = half.run("get", "tally", "nobody", "--checkpoint", half.checkpoint)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Store tally has no value under nobody.\n"


def test_a_key_of_too_many_columns_is_an_error(half):
    result = half.run("get", "tally", "k1", "k2", "--checkpoint", half.checkpoint)
    assert result.exit_code == 1
    assert "a key of 1 columns was given 2 texts" in result.stderr
    assert "Traceback" not in result.stderr


def exported(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if path.suffix == ".avro":
        with path.open("rb") as stream:
            return list(fastavro.reader(stream))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["value"]["amount"] = Decimal(line["value"]["amount"])
    return lines


@pytest.mark.parametrize("ending", ["parquet", "avro", "jsonl"])
def test_an_export_has_every_key(half, tmp_path, ending):
    path = tmp_path / f"all.{ending}"
    result = half.run("export", "tally", "--checkpoint", half.checkpoint, "--output", str(path))
    assert result.exit_code == 0, result.output
    assert result.stdout == f"Wrote {KEYS} keys of tally, as of batch 1, to {path}\n"
    assert {each["key"]["key"]: each["value"] for each in exported(path)} == half.expected()
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_an_export_of_another_kind_is_refused(half, tmp_path):
    to = str(tmp_path / "all.csv")
    result = half.run("export", "tally", "--checkpoint", half.checkpoint, "--output", to)
    assert result.exit_code == 1
    assert "expected: a file ending in .parquet, .avro, .jsonl" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_export_can_be_tried_again(half, tmp_path):
    path = tmp_path / "old.avro"
    to = ("--output", str(path), "--target", "tally=base")
    assert half.run("export", "tally", "--checkpoint", half.checkpoint, *to).exit_code == 0
    result = half.run("dry-run", "tally", "--from-file", str(path), "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 0
    assert (report["engine"], report["target"], report["tried"]) == ("file", AMOUNTS, KEYS)
    assert report["families"][0]["revision"] == CENTS
    assert report["differing"] == KEYS


def test_status_counts_what_is_left(half):
    found = status(half.checkpoint, migrations=half.folder)
    (store,) = found.stores
    (family,) = store.families
    assert (found.engine, found.batch, found.left) == (half.engine, 1, KEYS - TOUCHED)
    assert (store.target, store.head, store.is_dual) == (AMOUNTS, AMOUNTS, True)
    assert (family.name, family.revision, family.values) == ("tally", CENTS, KEYS - TOUCHED)
    assert sum(family.partitions.values()) == KEYS - TOUCHED
    assert store.in_target == (TOUCHED if half.engine == "native" else None)
    # No backfill reaches Spark's own state before there is room for its source.
    command = f"statemigrate backfill {half.checkpoint}"
    assert command in store.next_action
    assert (f"{command} --prepare" in store.next_action) == (half.engine == "native")


def test_status_is_printed_for_people_and_machines(half):
    people = half.run("status", "--checkpoint", half.checkpoint)
    machines = half.run("status", "--checkpoint", half.checkpoint, "--json")
    assert (people.exit_code, machines.exit_code) == (0, 0)
    assert f"tally  value state, target {AMOUNTS}, the head" in people.stdout
    assert "dual access: on" in people.stdout
    (store,) = json.loads(machines.stdout)["stores"]
    assert (store["store"], store["left"], store["dual"]) == ("tally", KEYS - TOUCHED, True)


def test_a_dry_run_on_the_command_line_reports_and_fails(half, tmp_path):
    scripts = Scripts(tmp_path / "broken")
    folder = scripts.write(AMOUNTS_SCRIPT.replace('value["cents"]).scaleb(-2)', "value['no'])"))
    files = {name: tmp_path / name for name in ("report.html", "junit.xml")}
    result = CliRunner().invoke(
        main,
        [
            *("dry-run", "tally", "--checkpoint", half.checkpoint, "--migrations", str(folder)),
            *("--html", str(files["report.html"]), "--junit", str(files["junit.xml"])),
        ],
    )
    # The native checkpoint remembers the script that was applied, and this one is another.
    assert result.exit_code == 1
    assert "was edited after it was applied" in result.stderr


def test_rates_come_from_two_looks(half):
    later = status(half.checkpoint, migrations=half.folder)
    (store,) = later.stores
    (family,) = store.families
    from dataclasses import replace

    earlier = replace(
        later,
        taken_at=later.taken_at - 2,
        stores=(replace(store, families=(replace(family, values=family.values + 8),)),),
    )
    (paced,) = later.since(earlier).stores
    assert (paced.rate, paced.seconds) == pytest.approx((4.0, (KEYS - TOUCHED) / 4))


def test_the_last_commit_is_told_with_its_time(half):
    noted = Path(half.checkpoint) / "commits" / "1"
    assert status(half.checkpoint, migrations=half.folder).committed_at == noted.stat().st_mtime
    assert "\n  committed " in half.run("status", "--checkpoint", str(half.checkpoint)).stdout


def test_two_looks_at_what_does_not_move_say_so(half, monkeypatch):
    """Of either engine: the first claims no rate, the second that nothing moved."""
    from statemigrate.cli import watching

    looks = iter([None])

    def pause(seconds):
        if next(looks, "over") == "over":
            raise KeyboardInterrupt

    # Not the sleep of the threads that talk to Java.
    monkeypatch.setattr(watching, "time", SimpleNamespace(**{**vars(time), "sleep": pause}))
    done = half.run("status", "--checkpoint", str(half.checkpoint), "--watch")
    assert done.exit_code == 0, done.output
    *first, second = done.stdout.splitlines()
    left = KEYS - TOUCHED
    assert f"  {left} left to migrate" in "\n".join(first)
    assert not [line for line in first if "values a second" in line or "moved" in line]
    assert f"tally {left} left; nothing moved over " in second


def test_a_key_that_is_no_number_is_said(spark, tmp_path):
    from pyspark.sql.types import StructType

    from statemigrate.state.target_entries import key_from_texts

    columns = StructType.fromDDL("id INT, day DATE, name STRING")
    import datetime as dt

    assert key_from_texts(columns, ["5", "2026-02-03", "7"]) == (5, dt.date(2026, 2, 3), "7")
    assert key_from_texts(columns, ["null"]) == (None,)
    for texts in (["five"], ["99999999999"], ["1.5"], ["5", "yesterday"]):
        with pytest.raises(ValueMismatchError):
            key_from_texts(columns, texts)
