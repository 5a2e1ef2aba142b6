"""bfloat16, where a machine has arithmetic for it: emulated it takes several times as long as float32."""

from functools import cache

import torch


@cache
def computes_bfloat16(device_type: str) -> bool:
    """device_type: "cuda" or "cpu"."""
    if device_type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def autocast(device_type: str, is_half: bool) -> torch.autocast:
    """Computes in bfloat16 what may be, if that is wanted and worth it."""
    return torch.autocast(device_type, torch.bfloat16, enabled=is_half and computes_bfloat16(device_type))
