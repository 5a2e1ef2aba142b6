"""The JavaScript client in Node against a real server over fakes, and its types."""

import asyncio
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
    async with serving(make_services(keys=keys)) as url, asyncio.timeout(PATIENCE_S):
        program = await asyncio.create_subprocess_exec(
            *command, str(JS / "test/run.mjs"), url, story, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        try:
            said, _ = await program.communicate()
        finally:
            if program.returncode is None:
                program.kill()
                await program.wait()
    assert program.returncode == 0, said.decode()


def test_the_types_are_those_of_the_source(tmp_path: Path) -> None:
    tsc = shutil.which("tsc")
    if tsc is None:
        pytest.skip("needs TypeScript: npm install -g typescript")
    done = subprocess.run([tsc, "-p", JS, "--outDir", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    made = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    kept = {path.name: path.read_text(encoding="utf-8") for path in (JS / "types").iterdir()}
    assert kept == made, "make them anew: tsc -p clients/js"
