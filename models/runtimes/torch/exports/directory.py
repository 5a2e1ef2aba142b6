"""A directory of exported parts: written whole or not at all, opened for the checkpoint it was made of.

Its files are programs: load only what you exported yourself.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from firstword.models.checkpoint.open import Checkpoint, weights_fingerprint
from firstword.models.config import Family
from firstword.models.flow.cosyvoice1 import CosyVoice1Flow
from firstword.models.hift.hift import Generate
from firstword.models.layers import ConvContext
from firstword.models.lm.transformer_lm import TransformerLM
from firstword.models.runtimes.torch.exports.formats import (
    SUFFIXES,
    ExportError,
    Format,
    Program,
    check_format,
    load_part,
    write_part,
)
from firstword.models.runtimes.torch.exports.parts import Part, PartName, parts_of

MANIFEST = "exports.json"
USABLE: Mapping[Family, frozenset[PartName]] = {
    "cosyvoice1": frozenset({"llm.text_encoder", "flow.encoder", "flow.decoder.estimator", "hift"}),
    "cosyvoice2": frozenset({"hift"}),
    "cosyvoice3": frozenset(),
}
"""What the service can run, by family."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """files: by the part's name. fingerprint: of the checkpoint's weights. torch: what wrote it."""

    format: Format
    dtype: str
    device: str
    fingerprint: str
    torch: str
    files: dict[PartName, str]


def export_checkpoint(
    checkpoint: Checkpoint, directory: Path, format: Format, dtype: torch.dtype, device: str
) -> Iterator[PartName]:
    """Write every part, naming each when it is done; the directory appears with the last.

    Raises ExportError, and CheckpointError.
    """
    check_format(format)
    if directory.exists():
        raise ExportError(f"{directory} is there already; name a new directory")
    unfinished = directory.parent / f".{directory.name}.{os.getpid()}.unfinished"
    unfinished.mkdir(parents=True)
    files: dict[PartName, str] = {}
    try:
        for part in parts_of(checkpoint, dtype, device):
            files[part.name] = f"{part.name}.{_short(dtype)}{SUFFIXES[format]}"
            _write(part, format, unfinished / files[part.name])
            yield part.name
        fingerprint = weights_fingerprint(checkpoint.directory)
        manifest = Manifest(format, _name(dtype), device, fingerprint, torch.__version__, files)
        (unfinished / MANIFEST).write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")
        unfinished.rename(directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write(part: Part, format: Format, path: Path) -> None:
    try:
        write_part(part, format, path)
    except RuntimeError as error:
        raise ExportError(
            f"{part.name} cannot be written as {format}: {str(error).splitlines()[0]}; "
            "try another format or dtype"
        ) from error


class Exports:
    """The programs that the service runs in place of a checkpoint's own networks."""

    def __init__(self, programs: Mapping[PartName, Program]):
        self._programs = programs

    def use_lm(self, lm: TransformerLM) -> None:
        """Let a program run in place of the text encoder."""
        if program := self._programs.get("llm.text_encoder"):
            lm.text_encoder = _Replaced(program)  # type: ignore[assignment]

    def use_flow(self, flow: CosyVoice1Flow) -> None:
        """Let programs run in place of encoder and estimator."""
        if encoder := self._programs.get("flow.encoder"):
            flow.encoder = _Replaced(encoder)  # type: ignore[assignment]
        if estimator := self._programs.get("flow.decoder.estimator"):
            flow.estimator = _ReplacedEstimator(estimator)  # type: ignore[assignment]

    def has(self, *names: PartName) -> bool:
        """Whether there is a program of one of these parts."""
        return any(name in self._programs for name in names)

    def generator(self) -> Generate | None:
        """Return what runs in place of the vocoder's generator, if anything does."""
        program = self._programs.get("hift")
        if program is None:
            return None

        def generate(
            mel: Tensor, source_spectrum: Tensor, context: ConvContext, is_start: bool = True
        ) -> Tensor:
            rows = zip(mel, source_spectrum, strict=True)
            return torch.cat([program(one[None], spectrum[None]) for one, spectrum in rows])

        return generate


class _Replaced(nn.Module):
    """A network over a whole sequence; its context is in the program."""

    def __init__(self, program: Program):
        super().__init__()
        self._program = program

    def forward(self, x: Tensor, context: object) -> Tensor:
        return self._program(x)


class _ReplacedEstimator(nn.Module):
    def __init__(self, program: Program):
        super().__init__()
        self._program = program

    def forward(self, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, mask: Tensor) -> Tensor:
        """As `MultiResolutionUNet`; the program takes its inputs in the published order."""
        mask = mask.expand(len(x), -1, -1)
        return self._program(*(part.contiguous() for part in (x, mask, mu, t, spks, cond)))


def open_exports(directory: Path, checkpoint: Checkpoint, dtype: torch.dtype, device: str) -> Exports:
    """Load what the service can run. Raises ExportError: other weights, another dtype, format or device.

    Of CosyVoice 2 and 3 encoder and estimator see whole sequences; a stream's chunks are solved with
    caches; nor does CosyVoice 3's vocoder see a whole piece.
    """
    try:
        manifest = Manifest(**json.loads((directory / MANIFEST).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ExportError(
            f"{directory / MANIFEST} cannot be read: {error}; export the checkpoint there"
        ) from None
    wanted = {
        "format": (manifest.format, ("torchscript", "aoti"), "the service runs"),
        "dtype": (manifest.dtype, (_name(dtype),), "the networks have"),
        "device": (manifest.device, (device,), "they run on"),
        "torch": (manifest.torch, (torch.__version__,), "this is"),
        "fingerprint": (
            manifest.fingerprint,
            (weights_fingerprint(checkpoint.directory),),
            "the checkpoint has",
        ),
    }
    for name, (came, expected, what) in wanted.items():
        if came not in expected and (name != "torch" or manifest.format == "aoti"):
            raise ExportError(
                f"{directory} has {name} {came}, {what} {' or '.join(expected)}; export the checkpoint again"
            )
    usable = USABLE[checkpoint.config.family]
    return Exports(
        {
            name: load_part(manifest.format, directory / file, device)
            for name, file in manifest.files.items()
            if name in usable
        }
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _short(dtype: torch.dtype) -> str:
    """As the published files are named: fp32, fp16, bf16."""
    return {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}[_name(dtype)]
