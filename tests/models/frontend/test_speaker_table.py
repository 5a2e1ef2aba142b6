from pathlib import Path
from typing import Any

import pytest
import torch

from firstword.models.checkpoint.speaker_table import read_speaker_table, write_speaker_table
from firstword.models.frontend.features import FrontendError
from firstword.models.frontend.speaker import SpeakerFeatures

TEXT_VOCAB_SIZE, SPEECH_VOCAB_SIZE = 1000, 6561


def zero_shot_entry(num_tokens: int = 7) -> dict[str, torch.Tensor]:
    """What the published `add_zero_shot_spk` stores."""
    tokens = torch.arange(num_tokens, dtype=torch.int32)[None]
    embedding = torch.rand(1, 192)
    return {
        "prompt_text": torch.tensor([[5, 6, 7]], dtype=torch.int32),
        "prompt_text_len": torch.tensor([3], dtype=torch.int32),
        "llm_prompt_speech_token": tokens,
        "llm_prompt_speech_token_len": torch.tensor([num_tokens], dtype=torch.int32),
        "flow_prompt_speech_token": tokens,
        "flow_prompt_speech_token_len": torch.tensor([num_tokens], dtype=torch.int32),
        "prompt_speech_feat": torch.rand(1, 2 * num_tokens, 80),
        "prompt_speech_feat_len": torch.tensor([2 * num_tokens], dtype=torch.int32),
        "llm_embedding": embedding,
        "flow_embedding": embedding,
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spk2info.pt"


def read(path: Path, table: object) -> dict[str, SpeakerFeatures]:
    torch.save(table, path)
    return read_speaker_table(path, TEXT_VOCAB_SIZE, SPEECH_VOCAB_SIZE)


def test_what_is_written_has_the_published_fields_and_reads_back(path: Path) -> None:
    tokens, mel = torch.arange(7), torch.rand(14, 80)
    prompted = SpeakerFeatures("not kept", tokens, mel, torch.rand(192), prompt_text_ids=(5, 6, 7))
    alone = SpeakerFeatures.without_prompt(torch.rand(192))

    write_speaker_table(path, {"prompted": prompted, "alone": alone})

    published = zero_shot_entry()
    for name, field in torch.load(path)["prompted"].items():
        assert (field.dtype, field.shape) == (published[name].dtype, published[name].shape), name
    read_back = read_speaker_table(path, TEXT_VOCAB_SIZE, SPEECH_VOCAB_SIZE)
    for name, speaker in (("prompted", prompted), ("alone", alone)):
        for field in ("prompt_tokens", "prompt_mel", "embedding"):
            assert getattr(read_back[name], field).equal(getattr(speaker, field)), (name, field)
        assert read_back[name].prompt_text_ids == speaker.prompt_text_ids


def test_a_fine_tuned_speaker_is_an_embedding(path: Path) -> None:
    embedding = torch.rand(1, 192)

    speaker = read(path, {"中文女": {"embedding": embedding, "speech_token": "ignored"}})["中文女"]

    assert speaker.embedding.equal(embedding[0])
    assert not speaker.has_prompt
    assert speaker.prompt_mel.shape == (0, 80)
    assert speaker.prompt_text_ids is None


def test_a_zero_shot_speaker_has_its_prompt(path: Path) -> None:
    entry = zero_shot_entry()

    speaker = read(path, {"me": entry})["me"]

    assert speaker.prompt_tokens.tolist() == list(range(7))
    assert speaker.prompt_tokens.dtype == torch.int64
    assert speaker.prompt_mel.equal(entry["prompt_speech_feat"][0])
    assert speaker.embedding.equal(entry["flow_embedding"][0])
    assert speaker.prompt_text_ids == (5, 6, 7)
    assert speaker.prompt_text == ""


def test_half_precision_is_widened(path: Path) -> None:
    entry = zero_shot_entry()
    entry["prompt_speech_feat"] = entry["prompt_speech_feat"].half()

    assert read(path, {"me": entry})["me"].prompt_mel.dtype == torch.float32


def test_an_empty_table_is_no_speakers(path: Path) -> None:
    assert read(path, {}) == {}


@pytest.mark.parametrize("field", sorted(name for name in zero_shot_entry() if not name.endswith("_len")))
@pytest.mark.parametrize("value", ["text", torch.zeros(3, 4, 5), torch.zeros(2, 3, dtype=torch.int32)])
def test_a_field_of_another_kind_is_named_with_its_speaker(path: Path, field: str, value: object) -> None:
    if field == "flow_embedding":
        value = None  # still there, so still a zero-shot entry
    entry: dict[str, Any] = zero_shot_entry() | {field: value}

    with pytest.raises(FrontendError, match=rf"spk2info\.pt: speaker 'me', field {field}: "):
        read(path, {"me": entry})


@pytest.mark.parametrize("field", ["prompt_text", "llm_prompt_speech_token", "prompt_speech_feat"])
def test_a_missing_field_is_named(path: Path, field: str) -> None:
    entry = zero_shot_entry()
    del entry[field]

    with pytest.raises(FrontendError, match=rf"speaker 'me', field {field}: missing"):
        read(path, {"me": entry})


def test_an_entry_of_neither_kind_is_named(path: Path) -> None:
    with pytest.raises(FrontendError, match="speaker 'x', field embedding: missing"):
        read(path, {"x": {"speech_feat": torch.zeros(1, 4, 80)}})


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("prompt_text", torch.tensor([[5, 1000, 7]]), "id 1000, expected 0 to 999"),
        ("flow_prompt_speech_token", torch.tensor([[0, -1, 2, 3, 4, 5, 6]]), "id -1, expected 0 to 6560"),
        ("prompt_speech_feat_len", torch.tensor([13]), "but prompt_speech_feat has length 14"),
        ("prompt_speech_feat_len", torch.tensor([float("nan")]), "torch.float32 .*expected one integer"),
        ("prompt_text_len", torch.tensor([3, 3]), "expected one integer"),
        ("prompt_text_len", torch.tensor([True]), "torch.bool .*expected one integer"),
        ("prompt_speech_feat", torch.full((1, 14, 80), float("nan")), "not finite"),
        ("llm_embedding", torch.full((1, 192), float("inf")), "not finite"),
    ],
)
def test_a_value_that_cannot_be_is_refused(path: Path, field: str, value: torch.Tensor, reason: str) -> None:
    with pytest.raises(FrontendError, match=rf"speaker 'me', field {field}: .*{reason}"):
        read(path, {"me": zero_shot_entry() | {field: value}})


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float8_e4m3fn])
@pytest.mark.parametrize("field", ["prompt_speech_feat_len", "flow_embedding", "prompt_speech_feat"])
def test_a_tensor_of_a_type_that_no_table_has_is_refused(path: Path, field: str, dtype: torch.dtype) -> None:
    entry = zero_shot_entry()

    with pytest.raises(FrontendError, match=r"spk2info\.pt: not a file of tensors"):
        read(path, {"me": entry | {field: entry[field].to(dtype)}})


