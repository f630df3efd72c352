"""Levels that a project gives to the rules of a plan."""

import json
from dataclasses import replace

import pytest

from statemigrate.cli.plan_command import sarif_of
from statemigrate.commands.change_plan import ChangePlan
from statemigrate.configuration import Configuration, ConfigurationError, configured
from statemigrate.meaning import CodeMeaning, OperatorMeaning, PlanItem
from statemigrate.meaning.plan_items import RULES, with_levels
from statemigrate.rewrite import OperatorFact

FILTER = PlanItem("aggregation-0 filter", "unnoticed", "another one", rule="filter")
DELAY = PlanItem("aggregation-0 delay", "goes on", "a longer one", rule="delay")
REFUSED = PlanItem("aggregation-0", "rewrite", "another type")


def asked(rules):
    return [(each.name, each.asks) for each in with_levels((FILTER, DELAY, REFUSED), rules)]


def test_without_rules_the_verdict_decides():
    assert asked({}) == [(FILTER.name, True), (DELAY.name, False), (REFUSED.name, True)]


def test_a_rule_makes_a_change_an_error_a_warning_or_nothing():
    assert asked({"filter": "warning", "delay": "error"}) == [
        (FILTER.name, False),
        (DELAY.name, True),
        (REFUSED.name, True),
    ]
    assert asked({"filter": "off", "delay": "off"}) == [(REFUSED.name, True)]


@pytest.mark.parametrize("rules", [{"filtre": "off"}, {"filter": "on"}, {"": "off"}])
def test_a_rule_or_level_that_there_is_not_is_named(rules):
    with pytest.raises(ConfigurationError) as caught:
        asked(rules)
    assert caught.value.code == "SM-CONFIG-012"


def test_the_configuration_has_settings_of_spark_as_texts(tmp_path):
    file = tmp_path / "statemigrate.toml"
    ansi, zone, size = "spark.sql.ansi.enabled", "spark.sql.session.timeZone", "spark.sql.size"
    wanted = Configuration(spark={ansi: "false", zone: "UTC", size: "2"})
    for quote in ('"', ""):
        lines = (f"{quote}{ansi}{quote} = false", f"{quote}{zone}{quote} = 'UTC'")
        file.write_text("\n".join(("[spark]", *lines, f"{quote}{size}{quote} = 2")))
        assert configured(tmp_path) == wanted
    for text, code in (
        ("[spark]\nspark.driver.memory = '2g'", "SM-CONFIG-013"),
        ("[spark]\nansi = false", "SM-CONFIG-013"),
        ("[spark]\n'spark.sql.x' = []", "SM-CONFIG-010"),
        ("spark = 'UTC'", "SM-CONFIG-010"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigurationError) as caught:
            configured(tmp_path)
        assert caught.value.code == code


def test_a_record_has_no_say_in_settings_that_change_no_result():
    texts = (
        "cast(s, spark.sql.ansi.enabled=false, spark.sql.catalog.other=a.b.C)",
        "date(at, spark.sql.session.timeZone=UTC)",
        "hour(at, spark.sql.session.timeZone=Asia/Tokyo)",
    )
    facts = tuple(OperatorFact("filter", text) for text in texts)
    operator = OperatorMeaning("aggregation-0", 0, "stateStoreSave", {}, facts=facts)
    meaning = CodeMeaning("a start", "4.3", (), (operator,))
    assert meaning.settings == {"spark.sql.ansi.enabled": "false"}
    assert replace(meaning, operators=(replace(operator, format=2),)).settings == {}


def test_the_configuration_has_the_rules(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.statemigrate]\nrules = { delay = "error" }\n')
    assert configured(tmp_path) == Configuration(rules={"delay": "error"})
    (tmp_path / "pyproject.toml").write_text("[tool.statemigrate]\nrules = { delay = 1 }\n")
    with pytest.raises(ConfigurationError) as caught:
        configured(tmp_path)
    assert caught.value.code == "SM-CONFIG-010"


def test_sarif_has_a_result_for_what_asks_or_warns(monkeypatch, tmp_path):
    (tmp_path / "ruled.py").write_text("\n\ndef orders(rows):\n    return rows\n")
    monkeypatch.chdir(tmp_path)
    items = tuple(with_levels((FILTER, DELAY, REFUSED), {"filter": "warning"}))
    found = ChangePlan("cp", "ruled:orders", "id", 1, 0, 0, items, (), "", stops=True)
    (run,) = json.loads(json.dumps(sarif_of([found])))["runs"]
    assert [(each["ruleId"], each["level"]) for each in run["results"]] == [
        ("filter", "warning"),
        ("rewrite", "error"),
    ]
    assert [each["id"] for each in run["tool"]["driver"]["rules"]] == ["filter", "rewrite"]
    (place,) = run["results"][0]["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "ruled.py"},
        "region": {"startLine": 3},
    }


def test_the_page_names_every_rule():
    from pathlib import Path

    page = (Path(__file__).parents[3] / "docs" / "plan.md").read_text()
    assert all(f"`{name}`" in page for name in RULES)
