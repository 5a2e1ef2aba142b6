"""Plan files: engines built for one GPU, one TensorRT, one precision and one checkpoint's weights.

`DIRECTORY/PART.GPU.LIBRARY-VERSION.PRECISION.FINGERPRINT.plan`. A file appears whole or not at all, and one
that is there is not built again. Beside them lies TensorRT's timing cache, which makes the next build
quicker.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from firstword.files import write_whole
from firstword.models.config import Dtype
from firstword.models.runtimes.tensorrt.library import Library, Part, Ranges, TensorRTError

FORMAT: Final = 1  # of the graphs; another one makes other names
ANY_GPU: Final = "any"  # built without a GPU, which RTX can, for all that it knows


def gpu_name() -> str:
    """The GPU's name and compute capability, such as nvidia-l4-sm89; `any` where there is none."""
    if not torch.cuda.is_available():
        return ANY_GPU
    major, minor = torch.cuda.get_device_capability()
    name = re.sub(r"[^a-z0-9]+", "-", torch.cuda.get_device_name().lower()).strip("-")
    return f"{name}-sm{major}{minor}"


@dataclass(frozen=True, slots=True)
class PlanDirectory:
    """Where the plans of one checkpoint for one machine are.

    version: of the library, with its name. fingerprint: of the weights.
    """

    directory: Path
    gpu: str
    version: str
    dtype: Dtype
    fingerprint: str

    def path(self, name: str, ranges: Ranges) -> Path:
        """Of a part. One whose inputs take other sizes has another name."""
        made_of = repr((FORMAT, self.fingerprint, sorted(ranges.items())))
        digest = hashlib.sha256(made_of.encode()).hexdigest()[:16]
        return self.directory / f"{name}.{self.gpu}.{self.version}.{self.dtype}.{digest}.plan"

    def missing(self, parts: Mapping[str, Ranges]) -> list[str]:
        return [name for name, ranges in parts.items() if not self.path(name, ranges).is_file()]

    @property
    def timing_cache(self) -> Path:
        return self.directory / f"timing.{self.gpu}.{self.version}.cache"


def build_plans(
    library: Library,
    parts: Iterable[Part],
    plans: PlanDirectory,
    on_part: Callable[[Part], None] = lambda part: None,
) -> list[Path]:
    """Build what is missing; -> the new files. on_part: called before each. Raises TensorRTError, OSError."""
    if plans.gpu == ANY_GPU and not library.builds_without_gpu:
        raise TensorRTError(
            f"{library.name} {library.version} builds engines on the GPU that runs them, and torch finds "
            "none; build on that machine"
        )
    made = []
    plans.directory.mkdir(parents=True, exist_ok=True)
    for part in parts:
        path = plans.path(part.name, part.ranges)
        if path.is_file():
            continue
        on_part(part)
        cache = plans.timing_cache.read_bytes() if plans.timing_cache.is_file() else b""
        plan, cache = library.build(part.write(), part.ranges, cache)
        if cache:
            write_whole(plans.timing_cache, cache)
        write_whole(path, plan)
        made.append(path)
    return made
