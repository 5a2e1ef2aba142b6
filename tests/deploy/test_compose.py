"""What can be known of the compose file without a Docker engine."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from firstword.app.cli import cli
from firstword.app.commands.download import PUBLISHED
from firstword.app.settings import SETTINGS, variable_of

FOLDER = Path(__file__).parents[2] / "deploy/compose"
TEXT = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PROMETHEUS = yaml.safe_load((FOLDER / "../prometheus/prometheus.yml").read_text(encoding="utf-8"))
SERVERS = ("cpu", "gpu", "replica")


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="needs docker-compose: make setup-deploy")
def test_compose_accepts_the_file() -> None:
    """Debian's is of the first generation, which lacks two things that the specification has."""
    compose = {key: value for key, value in COMPOSE.items() if key != "name"}
    gpu, triton = ({**compose["services"][name], "depends_on": ["download"]} for name in ("gpu", "triton"))
    replica = {**compose["services"]["replica"], "depends_on": ["migrate"], "deploy": {"replicas": 2}}
    compose["services"] = {**compose["services"], "gpu": gpu, "triton": triton, "replica": replica}
    answer = subprocess.run(
        [
            "docker-compose",
            "-f",
            "-",
            "--project-directory",
            FOLDER,
            "--profile",
            "gpu",
            "--profile",
            "triton",
            "--profile",
            "cluster",
            "config",
        ],
        input=json.dumps(compose),
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    resolved = yaml.safe_load(answer.stdout)["services"]
    assert set(resolved) == set(SERVICES)
    assert resolved["gpu"]["environment"]["FIRSTWORD_PRECISION"] == "bfloat16"


def test_the_gpu_serves_what_is_downloaded_at_run_time() -> None:
    gpu, download = SERVICES["gpu"], SERVICES["download"]
    assert gpu["depends_on"] == {"download": {"condition": "service_completed_successfully"}}
    command = [re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", word) for word in download["command"]]
    assert command[0] == "download"
    parameters = get_command(cli).commands["download"].params
    options = {option for parameter in parameters for option in parameter.opts}
    assert {word.partition("=")[0] for word in command[2:]} <= options
    assert command[1] in PUBLISHED
    assert f"--to={gpu['environment']['FIRSTWORD_CHECKPOINT']}" in download["command"]
    assert gpu["volumes"][1] == f"{download['volumes'][0]}:ro"
    build_file = (FOLDER / "../../Dockerfile").read_text(encoding="utf-8")
    assert "--owner=firstword --group=firstword /data /models" in build_file


def test_every_mounted_file_exists() -> None:
    sources = [
        re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", volume).split(":")[0]
        for service in SERVICES.values()
        for volume in service["volumes"]
    ]
    paths = {source for source in sources if source.startswith(".")}
    assert len(paths) >= 4
    assert {path for path in paths if not (FOLDER / path).exists()} == set()
    named = {source for source in sources if not source.startswith(".")}
    assert named == set(COMPOSE["volumes"])


def test_settings_of_the_servers_exist() -> None:
    variables = {variable_of(name) for name in SETTINGS}
    assert set(re.findall(r"FIRSTWORD_\w+", TEXT)) <= variables
    for name in SERVERS:
        assert {key for key in SERVICES[name]["environment"] if key.startswith("FIRSTWORD_")} <= variables


def test_images_are_those_of_the_build_file() -> None:
    build_file = (FOLDER / "../../Dockerfile").read_text(encoding="utf-8")
    for name in SERVERS:
        build = SERVICES[name]["build"]
        assert (FOLDER / build["context"] / "Dockerfile").exists()
        assert f" AS {build['target']}\n" in build_file


def test_tritonserver_goes_through_the_stages_that_there_are() -> None:
    """It writes the repository of the model that was downloaded, and stays in the foreground."""
    triton, gpu = SERVICES["triton"], SERVICES["gpu"]
    build = triton["build"]
    build_file = (FOLDER / build["context"] / build["dockerfile"]).read_text(encoding="utf-8")
    copied = re.findall(r"^COPY (.+) \S+$", build_file, re.MULTILINE)
    assert all((FOLDER / build["context"] / name).exists() for names in copied for name in names.split())
    assert "run.sh" in re.findall(r"^ENTRYPOINT (.+)$", build_file, re.MULTILINE)[0]
    options = dict(zip(triton["command"][::2], triton["command"][1::2], strict=True))
    assert (options["--stage"], options["--stop-stage"]) == ("2", "3")
    assert options["--checkpoint"] == gpu["environment"]["FIRSTWORD_CHECKPOINT"]
    script = (FOLDER / "../triton/run.sh").read_text(encoding="utf-8")
    assert all(option in script for option in options)
    assert triton["volumes"][1] == gpu["volumes"][1]
    assert triton["depends_on"] == gpu["depends_on"]
    assert options["--repository"].startswith(triton["tmpfs"][0])


def test_images_of_others_have_a_version() -> None:
    for name in set(SERVICES) - set(SERVERS) - {"download", "migrate", "triton"}:
        assert re.search(r":v?\d+\.\d+(\.\d+)?(@sha256:[0-9a-f]{64})?$", SERVICES[name]["image"]), name


def test_only_the_proxy_is_open_to_other_machines() -> None:
    for name, service in SERVICES.items():
        if name != "proxy":
            assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name


def test_the_proxy_does_not_open_a_server_without_keys() -> None:
    command = SERVICES["proxy"]["command"]
    script = [word.replace("$$", "$").replace("exec caddy", "echo caddy") for word in command]
    closed, opened = (
        subprocess.run(script, env={"PATH": "/usr/bin:/bin", "FIRSTWORD_API_KEYS": keys}, capture_output=True)
        for keys in ("", "anna:secret")
    )
    assert closed.returncode == 1
    assert b"set FIRSTWORD_API_KEYS" in closed.stderr
    assert (opened.returncode, opened.stdout[:10]) == (0, b"caddy run ")


def test_a_page_of_another_name_is_not_answered() -> None:
    for name in SERVERS:
        hosts = SERVICES[name]["environment"]["FIRSTWORD_ALLOWED_HOSTS"].split(",")
        assert name in hosts
        assert "${SITE:-localhost}" in hosts


def test_servers_write_to_their_volume_alone_and_have_limits() -> None:
    for name in (*SERVERS, "triton"):
        assert SERVICES[name]["read_only"] is True
        assert SERVICES[name]["tmpfs"][0] == "/tmp"
        assert SERVICES[name]["pids_limit"]
        assert SERVICES[name]["cap_drop"] == ["ALL"]
        assert SERVICES[name]["security_opt"] == ["no-new-privileges:true"]
    for name in ("cpu", "replica"):  # of a GPU's servers the model says how much they need
        assert SERVICES[name]["mem_limit"]


def test_grafana_has_no_account_to_log_in_to() -> None:
    environment = SERVICES["grafana"]["environment"]
    assert environment["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert not [key for key in environment if "PASSWORD" in key]


def test_metrics_are_scraped_where_they_are_and_published_nowhere() -> None:
    (scrape,) = [job for job in PROMETHEUS["scrape_configs"] if job["job_name"] == "firstword"]
    (targets,) = scrape["dns_sd_configs"]
    assert tuple(targets["names"]) == SERVERS
    for name in SERVERS:
        assert SERVICES[name]["environment"]["FIRSTWORD_METRICS_PORT"] == str(targets["port"])
        assert not any(port.endswith(f":{targets['port']}") for port in SERVICES[name].get("ports", ()))


def test_servers_have_time_to_drain() -> None:
    default = re.search(
        r"FIRSTWORD_DRAIN_TIMEOUT_S=(\d+)", (FOLDER / "../../.env.example").read_text(encoding="utf-8")
    )
    assert default
    for name in SERVERS:
        assert int(SERVICES[name]["stop_grace_period"].removesuffix("s")) > int(default[1])


def test_grafana_finds_its_dashboards_and_prometheus() -> None:
    provisioning = FOLDER / "grafana"
    (provider,) = yaml.safe_load((provisioning / "dashboards/firstword.yaml").read_text())["providers"]
    assert f"../grafana/json:{provider['options']['path']}:ro" in SERVICES["grafana"]["volumes"]
    assert "./grafana:/etc/grafana/provisioning:ro" in SERVICES["grafana"]["volumes"]
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (jaeger,) = yaml.safe_load((provisioning / "datasources/jaeger.yaml").read_text())["datasources"]
    (exemplars,) = source["jsonData"]["exemplarTraceIdDestinations"]
    assert exemplars == {"name": "trace_id", "datasourceUid": jaeger["uid"]}
    assert jaeger["url"] == f"http://jaeger:{SERVICES['jaeger']['ports'][0].rpartition(':')[2]}"
    assert source["jsonData"]["timeInterval"] == PROMETHEUS["global"]["scrape_interval"]
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (FOLDER / "../grafana/json" / Path(home).name).exists()


def test_replicas_share_a_store_and_start_once_it_has_its_tables() -> None:
    replica, migrate = SERVICES["replica"], SERVICES["migrate"]
    address = replica["environment"]["FIRSTWORD_STORE"]
    assert migrate["environment"] == {"FIRSTWORD_STORE": address}
    assert address.partition("@")[2].partition("/")[0] in SERVICES
    assert replica["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    command = get_command(cli).commands
    for word in migrate["command"]:
        command = getattr(command[word], "commands", {})
