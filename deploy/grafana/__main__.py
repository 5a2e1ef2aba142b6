"""Write the JSON of the dashboards."""

from pathlib import Path

from deploy.grafana.dashboards import DASHBOARDS

for name, dashboard in DASHBOARDS.items():
    (Path(__file__).parent / "json" / f"{name}.json").write_text(dashboard.to_text(), encoding="utf-8")
