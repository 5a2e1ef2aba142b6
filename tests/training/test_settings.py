"""What the recipe makes unless it is told otherwise."""

from dataclasses import replace
from pathlib import Path

from tests.training.recipe import tiny_settings
from training.__main__ import STAGES, stages_of
from training.settings import read_settings


def test_what_is_shipped_is_english_and_mandarin() -> None:
    settings = read_settings()
    assert settings.languages == ("en", "zh")
    assert settings.mandarin_shipped == ("lotus", "bamboo", "crane", "plum")
    assert stages_of(settings) == list(STAGES)


def test_mandarins_stages_do_not_run_where_it_is_not_shipped() -> None:
    settings = read_settings()
    alone = replace(settings, mandarin=replace(settings.mandarin, is_shipped=False))
    assert alone.languages == ("en",)
    assert alone.reads_mandarin
    assert not [stage for stage in stages_of(alone) if "mandarin" in stage]


def test_mandarins_stages_run_before_the_export_where_it_is_shipped(tmp_path: Path) -> None:
    settings = tiny_settings(tmp_path)
    assert settings.languages == ("en", "zh")
    assert stages_of(settings)[-4:] == [
        "mandarin_flow_distil",
        "mandarin_vocoder",
        "export",
        "speaker_embeddings",
    ]


def test_mandarin_is_not_learned_without_voices_or_where_letters_are_read(tmp_path: Path) -> None:
    settings = tiny_settings(tmp_path)
    letters = replace(settings.language_model, reads="letters")
    silent = replace(settings.mandarin, voices=())
    for one in (replace(settings, language_model=letters), replace(settings, mandarin=silent)):
        assert not one.reads_mandarin
        assert one.languages == ("en",)
