"""`python -m training.samples`: each speaker of the built-in voice in a file to listen to.

Written anew whenever the shipped weights change; docs/voice.md links to them.
"""

from pathlib import Path

from firstword.app.synthesizer import Synthesizer
from firstword.models.checkpoint.open import open_checkpoint
from training.settings import BUILTIN

FOLDER = Path(__file__).parent.parent / "docs" / "samples"
TEXTS = {
    "en": "The last train to the coast leaves at seven thirty.",
    "zh": "最后一班去海边的火车七点半开。",
}
MIXED = "lotus-mixed", "lotus", "我用 Python 写了一个小程序，下午发到你的 email 里。"  # noqa: RUF001


def spoken() -> list[tuple[str, str, str]]:
    """File names without their suffix, speakers and texts: each speaker in its own language, one in both."""
    checkpoint = open_checkpoint(BUILTIN)
    described = checkpoint.load_descriptions()
    own = [
        (name, name, TEXTS[described[name].language.partition("-")[0]]) for name in checkpoint.load_speakers()
    ]
    return [*own, MIXED]


def main() -> None:
    """Write docs/samples/<name>.opus."""
    FOLDER.mkdir(exist_ok=True)
    with Synthesizer.open(BUILTIN) as voice:
        for name, speaker, text in spoken():
            voice.save(FOLDER / f"{name}.opus", text, speaker=speaker, seed=0)


if __name__ == "__main__":
    main()
