"""Bundles without what may not leave production: pseudonyms, and a sample of the keys."""

from __future__ import annotations

from pathlib import Path

import live_code
import masked_code as code
import previewed_code
import previewed_query
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from previewed_query import Query, fields, scripts_of, write_means

from statemigrate import init, open_state
from statemigrate.cli.main import main
from statemigrate.errors import StatemigrateError
from statemigrate.formats.arrow_values import plain_rows
from statemigrate.preview.bundle import open_bundle

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
SECRETS = (b"person", b"friend", b"@mail")
QUERIES = {
    "windows": (code.windows, "update", 1, ("email", "card", "aggregation-0.max")),
    "duplicates": (code.first_ones, "append", 1, ("email", "card")),
    "processor": (code.processed, "update", 1, ("email", "card")),
    "join": (code.joined, "append", 2, ("email", "card", "field0")),
}


def query_of(spark, folder, function, mode, count):
    # In processing time `transformWithState` with availableNow never ends.
    trigger = "once" if function is code.processed else "availableNow"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(previewed_query, "events", code.orders)
        patch.setattr(previewed_query, "SCHEMA", code.Orders.__metadata__[0])
        return Query(spark, folder, function, mode, count, trigger=trigger)


@pytest.fixture(scope="module", params=list(QUERIES))
def masked(spark, tmp_path_factory, request):
    """A query, its bundle, and the columns that are masked there."""
    function, mode, count, mask = QUERIES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    query = query_of(spark, folder, function, mode, count)
    query.save(folder / "bundle", mask=mask)
    return query, folder / "bundle", mask


def contents(bundle: Path):
    """All that can be read in a bundle, as text: state, input and the bytes of its files."""
    found = open_bundle(bundle)
    for batch in (found.before, *found.batches):
        state = open_state(bundle / "checkpoint", batch=batch, migrations=None)
        for name in state.stores:
            for row in plain_rows(state[name].to_arrow()):
                yield repr(row).encode()
    for file in (bundle / "inputs").rglob("*.parquet"):
        yield repr(pq.read_table(file).to_pylist()).encode()
    for file in bundle.rglob("*"):
        if file.is_file():
            yield file.read_bytes()


def test_no_masked_value_is_anywhere_in_the_bundle(masked):
    _, bundle, _ = masked
    cards = [str(4_000_000_000_000 + 7919 * person).encode() for person in range(30)]
    everything = list(contents(bundle))
    assert len(everything) > 10
    for secret in (*SECRETS, *cards):
        assert not any(secret in each for each in everything), secret


def test_the_old_code_computes_the_masked_state_from_the_masked_input(masked):
    query, bundle, _ = masked
    found = query.preview(query.function, place=bundle)
    assert found.noise == ()
    assert fields(found) == set()
    assert found.is_expected
    assert all(each.rows for batch in found.batches for each in batch.stores)


def test_the_bundle_has_as_many_rows_as_the_query_and_the_masked_fields_are_listed(masked):
    query, bundle, _ = masked
    found = open_bundle(bundle)
    for batch in (found.before, *found.batches):
        own = open_state(query.checkpoint, batch=batch, migrations=None)
        state = open_state(bundle / "checkpoint", batch=batch, migrations=None)
        assert set(state.stores) == set(own.stores)
        for name in own.stores:
            assert state[name].to_arrow().num_rows == own[name].to_arrow().num_rows
    assert {each.rpartition(".")[2] for each in found.masked} >= {"email", "card"}
    assert "source 0.to.email" in found.masked


def test_a_fault_of_new_code_is_found_on_a_masked_bundle(spark, tmp_path):
    query = query_of(spark, tmp_path, code.windows, "update", 1)
    query.save(tmp_path / "bundle", mask=["email", "card", "max"])
    found = query.preview(code.windows_doubled, place=tmp_path / "bundle")
    assert fields(found) == {("aggregation-0", "sum"), ("output", "total")}


def refused(query, place, **options):
    with pytest.raises(StatemigrateError) as raised:
        query.save(place, **options)
    assert not place.exists()
    assert [each.name for each in place.parent.iterdir() if "bundle" in each.name] == []
    return raised.value


def test_a_column_that_has_the_values_under_another_name_is_named(spark, tmp_path):
    query = query_of(spark, tmp_path, code.joined, "append", 2)
    error = refused(query, tmp_path / "bundle", mask=["email"])
    assert error.code == "SM-PREVIEW-029"
    assert error.data["column"].endswith("field0")
    assert "--mask" in error.next_action


