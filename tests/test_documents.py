"""What the documents say is so: settings, routes, fields, error codes, metrics, commands, examples."""

import asyncio
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from fastapi.routing import APIRoute
from prometheus_client.parser import text_string_to_metric_families

from firstword.app.cli import cli
from firstword.app.commands.serve import env_text, markdown_table
from firstword.app.events import StreamEvents
from firstword.app.http.errors import TABLE
from firstword.app.settings import CLIENT_VARIABLES, SETTINGS, variable_of
from firstword.app.surfaces.openai.speech import SpeechRequest
from firstword.app.surfaces.tts import SpeechBody
from firstword.app.telemetry.metrics import Metrics
from firstword.app.telemetry.stream_record import StreamRecord
from tests.speakers.recordings import recording
from tests.support.readings import value
from tests.support.serving import build_app, make_services, serving

ROOT = Path(__file__).parent.parent
PAGE_NAMES = (
    "api",
    "architecture",
    "configuration",
    "fine-tuning",
    "from-cosyvoice",
    "from-openai",
    "nvidia",
    "console",
    "operations",
    "performance",
    "provenance",
    "python",
    "speakers",
)
PAGES = [ROOT / f"docs/{name}.md" for name in PAGE_NAMES]
DOCUMENTS = [
    *PAGES,
    *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md", "docs/LOG.md")),
    ROOT / "training/LOG.md",
]
VARIABLES = {variable_of(name) for name in SETTINGS}
API_PAGE = ROOT / "docs/api.md"

documents = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(encoding="utf-8"), flags=re.DOTALL)


