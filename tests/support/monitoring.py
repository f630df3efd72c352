"""The metrics and labels that examples/monitoring asks for, and those that a run exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import yaml
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from prometheus_client import CollectorRegistry

EXAMPLE = Path(__file__).parents[2] / "examples" / "monitoring"
ALERTS = yaml.safe_load((EXAMPLE / "alerts.yml").read_text())
DASHBOARD = json.loads((EXAMPLE / "dashboard.json").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
LAG = "statemigrate_source_lag"
"""Only a source that tells its newest offsets has it, as Kafka does."""
LOOKS = {"statemigrate_status_behind", "statemigrate_status_unknown"}
"""`StatusMetrics` has them, of a look from outside: no query says them of itself."""

Used = dict[str, set[str]]
_OF_GRAFANA = {"$__rate_interval": "5m", "$__interval": "1m", "$query": ".*"}
_LABEL_VALUES = re.compile(r"label_values\(([a-z_]+), ([a-z_]+)\)")


def expressions() -> Iterator[str]:
    """Every expression of the rules and of the dashboard's panels."""
    for rule in RULES:
        yield rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield without_variables(target["expr"])


def without_variables(text: str) -> str:
    """An expression of a panel with a value for each of Grafana's variables."""
    for name, value in _OF_GRAFANA.items():
        text = text.replace(name, value)
    assert "$" not in text, text
    return text


def used_in(text: str) -> Used:
    """By metric of one expression, the labels that are matched or grouped by."""
    found: Used = {}
    _gather(promql_parser.parse(text), set(), found)
    return found


def used() -> Used:
    """By metric the labels that anything is said of, in all expressions and variables."""
    found: Used = {}
    for text in expressions():
        for name, labels in used_in(text).items():
            found.setdefault(name, set()).update(labels)
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            match = _LABEL_VALUES.fullmatch(variable["query"])
            assert match, variable["query"]
            found.setdefault(match[1], set()).add(match[2])
    return found


def _gather(node: Any, labels: set[str], found: Used) -> None:
    """Every metric below ``node``, with its own labels and those it is grouped by."""
    match type(node).__name__:
        case "VectorSelector":
            own = {matcher.name for matcher in node.matchers.matchers}
            found.setdefault(node.name, set()).update(labels | own)
        case "MatrixSelector":
            _gather(node.vector_selector, labels, found)
        case "AggregateExpr":
            modifier = node.modifier
            grouped = set(modifier.labels) if modifier else set()
            _gather(node.expr, labels | grouped, found)
        case "BinaryExpr":
            _gather(node.lhs, labels, found)
            _gather(node.rhs, labels, found)
        case "ParenExpr" | "UnaryExpr" | "SubqueryExpr":
            _gather(node.expr, labels, found)
        case "Call":
            for argument in node.args:
                _gather(argument, labels, found)
        case "NumberLiteral" | "StringLiteral":
            pass
        case other:
            raise AssertionError(f"{other} is new here")


class Scraped:
    """What a Prometheus would be given: ``reader`` is for a provider."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.reader = PrometheusMetricReader(registry=self._registry)

    def labels(self) -> Used:
        """By metric the labels that all of its samples have."""
        found: Used = {}
        for family in self._registry.collect():
            for sample in family.samples:
                names = set(sample.labels)
                found[sample.name] = found.get(sample.name, names) & names
        return found


def unknown(exported: Used) -> Used:
    """What is used of a metric that is exported, and has no such label."""
    return {
        name: labels - exported[name]
        for name, labels in used().items()
        if name in exported and labels - exported[name]
    }
