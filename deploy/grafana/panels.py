"""Panels of a dashboard as values, and the JSON that Grafana reads."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["timeseries", "stat", "heatmap", "table"]
Unit = Literal["s", "short", "bytes", "percentunit", "reqps", "bool_yes_no"]  # names of Grafana's
Json = dict[str, Any]

COLUMNS = 24  # of Grafana's grid
PANEL_HEIGHT = 8
STAT_HEIGHT = 4
PROMETHEUS = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Query:
    """legend: Grafana's template, with labels in double braces."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """bound: a value to stay below, drawn as a line. is_stacked: the queries are parts of a whole."""

    title: str
    description: str
    unit: Unit
    queries: Sequence[Query]
    kind: Kind = "timeseries"
    bound: float | None = None
    is_stacked: bool = False

    def to_json(self, id: int, x: int, y: int, width: int) -> Json:
        is_heatmap, is_table = self.kind == "heatmap", self.kind == "table"
        height = STAT_HEIGHT if self.kind == "stat" else PANEL_HEIGHT
        return {
            "id": id,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": PROMETHEUS,
            "gridPos": {"x": x, "y": y, "w": width, "h": height},
            "fieldConfig": {"defaults": self._defaults(), "overrides": []},
            "options": self._options(),
            "targets": [
                {
                    "refId": chr(ord("A") + number),
                    "datasource": PROMETHEUS,
                    "editorMode": "code",
                    "expr": query.expression,
                    "legendFormat": "{{le}}" if is_heatmap else query.legend or "__auto",
                    "format": "heatmap" if is_heatmap else "table" if is_table else "time_series",
                    "instant": is_table,
                    "range": not is_table,
                }
                for number, query in enumerate(self.queries)
            ],
        }

    def _defaults(self) -> Json:
        steps: list[Json] = [{"color": "green", "value": None}]
        if self.bound is not None:
            steps.append({"color": "red", "value": self.bound})
        defaults: Json = {"unit": self.unit, "thresholds": {"mode": "absolute", "steps": steps}}
        if self.kind == "timeseries":
            defaults["min"] = 0
            defaults["custom"] = {
                "fillOpacity": 40 if self.is_stacked else 0,
                "stacking": {"mode": "normal" if self.is_stacked else "none"},
                "thresholdsStyle": {"mode": "off" if self.bound is None else "line"},
            }
        return defaults

    def _options(self) -> Json:
        match self.kind:
            case "heatmap":
                return {"calculate": False, "yAxis": {"unit": self.unit}}
            case "stat":
                return {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"}
            case "timeseries":
                return {
                    "legend": {"displayMode": "list", "placement": "bottom"},
                    "tooltip": {"mode": "multi"},
                }
            case "table":
                return {"showHeader": True}


@dataclass(frozen=True, slots=True)
class Row:
    """A heading and the panels below it, `across` of them side by side. is_collapsed: opened by a click."""

    title: str
    panels: Sequence[Panel]
    across: int = 3
    is_collapsed: bool = False


@dataclass(frozen=True, slots=True)
class Dashboard:
    uid: str
    title: str
    description: str
    rows: Sequence[Row]

    @property
    def panels(self) -> list[Panel]:
        return [panel for row in self.rows for panel in row.panels]

    def to_json(self) -> Json:
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": ["firstword"],
            "schemaVersion": 39,
            "editable": True,
            "graphTooltip": 1,  # one cursor over all panels
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "links": [
                {"type": "dashboards", "title": "Firstword", "tags": ["firstword"], "keepTime": True},
            ],
            "templating": {"list": _variables()},
            "panels": self._laid_out(),
        }

    def to_text(self) -> str:
        """Return the content of the JSON file."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n"

    def _laid_out(self) -> list[Json]:
        laid_out: list[Json] = []
        y, id = 0, 1
        for row in self.rows:
            heading: Json = {
                "id": id,
                "type": "row",
                "title": row.title,
                "collapsed": row.is_collapsed,
                "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
                "panels": [],
            }
            laid_out.append(heading)
            y, id = y + 1, id + 1
            into = heading["panels"] if row.is_collapsed else laid_out
            width = COLUMNS // row.across
            for first in range(0, len(row.panels), row.across):
                line = [
                    panel.to_json(id + first + number, number * width, y, width)
                    for number, panel in enumerate(row.panels[first : first + row.across])
                ]
                into.extend(line)
                y += max(panel["gridPos"]["h"] for panel in line)
            id += len(row.panels)
        return laid_out


def _variables() -> list[Json]:
    """Return the choices above a dashboard: where the data are, which job, which of its servers."""
    chosen = {
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
    labels: list[Json] = [
        {
            "name": name,
            "type": "query",
            "datasource": PROMETHEUS,
            "query": {"query": f"label_values({selector}, {name})", "refId": name},
            "refresh": 2,  # whenever the time range changes
            "sort": 1,
            **chosen,
        }
        for name, selector in [("job", "tts_ready"), ("instance", 'tts_ready{job=~"$job"}')]
    ]
    return [{"name": "datasource", "type": "datasource", "query": "prometheus"}, *labels]
