"""What `EmbeddedMetrics` records of batches, point by point."""

import json
import logging
import subprocess
import sys
import time

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from support.metric_points import RaisingProvider, metrics, page_code, points

from statemigrate import BatchProgress, EmbeddedMetrics, StatemigrateError
from statemigrate.embedded.progress import FamilyProgress
from statemigrate.embedded.read_back import Restorable
from statemigrate.errors import CorruptFileError, TransformError

FIRST = BatchProgress(
    batch=7,
    rows=100,
    keys=60,
    touched=20,
    backfilled=15,
    quarantined=2,
    largest_rows=70,
    changelog_bytes=4096,
    families=(
        FamilyProgress("sums", "sums", 9, 2),
        FamilyProgress("names", "names@aaaa11112222", 4, 0),
    ),
    retired=(),
    batch_ms=900.0,
    restore_ms=10.0,
    live_ms=500.0,
    backfill_ms=200.0,
    commit_ms=40.0,
)
SECOND = BatchProgress(
    batch=8,
    rows=0,
    keys=0,
    touched=0,
    backfilled=7,
    quarantined=0,
    largest_rows=0,
    changelog_bytes=1024,
    families=(FamilyProgress("sums", "sums", 2, 2),),
    retired=("names@aaaa11112222",),
    batch_ms=300.0,
    restore_ms=1.0,
    live_ms=2.0,
    backfill_ms=100.0,
    commit_ms=60.0,
    clean_up_failed=True,
    versions=Restorable(kept=9, restorable=7, damaged=3),
)
QUERY = (("engine", "embedded"), ("query", "sales"))


def of_family(name, family, store):
    return (name, ("engine", "embedded"), ("family", family), ("query", "sales"), ("store", store))


@pytest.fixture
def reader():
    return InMemoryMetricReader()


@pytest.fixture
def recorded(reader):
    provider = MeterProvider([reader])
    yield EmbeddedMetrics("sales", meter_provider=provider)
    provider.shutdown()


def test_every_figure_of_the_committed_batches_is_recorded_once(reader, recorded):
    recorded.committed(FIRST)
    recorded.committed(SECOND)
    found = points(reader)
    assert found.pop(("commit.time", *QUERY)) == pytest.approx(time.time(), abs=60)
    assert found == {
        ("batches.failed", *QUERY): 0,
        ("values.migrated", ("by", "touch"), *QUERY): 20,
        ("values.migrated", ("by", "backfill"), *QUERY): 22,
        ("values.failed", *QUERY): 2,
        ("rows.processed", *QUERY): 100,
        ("partition.largest", *QUERY): 0,
        ("changelog.size", *QUERY): (2, 5120),
        ("clean_up.failures", *QUERY): 1,
        ("versions.kept", *QUERY): 9,
        ("versions.restorable", *QUERY): 7,
        ("files.damaged", *QUERY): 3,
        of_family("values.left", "sums", "sums"): 2,
        of_family("values.left", "names@aaaa11112222", "names"): 0,
        of_family("values.quarantined", "sums", "sums"): 2,
        of_family("values.quarantined", "names@aaaa11112222", "names"): 0,
        ("families.older", *QUERY, ("store", "sums")): 1,
        ("families.older", *QUERY, ("store", "names")): 0,
        ("batch.duration", *QUERY): (2, 1.2),
        ("restore.duration", *QUERY): (2, 0.011),
        ("live.duration", *QUERY): (2, 0.502),
        ("backfill.duration", *QUERY): (2, 0.3),
        ("commit.duration", *QUERY): (2, 0.1),
    }


def test_units_are_those_of_the_conventions(reader, recorded):
    recorded.committed(FIRST)
    units = {name: metric.unit for name, metric in metrics(reader).items()}
    assert {name: unit for name, unit in units.items() if not name.endswith(".duration")} == {
        "values.migrated": "{value}",
        "values.failed": "{value}",
        "batches.failed": "{batch}",
        "commit.time": "s",
        "families.older": "{family}",
        "values.left": "{value}",
        "values.quarantined": "{value}",
        "rows.processed": "{row}",
        "partition.largest": "{row}",
        "changelog.size": "By",
        "clean_up.failures": "{batch}",
        "versions.kept": "{version}",
        "versions.restorable": "{version}",
        "files.damaged": "{file}",
    }
    assert {unit for name, unit in units.items() if name.endswith(".duration")} == {"s"}


def test_durations_fall_into_buckets_of_seconds(reader, recorded):
    recorded.committed(FIRST)
    (point,) = metrics(reader)["batch.duration"].data.data_points
    filled = point.bucket_counts.index(1)
    assert point.explicit_bounds[filled - 1 : filled + 1] == (0.5, 1.0)


def test_a_value_that_ended_the_query_is_a_failed_one(reader, recorded):
    recorded.failed(TransformError("SM-TRANSFORM-007", "no"))
    recorded.failed(CorruptFileError("SM-CHECKPOINT-002", "not a matter of values"))
    assert points(reader) == {("values.failed", *QUERY): 1, ("batches.failed", *QUERY): 2}


def test_nothing_has_failed_before_the_first_failure(reader, recorded):
    """Prometheus sees the first failure as growth only where it has seen a zero."""
    assert points(reader) == {("values.failed", *QUERY): 0, ("batches.failed", *QUERY): 0}


def test_what_an_instrument_raises_is_logged_once_and_so_is_that_it_ended(caplog):
    provider = RaisingProvider()
    recorded = EmbeddedMetrics("sales", meter_provider=provider)
    with caplog.at_level(logging.INFO, "statemigrate.metrics"):
        recorded.committed(FIRST)
        recorded.committed(SECOND)
        recorded.failed(TransformError("SM-TRANSFORM-007", "no"))
        (told,) = caplog.records
        assert told.levelno == logging.ERROR
        assert "sales cannot be recorded" in told.getMessage()
        assert "the collector is away" in str(told.exc_info[1])
        provider.broken = False
        recorded.committed(SECOND)
    _, ended = caplog.records
    assert ended.levelno == logging.WARNING
    assert "4 events were not" in ended.getMessage()
    assert [amount for amount, _ in provider.added] == [0, 7, 0, 0, 1]


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with pytest.raises(StatemigrateError, match="not installed") as raised:
        EmbeddedMetrics("sales")
    assert raised.value.next_action == "pip install 'statemigrate[metrics]'"


def test_nothing_of_opentelemetry_is_loaded_by_a_query_without_metrics():
    code = (
        "import sys, statemigrate.embedded.query, statemigrate.native.decorator;"
        "import statemigrate.native.backfill_listener;"
        "statemigrate.embedded.query.EmbeddedOptions();"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    assert run(code) == "[]"


def test_the_code_of_the_readme_exports_what_a_batch_did():
    more = (
        f"from statemigrate.embedded.progress import BatchProgress, FamilyProgress\n"
        f"from statemigrate.embedded.read_back import Restorable\n"
        f"options.metrics.committed({FIRST!r})\n"
        f"provider.shutdown()\n"
    )
    exported = json.loads(run(f"{page_code(0)}\n{more}"))
    (scope,) = exported["resource_metrics"][0]["scope_metrics"]
    (migrated,) = (m for m in scope["metrics"] if m["name"] == "statemigrate.values.migrated")
    assert {
        (point["attributes"]["query"], point["attributes"]["by"]): point["value"]
        for point in migrated["data"]["data_points"]
    } == {("auctions", "touch"): 20, ("auctions", "backfill"): 15}


def run(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
