"""`firstword doctor`: finds what is wrong with an installation, and the command that fixes it."""

import os
import platform
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from rich.text import Text

from firstword.app.commands.console import to_stdout, waiting
from firstword.app.options import InvalidOptions
from firstword.app.settings import InvalidSettings, Settings, load_settings, variable_of

if TYPE_CHECKING:
    from firstword.models.runtimes.interface import Part

MIN_PYTHON: Final = (3, 11)


@dataclass(frozen=True, slots=True)
class Finding:
    """note: works, but should be known. wrong: the service cannot start."""

    subject: str
    state: Literal["ok", "note", "wrong"]
    message: str
    fix: str = ""  # what to do about it, a command where there is one


Check = Callable[[Settings], Finding]


def check_python(settings: Settings) -> Finding:
    message = f"Python {platform.python_version()}"
    if sys.version_info < MIN_PYTHON:
        needed = ".".join(map(str, MIN_PYTHON))
        message = f"{message}, needs {needed} or newer"
        return Finding("python", "wrong", message, f"python{needed} -m venv .venv")
    return Finding("python", "ok", message)


def check_torch(settings: Settings) -> Finding:
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a shared library of it is missing
        return Finding("torch", "wrong", f"torch cannot be imported: {error}", "make setup")
    return Finding("torch", "ok", f"torch {torch.__version__}, {torch.get_num_threads()} threads")


def check_device(settings: Settings) -> Finding:
    import torch

    if torch.cuda.is_available():
        name = torch.cuda.get_device_name()
        return Finding("device", "ok", "the CPU, as set" if settings.networks.device == "cpu" else name)
    if settings.networks.device != "cuda":
        return Finding("device", "ok", f"the CPU, {os.cpu_count()} cores")
    return Finding(
        "device",
        "wrong",
        f"{variable_of('device')} is cuda, but torch finds no GPU",
        f"look at nvidia-smi, or set {variable_of('device')}=cpu",
    )


def check_backend(settings: Settings) -> Finding:
    """What the checkpoint is belongs to it; a checkpoint that cannot be opened is another check's finding."""
    return _chosen(settings, "lm", "backend", "set FIRSTWORD_BACKEND=torch")


def check_flow_backend(settings: Settings) -> Finding:
    return _chosen(settings, "flow", "flow_backend", "what it says, or set FIRSTWORD_FLOW_BACKEND=auto")


def check_runtimes(settings: Settings) -> list[Finding]:
    """Each runtime: whether it can run here, and what it says where it cannot."""
    from firstword.app.engine.backend import BackendError
    from firstword.app.engine.runtimes import all_runtimes, machine_of
    from firstword.models.checkpoint.open import open_checkpoint
    from firstword.models.config import CheckpointError

    try:
        checkpoint = open_checkpoint(settings.networks.checkpoint)
        machine = machine_of(settings.networks, settings.speakers.data_dir)
    except (CheckpointError, OSError, ValueError):
        return []
    found = []
    for runtime in all_runtimes(settings.networks, settings.lm_engines):
        parts = ", ".join(runtime.provides)
        try:
            refusal = runtime.refusal(machine, checkpoint)
            declined = [runtime.declines(part, machine, checkpoint) for part in runtime.provides]
        except BackendError as error:
            refusal, declined = str(error), []
        if refusal is not None:
            message = f"cannot run {parts} here; asked for, it says: {refusal}"
        elif all(declined):
            message = f"can run {parts}, and is not taken: {declined[0]}"
        else:
            message = f"can run {parts}"
        found.append(Finding(f"runtime {runtime.name}", "ok", message))
    return found


def _chosen(
    settings: Settings, part: "Part", setting: Literal["backend", "flow_backend"], fix: str
) -> Finding:
    """Which runtime a part gets. fix: for one that is refused."""
    from firstword.app.engine.backend import BackendError, choose
    from firstword.app.engine.runtimes import all_runtimes, machine_of
    from firstword.models.checkpoint.open import open_checkpoint
    from firstword.models.config import CheckpointError

    subject, asked = setting.replace("_", " "), getattr(settings.networks, setting)
    try:
        checkpoint = open_checkpoint(settings.networks.checkpoint)
        machine = machine_of(settings.networks, settings.speakers.data_dir)
        runtimes = all_runtimes(settings.networks, settings.lm_engines)
        backend = choose(part, asked, runtimes, machine, checkpoint)
    except BackendError as error:
        return Finding(subject, "wrong", str(error), fix)
    except (CheckpointError, OSError, ValueError):
        return Finding(subject, "note", "chosen once checkpoint and device are there")
    if part == "lm":
        return Finding(subject, "ok", f"{backend.name} runs the language model: {backend.reason}")
    return Finding(subject, "ok", f"{backend.name} runs flow and vocoder")


