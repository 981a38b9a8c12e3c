"""The alert rules and the dashboard in examples/."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from k2k_assets_tests.support.services.prometheus import program
from k2k_assets_tests.support.services.promql import DASHBOARD, EXAMPLES, Needs, needs, queries, rules, what_is_missing

FOLDER = EXAMPLES / "prometheus"


def promtool(*arguments: str | Path) -> str:
    """What it says; fails with it if it is not content."""
    command = [program("promtool"), *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.prometheus
def test_promtool_reads_the_rules_and_the_configuration() -> None:
    assert f"{len(list(rules()))} rules found" in promtool("check", "rules", FOLDER / "rules.yml")
    promtool("check", "config", FOLDER / "prometheus.yml")


@pytest.mark.prometheus
def test_the_rules_fire_when_they_should() -> None:
    assert "SUCCESS" in promtool("test", "rules", FOLDER / "rules_test.yml")


def test_each_rule_is_tested_and_says_what_to_do() -> None:
    tests = (FOLDER / "rules_test.yml").read_text()
    for rule in rules():
        fires = f"alertname: {rule['alert']}\n        exp_alerts:"
        assert fires in tests, f"no test lets {rule['alert']} fire"
        assert rule["annotations"].keys() == {"summary", "what_to_do"}
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    places = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(places)) == len(places)
    assert max(x for x, _ in places) < 24, "Grafana's grid has 24 columns"
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_what_a_query_needs() -> None:
    query = """
      sum by (topic, code) (rate(a_total{pipeline=~"$p{x}", topic!="b"}[5m]))
      unless on (pipeline) c:d == 1 or max without (le) (e) > bool 60 offset 5m
    """.replace("{x}", "")
    found = needs(query)
    assert found == Needs(
        {"a_total": {"pipeline", "topic"}, "c:d": set(), "e": set()}, {"topic", "code", "pipeline", "le"}
    )


def test_what_is_missing_is_found() -> None:
    metrics = {"k2k_lag": {"pipeline", "topic"}}
    assert what_is_missing('sum by (topic) (k2k_lag{pipeline="p", job="k2k"}) and on (job) up == 1', metrics) == []
    assert what_is_missing("sum by (partition) (k2k_lag)", metrics) == ["no metric has the label partition"]
    assert what_is_missing('k2k_lag{partition="0"} + k2k_leg', metrics) == [
        "no metric k2k_leg",
        "no label partition of k2k_lag",
    ]


def test_there_are_queries() -> None:
    assert len(list(queries())) > 30
