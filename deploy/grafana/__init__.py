"""Grafana's dashboards, generated: `make dashboards` writes their JSON."""
