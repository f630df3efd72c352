"""Bundles: what a preview needs, saved next to the query and previewed without it."""

import json
import shutil
import stat
from dataclasses import replace

import previewed_code as code
import pytest
from previewed_query import Query, fields
from support.file_hashes import file_hashes

from statemigrate.errors import StatemigrateError
from statemigrate.preview.bundle import FORMAT

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def query(spark, tmp_path_factory):
    return Query(spark, tmp_path_factory.mktemp("bundled"), code.minutes, "update")


@pytest.fixture(scope="module")
def saved(query, tmp_path_factory):
    place = tmp_path_factory.mktemp("bundles") / "bundle"
    before = file_hashes(query.checkpoint)
    found = query.save(place)
    assert file_hashes(query.checkpoint) == before, "saving writes nothing into the checkpoint"
    newest = max(int(each.name) for each in (query.checkpoint / "commits").glob("[0-9]*"))
    assert (found.before, found.batches) == (newest - 3, (newest - 2, newest - 1, newest))
    return place


def test_a_bundle_is_for_its_owner_alone_and_nothing_else_is_left(saved):
    assert [each.name for each in saved.parent.iterdir()] == ["bundle"]
    for each in (saved, *saved.rglob("*")):
        assert stat.S_IMODE(each.stat().st_mode) & 0o077 == 0, each


def test_a_bundle_shows_elsewhere_what_the_checkpoint_shows(query, saved, tmp_path, spark):
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(saved, elsewhere)
    found = query.preview(code.minutes_doubled, place=elsewhere)
    of_checkpoint = query.preview(code.minutes_doubled)
    assert fields(found) == fields(of_checkpoint)
    assert fields(found) == {("aggregation-0", "sum"), ("output", "total")}
    for one, other in zip(found.batches, of_checkpoint.batches, strict=True):
        # Which rows are the examples depends on the order in which a run has written them.
        differences = [replace(each, examples=()) for each in (*one.stores, *other.stores)]
        assert differences[: len(one.stores)] == differences[len(one.stores) :]
    assert found.noise == ()
    again = query.preview(code.minutes_in_other_words, place=elsewhere, old=False)
    assert again.unexpected == ()
    assert again.reference == "production"


def refused(query, place, function=code.minutes):
    with pytest.raises(StatemigrateError) as raised:
        query.preview(function, place=place, old=False)
    return raised.value


@pytest.mark.parametrize(
    "damage",
    [
        lambda place: (place / "manifest.json").unlink(),
        lambda place: (place / "manifest.json").write_bytes(b"{}"),
        lambda place: next((place / "inputs").rglob("*.parquet")).unlink(),
        lambda place: next((place / "inputs").rglob("*.parquet")).write_bytes(b"PAR1"),
        lambda place: (place / "checkpoint" / "commits" / "99").write_text("v1\n{}"),
        lambda place: edit(max((place / "checkpoint" / "offsets").glob("[0-9]*"))),
        lambda place: edit(place / "manifest.json"),
    ],
    ids=["no-manifest", "empty", "no-input", "other-input", "more", "edited", "edited-manifest"],
)
def test_a_bundle_that_was_cut_or_edited_is_refused(query, saved, tmp_path, damage):
    place = tmp_path / "damaged"
    shutil.copytree(saved, place)
    damage(place)
    assert refused(query, place).code == "SM-PREVIEW-021"


def edit(path):
    data = bytearray(path.read_bytes())
    place = data.index(b"1")
    data[place : place + 1] = b"2"
    path.write_bytes(data)


def test_a_bundle_of_another_format_is_refused(query, saved, tmp_path):
    place = tmp_path / "later"
    shutil.copytree(saved, place)
    document = json.loads((place / "manifest.json").read_bytes())
    document["body"]["format"] = FORMAT + 1
    (place / "manifest.json").write_text(json.dumps(document))
    assert refused(query, place).code == "SM-PREVIEW-019"


def test_a_column_that_was_not_recorded_is_named(query, saved):
    assert refused(query, saved, code.minutes_of_a_new_column).code == "SM-PREVIEW-022"


def test_a_bundle_is_no_larger_than_it_may_be(query, tmp_path):
    with pytest.raises(StatemigrateError) as raised:
        query.save(tmp_path / "large", max_bytes=1000)
    assert raised.value.code == "SM-PREVIEW-020"
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_takes_the_place_of_nothing(query, saved, tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(StatemigrateError) as raised:
        query.save(tmp_path / "there")
    assert raised.value.code == "SM-PREVIEW-018"


def test_batches_are_those_of_the_bundle(query, saved):
    with pytest.raises(StatemigrateError) as raised:
        query.save(saved)
    assert raised.value.code == "SM-PREVIEW-018"
    with pytest.raises(StatemigrateError) as raised:
        query.preview(code.minutes, place=saved, save=saved / "more")
    assert raised.value.code == "SM-PREVIEW-023"
