"""The Helm chart, by Helm's own library and Kubernetes' own schemas."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from firstword.app.commands.download import PUBLISHED
from firstword.app.settings import SETTINGS, variable_of
from firstword.app.telemetry.metrics import Metrics

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/firstword"
VERSIONS = ("1.29", "1.37")  # the oldest and the newest that the chart is held against
needs_helm = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("helm_python", "kubernetes_validate")),
    reason="needs Helm's library and Kubernetes' schemas: make setup-deploy",
)

OWN_VOLUMES = {"persistence": {"enabled": False}}
GPU = yaml.safe_load((CHART / "values-gpu.yaml").read_text(encoding="utf-8"))
CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "gpu": {**GPU, "runtimeClassName": "nvidia"},
    "everything": {
        "replicas": 3,
        "apiKeys": {"value": "anna:sesame"},
        "model": {"name": "CosyVoice2-0.5B", "source": "modelscope", "mirror": "https://mirror.example.org"},
        "store": {"existingSecret": "store"},
        "service": {"grpcPort": 8001},
        "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls"},
        "autoscaling": {"enabled": True},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "settings": {"FIRSTWORD_PRECISION": "bfloat16", "FIRSTWORD_TRACING": "otlp"},
        "networkPolicy": {"clients": [{"podSelector": {}}], "extraEgress": [{"ports": [{"port": 4318}]}]},
        "resources": {"limits": {"nvidia.com/gpu": 1}},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "nodeSelector": {"gpu": "true"},
        "podAnnotations": {"a": "b"},
        "imagePullSecrets": [{"name": "pull"}],
    },
    "stateless": {"replicas": 2, "apiKeys": {"existingSecret": "keys"}, **OWN_VOLUMES},
    "volume": {"persistence": {"accessMode": "ReadWriteOncePod", "storageClassName": "fast"}},
    "model": {"model": {"name": "CosyVoice2-0.5B"}},
    "store": {"replicas": 2, "store": {"url": "postgresql://firstword:sesame@db/firstword"}},
}


def rendered(values: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """By kind and name."""
    from helm_python.chart import Chart

    with Chart.load(CHART) as chart:
        templates = chart.render(values=values, name="demo", namespace="speech")
    texts = [text for path, text in templates.items() if path.endswith(".yaml")]
    found = [one for text in texts for one in yaml.safe_load_all(text) if one]
    assert len(found) == len({(one["kind"], one["metadata"]["name"]) for one in found})
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


@needs_helm
@pytest.mark.parametrize("case", CASES)
def test_the_chart_is_sound(case: str) -> None:
    import kubernetes_validate
    from helm_python.chart import lint

    result = lint(CHART, CASES[case], strict=True)
    assert result["errors"] == []
    assert [message for message in result["messages"] if message["severity"] > 1] == []
    for (kind, _), resource in rendered(CASES[case]).items():
        if kind != "ServiceMonitor":  # of the operator, not of Kubernetes
            for version in VERSIONS:
                kubernetes_validate.validate(resource, version, strict=True)


@needs_helm
def test_a_pod_is_given_the_time_to_drain() -> None:
    pod = rendered({"drainTimeoutSeconds": 60})["Deployment", "demo"]["spec"]["template"]["spec"]
    (server,) = pod["containers"]
    environment = {one["name"]: one.get("value") for one in server["env"]}
    pause_s = int(server["lifecycle"]["preStop"]["exec"]["command"][1])
    assert environment["FIRSTWORD_DRAIN_TIMEOUT_S"] == "60"
    assert pod["terminationGracePeriodSeconds"] > 60 + pause_s
    assert server["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert server["livenessProbe"]["httpGet"]["path"] == "/livez"
    ports = {port["name"]: port["containerPort"] for port in server["ports"]}
    assert str(ports["metrics"]) == environment["FIRSTWORD_METRICS_PORT"]


@needs_helm
@pytest.mark.parametrize("values", [{"replicas": 2}, {"autoscaling": {"enabled": True}}], ids=str)
def test_several_replicas_do_not_fight_for_one_volume(values: dict[str, Any]) -> None:
    with pytest.raises(Exception, match=r"set store\.url to a PostgreSQL"):
        rendered(values)
    rendered({**values, **OWN_VOLUMES})


@needs_helm
def test_a_model_on_a_volume_is_not_asked_for_by_two_pods_at_once() -> None:
    for values in (OWN_VOLUMES, {"store": {"existingSecret": "store"}}):
        resources = rendered({**CASES["model"], **values})
        assert ("PersistentVolumeClaim", "demo-models") in resources
        assert resources["Deployment", "demo"]["spec"]["strategy"] == {"type": "Recreate"}


@needs_helm
def test_settings_are_written_as_they_were_given() -> None:
    given = {
        "FIRSTWORD_MAX_BODY_BYTES": 10485760,
        "FIRSTWORD_CUDA_GRAPHS": True,
        "FIRSTWORD_QUEUE_TIMEOUT_S": 0.5,
    }
    deployment = rendered({"settings": {**given, "FIRSTWORD_HOST": "0.0.0.0"}})["Deployment", "demo"]
    (server,) = deployment["spec"]["template"]["spec"]["containers"]
    environment = {one["name"]: one.get("value") for one in server["env"]}
    assert [environment[name] for name in given] == ["10485760", "true", "0.5"]
    assert environment["FIRSTWORD_HOST"] == "0.0.0.0"


@needs_helm
def test_another_secret_starts_the_pods_again() -> None:
    def pod(**values: Any) -> dict[str, Any]:
        found: dict[str, Any] = rendered({"replicas": 1, **values})["Deployment", "demo"]["spec"]["template"]
        return found

    for name, key in (("store", "url"), ("apiKeys", "value")):
        first, second = (pod(**{name: {key: f"postgresql://{host}/firstword"}}) for host in "ab")
        assert first != second


@needs_helm
@pytest.mark.parametrize(
    "values",
    [{"replica": 2}, {"settings": {"PATH": "x"}}, {"service": {"port": 0}}, {"model": {"source": "s3"}}],
)
def test_values_that_mean_nothing_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="schema"):
        rendered(values)


@needs_helm
def test_keys_are_in_a_secret_alone() -> None:
    resources = rendered({"apiKeys": {"value": "anna:sesame"}})
    secret = resources.pop(("Secret", "demo-keys"))
    assert secret["stringData"] == {"api-keys": "anna:sesame"}
    assert "sesame" not in yaml.safe_dump(list(resources.values()))


@needs_helm
def test_replicas_with_a_store_need_no_volume_and_migrate_first() -> None:
    resources = rendered(CASES["store"])
    secret = resources.pop(("Secret", "demo-store"))
    assert secret["stringData"] == {"store": "postgresql://firstword:sesame@db/firstword"}
    assert "sesame" not in yaml.safe_dump(list(resources.values()))
    assert ("PersistentVolumeClaim", "demo-data") not in resources
    deployment = resources["Deployment", "demo"]["spec"]
    (migrate,), (server,) = (
        deployment["template"]["spec"][kind] for kind in ("initContainers", "containers")
    )
    assert migrate["args"] == ["store", "migrate"]
    assert migrate["env"][0] in server["env"]
    assert deployment["strategy"]["type"] == "RollingUpdate"
    egress = resources["NetworkPolicy", "demo"]["spec"]["egress"]
    assert {port["port"] for rule in egress for port in rule["ports"]} == {53, 5432}


@needs_helm
def test_the_server_may_call_nobody() -> None:
    policy = rendered({})["NetworkPolicy", "demo"]["spec"]
    assert (policy["policyTypes"], policy["egress"]) == (["Ingress", "Egress"], [])
    downloading = rendered(CASES["model"])["NetworkPolicy", "demo"]["spec"]
    assert {port["port"] for rule in downloading["egress"] for port in rule["ports"]} == {53, 443}


@needs_helm
def test_the_model_is_downloaded_to_where_it_is_served_from() -> None:
    pod = rendered(CASES["model"])["Deployment", "demo"]["spec"]["template"]["spec"]
    (download,), (server,) = pod["initContainers"], pod["containers"]
    environment = {one["name"]: one.get("value") for one in server["env"]}
    assert download["args"][:2] == ["download", "CosyVoice2-0.5B"]
    assert download["args"][1] in PUBLISHED
    assert f"--to={environment['FIRSTWORD_CHECKPOINT']}" in download["args"]


@needs_helm
def test_grpc_is_reached_once_it_has_a_port() -> None:
    closed, opened = rendered({}), rendered({"service": {"grpcPort": 9001}})
    for name, port in (("demo", 9001), ("demo-replicas", 8001)):
        service = opened["Service", name]["spec"]
        assert [one["port"] for one in service["ports"] if one["targetPort"] == "grpc"] == [port]
        assert all(one["targetPort"] != "grpc" for one in closed["Service", name]["spec"]["ports"])
    (server,) = opened["Deployment", "demo"]["spec"]["template"]["spec"]["containers"]
    environment = {one["name"]: one.get("value") for one in server["env"]}
    ports = {port["name"]: port["containerPort"] for port in server["ports"]}
    assert str(ports["grpc"]) == environment["FIRSTWORD_GRPC_PORT"]
    assert opened["NetworkPolicy", "demo"]["spec"]["ingress"][0]["ports"] == [
        {"port": "http"},
        {"port": "grpc"},
    ]


@needs_helm
def test_values_for_a_gpu_ask_for_one_and_use_it() -> None:
    """With the settings of compose's service for a GPU."""
    pod = rendered(CASES["gpu"])["Deployment", "demo"]["spec"]["template"]["spec"]
    (server,) = pod["containers"]
    assert server["image"].endswith(":cuda")
    assert server["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert pod["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in rendered(GPU)["Deployment", "demo"]["spec"]["template"]["spec"]
    environment = {one["name"]: one["value"] for one in server["env"] if "value" in one}
    compose = yaml.safe_load((ROOT / "deploy/compose/compose.yaml").read_text(encoding="utf-8"))
    gpu = compose["services"]["gpu"]["environment"]
    for name in ("DEVICE", "PRECISION", "CUDA_GRAPHS", "GRPC_PORT"):
        default = re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", gpu[f"FIRSTWORD_{name}"])
        assert environment[f"FIRSTWORD_{name}"] == default


def test_what_the_chart_names_exists() -> None:
    """Without Helm: settings and metrics are the server's own."""
    text = "".join(path.read_text(encoding="utf-8") for path in CHART.rglob("*") if path.is_file())
    assert set(re.findall(r"FIRSTWORD_[A-Z_]*[A-Z]", text)) <= {variable_of(name) for name in SETTINGS}
    families = {family.name for family in Metrics().registry.collect()}
    named = set(re.findall(r"tts_\w+", text)) - {"tts_slots_in_use"}  # the adapter's own
    assert {"tts_requests_in_flight", "tts_max_streams"} <= named <= families


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    package = re.search(
        r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert package
    assert chart["appVersion"] == chart["version"] == package[1]
