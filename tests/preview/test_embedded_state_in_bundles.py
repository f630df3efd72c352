"""Bundles of the embedded engine's state, and previews that are refused before anything runs."""

import json
import shutil
import stat

import embedded_code as code
import pytest
from click.testing import CliRunner
from embedded_life import EmbeddedLife, files_below
from previewed_query import fields, named
from support.file_hashes import file_hashes

import statemigrate.commands.preview_runs as runs
from statemigrate.cli import main
from statemigrate.errors import StatemigrateError

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def query(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedded")
    given = pytest.MonkeyPatch()
    given.setattr(code, "CHECKPOINT", str(folder / "checkpoint"))
    yield EmbeddedLife(spark, folder, code.totals)
    given.undo()


@pytest.fixture(scope="module")
def saved(query, tmp_path_factory):
    place = tmp_path_factory.mktemp("bundles") / "bundle"
    before = file_hashes(query.checkpoint)
    modes = {each: stat.S_IMODE(each.stat().st_mode) for each in query.checkpoint.rglob("*")}
    found = query.save(place)
    assert file_hashes(query.checkpoint) == before, "saving writes nothing into the checkpoint"
    assert modes == {each: stat.S_IMODE(each.stat().st_mode) for each in modes}
    assert (found.before, found.batches) == (1, (2, 3, 4))
    return place


def test_a_bundle_shows_elsewhere_what_the_checkpoint_shows(query, saved, tmp_path, monkeypatch):
    of_checkpoint = query.preview(code.totals_wrong_later)
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(saved, elsewhere)
    monkeypatch.setattr(code, "CHECKPOINT", "s3a://nobody-has-this/checkpoint")
    before = file_hashes(elsewhere)
    found = query.preview(code.totals_wrong_later, place=elsewhere)
    assert file_hashes(elsewhere) == before, "a bundle is only read"
    assert (found.noise, found.unexpected) == ((), of_checkpoint.unexpected)
    for one, other in zip(found.batches, of_checkpoint.batches, strict=True):
        assert [(each.store, each.rows, each.changed, each.fields) for each in one.differences] == [
            (each.store, each.rows, each.changed, each.fields) for each in other.differences
        ]
    assert fields(found) == {("total", "sum"), ("output", "sum")}
    again = query.preview(code.totals, place=elsewhere, old=False)
    assert (again.reference, again.unexpected) == ("production", ())


def test_a_bundle_has_the_state_of_its_batches_and_is_for_its_owner_alone(query, saved):
    versions = {each.name.partition("-")[0] for each in (saved / "checkpoint").rglob("*-1.json")}
    assert versions == {"1", "2", "3", "4"}
    for each in (saved, *saved.rglob("*")):
        assert stat.S_IMODE(each.stat().st_mode) & 0o077 == 0, each
        assert each.is_dir() or each.stat().st_nlink == 1, "no second name of production's files"
    manifest = json.loads((saved / "manifest.json").read_bytes())["body"]
    contents = query.contents(4)["total"]
    assert manifest["checksums"]["4"]["total"] == {
        "rows": contents.records, "checksum": contents.hash,
    }  # fmt: skip


def test_a_bundle_of_other_state_is_refused(query, saved, tmp_path):
    place = tmp_path / "edited"
    shutil.copytree(saved, place)
    files = [each for each in files_below(place / "checkpoint") if each.suffix == ".changelog"]
    (place / "checkpoint" / files[-1]).write_bytes(b"other")
    assert refused(lambda: query.preview(code.totals, place=place)).code == "SM-PREVIEW-021"


def refused(action):
    with pytest.raises(StatemigrateError) as raised:
        action()
    return raised.value


@pytest.mark.parametrize(
    ("function", "expected", "found"),
    [
        (code.started, "SM-EMBEDDED-033", "start()"),
        (code.no_query, "SM-PREVIEW-032", "DataFrame"),
        (code.Totals, "SM-PREVIEW-032", "Totals, a processor alone"),
        (code.another_key, "SM-PREVIEW-035", "key: it was k string, and is k long"),
    ],
)
def test_code_that_is_no_query_of_this_checkpoint_is_named(query, spark, function, expected, found):
    error = refused(lambda: query.preview(function))
    assert error.code == expected
    assert found in str(error.found)
    assert spark.streams.active == []


def test_code_that_fails_is_named_with_its_batch(query):
    error = refused(lambda: query.preview(code.failing))
    assert (error.code, error.data["batch"]) == ("SM-PREVIEW-009", 4)
    assert "no such id" in str(error)


def never_run(monkeypatch):
    """Fail where code is run on a batch."""

    def run(*_, **__):
        raise AssertionError("something was run")

    monkeypatch.setattr(runs, "replay", run)


def test_a_format_without_a_script_is_named_with_its_field_before_anything_runs(query, monkeypatch):
    never_run(monkeypatch)
    for old in (True, False):
        error = refused(lambda old=old: query.preview(code.means, old=old))
        assert error.code == "SM-START-007"
        assert "mean: found DOUBLE" in str(error.found)


@pytest.fixture
def copied(query, tmp_path):
    """A copy of the checkpoint, to be damaged."""
    other = EmbeddedLife.__new__(EmbeddedLife)
    vars(other).update(vars(query))
    other.checkpoint = tmp_path / "checkpoint"
    shutil.copytree(query.checkpoint, other.checkpoint)
    return other


def test_versions_that_are_gone_are_named_with_what_is_left(copied, monkeypatch):
    versions = copied.checkpoint / "statemigrate/versions"
    next(versions.glob("2-*.json")).unlink()
    never_run(monkeypatch)
    error = refused(lambda: copied.preview(code.totals))
    assert (error.code, error.data["batch"]) == ("SM-PREVIEW-033", 4)
    assert "--batches 1" in error.next_action
    monkeypatch.undo()
    monkeypatch.setattr(code, "CHECKPOINT", str(copied.checkpoint))
    found = copied.preview(code.totals, batches=1)
    assert ([each.batch for each in found.batches], found.unexpected) == ([4], ())
    next(versions.glob("3-*.json")).unlink()
    error = refused(lambda: copied.preview(code.totals))
    assert (error.code, "retain" in error.next_action) == ("SM-PREVIEW-033", True)


@pytest.mark.parametrize("batch", [1, 2, 4], ids=["before", "first", "last"])
def test_damaged_state_is_named_before_anything_runs(copied, monkeypatch, batch):
    never_run(monkeypatch)
    (manifest,) = (copied.checkpoint / "statemigrate/versions").glob(f"{batch}-*.json")
    data = manifest.read_bytes()
    manifest.write_bytes(data.replace(b'"size":', b'"Size":', 1))
    error = refused(lambda: copied.preview(code.totals))
    assert str(manifest.name) in error.data["path"]
    manifest.write_bytes(data)
    # The changelogs of a batch, and every snapshot that could stand in for them.
    lost = [*copied.checkpoint.rglob("*.snapshot")]
    lost += copied.checkpoint.rglob(f"{batch:012}-*.changelog")
    assert lost
    for each in lost:
        each.write_bytes(b"damaged")
    error = refused(lambda: copied.preview(code.totals))
    assert error.data["path"] in {str(each) for each in lost}


def test_state_of_sparks_in_front_of_the_processor_is_refused(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(code, "CHECKPOINT", str(tmp_path / "checkpoint"))
    query = EmbeddedLife(spark, tmp_path, code.without_doubles)
    assert refused(lambda: query.preview(code.without_doubles)).code == "SM-EMBEDDED-032"
    error = refused(lambda: query.save(tmp_path / "bundle"))
    assert error.code == "SM-EMBEDDED-032"
    assert not (tmp_path / "bundle").exists()


def test_the_command_prints_and_writes_every_report(query, tmp_path, monkeypatch):
    def run(function, *options):
        return CliRunner().invoke(
            main,
            ["preview", str(query.checkpoint), "--batches", "3", "--old-code", named(code.totals),
             "--code", named(function), *options],
        )  # fmt: skip

    html, junit = tmp_path / "page.html", tmp_path / "result.xml"
    found = run(code.totals_wrong_later, "--html", str(html), "--junit", str(junit))
    assert found.exit_code == 1, found.output
    assert "batch 3: total.sum" in found.output
    assert "total" in html.read_text()
    assert "batch 3: total.sum" in junit.read_text()
    printed = json.loads(run(code.totals_wrong_later, "--json").stdout)
    assert [each["batch"] for each in printed["batches"]] == [2, 3, 4]
    assert printed["batches"][1]["stores"][0]["fields"] == {"sum": 7} or printed["batches"][1][
        "stores"
    ][0]["fields"].keys() == {"sum"}
    assert printed["path"] == "as it is"
    markdown = run(code.totals, "--markdown")
    assert markdown.exit_code == 0, markdown.output
    assert "|" in markdown.stdout
