"""The published code's side of `bench upstream`: run by its own Python, with nothing of this program.

It calls what the published repository has: the yaml builds the networks, `load`, `tts(stream=True)`, and the
three networks' `inference`, which are timed where `tts` calls them.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

MODELS = {
    "cosyvoice3.yaml": "CosyVoice3Model",
    "cosyvoice2.yaml": "CosyVoice2Model",
}
FIRST_HOP_TOKENS = 25  # the published object keeps the last request's


def load(checkout: Path, directory: Path) -> Any:
    sys.path[:0] = [str(checkout), str(checkout / "third_party" / "Matcha-TTS")]
    from cosyvoice.cli import model as published  # type: ignore[import-not-found]
    from hyperpyyaml import load_hyperpyyaml  # type: ignore[import-not-found]

    name = next((name for name in MODELS if (directory / name).exists()), None)
    if name is None:
        raise SystemExit(f"{directory}: neither of {', '.join(MODELS)} is there")
    with open(directory / name, encoding="utf-8") as file:
        overrides = {"qwen_pretrain_path": str(directory / "CosyVoice-BlankEN")}
        built = load_hyperpyyaml(file, overrides=overrides)
    model = getattr(published, MODELS[name])(built["llm"], built["flow"], built["hift"])
    model.load(*(str(directory / f"{part}.pt") for part in ("llm", "flow", "hift")))
    return model


class Timed:
    """Stands in for a network's `inference`, and keeps what each call took."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call
        self.seconds: list[float] = []

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        began = time.perf_counter()
        answer = self.call(*arguments, **named)
        self.seconds.append(time.perf_counter() - began)
        return answer


class Recorded:
    """Stands in for the language model's `inference`: keeps what it was asked and what it drew."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call
        self.tokens: list[int] = []
        self.seconds: list[float] = []
        self.asked: tuple[tuple[Any, ...], dict[str, Any]] = (), {}

    def __call__(self, *arguments: Any, **named: Any) -> Iterator[Any]:
        self.asked, self.tokens, self.seconds = (arguments, named), [], []
        began = time.perf_counter()
        for token in self.call(*arguments, **named):
            now = time.perf_counter()
            self.seconds.append(now - began)
            self.tokens.append(int(token))
            yield token
            began = time.perf_counter()


def spoken(model: Any, inputs: dict[str, Any]) -> tuple[float, float, int]:
    """Return seconds to the first audio, seconds in all, samples."""
    model.token_hop_len = FIRST_HOP_TOKENS
    began, first, samples = time.perf_counter(), 0.0, 0
    for piece in model.tts(**inputs, stream=True):
        first = first or time.perf_counter() - began
        samples += piece["tts_speech"].shape[-1]
    return first, time.perf_counter() - began, samples


def main(words: Sequence[str]) -> None:
    checkout, directory, inputs, out, threads = words
    torch.set_num_threads(int(threads))
    given = torch.load(inputs, weights_only=True)
    model = load(Path(checkout), Path(directory))
    sample_rate_hz = given.pop("sample_rate_hz")
    with torch.inference_mode():
        llm = model.llm.inference = Recorded(model.llm.inference)
        first_s, all_s, samples = spoken(model, given)  # warms up
        first_s, all_s, samples = spoken(model, given)
        tokens = list(llm.tokens)
        arguments, named = llm.asked
        drawn = list(llm(*arguments, **named))  # alone
        step_s = llm.seconds
        # In turn: the tokens are there at once, so flow and vocoder have the machine for themselves.
        model.llm.inference = lambda *arguments, **named: iter(tokens)
        flow = model.flow.inference = Timed(model.flow.inference)
        hift = model.hift.inference = Timed(model.hift.inference)
        spoken(model, given)
    result = {
        "served_first_s": first_s,
        "served_s": all_s,
        "audio_s": samples / sample_rate_hz,
        "num_tokens": len(tokens),
        "lm_s": sum(step_s),
        "prefill_s": step_s[0],
        "step_s": sorted(step_s[1:])[len(step_s[1:]) // 2] if len(drawn) > 1 else step_s[0],
        "first_lm_tokens_s": step_s,
        "flow_s": flow.seconds,
        "vocoder_s": hift.seconds,
    }
    Path(out).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
