"""What can be known of the images without building them."""

import asyncio
import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.serving import make_services, serving

ROOT = Path(__file__).parent.parent
Instruction = tuple[str, str]  # its name, its arguments


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    base: str
    instructions: list[Instruction] = field(default_factory=list)

    def arguments(self, name: str) -> list[str]:
        return [arguments for known, arguments in self.instructions if known == name]


def parse(text: str) -> dict[str, Stage]:
    stages: dict[str, Stage] = {}
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", "").splitlines()
    for line in filter(str.strip, lines):
        name, arguments = line.split(maxsplit=1)
        if name == "FROM":
            base, as_, stage = arguments.split()
            assert as_ == "AS"
            stages[stage] = Stage(
                stage, base.partition("@")[0]
            )  # without its digest, once `make pins` was run
        else:
            stages[stage].instructions.append((name, arguments))
    return stages


STAGES = parse((ROOT / "Dockerfile").read_text(encoding="utf-8"))
KEPT = set(re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(encoding="utf-8"), flags=re.MULTILINE))

COMPILER = "gcc libc6-dev"  # for Triton's launchers

images = pytest.mark.parametrize("image", ["cpu", "cuda"])


def lineage(name: str) -> list[Stage]:
    """The stage and all those it is built upon."""
    found = []
    while name in STAGES:
        found.append(STAGES[name])
        name = STAGES[name].base
    return found


def last(image: str, instruction: str) -> str:
    return next(given[-1] for stage in lineage(image) if (given := stage.arguments(instruction)))


@images
def test_image_runs_the_service_as_nobody_special(image: str) -> None:
    assert int(last(image, "USER")) >= 1000
    assert last(image, "ENTRYPOINT") == '["firstword"]'
    assert last(image, "CMD") == '["serve"]'
    assert last(image, "STOPSIGNAL") == "SIGTERM"


@images
def test_image_has_its_packages_from_a_stage_that_is_left_behind(image: str) -> None:
    (given,) = [copy for stage in lineage(image) for copy in stage.arguments("COPY")]
    assert given == f"--from=packages-{image} /opt/firstword /opt/firstword"
    assert f"packages-{image}" not in [stage.name for stage in lineage(image)]
    assert lineage(image)[-1].base.endswith("-slim-bookworm")
    assert any(
        "uninstall" in run and "pip" in run for stage in lineage(image) for run in stage.arguments("RUN")
    )
    by_apt = [run for stage in lineage(image) for run in stage.arguments("RUN") if "apt" in run]
    installed = [re.findall(r"--no-install-recommends ([\w -]+\w)", run) for run in by_apt]
    assert installed == ([[COMPILER]] if image == "cuda" else [])


def test_cuda_image_has_vllm_and_what_its_kernels_are_built_with() -> None:
    wanted = "'.[otel,postgresql,grpc,tensorrt,vllm]'"
    assert any(wanted in run for run in STAGES["packages-cuda"].arguments("RUN"))
    (given,) = STAGES["cuda"].arguments("ENV")
    assert {"XDG_CACHE_HOME=/data/cache", "TRITON_CACHE_DIR=/data/cache/triton"} <= set(given.split())


@images
def test_python_of_the_packages_is_that_of_the_image(image: str) -> None:
    here, there = lineage(image)[-1].base, lineage(f"packages-{image}")[-1].base
    assert here.replace("-slim", "") == there


def test_docker_build_without_a_target_is_the_cpu_image() -> None:
    assert list(STAGES)[-1] == "cpu"


def test_every_copied_source_exists_and_is_not_ignored() -> None:
    copies = [words for stage in STAGES.values() for words in map(shlex.split, stage.arguments("COPY"))]
    sources = {source for words in copies if not words[0].startswith("--from=") for source in words[:-1]}
    assert sources == KEPT
    assert all((ROOT / source).exists() for source in sources)


def health_check() -> list[str]:
    """The words of the command, run by the Python of these tests."""
    _, command = STAGES["service"].arguments("HEALTHCHECK")[0].split("CMD ")
    python, *words = json.loads(command)
    assert python == "python"
    return [sys.executable, *words]


def test_health_check_fails_where_nobody_answers() -> None:
    process = subprocess.run(health_check(), env={"FIRSTWORD_PORT": "1"}, capture_output=True)
    assert process.returncode == 1
    assert b"ConnectionRefusedError" in process.stderr


@pytest.mark.anyio
async def test_health_check_passes_where_the_server_asks_for_keys() -> None:
    async with serving(make_services(keys=["anna:s3cret"])) as url:
        env = {"FIRSTWORD_PORT": url.rpartition(":")[2]}
        process = await asyncio.create_subprocess_exec(*health_check(), env=env)
        assert await process.wait() == 0


def test_documents_build_the_targets_that_exist() -> None:
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    assert set(re.findall(r"--target (\w+)", text)) == {"cpu", "cuda"}
