"""Low-rank adapters (arXiv 2106.09685) by peft, in a network of ours; saved as peft saves them."""

# peft is imported where it is used: with transformers behind it, it takes longer than all else here.
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from firstword.files import write_whole
from firstword.finetune.errors import FinetuneError

if TYPE_CHECKING:
    from peft import LoraConfig

_CONFIG, _WEIGHTS, _NETWORK = "adapter_config.json", "adapter_model.safetensors", "firstword_network"
_NAME: Final = "default"
_PREFIX: Final = "base_model.model."
TARGETS: Final = (
    r".*(layers|blocks)\.\d+\."
    r"(attention\.(query|key|value|out)|mlp\.(gate|up|down)|feedforward\.(up|down))"
)
"""The linear maps of language models and estimators; the relative attention's of positions is none."""


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """rank 0: the network itself is trained."""

    rank: int = 0
    alpha: int = 32


def inject(network: nn.Module, settings: LoraSettings) -> None:
    """Put adapters, which change nothing yet, into a network; they alone are trained then."""
    from peft import LoraModel

    LoraModel(network, {_NAME: _config(settings)}, _NAME)
    for name, parameter in network.named_parameters():
        parameter.requires_grad_("lora_" in name)


def adapter_tensors(network: nn.Module) -> dict[str, Tensor]:
    """The adapters' weights by the names in the network."""
    return {name: value.detach() for name, value in network.state_dict().items() if "lora_" in name}


def save_adapter(folder: Path, network: str, tensors: dict[str, Tensor], settings: LoraSettings) -> None:
    """Write peft's two files. network: llm or flow. Raises FinetuneError where the disk is full."""
    folder.mkdir(parents=True, exist_ok=True)
    config = _config(settings)
    values: dict[str, Any] = {**config.to_dict(), "inference_mode": True, _NETWORK: network}
    plain = {name: sorted(value) if isinstance(value, set) else value for name, value in values.items()}
    named = {_PREFIX + name.replace(f".{_NAME}.", "."): value.contiguous() for name, value in tensors.items()}
    try:
        write_whole(folder / _WEIGHTS, save(named))
        write_whole(folder / _CONFIG, f"{json.dumps(plain, indent=2, default=str)}\n".encode())
    except OSError as error:
        raise FinetuneError(f"{folder} cannot be written: {error}; run the same command again") from error


def read_adapter(folder: Path) -> tuple[str, LoraSettings, dict[str, Tensor]]:
    """-> llm or flow, the settings, and the tensors by the names in the network. Raises FinetuneError."""
    try:
        config = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
        tensors = load_file(folder / _WEIGHTS)
        settings = LoraSettings(config["r"], config["lora_alpha"])
        network = config[_NETWORK]
    except (OSError, ValueError, KeyError) as error:
        raise FinetuneError(f"{folder}: no adapter of `firstword train --lora`: {error}") from None
    renamed = {}
    for name, value in tensors.items():
        stem, _, last = name.removeprefix(_PREFIX).rpartition(".")
        renamed[f"{stem}.{_NAME}.{last}"] = value
    return network, settings, renamed


@torch.no_grad()
def fold(network: nn.Module, scale: float = 1.0) -> None:
    """Add the adapters, so many times, to the weights that they stand beside, and take them out again."""
    from peft.tuners.lora import LoraLayer

    for module in [one for one in network.modules() if isinstance(one, LoraLayer)]:
        module.scale_layer(scale)
        module.merge()
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, LoraLayer):
                setattr(parent, name, child.get_base_layer())


def load_adapter(
    network: nn.Module, settings: LoraSettings, tensors: dict[str, Tensor], folder: Path
) -> None:
    """Put a saved adapter into a network. Raises FinetuneError where it is another network's."""
    inject(network, settings)
    expected = adapter_tensors(network)
    if {name: value.shape for name, value in expected.items()} != {n: v.shape for n, v in tensors.items()}:
        raise FinetuneError(f"{folder}: the adapter was trained on another network; take its own checkpoint")
    network.load_state_dict(tensors, strict=False)


def _config(settings: LoraSettings) -> "LoraConfig":
    from peft import LoraConfig

    return LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha, target_modules=TARGETS, lora_dropout=0.0, bias="none"
    )