def test_a_number_and_a_text_under_other_names_are_named(spark, tmp_path):
    query = query_of(spark, tmp_path / "one", code.named_otherwise, "update", 1)
    error = refused(query, tmp_path / "bundle", mask=["card"])
    assert (error.code, error.data["column"]) == ("SM-PREVIEW-029", "aggregation-0.max")
    other = query_of(spark, tmp_path / "other", code.put_together, "update", 1)
    error = refused(other, tmp_path / "bundle", mask=["email"])
    assert (error.code, error.data["column"]) == ("SM-PREVIEW-029", "aggregation-0.max")


def test_what_the_code_takes_from_a_masked_text_is_noise_and_not_an_error(spark, tmp_path):
    query = query_of(spark, tmp_path, code.by_domain, "update", 1)
    query.save(tmp_path / "bundle", mask=["email"])
    found = query.preview(code.by_domain, place=tmp_path / "bundle")
    assert {(each.store, each.field) for each in found.noise} == {("aggregation-0", "max")}


def test_a_name_that_no_column_has_and_a_type_without_pseudonyms_are_refused(spark, tmp_path):
    query = query_of(spark, tmp_path, code.windows, "update", 1)
    error = refused(query, tmp_path / "bundle", mask=["email", "e-mail"])
    assert (error.code, error.data["column"]) == ("SM-PREVIEW-030", "e-mail")
    error = refused(query, tmp_path / "bundle", mask=["at"])
    assert (error.code, error.data["column"]) == ("SM-PREVIEW-025", "source 0.at")


def test_a_column_may_be_named_with_the_name_that_the_project_gives_its_store(spark, tmp_path):
    query = query_of(spark, tmp_path, code.windows, "update", 1)
    given = {"mask": ["email", "card", "Spending.max"], "stores": {"spending": "aggregation-0"}}
    query.save(tmp_path / "bundle", **given)
    masked = open_bundle(tmp_path / "bundle").masked
    assert "aggregation-0.max" in masked
    assert query.preview(code.windows, old=False, **given).is_expected
    (tmp_path / "other").mkdir()
    error = refused(query, tmp_path / "other" / "bundle", **{**given, "stores": {}})
    assert (error.code, error.data["column"]) == ("SM-PREVIEW-030", "spending.max")


def test_a_preview_refuses_a_mask_that_no_column_has(spark, tmp_path):
    query = query_of(spark, tmp_path, code.windows, "update", 1)
    rightly = ["EMAIL", "source 0.to.no", "aggregation-0.max", "output.total", "at"]
    assert query.preview(code.windows, old=False, mask=rightly).is_expected
    with pytest.raises(StatemigrateError) as raised:
        query.preview(code.windows, old=False, mask=["email", "e-mail"])
    assert (raised.value.code, raised.value.data["column"]) == ("SM-PREVIEW-030", "e-mail")
    assert "total" in raised.value.found


@pytest.mark.parametrize("name", ["windows", "duplicates", "processor"])
def test_a_sample_has_all_rows_of_some_keys_and_the_old_code_computes_its_state(
    spark, tmp_path, name
):
    function, mode, count, mask = QUERIES[name]
    query = query_of(spark, tmp_path, function, mode, count)
    query.save(tmp_path / "bundle", mask=mask, sample=0.4, sample_by=["email"])
    bundle = open_bundle(tmp_path / "bundle")
    assert bundle.sample == 0.4
    everyone, people = set(), set()
    for place, into in ((query.checkpoint, everyone), (tmp_path / "bundle/checkpoint", people)):
        for each in (bundle.before, *bundle.batches):
            state = open_state(place, batch=each, migrations=None)
            for store in state.stores:
                if "email" in state[store].layout.key_names:
                    into |= set(state[store].to_arrow().column("email").to_pylist())
    assert 0.15 * len(everyone) < len(people) < 0.7 * len(everyone)
    read = set()
    for file in (tmp_path / "bundle/inputs").rglob("*.parquet"):
        read |= set(pq.read_table(file).column("email").to_pylist())
    assert read <= people
    found = query.preview(query.function, place=tmp_path / "bundle")
    assert found.noise == ()
    assert found.is_expected


