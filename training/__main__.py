"""`python -m training [stage ...]`: the stages of what is shipped in their order, or those named."""

import argparse
import importlib
from pathlib import Path

from training.settings import DEFAULT, Settings, read_settings

STAGES = {  # and their modules
    "corpus": "corpus",
    "features": "features",
    "harmonic_vocos": "harmonic_vocos",
    "speech_tokenizer": "speech_tokenizer",
    "speaker_encoder": "speaker_encoder",
    "flow": "flow",
    "flow_enrolment": "flow_enrolment",
    "tokenizer_through_flow": "tokenizer_through_flow",
    "flow_distil": "flow_distil",
    "pronunciation": "pronunciation.stage",
    "language_model": "language_model",
    "accents": "accents",
    "mandarin_speech": "mandarin.speech",
    "mandarin_language_model": "mandarin.language_model",
    "mandarin_flow": "mandarin.flow",
    "mandarin_flow_distil": "mandarin.flow_distil",
    "mandarin_vocoder": "mandarin.vocoder",
    "export": "export",
    "speaker_embeddings": "speaker_embeddings",
}


def stages_of(settings: Settings) -> list[str]:
    """Those that make what is shipped: Mandarin's only where it is."""
    return [stage for stage in STAGES if "zh" in settings.languages or not _is_mandarin(stage)]


def _is_mandarin(stage: str) -> bool:
    return STAGES[stage].startswith("mandarin.")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training", description="Builds the built-in voice.")
    parser.add_argument(
        "stages",
        nargs="*",
        metavar="stage",
        help=f"of {', '.join(STAGES)}; those of what is shipped when none is named",
    )
    parser.add_argument("--settings", type=Path, default=DEFAULT)
    arguments = parser.parse_args()
    if unknown := set(arguments.stages) - STAGES.keys():
        parser.error(f"no stage is named {', '.join(sorted(unknown))}; there are {', '.join(STAGES)}")
    settings = read_settings(arguments.settings)
    for stage in arguments.stages or stages_of(settings):
        if settings.reads_mandarin or not _is_mandarin(stage):
            importlib.import_module(f"training.{STAGES[stage]}").run(settings)


if __name__ == "__main__":
    main()
