"""The JavaScript client, and OpenAI's for Node, against a real server over fakes; our client's types."""

import asyncio
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.serving import PATIENCE_S, make_services, serving

JS = Path(__file__).parents[2] / "clients/js"
STORIES = re.findall(
    r'^  async "?([\w ]+)"?\(', (JS / "test/run.mjs").read_text(encoding="utf-8"), re.MULTILINE
)


def node() -> list[str] | None:
    """Return the command of a Node that has WebSockets; None: there is none."""
    found = shutil.which("node")
    if found is None:
        return None
    version = int(
        subprocess.run([found, "-p", "process.versions.node"], capture_output=True, text=True).stdout.split(
            "."
        )[0]
    )
    return [found] if version >= 22 else [found, "--experimental-websocket"] if version >= 20 else None


@pytest.mark.anyio
@pytest.mark.parametrize("story", STORIES)
async def test_the_client(story: str) -> None:
    command = node()
    if command is None:
        pytest.skip("needs Node 20 or newer")
    keys = ["anna:sesame"] if "refused" in story else []
    async with serving(make_services(keys=keys)) as url:
        await run_in_node([*command, str(JS / "test/run.mjs"), url, story])


@pytest.mark.anyio
async def test_openais_client_for_node_speaks() -> None:
    command = node()
    if command is None:
        pytest.skip("needs Node 20 or newer")
    environment = with_openai(command)
    if environment is None:
        pytest.skip("needs OpenAI's SDK for Node: npm install -g openai, or its folder in NODE_PATH")
    async with serving(make_services(keys=["anna:sesame"])) as url:
        script = Path(__file__).with_name("openai_sdk.cjs")
        assert await run_in_node([*command, str(script), url], environment, 60) == "done\n"


@pytest.mark.anyio
async def test_node_example_of_the_page_for_users_of_openai_writes_its_file(tmp_path: Path) -> None:
    command = node()
    environment = None if command is None else with_openai(command)
    if command is None or environment is None:
        pytest.skip("needs Node 20 or newer, and OpenAI's SDK for it")
    page = (JS.parents[1] / "docs/from-openai.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```js\n(.*?)```", page, flags=re.DOTALL)
    entry = await run_in_node([*command, "-p", "require.resolve('openai')"], environment)
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules/openai").symlink_to(Path(entry).parent)  # NODE_PATH is not for `import`
    async with serving(make_services()) as url:
        written = tmp_path / "morning.mp3"
        program = example.replace("http://localhost:8000", url).replace(written.name, str(written))
        (tmp_path / "example.mjs").write_text(program, encoding="utf-8")
        await run_in_node([*command, str(tmp_path / "example.mjs")], patience_s=60)
    assert written.stat().st_size > 500


def with_openai(command: list[str]) -> dict[str, str] | None:
    """Return the environment in which Node finds OpenAI's package; None: it is not installed."""
    npm = shutil.which("npm")
    root = npm and subprocess.run([npm, "root", "-g"], capture_output=True, text=True).stdout.strip()
    paths = os.pathsep.join(filter(None, (os.environ.get("NODE_PATH"), root)))
    environment = {**os.environ, "NODE_PATH": paths}
    asked = [*command, "-e", "require.resolve('openai')"]
    found = subprocess.run(asked, env=environment, stderr=subprocess.DEVNULL)
    return environment if found.returncode == 0 else None


async def run_in_node(
    command: list[str], environment: dict[str, str] | None = None, patience_s: float = PATIENCE_S
) -> str:
    """Return what it said. environment: None is that of this process."""
    async with asyncio.timeout(patience_s):
        program = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
        )
        try:
            said, _ = await program.communicate()
        finally:
            if program.returncode is None:
                program.kill()
                await program.wait()
    assert program.returncode == 0, said.decode()
    return said.decode()


def test_the_types_are_those_of_the_source(tmp_path: Path) -> None:
    tsc = shutil.which("tsc")
    if tsc is None:
        pytest.skip("needs TypeScript: npm install -g typescript")
    done = subprocess.run([tsc, "-p", JS, "--outDir", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    made = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    kept = {path.name: path.read_text(encoding="utf-8") for path in (JS / "types").iterdir()}
    assert kept == made, "make them anew: tsc -p clients/js"
