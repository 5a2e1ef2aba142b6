"""Every expression of dashboards and rules, asked of a real Prometheus that scrapes a real server."""

import asyncio
import json
import math
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import websockets
import yaml

from deploy.grafana.dashboards import DASHBOARDS
from tests.e2e.server import Server, serving
from tests.support.promql import names_in

RULES = Path(__file__).parents[2] / "deploy/prometheus"
VARIABLES = {"$job": "firstword", "$instance": ".*", "$__rate_interval": "10m"}
WITHIN_S = 120.0  # on a machine that does something else too
TEXT = "The train to London leaves at 7:30."

pytestmark = [
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs Prometheus: make setup-deploy"),
    pytest.mark.timeout(600),
]


@dataclass(frozen=True, slots=True)
class Prometheus:
    api: httpx.Client

    def is_up(self) -> bool:
        try:
            return self.api.get("/-/ready").status_code == 200
        except httpx.TransportError:
            return False

    def asked(self, path: str, **parameters: str) -> Any:
        answer = self.api.get(f"/api/v1/{path}", params=parameters)
        assert answer.status_code == 200, (parameters, answer.text)
        return answer.json()["data"]

    def values(self, expression: str) -> list[float]:
        """Values of the series that an expression has now, without those that are no number."""
        found = [float(row["value"][1]) for row in self.asked("query", query=expression)["result"]]
        return [value for value in found if not math.isnan(value)]

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Ask again, as Prometheus tells nobody when it has scraped."""
        deadline = time.monotonic() + WITHIN_S
        while not holds():
            assert time.monotonic() < deadline, what
            time.sleep(0.2)


@contextmanager
def scraping(server: Server, folder: Path) -> Iterator[Prometheus]:
    """The committed rules, evaluated every second over scrapes of every second."""
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES / "rules.yml"), str(RULES / "alerts.yml")],
        "scrape_configs": [
            {"job_name": "firstword", "static_configs": [{"targets": [server.url.removeprefix("http://")]}]}
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    words = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=error",
    ]
    process = subprocess.Popen(words)
    try:
        with httpx.Client(base_url=f"http://{address}", timeout=30) as api:
            prometheus = Prometheus(api)
            prometheus.wait_until(prometheus.is_up, "Prometheus did not start")
            yield prometheus
    finally:
        process.terminate()
        process.wait()


async def load(server: Server) -> None:
    """A request by every wire, some at once, and a client that leaves."""
    async with httpx.AsyncClient(base_url=server.url, timeout=WITHIN_S) as http:

        async def speak() -> None:
            answer = await http.post("/tts", json={"text": TEXT})
            assert answer.status_code == 200, answer.text

        await asyncio.gather(speak(), speak())
        async with http.stream("POST", "/tts", json={"text": TEXT * 20}) as left:
            await anext(left.aiter_raw())
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any", timeout=WITHIN_S) as api:
        await api.audio.speech.create(model="tts-1", voice="alloy", input=TEXT)
    async with websockets.connect(f"{server.url.replace('http', 'ws')}/tts/stream") as ws:
        await ws.send(json.dumps({"type": "text", "context": "a", "text": TEXT}))
        await ws.send(json.dumps({"type": "end", "context": "a"}))
        async for message in ws:
            if isinstance(message, str) and json.loads(message)["type"] == "done":
                break


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    with (
        serving(tmp_path_factory.mktemp("data"), max_streams=4) as server,
        scraping(server, folder) as prometheus,
    ):
        prometheus.wait_until(lambda: prometheus.values("tts_ready") == [1], "nothing was scraped")
        asyncio.run(load(server))
        cancelled = "increase(tts_cancel_to_stop_seconds_count[10m])"
        done = 'increase(tts_requests_total{outcome="ok", protocol="websocket"}[10m])'
        for expression in (cancelled, done):
            prometheus.wait_until(lambda it=expression: max(prometheus.values(it), default=0) > 0, expression)
        yield prometheus


def filled_in(expression: str) -> str:
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression


def test_no_query_of_a_dashboard_is_empty_but_those_of_vllm(prometheus: Prometheus) -> None:
    queries = [
        query.expression
        for dashboard in DASHBOARDS.values()
        for panel in dashboard.panels
        for query in panel.queries
    ]
    empty = {query for query in queries if not prometheus.values(filled_in(query))}
    assert empty == {query for query in queries if "vllm:" in query}


def test_every_recording_rule_has_a_value(prometheus: Prometheus) -> None:
    groups = prometheus.asked("rules")["groups"]
    recorded = {rule["name"] for group in groups for rule in group["rules"] if rule["type"] == "recording"}
    assert recorded
    for name in recorded:
        prometheus.wait_until(lambda name=name: len(prometheus.values(name)) > 0, f"no value of {name}")


def test_every_alert_compares_series_that_exist(prometheus: Prometheus) -> None:
    groups = prometheus.asked("rules")["groups"]
    alerts = [rule for group in groups for rule in group["rules"] if rule["type"] == "alerting"]
    assert len(alerts) >= 10
    for rule in alerts:
        assert (rule["health"], rule.get("lastError", "")) == ("ok", "")
        for name in names_in(rule["query"]):
            assert prometheus.values(name), f"{rule['name']}: {name}"
