"""Read and write `spk2info.pt`, the published table of ready speakers."""

import io
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from firstword.files import write_whole
from firstword.models.checkpoint.weights import FLOAT_TYPES, TorchFileError, is_dense, read_torch_file
from firstword.models.config import NUM_MELS, SPEAKER_EMBEDDING_SIZE
from firstword.models.frontend.features import FrontendError
from firstword.models.frontend.speaker import SpeakerFeatures

MAX_BYTES = 256 << 20
INTEGER_TYPES = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})


def read_speaker_table(
    path: Path, text_vocab_size: int, speech_vocab_size: int
) -> dict[str, SpeakerFeatures]:
    """Return speakers by name, of both published kinds: embedding alone (SFT), or a whole zero-shot prompt.

    Fields beyond those are ignored. Raises FrontendError, naming file, speaker and field, for anything
    missing, of another shape or type, outside its vocabulary, or contradicting its stored length.
    """
    if not path.is_file():
        raise FrontendError(f"{path}: missing")
    num_bytes = path.stat().st_size
    if num_bytes > MAX_BYTES:
        raise FrontendError(f"{path}: {num_bytes} bytes; a table of speakers has {MAX_BYTES} at most")
    try:
        table = read_torch_file(path)
    except TorchFileError as error:
        raise FrontendError(str(error)) from error
    if not isinstance(table, dict) or not all(isinstance(name, str) for name in table):
        raise FrontendError(
            f"{path}: holds a {type(table).__name__}, expected a dict of speaker name to dict"
        )
    return {
        name: _speaker(_Entry(path, name, entry), text_vocab_size, speech_vocab_size)
        for name, entry in table.items()
    }


def write_speaker_table(path: Path, speakers: Mapping[str, SpeakerFeatures]) -> None:
    """Write what `read_speaker_table` reads back. A prompt's text is kept as its `prompt_text_ids` only."""
    content = io.BytesIO()
    torch.save({name: _fields(speaker) for name, speaker in speakers.items()}, content)
    write_whole(path, content.getvalue())


def _fields(speaker: SpeakerFeatures) -> dict[str, Tensor]:
    embedding = speaker.embedding[None]
    if not speaker.has_prompt:
        return {"embedding": embedding}
    tokens = speaker.prompt_tokens[None].int()
    parts = {
        "prompt_text": torch.tensor([speaker.prompt_text_ids or ()], dtype=torch.int32),
        "llm_prompt_speech_token": tokens,
        "flow_prompt_speech_token": tokens,
        "prompt_speech_feat": speaker.prompt_mel[None],
    }
    lengths = {f"{key}_len": torch.tensor([part.shape[1]], dtype=torch.int32) for key, part in parts.items()}
    return {**parts, **lengths, "llm_embedding": embedding, "flow_embedding": embedding}


class _Entry:
    """The fields of one speaker, each read with its checks."""

    def __init__(self, path: Path, name: str, fields: object) -> None:
        self._where = f"{path}: speaker {name!r}"
        if not isinstance(fields, Mapping):
            raise FrontendError(f"{self._where} is a {type(fields).__name__}, expected a dict")
        self._fields = fields

    def has(self, field: str) -> bool:
        return field in self._fields

    def fail(self, message: str) -> FrontendError:
        return FrontendError(f"{self._where}, {message}")

    def embedding(self, field: str) -> Tensor:
        value = self._tensor(field)
        if value.dtype not in FLOAT_TYPES or value.numel() != SPEAKER_EMBEDDING_SIZE:
            raise self._unexpected(field, f"{SPEAKER_EMBEDDING_SIZE} floats")
        return self._finite(field, value.reshape(-1))  # (192,)

    def mel(self, field: str) -> Tensor:
        value = self._tensor(field)
        if value.dtype not in FLOAT_TYPES or value.ndim != 3 or value.shape[::2] != (1, NUM_MELS):
            raise self._unexpected(field, f"floats (1, F, {NUM_MELS})")
        self._check_length(field, value.shape[1])
        return self._finite(field, value[0])  # (F, 80)

    def ids(self, field: str, vocab_size: int) -> Tensor:
        value = self._tensor(field)
        if value.dtype not in (torch.int32, torch.int64) or value.ndim != 2 or len(value) != 1:
            raise self._unexpected(field, "integers (1, L)")
        self._check_length(field, value.shape[1])
        ids = value[0].long()  # (L,)
        outside = ids[(ids < 0) | (ids >= vocab_size)]
        if len(outside):
            raise self.fail(f"field {field}: id {int(outside[0])}, expected 0 to {vocab_size - 1}")
        return ids.clone()

    def _tensor(self, field: str) -> Tensor:
        if field not in self._fields:
            raise self.fail(f"field {field}: missing; the fields are {sorted(map(str, self._fields))}")
        value = self._fields[field]
        if not isinstance(value, Tensor):
            raise self.fail(f"field {field}: a {type(value).__name__}, expected a tensor")
        if not is_dense(value):
            raise self.fail(f"field {field}: not a dense tensor")
        return value

    def _check_length(self, field: str, length: int) -> None:
        stored_field = f"{field}_len"
        if not self.has(stored_field):
            return
        stored = self._tensor(stored_field)
        if stored.dtype not in INTEGER_TYPES or stored.numel() != 1:
            raise self._unexpected(stored_field, "one integer")
        if int(stored) != length:
            raise self.fail(f"field {stored_field}: {stored.tolist()}, but {field} has length {length}")

    def _finite(self, field: str, value: Tensor) -> Tensor:
        if not value.isfinite().all():
            raise self.fail(f"field {field}: holds values that are not finite")
        return value.to(torch.float32, copy=True).contiguous()

    def _unexpected(self, field: str, expected: str) -> FrontendError:
        value = self._fields[field]
        return self.fail(f"field {field}: {value.dtype} {tuple(value.shape)}, expected {expected}")


def _speaker(entry: _Entry, text_vocab_size: int, speech_vocab_size: int) -> SpeakerFeatures:
    if not entry.has("flow_embedding"):
        return SpeakerFeatures.without_prompt(entry.embedding("embedding"))
    tokens = entry.ids("flow_prompt_speech_token", speech_vocab_size)
    if not tokens.equal(entry.ids("llm_prompt_speech_token", speech_vocab_size)):
        raise entry.fail("fields flow_prompt_speech_token and llm_prompt_speech_token: expected to be equal")
    embedding = entry.embedding("flow_embedding")
    if not embedding.equal(entry.embedding("llm_embedding")):
        raise entry.fail("fields flow_embedding and llm_embedding: expected to be equal")
    return SpeakerFeatures(
        prompt_text="",
        prompt_tokens=tokens,
        prompt_mel=entry.mel("prompt_speech_feat"),
        embedding=embedding,
        prompt_text_ids=tuple(entry.ids("prompt_text", text_vocab_size).tolist()),
    )
