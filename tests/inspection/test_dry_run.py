"""Dry runs on the real state of both engines, compared with what the state is known to be."""

from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from native_pipeline import NativePipeline
from tally import (
    AMOUNTS,
    AMOUNTS_SCRIPT,
    CENTS,
    NESTED,
    NESTED_SCRIPT,
    AmountsTally,
    CentsTally,
    batch,
)

from statemigrate import dry_run, migrated
from statemigrate.errors import CheckpointError, LineageError, StartupError
from statemigrate.state.open import open_committed
from statemigrate.state.project import Project
from statemigrate.state.protocol import Document, Part, planned

pytestmark = pytest.mark.spark
KEYS = 40
RAISING = AMOUNTS_SCRIPT.replace(
    'amount = Decimal(value["cents"]).scaleb(-2)',
    'amount = Decimal(value["cents"]).scaleb(-2)\n'
    '    if value["last"] == "second":\n'
    '        raise KeyError(value["cents"])\n'
    '    if value["cents"] == 7:\n'
    "        amount = 'seven'",
)
SAME_WAY_BACK = AMOUNTS_SCRIPT.replace('value["moved"] + 100', 'value["moved"] - 1')


@dataclass
class Deployed:
    """Tallies of plain code: 25 keys of the first batch, 15 of the second."""

    pipeline: NativePipeline
    engine: str

    def deploy(self, processor: Any) -> None:
        if self.engine == "native":
            self.pipeline.deploy_natively(processor)
        else:
            self.pipeline.deploy(processor, **self.options)

    @property
    def options(self) -> dict[str, Any]:
        from pipelines import no_backfill

        return {"backfill": no_backfill()}

    def dry_run(self, folder: Any, **options: Any) -> Any:
        return dry_run("tally", self.pipeline.checkpoint, migrations=folder, **options)


@pytest.fixture(params=["embedded", "native"], scope="module")
def plain(request, spark, tmp_path_factory) -> Deployed:
    """Not to be changed by a test."""
    root = tmp_path_factory.mktemp(request.param)
    deployed = Deployed(NativePipeline(spark, root / "pipeline"), request.param)
    deployed.pipeline.feed(batch("first", range(KEYS)), batch("second", range(25, KEYS)))
    deployed.deploy(CentsTally())
    return deployed


def files(deployed: Deployed) -> dict[str, bytes]:
    root = deployed.pipeline.checkpoint
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_every_value_is_tried_and_nothing_is_written(plain, scripts):
    before = files(plain)
    report = plain.dry_run(scripts.write(SAME_WAY_BACK))
    assert files(plain) == before
    (family,) = report.families
    assert (report.engine, report.kind, report.batch) == (plain.engine, "value", 1)
    assert (report.target, report.in_target, report.sample) == (AMOUNTS, 0, None)
    assert (family.family, family.revision) == ("tally", CENTS)
    assert (family.stored, family.tried, family.passed, family.failed) == (KEYS, KEYS, KEYS, 0)
    assert (family.reversible, family.differing, family.differences) == (True, 0, ())
    assert sum(family.sizes_before.values()) == sum(family.sizes_after.values()) == KEYS
    assert report.backfill is not None
    assert (report.backfill.values, report.backfill.batches) == (KEYS, 1)


def test_the_effect_on_each_field_is_shown_with_examples(plain, scripts):
    (family,) = plain.dry_run(scripts.write()).families
    effects = {(each.effect, each.field): each for each in family.fields}
    assert set(effects) == {
        ("kept", "n"),
        ("removed", "cents"),
        ("added", "amount"),
        ("kept", "last"),
        ("changed", "moved"),
    }
    assert {each.values for each in effects.values()} == {family.looked_at}
    assert family.looked_at >= 2
    for example in effects["added", "amount"].examples:
        number = int(example.key.removeprefix('["k').removesuffix('"]'))
        cents = (3 * number + 7) * (1 if number < 25 else 2)
        assert (example.before, example.after) == (None, f'"{cents / 100:.2f}"')
    assert all(
        (each.before, each.after) == ("0", "1") for each in effects["changed", "moved"].examples
    )


def test_values_that_come_back_otherwise_are_counted_by_field(plain, scripts):
    (family,) = plain.dry_run(scripts.write()).families
    (difference,) = family.differences
    assert (family.differing, difference.field, difference.values) == (KEYS, "moved", KEYS)
    assert {(each.before, each.after) for each in difference.examples} == {("0", "101")}


def test_a_pair_that_claims_to_be_undone_fails_for_the_values_that_are_not(plain, scripts):
    report = plain.dry_run(scripts.write(f"{AMOUNTS_SCRIPT}\n\nlossless = True\n"))
    assert (report.failed, report.lawless, report.in_order) == (0, KEYS, False)
    (law,) = report.families[0].broken_laws
    assert (law.law, law.field, law.values) == (
        "downgrade(upgrade(value)) == value", "moved", KEYS
    )  # fmt: skip
    smallest = law.smallest.before, law.smallest.after
    assert smallest == ('{"cents": 0, "moved": 0}', '{"cents": 0, "moved": 101}')


