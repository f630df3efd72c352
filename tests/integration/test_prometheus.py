"""The rules and the dashboard of examples/monitoring, in a real Prometheus."""

import subprocess
import sys
from contextlib import suppress

import pytest
import yaml
from support.monitoring import ALERTS, EXAMPLE, RULES, expressions
from support.waiting import eventually
from systems.processes import answers, free_port
from systems.prometheus import Prometheus, check

pytestmark = pytest.mark.integration

# A query's metrics are its progress, told as the embedded engine tells it.
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from export import export_metrics
export_metrics(int(sys.argv[2]))
from statemigrate import BatchProgress, EmbeddedMetrics
from statemigrate.embedded.progress import FamilyProgress
metrics = EmbeddedMetrics("sales")
figures = dict(touched=20, backfilled=15, quarantined=0, largest_rows=70, changelog_bytes=4096,
    retired=(), batch_ms=900.0, restore_ms=10.0, live_ms=500.0, backfill_ms=200.0, commit_ms=40.0)
left = (FamilyProgress("sums", "sums", 9, 0),)
metrics.committed(BatchProgress(batch=1, rows=100, keys=60, families=left, **figures))
for line in sys.stdin:
    metrics.failed(ValueError(line))
"""


@pytest.fixture
def exporter():
    """A process that exports a query's metrics, and fails a batch for each line it is given."""
    port = free_port()
    command = [sys.executable, "-c", PROGRAM, str(EXAMPLE), str(port)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
    try:
        eventually(lambda: answers(port))
        yield port, process.stdin
    finally:
        process.kill()
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.wait(timeout=30)


def test_each_rule_fires_at_what_it_is_for_and_leaves_the_rest_alone():
    assert f"{len(RULES)} rules found" in check("check", EXAMPLE / "alerts.yml")
    assert "SUCCESS" in check("test", EXAMPLE / "alerts_test.yml")
    tests = yaml.safe_load((EXAMPLE / "alerts_test.yml").read_text())["tests"]
    cases = [case for test in tests for case in test["alert_rule_test"]]
    fires = {case["alertname"] for case in cases if case["exp_alerts"]}
    silent = {case["alertname"] for case in cases if not case["exp_alerts"]}
    assert fires == silent == {rule["alert"] for rule in RULES}


def test_a_failed_batch_of_a_scraped_query_is_an_alert(exporter, tmp_path):
    port, fail = exporter
    prometheus = Prometheus(tmp_path, port, EXAMPLE / "alerts.yml")
    try:
        eventually(lambda: prometheus.ask("query", query="statemigrate_values_left")["result"])
        (left,) = prometheus.ask("query", query="statemigrate_values_left")["result"]
        assert left["value"][1] == "9"
        assert {left["metric"][name] for name in ("query", "store", "family")} == {"sales", "sums"}
        for expression in expressions():
            prometheus.ask("query", query=expression)
        assert alerts(prometheus) == set()
        print("what the sink said", file=fail, flush=True)
        eventually(lambda: alerts(prometheus))
        assert alerts(prometheus) == {("StatemigrateBatchFailed", "sales")}
        groups = prometheus.ask("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert [each["name"] for each in rules] == [each["alert"] for each in RULES]
        assert {(each["health"], each.get("lastError", "")) for each in rules} == {("ok", "")}
        assert len(groups) == len(ALERTS["groups"])
    finally:
        prometheus.stop()


def alerts(prometheus):
    """The alerts that fire, with the query that each is about."""
    return {
        (each["labels"]["alertname"], each["labels"]["query"])
        for each in prometheus.ask("alerts")["alerts"]
        if each["state"] == "firing"
    }
