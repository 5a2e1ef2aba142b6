"""Prometheus' rules: valid, firing when they should, about series that exist."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from firstword.app.settings import SETTINGS, variable_of
from firstword.app.telemetry.metrics import GAP_BUCKETS, TTFB_BUCKETS
from tests.support.promql import known_names, names_in

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/prometheus"
CASES = Path(__file__).parent / "alerts_test.yml"

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool: make setup-deploy"
)


def rules_of(file: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / file).read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


RECORDED, ALERTS = rules_of("rules.yml"), rules_of("alerts.yml")


def promtool(*words: str | Path) -> None:
    answer = subprocess.run(["promtool", *words], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@needs_promtool
def test_promtool_finds_no_fault() -> None:
    promtool("check", "config", FOLDER / "prometheus.yml")
    promtool("check", "rules", "--lint-fatal", FOLDER / "rules.yml", FOLDER / "alerts.yml")


@needs_promtool
def test_alerts_fire_when_they_should_and_only_then() -> None:
    promtool("test", "rules", CASES)


def test_every_alert_is_fired_by_a_case() -> None:
    fired = set(re.findall(r'alertname="(\w+)"', CASES.read_text(encoding="utf-8")))
    assert fired == {rule["alert"] for rule in ALERTS}


def test_every_series_of_a_rule_is_counted_or_recorded() -> None:
    recorded = {rule["record"] for rule in RECORDED}
    for rule in [*RECORDED, *ALERTS]:
        names = names_in(rule["expr"])
        assert names
        assert names <= known_names() | recorded | {"up"}, rule


def test_every_bound_of_a_rule_is_a_bucket() -> None:
    for rule in RECORDED:
        for family, bound in re.findall(r'tts_(\w+)_bucket{.*?le="([\d.]+)"', rule["expr"]):
            buckets = {"time_to_first_byte_seconds": TTFB_BUCKETS, "underrun_seconds": GAP_BUCKETS}[family]
            assert float(bound) in buckets


def test_alerts_name_settings_that_exist_and_say_how_urgent_they_are() -> None:
    variables = {variable_of(name) for name in SETTINGS}
    for rule in ALERTS:
        text = " ".join(rule["annotations"].values())
        assert set(re.findall(r"FIRSTWORD_\w+", text)) <= variables
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert set(rule["annotations"]) == {"summary", "description"}