def test_failures_are_grouped_by_cause_with_their_keys(plain, scripts):
    report = plain.dry_run(scripts.write(RAISING))
    (family,) = report.families
    raised, unfit = family.failures
    assert (report.tried, report.passed, report.failed) == (KEYS, KEYS - 16, 16)
    assert raised.values == 15
    assert raised.cause.startswith(f"{CENTS} to {AMOUNTS}: KeyError in line ")
    assert 'raise KeyError(value["cents"])' in raised.cause
    assert "for example: KeyError: " in raised.cause
    assert {f'["k{number}"]' for number in range(25, KEYS)} >= set(raised.keys)
    assert len(raised.keys) == 5
    assert (unfit.values, unfit.keys) == (1, ('["k0"]',))
    assert unfit.cause == (
        "the new format cannot hold amount: expected decimal(18,2), a Decimal with at "
        "most 16 digits before the point and 2 after it; for example: str 'seven'"
    )


@pytest.mark.parametrize("sample", [1, 7, KEYS, 1000])
def test_a_sample_is_spread_over_the_partitions(plain, scripts, sample):
    report = plain.dry_run(scripts.write(), sample=sample)
    assert (report.sample, report.stored) == (sample, KEYS)
    assert report.tried == min(sample, KEYS)


def test_a_chain_goes_through_every_script(plain, scripts):
    report = plain.dry_run(scripts.write(nested=NESTED_SCRIPT))
    (family,) = report.families
    effects = {(each.effect, each.field) for each in family.fields}
    assert report.target == NESTED
    assert family.passed == KEYS
    assert ("added", "sums") in effects
    assert {("renamed", "n"), ("removed", "cents"), ("changed", "last")} <= effects
    (difference,) = family.differences
    assert {(each.before, each.after) for each in difference.examples} == {("0", "1111")}


def test_a_field_that_no_value_keeps_is_lost_unless_the_script_drops_it(plain, scripts):
    losing = AMOUNTS_SCRIPT.replace('"last": value["last"]', '"last": None')
    assert losing != AMOUNTS_SCRIPT
    report = plain.dry_run(scripts.write(losing))
    (loss,) = report.families[0].losses
    assert (report.passed, report.lost, report.in_order) == (KEYS, 1, False)
    assert (loss.field, loss.direction, loss.revision, loss.meant) == (
        "last",
        "upgrade",
        AMOUNTS,
        False,
    )
    said = plain.dry_run(scripts.write(f'{losing}\n\ndrops = ("last",)\n'))
    assert [(each.field, each.meant) for each in said.families[0].losses] == [("last", True)]
    assert (said.lost, said.in_order) == (0, True)


def test_any_task_is_run_over_the_values_where_they_are(plain, scripts):
    def cents_by_key(part: Part) -> Document:
        found = {part.shown(key)[0]: value["cents"] for key, _, value in part.values}
        return {"found": found, "seen": part.seen}

    checkpoint, spark = str(plain.pipeline.checkpoint), plain.pipeline.spark
    project = Project(spark=spark)
    with closing(open_committed(checkpoint, {}, project)) as state:
        plan = planned(state, "tally", {}, project)
        documents = list(state.values(plan, [plan.target]).map(cents_by_key))
        expected = {key: value["cents"] for (key,), value in state.entries(plan)}
    assert {family for family, _ in documents} == {"tally"}
    found = [item for _, each in documents for item in each["found"].items()]
    assert (len(found), dict(found)) == (KEYS, expected)
    assert sum(each["seen"] for _, each in documents) == KEYS


@pytest.mark.long(weight=1 / 3)
def test_what_was_migrated_already_is_left_out(spark, tmp_path, scripts):
    for engine in ("embedded", "native"):
        deployed = Deployed(NativePipeline(spark, tmp_path / engine), engine)
        folder = scripts.write()
        deployed.pipeline.feed(batch("first", range(KEYS)))
        deployed.deploy(CentsTally())
        deployed.pipeline.feed(batch("second", range(10)))
        deployed.deploy(migrated(AmountsTally(), migrations=folder))
        report = deployed.dry_run(folder)
        (family,) = report.families
        assert (family.stored, family.passed, report.in_target) == (KEYS - 10, KEYS - 10, 10)
        back = deployed.dry_run(folder, targets={"tally": "base"})
        (family,) = back.families
        assert (back.target, family.revision, family.tried) == (CENTS, AMOUNTS, 10)


def test_a_store_without_a_way_back_is_refused_as_the_query_would_be(spark, tmp_path, scripts):
    deployed = Deployed(NativePipeline(spark, tmp_path / "pipeline"), "embedded")
    folder = scripts.write(AMOUNTS_SCRIPT.partition("def downgrade")[0])
    deployed.pipeline.feed(batch("first", range(4)))
    deployed.deploy(migrated(AmountsTally(), migrations=folder))
    with pytest.raises(StartupError, match="cannot go back"):
        deployed.dry_run(folder, targets={"tally": "base"})


def test_a_store_without_scripts_is_an_error(plain, scripts):
    with pytest.raises(LineageError, match=r"No migration script in .* is for store 'other'"):
        dry_run("other", plain.pipeline.checkpoint, migrations=scripts.write())


def test_what_is_not_a_checkpoint_is_said(spark, tmp_path, scripts):
    folder = scripts.write()
    (tmp_path / "empty").mkdir()
    (tmp_path / "stateless" / "commits").mkdir(parents=True)
    expected = {
        "missing": "no such directory",
        "empty": "a directory without either",
        "stateless": "a query's checkpoint without state: no batch has kept any",
    }
    for name, found in expected.items():
        with pytest.raises(CheckpointError, match="is not the checkpoint of a stateful") as caught:
            dry_run("tally", tmp_path / name, migrations=folder)
        assert caught.value.found == found