def check_precision(settings: Settings) -> Finding:
    """On a CPU; measures what no start has measured yet, and keeps it where there is a data directory."""
    from firstword.app.engine.backend import BackendError
    from firstword.app.engine.loading import threads_of
    from firstword.app.engine.precision import find_device, find_precision
    from firstword.models.checkpoint.open import open_checkpoint
    from firstword.models.config import CheckpointError
    from firstword.models.runtimes.onnx.formats import cpu_formats, stored_products

    networks, subject = settings.networks, "precision"
    try:
        device = find_device(networks.device)
        precision = find_precision(networks.precision, device)
        if device != "cpu" or precision == "bfloat16":
            return Finding(subject, "ok", precision)
        config = open_checkpoint(networks.checkpoint).config
        data_dir = settings.speakers.data_dir if settings.speakers.data_dir.is_dir() else None
        formats = cpu_formats(
            networks.precision, config, lambda: stored_products(threads_of(networks), data_dir)
        )
    except (InvalidOptions, BackendError) as error:
        return Finding(subject, "wrong", str(error), f"set {variable_of('precision')}=auto")
    except (CheckpointError, OSError, ValueError):
        return Finding(subject, "note", "chosen once checkpoint and device are there")
    return Finding(subject, "ok", str(formats))


def check_checkpoint(settings: Settings, *, is_whole: bool = False) -> Finding:
    """is_whole: every file is read as `serve` will read it, but for the weights' values."""
    from firstword.models.checkpoint.open import open_checkpoint
    from firstword.models.config import CheckpointError

    try:
        checkpoint = open_checkpoint(settings.networks.checkpoint)
        if is_whole:
            checkpoint.check()
    except (CheckpointError, OSError) as error:
        fix = f"set {variable_of('checkpoint')} to a model directory, or to nothing for the built-in voice"
        return Finding("checkpoint", "wrong", str(error), fix)
    return Finding("checkpoint", "ok", f"{checkpoint.config.family} in {settings.networks.checkpoint}")


def check_data_dir(settings: Settings) -> Finding:
    from firstword.app.database import NETWORK_FILE_SYSTEMS, file_system_of

    directory = settings.speakers.data_dir.absolute()
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        given = settings.speakers.data_dir
        message = f"{variable_of('data_dir')} is {given}, which cannot be written: {error.strerror}"
        fix = f'mkdir -p "{directory}" && chown "$(id -u)" "{directory}"'
        if not existing.is_dir():
            fix = f"set {variable_of('data_dir')} to a directory; {existing} is a file"
        return Finding("data directory", "wrong", message, fix)
    if settings.speakers.store is None and (kind := file_system_of(directory)) in NETWORK_FILE_SYSTEMS:
        message = (
            f"{settings.speakers.data_dir} is on a network file system ({kind}), where SQLite loses data"
        )
        fix = f"set {variable_of('data_dir')} to a local disk, or {variable_of('store')} to a PostgreSQL"
        return Finding("data directory", "wrong", message, fix)
    message = (
        f"{settings.speakers.data_dir} can be written"
        if existing == directory
        else f"{settings.speakers.data_dir} will be made"
    )
    return Finding("data directory", "ok", message)


def check_port(settings: Settings) -> Finding:
    return _listening(settings.server.host, settings.server.port, "port", variable_of("port"))


def check_metrics_port(settings: Settings) -> Finding:
    subject, port, variable = "metrics port", settings.server.metrics_port, variable_of("metrics_port")
    if port is None:
        return Finding(subject, "ok", "/metrics is on the main port")
    if port == settings.server.port:
        message = f"{variable} is {port}, and so is {variable_of('port')}"
        return Finding(subject, "wrong", message, f"set {variable} to nothing or to another")
    return _listening(settings.server.host, port, subject, variable)


def check_grpc(settings: Settings) -> Finding:
    port, variable = settings.surfaces.grpc.port, variable_of("grpc_port")
    if port is None:
        return Finding("grpc", "ok", f"not served; {variable} sets its port")
    missing = [name for name in ("grpc", "grpc_health", "grpc_reflection") if not find_spec(name)]
    if missing:
        message = f"{variable} is {port}, but {', '.join(missing)} cannot be imported"
        fix = f"pip install 'firstword[grpc]', or set {variable} to nothing"
        return Finding("grpc", "wrong", message, fix)
    if port and port in (settings.server.port, settings.server.metrics_port):
        message = f"{variable} is {port}, and so is the port of HTTP or of the metrics"
        return Finding("grpc", "wrong", message, f"set {variable} to nothing or to another")
    return _listening(settings.server.host, port, "grpc", variable)


