"""Which metrics and labels a query of Prometheus needs. Knows as much of the language as the files in examples/ use."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from prometheus_client.parser import text_string_to_metric_families

EXAMPLES = Path(__file__).parents[3] / "examples"
RULES = EXAMPLES / "prometheus" / "rules.yml"
DASHBOARD = EXAMPLES / "grafana" / "k2k.json"

# What Prometheus adds to each scrape: one metric, and the labels of what was scraped.
_OF_PROMETHEUS = {"up": {"job", "instance"}}
_TARGET_LABELS = {"job", "instance"}
_LISTS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_NAME = re.compile(r"(?<![\w:])[a-zA-Z_:][\w:]*(?!\s*\(|[\w:])")
_WORDS = {"and", "or", "unless", "bool", "offset"}

Metrics = Mapping[str, set[str]]
"""Names of samples, with the labels that some of them have."""


class Needs(NamedTuple):
    """What a query needs.

    Attributes:
        metrics: Names of metrics, with the labels that the query asks of each.
        labels: Labels by which it groups or joins.
    """

    metrics: dict[str, set[str]]
    labels: set[str]


def needs(query: str) -> Needs:
    """What a query needs."""
    labels = {name for found in _LISTS.findall(query) for name in re.findall(r"\w+", found)}
    rest = re.sub(r"\[[^]]*\]", "", _LISTS.sub("", query))
    metrics: dict[str, set[str]] = defaultdict(set)
    for name, matchers in _SELECTOR.findall(rest):
        metrics[name] |= set(_MATCHER.findall(re.sub(r'"[^"]*"', "", matchers)))
    for name in _NAME.findall(_SELECTOR.sub("", rest)):
        if name not in _WORDS:
            metrics[name] |= set()
    return Needs(dict(metrics), labels)


def what_is_missing(query: str, metrics: Metrics) -> list[str]:
    """What a query asks for and no scrape has; empty if it has all.

    Args:
        query: The query.
        metrics: What was scraped.
    """
    wanted, known = needs(query), {**metrics, **_OF_PROMETHEUS}
    missing = [f"no metric {name}" for name in wanted.metrics if name not in known]
    missing += [
        f"no label {label} of {name}"
        for name, labels in wanted.metrics.items()
        for label in sorted(labels - known.get(name, labels) - _TARGET_LABELS)
    ]
    any_has = {label for name in wanted.metrics for label in known.get(name, ())} | _TARGET_LABELS
    return missing + [f"no metric has the label {label}" for label in sorted(wanted.labels - any_has)]


def scraped_metrics(*texts: str) -> Metrics:
    """Names and labels of all samples in the texts of scrapes."""
    found: dict[str, set[str]] = defaultdict(set)
    for family in (family for text in texts for family in text_string_to_metric_families(text)):
        for sample in family.samples:
            found[sample.name] |= {label for label, value in sample.labels.items() if value}
    return dict(found)


def rules() -> Iterator[dict[str, Any]]:
    """The alert rules in examples/."""
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        yield from group["rules"]


def queries() -> Iterator[tuple[str, str]]:
    """All queries in examples/, each with its place: alerts, panels of the dashboard and its variables."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
        for words in rule["annotations"].values():
            # A label that a text shows has to be there when the alert fires: the expression has to keep it.
            shown = re.findall(r"\$labels\.(\w+)", words)
            yield f"text of {rule['alert']}", f"sum by ({', '.join(shown)}) ({rule['expr']})" if shown else rule["expr"]
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            [(metric, label)] = re.findall(r"^label_values\((\w+), (\w+)\)$", variable["query"])
            yield f"variable {variable['name']}", f"sum by ({label}) ({metric})"
