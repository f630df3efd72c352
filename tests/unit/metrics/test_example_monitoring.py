"""examples/monitoring asks for nothing that is not exported, and says what to do."""

import re
import socket
import subprocess
import sys
from types import SimpleNamespace

import promql_parser
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from support.monitoring import (
    ALERTS,
    DASHBOARD,
    EXAMPLE,
    RULES,
    Scraped,
    expressions,
    unknown,
    used,
    used_in,
    without_variables,
)

from statemigrate.cli.main import VERBS
from statemigrate.metrics.instruments import (
    EmbeddedInstruments,
    NativeInstruments,
    SourceInstruments,
    StatusInstruments,
)

README = (EXAMPLE / "README.md").read_text()
WANTED = {
    "StatemigrateBackfillStalled",
    "StatemigrateBatchFailed",
    "StatemigrateQuarantineGrows",
    "StatemigrateLagGrows",
    "StatemigrateVersionsDamaged",
    "StatemigrateNotRetired",
    "StatemigrateBehind",
    "StatemigrateCommitTooOld",
}


def test_all_metrics_are_instruments_of_the_package():
    """Whether a run exports them, with these labels, the tests of running queries ask."""
    scraped = Scraped()
    meter = MeterProvider([scraped.reader]).get_meter("statemigrate")
    kinds = (EmbeddedInstruments, NativeInstruments, SourceInstruments, StatusInstruments)
    for instruments in kinds:
        for each in vars(instruments(meter)).values():
            for record in ("add", "set", "record"):
                getattr(each, record, lambda _: None)(1)
    assert used().keys() - scraped.labels().keys() == set()
    assert len(used()) >= 12


def test_a_metric_or_a_label_that_nobody_exports_is_noticed():
    text = 'sum by (query, shop) (rate(statemigrate_values_lost_total{by="x"}[5m])) > 0'
    assert used_in(text) == {"statemigrate_values_lost_total": {"query", "shop", "by"}}
    assert unknown({"statemigrate_values_left": {"query", "store"}}) == {
        "statemigrate_values_left": {"family"}
    }


@pytest.mark.parametrize("text", list(expressions()), ids=lambda text: text[:40].split()[0])
def test_every_expression_is_one_of_prometheus(text):
    assert promql_parser.parse(text)


def test_each_alert_says_what_is_wrong_and_leads_to_what_to_do():
    assert [group["name"] for group in ALERTS["groups"]] == ["statemigrate"]
    assert {rule["alert"] for rule in RULES} == WANTED
    for rule in RULES:
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        file, anchor = rule["annotations"]["runbook"].split("#")
        assert (file, anchor) == ("README.md", rule["alert"].lower())
        section = README.split(f"\n### {rule['alert']}\n")[1].split("\n##")[0]
        commands = re.findall(r"^\$ statemigrate ([a-z-]+)", section, re.MULTILINE)
        assert commands, rule["alert"]
        assert set(commands) <= set(VERBS)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_what_an_alert_shows_is_what_its_expression_groups_by(rule):
    shown = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
    assert shown
    for metric, labels in used_in(rule["expr"]).items():
        assert shown <= labels, metric


def test_the_dashboards_panels_are_apart_and_named_by_their_labels():
    places = set()
    for panel in DASHBOARD["panels"]:
        at = SimpleNamespace(**panel["gridPos"])
        cells = {(x, y) for x in range(at.x, at.x + at.w) for y in range(at.y, at.y + at.h)}
        assert at.x + at.w <= 24
        assert not cells & places, panel["title"]
        places |= cells
        for target in panel["targets"]:
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            for labels in used_in(without_variables(target["expr"])).values():
                assert shown <= labels, panel["title"]
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)


EXPORTED = """
import runpy, sys, urllib.request
from statemigrate import EmbeddedMetrics
runpy.run_path(sys.argv[1])["export_metrics"](int(sys.argv[2]))
EmbeddedMetrics("sales")
print(urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[2]}/metrics").read().decode())
"""


def test_a_process_that_exports_is_scraped():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", EXPORTED, str(EXAMPLE / "export.py"), str(port)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (failed,) = [line for line in shown.splitlines() if line.startswith("statemigrate_batches_")]
    assert 'query="sales"' in failed
    assert failed.endswith(" 0.0")
