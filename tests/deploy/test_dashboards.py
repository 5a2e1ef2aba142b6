"""The committed dashboards are those of the description, and ask for what the server counts."""

import json
import re
from itertools import combinations
from pathlib import Path

import pytest

from deploy.grafana.dashboards import DASHBOARDS, FIRST_BYTE_OBJECTIVE_S
from deploy.grafana.panels import COLUMNS, Dashboard, Json
from firstword.app.telemetry.metrics import TTFB_BUCKETS
from tests.support.promql import known_names, names_in

FOLDER = Path(__file__).parents[2] / "deploy/grafana/json"

dashboards = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)


def panels_of(dashboard: Dashboard) -> list[Json]:
    """Every panel, rows and what is folded into them too."""
    outer: list[Json] = dashboard.to_json()["panels"]
    return [panel for each in outer for panel in [each, *each.get("panels", [])]]


def test_committed_dashboards_are_what_the_description_generates() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(DASHBOARDS)
    for name, dashboard in DASHBOARDS.items():
        committed = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
        assert committed == dashboard.to_text(), "write it anew: make dashboards"


@dashboards
def test_every_metric_that_a_panel_asks_for_is_counted(dashboard: Dashboard) -> None:
    for panel in dashboard.panels:
        for query in panel.queries:
            ours = {name for name in names_in(query.expression) if not name.startswith("vllm:")}
            assert ours <= known_names(), panel.title


@dashboards
def test_panels_have_ids_of_their_own_and_do_not_overlap(dashboard: Dashboard) -> None:
    panels = panels_of(dashboard)
    assert len({panel["id"] for panel in panels}) == len(panels)
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below
        assert one["x"] + one["w"] <= COLUMNS


@dashboards
def test_a_panel_shows_queries_that_its_legend_tells_apart(dashboard: Dashboard) -> None:
    for panel in dashboard.panels:
        assert panel.description.endswith("."), panel.title
        legends = [query.legend for query in panel.queries]
        assert len(set(legends)) == len(legends) > 0, panel.title
        for query in panel.queries:
            grouped = re.findall(r"\bby \((.*?)\)", query.expression)
            labels = set(re.findall(r"{{(\w+)}}", query.legend)) - {"instance"}
            assert labels <= {label for group in grouped for label in group.split(", ")}, panel.title


@dashboards
def test_every_query_looks_at_the_servers_that_were_chosen(dashboard: Dashboard) -> None:
    for panel in dashboard.panels:
        for query in panel.queries:
            assert query.expression.count('job=~"$job", instance=~"$instance"') == len(
                re.findall(r"{(?!{)", query.expression)
            )
    chosen = json.loads(dashboard.to_text())["templating"]["list"]
    assert [variable["name"] for variable in chosen] == ["datasource", "job", "instance"]


def test_objective_of_the_first_byte_is_that_of_the_rules() -> None:
    rules = (FOLDER.parents[1] / "prometheus/rules.yml").read_text(encoding="utf-8")
    bounds = set(re.findall(r'time_to_first_byte_seconds_bucket{[^}]*le="([\d.]+)"', rules))
    assert bounds == {str(FIRST_BYTE_OBJECTIVE_S)}
    assert FIRST_BYTE_OBJECTIVE_S in TTFB_BUCKETS
