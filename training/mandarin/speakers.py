"""The prompts of the speakers whose own language is Mandarin: in units, which no recording is read as."""

from training.mandarin.speech import Listener, Utterance
from training.settings import Settings

MANDARIN_PROMPT_TEXT = "你好，我的声音是在一台小电脑上做出来的，请多多关照。"  # noqa: RUF001  Chinese commas are meant


def speak_prompts(settings: Settings) -> dict[str, Utterance]:
    """Each shipped one saying MANDARIN_PROMPT_TEXT."""
    if "zh" not in settings.languages:
        return {}
    listener = Listener(settings)
    shipped = [voice for voice in settings.mandarin.voices if voice.is_shipped]
    return {voice.name: listener.listen(voice, MANDARIN_PROMPT_TEXT)[0] for voice in shipped}
