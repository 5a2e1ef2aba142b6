"""`firstword alignment-heads`."""

import shutil
from pathlib import Path

import pytest

from firstword.models.checkpoint import alignment_heads
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.checkpoint.traits import Traits
from firstword.models.config import TRAITS_FILE
from tests.commands.typed import refused, run
from tests.support.checkpoints import copied_checkpoint, small_checkpoint

BUILTIN = Path(__file__).parents[2] / "models" / "builtin"


@pytest.fixture(autouse=True)
def _one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/models/test_alignment_heads.py has all of them spoken."""
    monkeypatch.setattr(alignment_heads, "_TEXTS", {"en": ("The kettle was boiling.",)})


def test_what_is_found_is_printed_and_written(tmp_path: Path) -> None:
    voice = Path(shutil.copytree(BUILTIN, tmp_path / "voice"))
    (voice / TRAITS_FILE).write_text('{"languages": ["en"]}')
    result = run("alignment-heads", str(voice))
    assert result.exit_code == 0, result.output
    traits = open_checkpoint(voice).traits
    layer, head = traits.alignment_heads[0]
    assert layer in (2, 3)  # whose heads were trained to follow the text
    assert f"alignment heads {layer}.{head}" in result.stdout.replace("\n", " ")
    assert traits.languages == ("en",)


def test_random_weights_stay_estimated(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    result = run("alignment-heads", str(directory))
    assert result.exit_code == 0, result.output
    assert "No head follows the text" in result.stdout
    assert open_checkpoint(directory).traits == Traits()


def test_another_family_is_refused_in_a_line() -> None:
    assert "of the Qwen2 language models" in refused("alignment-heads", str(small_checkpoint("cosyvoice1")))
