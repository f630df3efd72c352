"""What `NativeMetrics` records of Spark's events, point by point."""

import json
import logging
import sys
import time
from types import SimpleNamespace

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)
from support.metric_points import RaisingProvider, points

from statemigrate import NativeMetrics, StatemigrateError
from statemigrate.deployment import DeploymentSettings
from statemigrate.errors import CheckpointError, StartupError
from statemigrate.native.deployed_variables import DEPLOYED, Deployed, MigrationCounts

MINE = "347d808f-eee8-439a-a782-b393fe344835"
OTHER = "51cf5cc0-bfb3-4d7b-a786-7a9d08aac01f"
RUN = "6c61d98e-7695-42e5-9c5d-e7acbe378a86"
EARLIER_RUN = "0b8c9e6a-2f3d-4b57-9d43-6f1d3f1c7a55"
AT = "2026-01-01T00:00:00.000Z"
QUERY = (("engine", "native"), ("query", "sales"))
STATE = (*QUERY[:1], ("operator", "0:transformWithStateInPySparkExec"), *QUERY[1:])


class Totals:
    """Stands where a marked processor is, whose workers count."""

    def __init__(self):
        self.counted = [SimpleNamespace(value=number) for number in (3, 0, 0)]
        counts = MigrationCounts(*self.counted)
        setattr(self, DEPLOYED, Deployed(DeploymentSettings(), {}, counts=counts))

    def count(self, *more):
        for total, number in zip(self.counted, more, strict=True):
            total.value += number


@pytest.fixture
def totals():
    return Totals()


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "sales").mkdir()
    return tmp_path / "sales"


@pytest.fixture
def reader():
    return InMemoryMetricReader()


@pytest.fixture
def listener(totals, checkpoint, reader):
    provider = MeterProvider([reader])
    yield NativeMetrics(totals, checkpoint, meter_provider=provider)
    provider.shutdown()


def started(listener, checkpoint, query=MINE):
    (checkpoint / "metadata").write_text(json.dumps({"id": query}))
    document = {"id": query, "runId": RUN, "name": None, "timestamp": AT}
    listener.onQueryStarted(QueryStartedEvent.fromJson(document))


def progress(batch, rows, seconds, updated, query=MINE):
    operator = {
        "operatorName": "transformWithStateInPySparkExec",
        "numRowsTotal": 40 + batch,
        "numRowsUpdated": updated,
        "allUpdatesTimeMs": 5075,
        "numRowsRemoved": 5,
        "allRemovalsTimeMs": 0,
        "commitTimeMs": 250,
        "memoryUsedBytes": 14224,
        "numRowsDroppedByWatermark": 0,
        "numShufflePartitions": 2,
        "numStateStoreInstances": 2,
        "customMetrics": {
            "SnapshotLastUploaded.partition_0_default": 2,
            "numValueStateVars": 4,
            "rocksdbSstFileSize": 5000 + batch,
            "rocksdbNumInternalColFamiliesKeys": 0,
        },
    }
    document = {
        "id": query,
        "runId": RUN,
        "name": None,
        "timestamp": AT,
        "batchId": batch,
        "batchDuration": 1000 * seconds,
        "numInputRows": rows,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.3,
        "durationMs": {"addBatch": 800 * seconds, "triggerExecution": 1000 * seconds},
        "eventTime": {},
        "stateOperators": [operator],
        "sources": [],
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
        "observedMetrics": {},
    }
    return QueryProgressEvent(StreamingQueryProgress.fromJson(document))


def terminated(exception, query=MINE, run=RUN):
    document = {"id": query, "runId": run, "exception": exception, "errorClassOnException": None}
    return QueryTerminatedEvent.fromJson(document)


def test_every_figure_of_the_querys_own_batches_is_recorded(listener, totals, checkpoint, reader):
    listener.onQueryProgress(progress(0, 999, 9, 999, query=OTHER))
    started(listener, checkpoint)
    totals.count(20, 15, 2)
    listener.onQueryProgress(progress(0, 100, 2, 60))
    listener.onQueryProgress(progress(3, 999, 9, 999, query=OTHER))
    totals.count(0, 7, 1)
    listener.onQueryProgress(progress(1, 0, 1, 7))
    found = points(reader)
    assert found.pop(("commit.time", *QUERY)) == pytest.approx(time.time(), abs=60)
    assert found == {
        ("batches.failed", *QUERY): 0,
        ("values.migrated", ("by", "touch"), *QUERY): 20,
        ("values.migrated", ("by", "backfill"), *QUERY): 22,
        ("values.failed", *QUERY): 3,
        ("rows.processed", *QUERY): 100,
        ("batch.duration", *QUERY): (2, 3.0),
        ("batch.phase.duration", *QUERY[:1], ("phase", "addBatch"), *QUERY[1:]): (2, 2.4),
        ("state.records", *STATE): 41,
        ("state.updated", *STATE): 67,
        ("state.memory", *STATE): 14224,
        ("commit.duration", *STATE): (2, 0.5),
        ("rocksdb.sst_file_size", *STATE): 5001,
        ("rocksdb.num_internal_col_families_keys", *STATE): 0,
    }


