"""How far 8 and 4 bits move what the networks say, against float32 on the same inputs.

`python -m bench distances --checkpoint DIR` prints, of the language model, the Kullback-Leibler divergence
of each step's distribution (nats); of the flow, the difference of the natural log-mel; of the speech, and of
the vocoder alone, the difference of the log-mel of the two waveforms. With `--random` the weights are random:
then only a large distance tells something.
"""

import argparse
import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import get_args

import torch
import torch.nn.functional as F
from rich.table import Table
from torch import Tensor

from firstword.app.options import BUILTIN_CHECKPOINT, FEW_BITS
from firstword.bench.arguments import count
from firstword.bench.checkpoints import checkpoint_at
from firstword.bench.networks import random_speaker
from firstword.bench.random_checkpoint import Size
from firstword.bench.terminal import show
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import Family, MelConfig
from firstword.models.flow.flow import Flow
from firstword.models.flow.incremental import FlowNetworks, IncrementalFlow
from firstword.models.frontend.features import MelExtractor
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.hift.hift import HiFT
from firstword.models.hift.streaming import MelChunk, WindowedVocoder
from firstword.models.lm.decoder import Emitted, RowRequest, SpeechDecoder, SpeechLM
from firstword.models.lm.plan import LengthRatios, OfflinePlan
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.networks import Networks
from firstword.models.runtimes.onnx.build import onnx_estimator, onnx_front, onnx_lm
from firstword.models.runtimes.onnx.hift import OnnxGenerator
from firstword.models.runtimes.onnx.state import StatePrecision
from firstword.models.token2wav import Token2Wav
from firstword.models.token2wav_step import StepInput

TEXT_IDS = tuple(range(20))
PROMPT_TOKENS = 75
Distances = dict[str, Tensor]


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench distances", description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=BUILTIN_CHECKPOINT)
    parser.add_argument("--random", choices=get_args(Family)[1:], help="a checkpoint with random weights")
    parser.add_argument("--size", choices=get_args(Size), default="full", help="of the random one")
    parser.add_argument("--tokens", type=count, default=100, help="of speech that are compared")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(words)
    torch.manual_seed(0)
    with checkpoint_at(given.checkpoint, given.random, given.size) as directory:
        checkpoint = open_checkpoint(directory)
        speaker = next(iter(checkpoint.load_speakers().values()), None)
        lm = checkpoint.load_lm()
        assert isinstance(lm, Qwen2LM), "CosyVoice 1 is not measured here"
        ids, divergences = lm_divergences(lm, given.tokens)
        del lm
        flow = checkpoint.load_flow()
        assert isinstance(flow, Flow), "CosyVoice 1 is not measured here"
        speaker = speaker or random_speaker(flow.config.vocab_size, PROMPT_TOKENS)
        found = {f"language model in {name}, nats a step": values for name, values in divergences.items()}
        found |= flow_distances(flow, checkpoint.load_hift(), checkpoint.config.mel, speaker, ids)
    _show(found)
    if given.json:
        report = {name: {"mean": float(x.mean()), "max": float(x.max())} for name, x in found.items()}
        given.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


@torch.inference_mode()
def lm_divergences(lm: Qwen2LM, num_tokens: int) -> tuple[list[int], Distances]:
    """Speech tokens by float32 for some text, and how far fewer bits are from it at each: (num_tokens,)."""
    num_threads = torch.get_num_threads()
    exact = onnx_lm(deepcopy(lm), "float32", num_threads)
    forms = [onnx_lm(deepcopy(lm), precision, num_threads) for precision in FEW_BITS.values()]
    ratio = (num_tokens + 0.5) / len(TEXT_IDS)
    plan = OfflinePlan(lm.vocabulary, TEXT_IDS, (), (), LengthRatios(ratio, ratio))
    decoder = SpeechDecoder(exact, lm.config.sampling)
    decoder.add(RowRequest(plan, seed=0))
    speech_ids: list[int] = []
    while decoder.rows:
        speech_ids += [event.speech_id for event in decoder.step() if isinstance(event, Emitted)]
    vocabulary = lm.vocabulary
    prompt = [vocabulary.sos, *(vocabulary.first_text + id for id in TEXT_IDS), vocabulary.task]
    expected, *found = (_log_probabilities(form, prompt, speech_ids) for form in (exact, *forms))
    return speech_ids, {
        name: F.kl_div(one, expected, log_target=True, reduction="none").sum(-1)
        for name, one in zip(FEW_BITS, found, strict=True)
    }


