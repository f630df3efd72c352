"""A second `paged` of a query is refused at its first start, without Spark."""

import json

import pytest
from pyspark.sql.types import StructType

from statemigrate.deployment import DeploymentSettings
from statemigrate.errors import StartupError
from statemigrate.event_log.events import Stamp
from statemigrate.event_log.log import Note
from statemigrate.files import LocalFiles
from statemigrate.native.deployment_check import ObservedCheckpoint, begin_run
from statemigrate.pages.deployed_pages import PagedDeployment, RunOnPages
from statemigrate.pages.record import PagesRecord
from statemigrate.pages.record import read_pages_record as read_record


@pytest.fixture
def checkpoint(tmp_path):
    """What Spark has written when it plans a query's first batch."""
    place = tmp_path / "checkpoint"
    for name in ("offsets", "commits"):
        (place / name).mkdir(parents=True)
    (place / "metadata").write_text(json.dumps({"id": "7e9b6f4e-0000-4000-8000-000000000000"}))
    (place / "offsets" / "0").write_text("v1\n{}\n0")
    return place


def called(checkpoint, pages=4):
    """What a call of `paged` makes of the checkpoint as it is."""
    files = LocalFiles(checkpoint)
    there = read_record(files)
    key = StructType().add("key", "string")
    seen = ObservedCheckpoint(str(checkpoint), None, -1)
    record = PagesRecord(pages, key.jsonValue(), {}, seen.deployment)
    note = Note(Stamp.of(called), {})
    before = None if there is None else there.deployment
    return PagedDeployment(key, (0,), key, {}, DeploymentSettings(), seen, record, note, before)


def begin(deployment):
    begin_run(deployment.observed, RunOnPages(deployment))


def test_the_second_of_two_is_refused_and_the_record_stays_the_first_ones(checkpoint):
    first, second = called(checkpoint), called(checkpoint, pages=5)
    begin(first)
    with pytest.raises(StartupError, match="another `paged` has begun") as caught:
        begin(second)
    assert caught.value.data["path"] == str(checkpoint)
    assert read_record(LocalFiles(checkpoint)).pages == 4


def test_one_that_is_started_twice_is_itself(checkpoint):
    only = called(checkpoint)
    begin(only)
    begin(only)
    assert read_record(LocalFiles(checkpoint)).deployment == only.observed.deployment


def test_one_that_is_called_after_a_start_that_failed_takes_its_place(checkpoint):
    begin(called(checkpoint))
    corrected = called(checkpoint, pages=5)
    begin(corrected)
    assert read_record(LocalFiles(checkpoint)).pages == 5