def test_the_command_masks_the_columns_of_the_configuration_and_says_what_it_has_done(
    spark, tmp_path, monkeypatch
):
    query = query_of(spark, tmp_path, code.windows, "update", 1)
    (tmp_path / "pyproject.toml").write_text('[tool.statemigrate]\nmask = ["EMAIL", "card"]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    command = ["preview", "checkpoint", "--code", query.name, "--output-mode", query.mode]
    command += ["--batches", "2", "--save", "bundle"]
    ran = CliRunner().invoke(main, [*command, "--sample", "0.5", "--sample-by", "email"])
    assert (ran.exit_code, "SM-PREVIEW-029" in ran.stderr) == (1, True), ran.output
    assert "--mask aggregation-0.max" in " ".join(ran.stderr.split())
    names = ["--mask", "email", "--mask", "card", "--mask", "aggregation-0.max"]
    ran = CliRunner().invoke(main, [*command, *names, "--sample", "0.5", "--sample-by", "email"])
    assert ran.exit_code == 0, ran.output
    printed = " ".join(ran.stdout.split())
    assert "It has the rows of 50 % of the keys." in printed
    assert (
        "Replaced by pseudonyms: aggregation-0.email, aggregation-0.max, source 0.card" in printed
    )
    ran = CliRunner().invoke(main, [*command[:-2], "--mask", "email"])
    assert ran.exit_code == 2
    assert "are for --save" in ran.stderr


def test_pages_are_refused_before_anything_is_written(spark, tmp_path, monkeypatch):
    init(migrations=tmp_path / "migrations")
    monkeypatch.setattr(live_code, "CHECKPOINT", str(tmp_path / "checkpoint"))
    monkeypatch.setattr(live_code, "MIGRATIONS", str(tmp_path / "migrations"))
    query = Query(spark, tmp_path, live_code.paged_totals, "update")
    error = refused(query, tmp_path / "bundle", mask=["k"])
    assert error.code == "SM-PREVIEW-026"
    error = refused(query, tmp_path / "bundle", sample=0.5, sample_by=["k"])
    assert error.code == "SM-PREVIEW-027"


def test_state_that_migrates_live_is_masked_with_all_that_its_operator_keeps(
    spark, tmp_path, monkeypatch
):
    init(migrations=tmp_path / "migrations")
    monkeypatch.setattr(live_code, "CHECKPOINT", str(tmp_path / "checkpoint"))
    monkeypatch.setattr(live_code, "MIGRATIONS", str(tmp_path / "migrations"))
    query = Query(spark, tmp_path, live_code.stateful_totals, "update")
    query.save(tmp_path / "bundle", mask=["k"])
    found = query.preview(
        query.function, place=tmp_path / "bundle", migrations=tmp_path / "migrations"
    )
    assert (found.noise, found.unexpected) == ((), ())
    wrong = query.preview(
        live_code.stateful_wrong_totals,
        place=tmp_path / "bundle",
        migrations=tmp_path / "migrations",
    )
    assert ("total", "sum") in fields(wrong)


def test_families_that_spark_has_forgotten_are_not_left_out_in_silence(
    spark, tmp_path, monkeypatch
):
    scripts = scripts_of(live_code, tmp_path, monkeypatch)
    query = Query(spark, tmp_path, previewed_code.processed, "update", batches=2)
    write_means(scripts)
    for number, function in enumerate(
        (live_code.marked_means, previewed_code.processed, previewed_code.processed), 2
    ):
        query.function = function
        rows = [row for row in previewed_query.events(number) if number == 2 or '"k3"' in row]
        (query.inputs[0] / f"{number}.json").write_text("\n".join(rows))
        query.run()
    assert "total@aaaa11112222" not in open_state(query.checkpoint, migrations=None).stores
    for options in ({"mask": ["k"]}, {"sample": 0.5, "sample_by": ["k"]}):
        error = refused(query, tmp_path / "bundle", batches=1, **options)
        assert (error.code, error.data["family"]) == ("SM-STATE-036", "total@aaaa11112222")
    query.save(tmp_path / "bundle", batches=1)


def test_a_name_with_its_store_masks_values_of_all_revisions(spark, tmp_path, monkeypatch):
    scripts = scripts_of(live_code, tmp_path, monkeypatch)
    query = Query(spark, tmp_path, live_code.marked_totals, "update", batches=2)
    write_means(scripts)
    query.function = live_code.marked_means
    (query.inputs[0] / "2.json").write_text(next(iter(previewed_query.events(2))))
    query.run()
    query.save(tmp_path / "bundle", batches=1, mask=["total.sum"])
    assert open_bundle(tmp_path / "bundle").masked == ("total.sum",)
    tables = [
        open_state(place, batch=2, migrations=scripts)["total"].to_arrow(["k", "_revision", "sum"])
        for place in (query.checkpoint, tmp_path / "bundle" / "checkpoint")
    ]
    own, masked = ({row["k"]: row for row in plain_rows(each)} for each in tables)
    assert {row["_revision"] for row in own.values()} == {"base", "aaaa11112222"}
    assert {key: row["_revision"] for key, row in masked.items()} == {
        key: row["_revision"] for key, row in own.items()
    }
    assert all(masked[key]["sum"] != row["sum"] for key, row in own.items())


def test_a_sample_by_a_column_that_the_state_is_not_grouped_by_is_refused(spark, tmp_path):
    query = query_of(spark, tmp_path, code.windows, "update", 1)
    error = refused(query, tmp_path / "bundle", sample=0.5, sample_by=["card"])
    assert (error.code, error.data["column"]) == ("SM-PREVIEW-027", "card")
    error = refused(query, tmp_path / "bundle", sample=0.5)
    assert error.code == "SM-PREVIEW-031"