def commands(document: Path) -> Iterator[list[str]]:
    """The words of each `firstword` command in a document."""
    for block in blocks(document, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = line.split("#")[0].removeprefix(".venv/bin/").split()
            if words and words[0] == "firstword":
                yield words[1:]


def test_env_example_is_what_the_settings_are() -> None:
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    named = re.findall(r"^# (FIRSTWORD_\w+)=", text, flags=re.MULTILINE)
    assert sorted(named) == sorted(VARIABLES)
    assert text == env_text(), "write it anew: firstword settings > .env.example"


def test_configuration_page_is_what_the_settings_are() -> None:
    text = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(FIRSTWORD_\w+)` \|", text, flags=re.MULTILINE)
    assert sorted(named) == sorted(VARIABLES)
    assert markdown_table() in text, "put in what `firstword settings --markdown` prints"


@pytest.mark.parametrize("file", [*DOCUMENTS, ROOT / "Dockerfile"], ids=lambda path: path.name)
def test_every_variable_that_is_named_exists(file: Path) -> None:
    named = set(re.findall(r"FIRSTWORD_[A-Z_]*[A-Z]", file.read_text(encoding="utf-8")))
    assert named <= VARIABLES | CLIENT_VARIABLES


@documents
def test_every_link_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (document.parent / target).exists(), target


def test_every_path_that_the_architecture_names_exists() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b(?:app|models|tests|training|bench|docs|firstword)/[\w./]*\w", text))
    assert {path for path in named if not (ROOT / path).exists()} == set()


@documents
def test_shell_and_python_examples_are_well_formed(document: Path) -> None:
    for block in blocks(document, "sh"):
        subprocess.run(["bash", "-n", "-c", block], check=True)
    for block in blocks(document, "python"):
        compile(block, document.name, "exec")


@documents
def test_command_that_saves_a_wav_has_its_length(document: Path) -> None:
    """Streamed, its header says 24.9 hours to Python's `wave`."""
    for block in blocks(document, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            if "curl" in line and re.search(r"-o \S+\.wav", line):
                assert '"stream": false' in line, line


@pytest.mark.parametrize("name", ["README", "docs/configuration", "docs/operations", "docs/speakers"])
def test_page_that_writes_the_command_says_where_it_is(name: str) -> None:
    text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
    assert "`.venv/bin/firstword`" in text[: text.rindex("firstword ")]
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert list(scripts) == ["firstword"]


@documents
def test_every_command_and_option_exists(document: Path) -> None:
    for words in commands(document):
        command = typer.main.get_command(cli)
        while hasattr(command, "commands") and not words[0].startswith("-"):
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts}
        given = {word for word in words if re.match(r"-\w|--\w", word)}
        assert given <= known, f"{command.name}: {given - known}"


def test_make_targets_of_contributing_exist() -> None:
    targets = re.findall(r"^make (\w+)", "".join(blocks(ROOT / "CONTRIBUTING.md", "sh")), flags=re.MULTILINE)
    assert targets
    for target in targets:
        subprocess.run(["make", target, "--dry-run"], cwd=ROOT, check=True, capture_output=True)


def test_pages_name_every_route() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (API_PAGE, ROOT / "docs/nvidia.md"))
    routes = [route for route in build_app(make_services()).routes if isinstance(route, APIRoute)]
    paths = {route.path.replace("/versions/{version}", "") for route in routes} - {
        "/v1",
        "/v1/models/{model:path}",
        "/favicon.ico",
    }  # probes of OpenAI's clients, and of browsers
    assert {path for path in paths if f"{path}`" not in text and f"{path}?" not in text} == set()


def test_error_codes_are_those_of_the_table() -> None:
    told = re.findall(r"^\| (\d{3}) \| (.*?) \|", API_PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    pairs = {(int(status), code) for status, codes in told for code in re.findall(r"`(\w+)`", codes)}
    assert pairs == {(row.status, row.code) for row in TABLE.values()}


def test_fields_of_a_request_are_those_that_it_takes() -> None:
    text = API_PAGE.read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| field of `POST /tts`.*?\n\n", text, flags=re.MULTILINE | re.DOTALL)
    named = "".join(re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", table, flags=re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", named)) == set(SpeechBody.model_fields)
    (paragraph,) = re.findall(r"^`POST /v1/audio/speech` takes.*?\n\n", text, flags=re.MULTILINE | re.DOTALL)
    assert set(SpeechRequest.model_fields) <= set(re.findall(r"`(\w+)`", paragraph))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_metric_that_is_named_exists(page: Path) -> None:
    exposition = Metrics().exposition()[0].decode()
    fields = {"tts_text"}  # of the published server's forms
    for name in set(re.findall(r"`(tts_\w+)`", page.read_text(encoding="utf-8"))) - fields:
        assert f"# TYPE {name} " in exposition, name


def test_operations_page_names_every_label_and_its_values() -> None:
    counted: dict[tuple[str, str], set[str]] = {}
    for family in text_string_to_metric_families(Metrics().exposition()[0].decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        for sample in family.samples:
            for label, text in sample.labels.items():
                if name.startswith("tts_") and name != "tts_build_info" and label != "le":
                    counted.setdefault((label, name), set()).add(text)
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (`tts_.*?) \| (.*?) \|$", page, flags=re.MULTILINE)
    told = {
        (label, name): set(re.findall(r"`(\w+)`", values))
        for label, names, values in rows
        for name in re.findall(r"`(tts_\w+)`", names)
    }
    assert told == counted


def test_share_of_continuous_streams_is_one_at_most() -> None:
    """As the operations page has it: of one threshold, of the streams whose underrun is known."""
    metrics = Metrics()
    record = StreamRecord(metrics, StreamEvents(lambda: 0.0), "http")
    record.audio_went(480, 24_000)
    record.end("ok")
    (query,) = blocks(ROOT / "docs/operations.md", "promql")
    (found,) = re.findall(r'rate\((\w+)\{(\w+)="(\w+)"\}\[5m\]\)\) / sum\(rate\((\w+)\[', query)
    ok, label, threshold, known = found
    assert value(metrics, ok, **{label: threshold}) == value(metrics, known) == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("page", "number"),
    [
        (page, number)
        for page in ("api", "from-openai")
        for number in range(len(blocks(ROOT / f"docs/{page}.md", "python")))
    ],
)
async def test_python_examples_of_a_page_run(tmp_path: Path, page: str, number: int) -> None:
    """Each writes a file; what earlier examples would have written is there."""
    example = blocks(ROOT / f"docs/{page}.md", "python")[number]
    (output,) = re.findall(r'(?:to_file\(|open\()"([\w.]+)"(?:\)|, "wb?"\))', example)
    (tmp_path / "voice.wav").write_bytes(recording())
    async with serving(make_services()) as url:
        program = example.replace("localhost:8000", url.removeprefix("http://"))
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, cwd=tmp_path)
        assert await process.wait() == 0
    assert (tmp_path / output).stat().st_size > (0 if output.endswith((".json", ".txt")) else 1000)
