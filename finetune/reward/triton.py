"""The model `token2wav_asr` for tritonserver's Python backend: tokens and text to rewards and transcripts."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from firstword.finetune.reward.formula import RewardWeights
from firstword.finetune.reward.rewarder import RewardItem, RewardSettings, Score
from firstword.models.checkpoint.open import open_checkpoint

NAME: Final = "token2wav_asr"
TOKEN_OFFSET: Final = 151_663
"""What the published deployment's language model adds to speech tokens."""

MODEL_FILE: Final = '''\
"""Written by `firstword reward --triton`."""

from firstword.finetune.reward.triton import TritonPythonModel

__all__ = ["TritonPythonModel"]
'''
_CONFIG: Final = """\
name: "token2wav_asr"
backend: "python"
max_batch_size: 32
dynamic_batching { max_queue_delay_microseconds: 10000 }
input [
  { name: "TOKENS" data_type: TYPE_INT32 dims: [-1] allow_ragged_batch: true },
  { name: "TOKEN_LENS" data_type: TYPE_INT32 dims: [1] optional: true },
  { name: "GT_TEXT" data_type: TYPE_STRING dims: [1] },
  { name: "SPEAKER" data_type: TYPE_STRING dims: [1] optional: true }
]
output [
  { name: "REWARDS" data_type: TYPE_FP32 dims: [1] },
  { name: "TRANSCRIPTS" data_type: TYPE_STRING dims: [1] }
]
instance_group [ { count: 1 kind: KIND_CPU } ]
parameters [ { key: "settings" value: { string_value: %s } } ]
"""


def write_model(directory: Path, checkpoint: Path, settings: RewardSettings) -> Path:
    """Write the model into a repository, over an earlier one; return its folder. Raises OSError."""
    folder = directory / NAME
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "1" / "model.py").write_text(MODEL_FILE, encoding="utf-8")
    values = json.dumps({"checkpoint": str(checkpoint.resolve()), **asdict(settings)})
    (folder / "config.pbtxt").write_text(_CONFIG % json.dumps(values), encoding="utf-8")
    return folder


class TritonPythonModel:
    """All requests that Triton hands on at once are spoken in one batch."""

    def initialize(self, args: dict[str, str]) -> None:
        import torch

        from firstword.finetune.reward.rewarder import Rewarder

        values = json.loads(json.loads(args["model_config"])["parameters"]["settings"]["string_value"])
        checkpoint = open_checkpoint(values.pop("checkpoint"))
        settings = RewardSettings(**{**values, "weights": RewardWeights(**values["weights"])})
        self._rewarder = Rewarder(checkpoint, settings, "cuda" if torch.cuda.is_available() else "cpu")

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        import triton_python_backend_utils as backend

        from firstword.finetune.errors import FinetuneError

        given = [_items(request, backend) for request in requests]
        try:
            scores = iter(self._rewarder.score([item for items in given for item in items]))
            return [_response([next(scores) for _ in items], backend) for items in given]
        except FinetuneError as error:
            failure = backend.TritonError(str(error), backend.TritonError.INVALID_ARG)
            return [backend.InferenceResponse(error=failure) for _ in requests]


def _items(request: Any, backend: Any) -> list[RewardItem]:
    """A request has rows: TOKENS (B, L), padded behind TOKEN_LENS (B, 1), texts and speakers (B, 1)."""

    def given(name: str) -> Any:
        tensor = backend.get_input_tensor_by_name(request, name)
        return None if tensor is None else tensor.as_numpy()

    tokens, lengths, texts, speakers = map(given, ("TOKENS", "TOKEN_LENS", "GT_TEXT", "SPEAKER"))
    items = []
    for row, ids in enumerate(tokens.tolist()):
        ids = ids if lengths is None else ids[: int(lengths[row, 0])]
        if ids and min(ids) >= TOKEN_OFFSET:
            ids = [id - TOKEN_OFFSET for id in ids]
        speaker = "" if speakers is None else speakers[row, 0].decode()
        items.append(RewardItem(tuple(ids), texts[row, 0].decode(), speaker))
    return items


def _response(scores: Sequence[Score], backend: Any) -> Any:
    rewards = np.array([[score.reward] for score in scores], np.float32)
    transcripts = np.array([[score.transcript.encode()] for score in scores], np.object_)
    tensors = [backend.Tensor("REWARDS", rewards), backend.Tensor("TRANSCRIPTS", transcripts)]
    return backend.InferenceResponse(tensors)
