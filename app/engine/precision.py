"""On which device and in which number format the networks run: as it is set, else what the machine has."""

import torch

from firstword.app.options import FEW_BITS, DeviceChoice, InvalidOptions, PrecisionChoice
from firstword.models.config import Dtype
from firstword.models.runtimes.interface import Device


def find_device(choice: DeviceChoice) -> Device:
    """Raises InvalidOptions where CUDA is asked for and there is none."""
    if choice == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if choice == "cuda" and not torch.cuda.is_available():
        raise InvalidOptions(
            "device cuda was asked for, but torch finds none; use cpu or auto, or fix the driver installation"
        )
    return choice


def find_precision(choice: PrecisionChoice, device: Device) -> PrecisionChoice:
    """Raises InvalidOptions where the device cannot have it."""
    if choice == "auto":
        if device == "cpu":
            return "int8"
        has_bfloat16 = torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
        return "bfloat16" if has_bfloat16 else "float16"
    if choice in FEW_BITS and device != "cpu":
        raise InvalidOptions(
            f"precision {choice} was asked for on {device}; it is for the CPU: use bfloat16 or float32"
        )
    if choice == "float16" and device == "cpu":
        raise InvalidOptions("precision float16 was asked for on cpu; it is for a GPU: use int8 or float32")
    return choice


def engine_dtype(choice: PrecisionChoice) -> Dtype:
    """Number format of TensorRT's engines. Raises InvalidOptions for int8."""
    precision = find_precision(choice, "cuda")
    return precision if precision in ("bfloat16", "float16") else "float32"
