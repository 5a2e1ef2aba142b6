"""Make a registered speaker sound more like its prompt, where flow and vocoder were trained with few voices.

The speaker's embedding moves halfway to the mean of the voices that they know: it tells these apart, and of
a new voice little more than which of them is the nearest. Then the networks speak the prompt again; what
lies between that and the recording is fitted, before the vocoder (`mel_match`) and after it (`equalizer`).
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from firstword.models.config import MelConfig
from firstword.models.frontend.equalizer import fit_equalizer
from firstword.models.frontend.features import MelExtractor
from firstword.models.frontend.mel_match import NO_CHANGE, Voiced, apply_mel_map, fit_mel_map
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.token2wav import Token2Wav
from firstword.models.token2wav_step import StepInput

_TOWARD_MEAN = 0.5  # of the way; measured in docs/voice.md, "Registered speakers"


@torch.inference_mode()
def matched(
    token2wav: Token2Wav,
    speaker: SpeakerFeatures,
    other_tokens: Sequence[int],
    config: MelConfig,
    mean_embedding: Sequence[float] = (),
) -> SpeakerFeatures:
    """Return the speaker with a map of the flow's mel and an equalizer of the vocoder's samples.

    other_tokens: speech that is not in the prompt; mean_embedding: (192,), or nothing where the speaker's own
    shall stay. Raises ValueError for a token that the flow does not know.
    """
    if mean_embedding:
        mean = torch.tensor(mean_embedding, dtype=torch.float32)
        speaker = replace(speaker, embedding=speaker.embedding.lerp(mean, _TOWARD_MEAN))

    def voiced(mel: Tensor) -> Voiced:
        return Voiced(_on_cpu(mel), _on_cpu(token2wav.predict_f0(mel)))

    prompt = token2wav.compute_prompt_state(replace(speaker, mel_map=None, equalizer=None))
    made, other = (
        voiced(token2wav.step_mel(StepInput(token2wav.start(prompt), tokens, is_last=True)))
        for tokens in (speaker.prompt_tokens.tolist(), other_tokens)
    )
    recorded = voiced(speaker.prompt_mel.mT)
    mel_map = fit_mel_map(recorded, made, other, config)
    if torch.equal(mel_map, NO_CHANGE):
        return replace(speaker, mel_map=mel_map, equalizer=None)
    extract = MelExtractor(config)
    spoken = [
        extract(_on_cpu(token2wav.vocode(apply_mel_map(one.mel, mel_map), is_last=True)))
        for one in (made, other)
    ]
    return replace(speaker, mel_map=mel_map, equalizer=fit_equalizer(recorded.mel, spoken, config))


def _on_cpu(x: Tensor) -> Tensor:
    return x.to("cpu", torch.float32)