def _log_probabilities(lm: SpeechLM, prompt: list[int], speech_ids: list[int]) -> Tensor:
    """Log-probabilities before each of the speech tokens, read one by one as they are when drawn: (N, V)."""
    cache = lm.new_cache()
    cache.add_row()
    last = []
    for ids in (prompt, *([id] for id in speech_ids[:-1])):
        context = cache.open_pass(range(1), [len(ids)])
        last.append(lm(lm.embed(torch.tensor([ids])), context)[0, -1:])
        context.commit()
    return lm.logits(torch.cat(last)).log_softmax(-1)


@torch.inference_mode()
def flow_distances(
    flow: Flow, hift: HiFT, mel: MelConfig, speaker: SpeakerFeatures, ids: list[int]
) -> Distances:
    mels, waves = [], []
    forms: list[tuple[bool, StatePrecision]] = [
        (False, "float32"),
        (True, "float32"),
        (False, "int8"),
    ]
    for has_int8, state_precision in forms:
        own = deepcopy(flow)
        num_threads = torch.get_num_threads()
        estimator = onnx_estimator(own, has_int8, num_threads, state_precision)
        networks = FlowNetworks(onnx_front(own, num_threads) or own.front, estimator)
        mels.append(_mel(IncrementalFlow(own, networks), speaker, ids))
        if state_precision != "float32":
            continue
        session = Token2Wav(own, hift, networks=Networks(flow=networks))
        stream = session.start(session.compute_prompt_state(speaker))
        waves.append(session.step([StepInput(stream, ids, is_last=True)])[0])
    log_mel = MelExtractor(mel)
    found = {
        "flow, log-mel": (mels[1] - mels[0]).abs(),
        "waveform, log-mel": (log_mel(waves[1]) - log_mel(waves[0])).abs(),
        "flow's state in int8, log-mel": (mels[2] - mels[0]).abs(),
    }
    if not hift.config.is_causal:
        float32, int8 = (_vocoded(hift, mels[0], has_int8) for has_int8 in (False, True))
        found["vocoder, log-mel"] = (log_mel(int8) - log_mel(float32)).abs()
    return found


def _vocoded(hift: HiFT, mel: Tensor, has_int8: bool) -> Tensor:
    """mel (M, T) -> samples (N,). 8 bits also where the service has float32, since they gain nothing."""
    generator = OnnxGenerator(hift.generator, has_int8, torch.get_num_threads())
    vocoder = WindowedVocoder(hift, generator)
    ((samples, _),) = vocoder.step([MelChunk(vocoder.start(0), mel, is_last=True)])
    return samples


def _mel(flow: IncrementalFlow, speaker: SpeakerFeatures, ids: list[int]) -> Tensor:
    """The mel of a stream without window: (M, T)."""
    num_prompt = min(len(speaker.prompt_tokens), len(speaker.prompt_mel) // 2)
    prompt = flow.solve_prompt(
        speaker.prompt_tokens[:num_prompt].tolist(), speaker.prompt_mel[: 2 * num_prompt], speaker.embedding
    )
    state = flow.start(prompt, None)
    state.pending_tokens += ids
    made = []
    while chunk := flow.next_chunk(state, is_last=True):
        made += flow.solve_chunks([chunk])
    return torch.cat(made, dim=1)


def _show(found: Distances) -> None:
    table = Table(title="few bits against float32", title_justify="left", box=None, pad_edge=False)
    for name in ("", "mean", "max"):
        table.add_column(name, justify="left" if not name else "right")
    for name, values in found.items():
        table.add_row(name, f"{values.mean():.2g}", f"{values.max():.2g}")
    show(table)