def test_a_table_of_absurd_size_is_refused(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate((256 << 20) + 1)

    with pytest.raises(FrontendError, match=r"spk2info\.pt: 268435457 bytes; a table of speakers has"):
        read_speaker_table(path, TEXT_VOCAB_SIZE, SPEECH_VOCAB_SIZE)


def test_two_prompts_in_one_speaker_are_refused(path: Path) -> None:
    entry = zero_shot_entry() | {"llm_prompt_speech_token": torch.zeros(1, 7, dtype=torch.int32)}

    with pytest.raises(FrontendError, match="flow_prompt_speech_token and llm_prompt_speech_token"):
        read(path, {"me": entry})


def test_two_embeddings_in_one_speaker_are_refused(path: Path) -> None:
    with pytest.raises(FrontendError, match="flow_embedding and llm_embedding"):
        read(path, {"me": zero_shot_entry() | {"llm_embedding": torch.zeros(1, 192)}})


@pytest.mark.parametrize("table", [[1, 2], torch.zeros(3), {7: {}}])
def test_a_table_that_is_not_one_is_refused(path: Path, table: object) -> None:
    with pytest.raises(FrontendError, match=r"spk2info\.pt: holds a"):
        read(path, table)


def test_an_entry_that_is_not_a_dict_is_refused(path: Path) -> None:
    with pytest.raises(FrontendError, match="speaker 'me' is a list"):
        read(path, {"me": [1]})


@pytest.mark.parametrize("kept_bytes", [0, 1, 100, 1500])
def test_a_truncated_file_is_named(path: Path, kept_bytes: int) -> None:
    torch.save({"me": zero_shot_entry()}, path)
    path.write_bytes(path.read_bytes()[:kept_bytes])

    with pytest.raises(FrontendError, match=r"spk2info\.pt: not a file of tensors"):
        read_speaker_table(path, TEXT_VOCAB_SIZE, SPEECH_VOCAB_SIZE)


def test_a_file_with_code_in_it_is_refused(path: Path) -> None:
    torch.save({"me": Path("/")}, path)  # a pickled object, not a tensor

    with pytest.raises(FrontendError, match="not a file of tensors"):
        read_speaker_table(path, TEXT_VOCAB_SIZE, SPEECH_VOCAB_SIZE)


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(FrontendError, match=r"spk2info\.pt: missing"):
        read_speaker_table(path, TEXT_VOCAB_SIZE, SPEECH_VOCAB_SIZE)
