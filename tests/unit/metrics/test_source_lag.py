"""How far a query is behind its sources, from the offsets that Spark tells of them."""

import json
import sys

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress
from support.metric_points import points

from statemigrate import SourceMetrics, StatemigrateError
from statemigrate.metrics.listeners import lag_between

MINE = "347d808f-eee8-439a-a782-b393fe344835"
OTHER = "51cf5cc0-bfb3-4d7b-a786-7a9d08aac01f"

LAGS = {
    "two topics": (
        {"a": {"0": 5, "1": 7}, "b": {"0": 1}},
        {"a": {"0": 9, "1": 7}, "b": {"0": 3}},
        6,
    ),
    "a partition more": ({"a": {"0": 5}}, {"a": {"0": 5, "1": 4}}, 4),
    "a topic made anew": ({"a": {"0": 500}}, {"a": {"0": 3}}, 0),
    "one number": (5, 12, 7),
    "no newest": ({"a": {"0": 5}}, None, None),
    "no end": (None, {"a": {"0": 5}}, None),
    "a file source": ({"logOffset": 3}, {"logOffset": 4}, None),
    "texts": ({"a": {"0": "5"}}, {"a": {"0": "7"}}, None),
    "a truth": (True, True, None),
    "nothing in it": ({}, {}, None),
}


@pytest.mark.parametrize("name", LAGS)
def test_the_lag_is_what_lies_between_two_positions(name):
    end, latest, behind = LAGS[name]
    assert lag_between(json.dumps(end), json.dumps(latest)) == behind


def test_what_is_no_json_has_no_lag():
    assert lag_between("-", "here") is None
    assert lag_between(None, None) is None


@pytest.fixture
def reader():
    return InMemoryMetricReader()


@pytest.fixture
def listener(tmp_path, reader):
    (tmp_path / "sales").mkdir()
    (tmp_path / "sales" / "metadata").write_text(json.dumps({"id": MINE}))
    provider = MeterProvider([reader])
    yield SourceMetrics(tmp_path / "sales", meter_provider=provider)
    provider.shutdown()


def source(description, end, latest):
    return {
        "description": description,
        "startOffset": None,
        "endOffset": end,
        "latestOffset": latest,
        "numInputRows": 3,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 1.0,
        "metrics": {},
    }


def progress(query, *sources):
    document = {
        "id": query,
        "runId": OTHER,
        "name": None,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": 3,
        "batchDuration": 10,
        "numInputRows": 3,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 1.0,
        "durationMs": {"addBatch": 10},
        "eventTime": {},
        "stateOperators": [],
        "sources": list(sources),
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
        "observedMetrics": {},
    }
    return QueryProgressEvent(StreamingQueryProgress.fromJson(document))


def test_each_source_of_the_querys_own_has_a_point(listener, reader):
    kafka = source("KafkaV2[Subscribe[bids]]", {"bids": {"0": 4}}, {"bids": {"0": 10}})
    files = source("FileStreamSource[file:/in]", {"logOffset": 1}, None)
    far = source("KafkaV2[Subscribe[bids]]", {"bids": {"0": 0}}, {"bids": {"0": 999}})
    listener.onQueryProgress(progress(OTHER, far))
    listener.onQueryProgress(progress(MINE, files, kafka))
    at = (("engine", "embedded"), ("query", "sales"), ("source", "1:KafkaV2[Subscribe[bids]]"))
    assert points(reader) == {("source.lag", *at): 6}


def test_without_the_extra_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with pytest.raises(StatemigrateError, match="not installed"):
        SourceMetrics(tmp_path)
