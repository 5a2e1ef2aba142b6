"""What `firstword triton init` writes, read as tritonserver reads it."""

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from firstword.app.hosts.triton.repository import RepositoryOptions, config_text, write_repository
from firstword.app.surfaces.inference.models import models_of
from tests.commands.typed import refused, run


def config_of(path: Path) -> Any:
    return text_format.Parse(path.read_text(encoding="utf-8"), model_config_pb2.ModelConfig())


@pytest.mark.parametrize("family", ["cosyvoice2", "cosyvoice3"])
def test_every_model_has_the_tensors_of_our_own_server(family: str, tmp_path: Path) -> None:
    names = write_repository(tmp_path, RepositoryOptions("/models/voice", family))
    assert names == [family, "audio_tokenizer", "speaker_embedding", "token2wav", "vocoder"]
    for model in models_of(family, gives_mel=family == "cosyvoice3").values():
        config = config_of(tmp_path / model.name / "config.pbtxt")
        assert (config.name, config.backend, config.max_batch_size) == (model.name, "python", 16)
        assert config.model_transaction_policy.decoupled == (model.name == family)
        for spec, tensor in zip((*model.inputs, model.output), (*config.input, *config.output), strict=True):
            assert (tensor.name, tuple(tensor.dims)) == (spec.name, spec.dims)
            kind = "STRING" if spec.datatype == "BYTES" else spec.datatype
            assert model_config_pb2.DataType.Name(tensor.data_type) == f"TYPE_{kind}"
        assert [tensor.optional for tensor in config.input] == [spec.is_optional for spec in model.inputs]
        assert (tmp_path / model.name / "1/model.py").exists()
    assert config_of(tmp_path / "token2wav/config.pbtxt").dynamic_batching.priority_levels == 100


def test_options_are_filled_in_and_a_second_call_writes_anew(tmp_path: Path) -> None:
    words = (
        f"triton init builtin {tmp_path} --max-batch-size 4 --queue-delay-us 300 --instances 2 --no-decoupled"
    )
    assert run("triton", "init", "builtin", str(tmp_path)).exit_code == 0
    result = run(*words.split())
    assert result.exit_code == 0, result.output
    speech, vocoder = (config_of(tmp_path / name / "config.pbtxt") for name in ("cosyvoice2", "vocoder"))
    assert (speech.max_batch_size, vocoder.max_batch_size) == (4, 4)
    assert speech.dynamic_batching.max_queue_delay_microseconds == 300
    assert not speech.model_transaction_policy.decoupled
    assert [config.instance_group[0].count for config in (speech, vocoder)] == [2, 1], "one engine has stages"
    assert speech.parameters["model_dir"].string_value == "builtin"


def test_paths_are_quoted() -> None:
    folder = '/models/a "b" \\c'
    model = models_of("cosyvoice2", gives_mel=False)["cosyvoice2"]
    text = config_text(model, RepositoryOptions(folder, "cosyvoice2"))
    parameters = text_format.Parse(text, model_config_pb2.ModelConfig()).parameters
    assert parameters["model_dir"].string_value == folder


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    assert "nothing" in refused("triton", "init", str(tmp_path / "nothing"), str(tmp_path / "models"))
    assert not (tmp_path / "models").exists()