def test_a_batch_that_was_not_committed_has_migrated_nothing(listener, totals, checkpoint, reader):
    started(listener, checkpoint)
    listener.onQueryProgress(progress(0, 1, 1, 1))
    totals.count(9, 9, 0)
    cause = "...\nstatemigrate.errors.TransformError: Store 'tally', key ('k6',): ..."
    listener.onQueryTerminated(terminated(cause, OTHER))
    listener.onQueryTerminated(terminated(cause))
    listener.onQueryTerminated(terminated(None))
    listener.onQueryTerminated(terminated("java.io.IOException: no space left"))
    found = points(reader)
    assert found["values.migrated", ("by", "touch"), *QUERY] == 0
    assert found["values.migrated", ("by", "backfill"), *QUERY] == 0
    assert found["values.failed", *QUERY] == 1
    assert found["batches.failed", *QUERY] == 2


def test_a_checkpoint_that_was_made_anew_has_a_query_of_another_id(listener, checkpoint, reader):
    started(listener, checkpoint)
    listener.onQueryProgress(progress(0, 5, 1, 1))
    started(listener, checkpoint, OTHER)
    listener.onQueryProgress(progress(0, 7, 1, 1, query=OTHER))
    assert points(reader)["rows.processed", *QUERY] == 12


def test_what_could_not_be_recorded_is_logged_and_its_counts_come_later(totals, checkpoint, caplog):
    provider = RaisingProvider()
    listener = NativeMetrics(totals, checkpoint, meter_provider=provider)
    started(listener, checkpoint)
    with caplog.at_level(logging.INFO, "statemigrate.metrics"):
        for batch in range(2):
            totals.count(4, 0, 0)
            listener.onQueryProgress(progress(batch, 4, 1, 4))
        assert len(caplog.records) == 1
        provider.broken = False
        totals.count(1, 0, 0)
        listener.onQueryProgress(progress(2, 4, 1, 4))
    assert "3 events were not" in caplog.records[-1].getMessage()
    assert provider.added[0] == (9, {**dict(QUERY), "by": "touch"})


def test_an_event_of_which_nothing_is_recorded_does_not_say_that_recording_works(
    totals, checkpoint, caplog
):
    provider = RaisingProvider()
    listener = NativeMetrics(totals, checkpoint, meter_provider=provider)
    started(listener, checkpoint)
    caplog.clear()
    with caplog.at_level(logging.INFO, "statemigrate.metrics"):
        listener.onQueryProgress(progress(0, 4, 1, 4, query=OTHER))
        listener.onQueryTerminated(terminated("java.io.IOException: no space left", OTHER))
        listener.onQueryTerminated(terminated(None))
        listener.onQueryProgress(progress(0, 4, 1, 4))
    assert [each.getMessage() for each in caplog.records] == []


def test_an_earlier_run_that_ends_late_takes_nothing_from_this_runs_counts(
    listener, totals, checkpoint, reader
):
    started(listener, checkpoint)
    totals.count(9, 0, 0)
    listener.onQueryTerminated(terminated("java.io.IOException: no space left", run=EARLIER_RUN))
    listener.onQueryProgress(progress(0, 9, 1, 9))
    found = points(reader)
    assert found["values.migrated", ("by", "touch"), *QUERY] == 9
    assert found["batches.failed", *QUERY] == 1


def test_a_processor_that_does_not_count_is_refused(checkpoint):
    with pytest.raises(StartupError, match="does not count") as raised:
        NativeMetrics(SimpleNamespace(), checkpoint)
    assert "make the session first" in raised.value.next_action


def test_a_checkpoint_of_the_embedded_engine_is_refused(totals, checkpoint):
    (checkpoint / "statemigrate" / "versions").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="embedded engine's"):
        NativeMetrics(totals, checkpoint)


def test_a_listener_without_the_extra_says_what_to_install(totals, checkpoint, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with pytest.raises(StatemigrateError, match="not installed"):
        NativeMetrics(totals, checkpoint)