def check_keys(settings: Settings) -> Finding:
    from firstword.app.http.keys import KeyRing

    variable, file = variable_of("api_keys"), settings.server.api_keys_file
    try:
        keys = KeyRing(settings.server.plain_keys)
    except ValueError as error:
        return Finding("keys", "wrong", f"{variable}: {error}", f"set {variable}=name:key,other:key")
    try:
        keys = KeyRing(settings.server.plain_keys, file)
    except ValueError as error:
        return Finding("keys", "wrong", str(error), f"change the file, or set {variable_of('api_keys_file')}")
    if keys.is_open and not _is_loopback(settings.server.host):
        message = f"whoever reaches {settings.server.host} may use the server: it asks for no key"
        return Finding("keys", "note", message, f"set {variable}=name:$(openssl rand -hex 24)")
    count = len(keys)
    return Finding(
        "keys", "ok", f"{count} of them" if count else "none asked for, and only this machine can call"
    )


ESSENTIAL: Final[tuple[Check, ...]] = (
    check_backend,
    check_flow_backend,
    check_keys,
    check_port,
    check_metrics_port,
    check_grpc,
    check_data_dir,
    check_checkpoint,
)
"""Quick ones, which `serve` asks before it loads anything; loading asks the rest of `Checkpoint.check`."""


def findings(settings: Settings) -> list[Finding]:
    """Everything, in the order in which one would fix it."""
    torch = check_torch(settings)
    check_files: Check = partial(check_checkpoint, is_whole=True)
    of_networks = [check_device, check_backend, check_flow_backend, check_precision, check_files]
    needs_torch = of_networks if torch.state == "ok" else []
    ports = [check_port, check_metrics_port, check_grpc]
    others = [*needs_torch, check_data_dir, *ports, check_keys]
    runtimes = check_runtimes(settings) if needs_torch else []
    return [check_python(settings), torch, *(check(settings) for check in others), *runtimes]


def _listening(host: str, port: int, subject: str, variable: str) -> Finding:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server will
            listener.bind(address)
    except OSError as error:
        message = f"{host}:{port} cannot be listened on: {error.strerror}"
        return Finding(subject, "wrong", message, f"stop what listens there, or set {variable} to another")
    return Finding(subject, "ok", f"{host}:{port} is free")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_MARKS: Final = {"ok": ("ok   ", "green"), "note": ("note ", "yellow"), "wrong": ("WRONG", "bold red")}


def doctor(
    directory: Annotated[
        Path | None, typer.Argument(help="Model directory to look at, and to speak with: it takes a minute.")
    ] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Model directory to look at alone.")] = None,
    openai: Annotated[
        str | None, typer.Option(help="Address of a running server, to be asked as OpenAI's clients do.")
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="FIRSTWORD_CLIENT_API_KEY", help="For --openai, where it wants one.")
    ] = None,
    heard: Annotated[Path, typer.Option(help="Where DIRECTORY's sentence is written.")] = Path("doctor.wav"),
) -> None:
    """Say what is wrong with this installation, and what fixes it. Exit code 1 if it cannot serve."""
    try:
        if openai is not None:
            from firstword.app.commands.openai_check import openai_findings

            found = openai_findings(openai, api_key)
        else:
            settings = load_settings(checkpoint=directory or checkpoint)
            with waiting("looking at the installation and the checkpoint"):
                found = findings(settings)
            if directory is not None and all(finding.state != "wrong" for finding in found):
                from firstword.app.commands.speech_check import speech_findings

                with waiting("loading and speaking"):
                    found += speech_findings(settings, heard)
    except InvalidSettings as error:
        found = [Finding("settings", "wrong", str(error), "firstword settings")]
    console = to_stdout()
    for finding in found:
        mark, style = _MARKS[finding.state]
        fix = f"\n      fix: {finding.fix}" if finding.fix else ""
        line = f" {finding.subject}: {' '.join(finding.message.split())}{fix}"
        console.print(Text.assemble((mark, style), line), soft_wrap=True)
    if any(finding.state == "wrong" for finding in found):
        raise typer.Exit(1)
