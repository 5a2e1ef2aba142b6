"""Values that would open, and then compute something else than the published networks do."""

from pathlib import Path

import pytest

from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import CheckpointError, Family
from tests.support.checkpoints import copied_checkpoint
from tests.support.damages import config_value, replaced

CHUNK = "static_chunk_size: !ref <chunk_size>"
ESTIMATOR_CHUNK = f"{CHUNK} * <token_mel_ratio>"


@pytest.mark.parametrize(
    ("family", "old", "new", "message"),
    [
        ("cosyvoice3", ESTIMATOR_CHUNK, "static_chunk_size: 1", "static_chunk_size is 1; only 50"),
        ("cosyvoice2", "chunk_size: 25", "chunk_size: 0", "static_chunk_size is 0 in the encoder, 0 in the"),
        ("cosyvoice2", "chunk_size: 25", "chunk_size: 50", "only 25 and 50 are supported"),
        ("cosyvoice2", ESTIMATOR_CHUNK, "static_chunk_size: 1", "1 in the estimator"),
        (
            "cosyvoice1",
            "input_frame_rate: 50",
            "input_frame_rate: 25",
            "is 25; only CosyVoice 1's recipe of 50",
        ),
        ("cosyvoice1", "in_channels: 320", "in_channels: 240", "estimator: in_channels is 240; only 320"),
        ("cosyvoice2", "in_channels: 320", "in_channels: 240", "estimator: in_channels is 240; only 320"),
        ("cosyvoice2", "out_channels: 80", "out_channels: 160", "estimator: out_channels is 160; only 80"),
        (
            "cosyvoice2",
            "    in_channels: 80\n    base",
            "    in_channels: 64\n    base",
            "hift: in_channels is 64",
        ),
        ("cosyvoice2", "nb_harmonics: 8", "nb_harmonics: 65", "nb_harmonics is 65; .* from 1 to 64"),
        ("cosyvoice1", "sizes: [16, 16]", "sizes: [16, 15]", "kernel of 15 does not go with a rate of 8"),
        ("cosyvoice2", "sizes: [16, 11, 7]", "sizes: [16, 10, 7]", "kernel of 10 .* rate of 5"),
        ("cosyvoice3", "sizes: [16, 11, 7]", "sizes: [16, 11, 2]", "kernel of 2 .* rate of 3"),
        ("cosyvoice2", "upsample_rates: [8, 5, 3]", "upsample_rates: [8, 3, 3]", "hift makes 288 samples"),
        ("cosyvoice1", "hop_size: 256", "hop_size: 128", "hift makes 256 samples .* is 128"),
        ("cosyvoice2", "sample_rate: 24000", "sample_rate: 22050", "expected 50 frames in a second of 22050"),
        ("cosyvoice2", "win_size: 1920", "win_size: 2048", "win_size 2048 .* n_fft of that .* is 1920"),
        ("cosyvoice2", "fmin: 0", "fmin: 8000", "fmin 8000 is not below fmax 8000"),
        (
            "cosyvoice3",
            "    vocab_size: 6561",
            "    vocab_size: 6560",
            "llm has 6561 speech tokens, flow 6560",
        ),
    ],
)
def test_sizes_of_another_recipe_are_refused(
    tmp_path: Path, family: Family, old: str, new: str, message: str
) -> None:
    directory = copied_checkpoint(tmp_path, family)
    replaced(old, new, f"cosyvoice{family[-1].replace('1', '')}.yaml")(directory)

    with pytest.raises(CheckpointError, match=rf"cosyvoice\d?\.yaml: top level.*{message}"):
        open_checkpoint(directory)


def test_stretched_positions_are_refused(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    config_value("rope_scaling", {"type": "linear", "factor": 2.0})(directory)

    with pytest.raises(CheckpointError, match=r"config\.json: .*rope_scaling is .*; only None is supported"):
        open_checkpoint(directory)


def test_positions_that_are_not_stretched_may_say_so(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    config_value("rope_scaling", None)(directory)

    open_checkpoint(directory)


def test_a_checkpoint_may_say_in_how_many_steps_its_flow_is_solved(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    assert open_checkpoint(directory).config.flow.cfm.num_steps == 10
    rate = "inference_cfg_rate: 0.7"
    replaced(rate, f"{rate}\n                n_timesteps: 4")(directory)
    assert open_checkpoint(directory).config.flow.cfm.num_steps == 4
