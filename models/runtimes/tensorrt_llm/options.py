"""How the server of TensorRT-LLM is set up."""

from pathlib import Path
from typing import Literal, Protocol


class TrtllmSettings(Protocol):
    """The settings of TensorRT-LLM; `firstword settings` says what each means. None: not set."""

    @property
    def url(self) -> str: ...
    @property
    def engine(self) -> Path | None: ...
    @property
    def dtype(self) -> Literal["auto", "float32", "bfloat16", "float16"]: ...
    @property
    def max_model_len(self) -> int: ...
    @property
    def memory_share(self) -> float: ...
    @property
    def tensor_parallel_size(self) -> int: ...
