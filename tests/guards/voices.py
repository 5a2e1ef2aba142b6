"""The built-in voice as it is served on a CPU, by graphs, and as on a GPU, by torch's own calls."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from firstword.app.engine.loading import load_networks
from firstword.app.engine.runtimes import first_hop_tokens
from firstword.app.options import BUILTIN_CHECKPOINT, NetworkOptions
from firstword.app.settings import SETTINGS
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import SamplingConfig
from firstword.models.flow.flow import Flow
from firstword.models.harmonic_vocos.network import HarmonicVocos
from firstword.models.lm.decoder import RowRequest, SpeechDecoder, SpeechLM
from firstword.models.lm.plan import LengthRatios, OfflinePlan
from firstword.models.token2wav import Token2Wav
from firstword.models.token2wav_step import StepInput
from tests.guards.counting import Work, work_of
from tests.models.networks import random_ids

Kind = Literal["graphs", "torch"]
KINDS: tuple[Kind, ...] = ("graphs", "torch")
DEFAULTS: dict[str, Any] = {name: setting.default for name, setting in SETTINGS.items()}
FIRST_HOP_TOKENS = first_hop_tokens(NetworkOptions(device="cpu"))


@dataclass(frozen=True, slots=True, eq=False)
class Voice:
    session: Token2Wav
    prompt: Any
    lm: SpeechLM
    sampling: SamplingConfig

    def start(self, count: int) -> list[Any]:
        return [self.session.start(self.prompt, seed) for seed in range(count)]

    def feed(self, states: Sequence[Any]) -> None:
        """What each needs for its next chunk. All stand at the same place."""
        wanted = self.session.tokens_wanted(states[0])
        self.session.step([StepInput(state, random_ids(1, wanted), False) for state in states])

    @cache  # noqa: B019  of the two voices there are
    def chunk_work(self, num_streams: int, *places: int) -> list[Work]:
        """Of the chunks at these places of one run, the first place first."""
        states, found, num_fed = self.start(num_streams), list[Work](), 0
        for place in places:
            while num_fed < place:
                self.feed(states)
                num_fed += 1
            found.append(work_of(lambda: self.feed(states)))
            num_fed += 1
        return found

    def decoder(self, num_rows: int) -> SpeechDecoder:
        """Rows that have begun and will not end soon."""
        decoder = SpeechDecoder(self.lm, self.sampling)
        text, prompt = list(range(20)), list(range(40))
        for seed in range(num_rows):
            plan = OfflinePlan(self.lm.vocabulary, text, text, prompt, LengthRatios(30, 30))
            decoder.add(RowRequest(plan, seed))
        for _ in range(num_rows):  # one new row a step
            decoder.step()
        return decoder


@cache
def voice(kind: Kind) -> Voice:
    if kind == "torch":
        flow, vocoder = torch_networks()
        checkpoint = open_checkpoint(BUILTIN_CHECKPOINT)
        session, lm = Token2Wav(flow, vocoder, DEFAULTS["window_s"]), checkpoint.load_lm()
    else:
        networks = load_networks(NetworkOptions(backend="torch", device="cpu"))
        assert networks.lm is not None
        checkpoint, lm = networks.checkpoint, networks.lm
        assert isinstance(networks.token2wav, Token2Wav)
        session = networks.token2wav
    speaker = next(iter(checkpoint.load_speakers().values()))
    prompt = session.compute_prompt_state(speaker, FIRST_HOP_TOKENS)
    return Voice(session, prompt, lm, checkpoint.config.lm.sampling)


@cache
def torch_networks() -> tuple[Flow, HarmonicVocos]:
    """Those of the voice "torch", whose calls can be counted."""
    checkpoint = open_checkpoint(BUILTIN_CHECKPOINT)
    flow, vocoder = checkpoint.load_flow(), checkpoint.load_vocoder()
    assert isinstance(flow, Flow)
    assert isinstance(vocoder, HarmonicVocos)
    return flow, vocoder
