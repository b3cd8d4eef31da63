"""The Grafana dashboard and the Prometheus rules of docs/monitoring ask for what the exporter has, and nothing else."""

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from sexton.ui.metrics import GAUGES
from tests.ui.worlds import PREFIX

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "monitoring"
SELECTOR = re.compile(r"\b(sexton_\w+)(?:\{([^{}]*)\})?")
MATCHER = re.compile(r'\s*(\w+)(=~|!=|=)"([^"]*)"\s*')
BY = re.compile(r"\bby \(([^()]*)\) \(\s*(sexton_\w+)")
LEGEND = re.compile(r"{{(\w+)}}")
WORDS = {"time", "max", "sum", "by", "offset", "label_values"}
"""What expressions have besides metrics and labels."""


@cache
def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "grafana-dashboard.json").read_text("utf-8"))
    return found


@cache
def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "prometheus-rules.yaml").read_text("utf-8"))["groups"]
    assert len({group["name"] for group in groups}) == len(groups)
    return [rule for group in groups for rule in group["rules"]]


def targets() -> Iterator[tuple[str, str]]:
    """Each expression of a panel, and its legend."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]


def expressions() -> list[str]:
    asked = [
        variable["query"]["query"] for variable in dashboard()["templating"]["list"] if variable["type"] == "query"
    ]
    return [*(expr for expr, _ in targets()), *asked, *(rule["expr"] for rule in rules())]


@pytest.mark.parametrize("expression", expressions())
def test_what_is_asked_for_is_there(expression: str, client: TestClient) -> None:
    """Each metric by its name, each label of a selector, and each value that is named."""
    text = client.get(f"{PREFIX}/metrics").text
    exported = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    selectors = SELECTOR.findall(expression)
    assert selectors
    for metric, matchers in selectors:
        series = [sample.labels for sample in exported if sample.name == metric]
        assert series, metric
        parts = [MATCHER.fullmatch(part) for part in matchers.split(",") if part]
        for label, operator, wanted in (part.groups() for part in parts if part):
            assert label in GAUGES[metric][1], f"{metric}: {label}"
            assert operator == "=~" or any(labels[label] == wanted for labels in series), f"{metric}: {label}={wanted}"
        assert all(parts), matchers


@pytest.mark.parametrize("expression", expressions())
def test_expressions_are_whole(expression: str) -> None:
    """Brackets meet, and no word is there that is neither a metric nor one of Prometheus' own."""
    rest = expression
    while (less := re.sub(r"\([^(){}]*\)|\{[^(){}]*\}", " ", rest)) != rest:
        rest = less
    assert not set(rest) & set("(){}"), rest
    for labels, metric in BY.findall(expression):
        assert set(re.split(r",\s*", labels)) <= set(GAUGES[metric][1])
    plain = re.sub(r"\{[^{}]*\}|by \([^()]*\)|, cluster_id\)", " ", expression)
    assert set(re.findall(r"[a-z_]{3,}", plain)) <= {*GAUGES, *WORDS}, plain


@pytest.mark.parametrize(("expression", "legend"), targets())
def test_legends_name_labels_that_are_left(expression: str, legend: str) -> None:
    named = set(LEGEND.findall(legend))
    by = BY.search(expression)
    (metric, *_) = [name for name, _ in SELECTOR.findall(expression)]
    left = set(re.split(r",\s*", by[1])) if by else set() if "sum(" in expression else set(GAUGES[metric][1])
    assert named <= left


def test_panels_lie_side_by_side() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        where = panel["gridPos"]
        assert where["x"] + where["w"] <= 24
        assert panel["title"]
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        apart = (
            one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        )  # fmt: skip
        assert apart, (one, other)


def test_every_alert_says_what_and_what_to_do() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert re.fullmatch(r"[A-Z][A-Za-z]+", rule["alert"])
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert re.fullmatch(r"\d+[mh]", rule.get("for", "1m"))
        summary = rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
        (metric, *_) = [name for name, _ in SELECTOR.findall(rule["expr"])]
        assert set(re.findall(r"\$labels\.(\w+)", summary)) <= {*GAUGES[metric][1]}, summary
