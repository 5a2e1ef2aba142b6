"""Stage: the vocoder, from the teachers' mel, F0 and phase to their samples."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from firstword.models.config import NUM_MELS, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME, HiFTConfig, MelConfig
from firstword.models.frontend.features import MelExtractor
from firstword.models.hift.hift import HiFT
from firstword.models.layers import FullContext
from training import corpus, features, trainer
from training.features import MEL, STEPS_PER_FRAME
from training.half import autocast
from training.phase import AlignedLoss, aligned_source
from training.phone_recogniser import trained_recogniser, unlike
from training.settings import Settings

STAGE = "vocoder"
_RESOLUTIONS = ((2048, 300), (1024, 150), (512, 75), (256, 40))  # n_fft, hop: no multiple of another
_FLOOR = 1e-5  # of a bin's power: far below what is heard, above the teachers' rounding to 16 bits
_BANDS = ((4_000, 1.0), (8_000, 0.7), (SAMPLE_RATE_HZ // 2, 0.4))  # up to Hz, a bin's weight
_SHORT_MELS = ((1024, 256, 80), (512, 128, 64))  # n_fft, hop, bins, beside the flow's own mel
_MEL_WEIGHT = 2.0
_SHORT_MEL_WEIGHT = 1.0
_F0_WEIGHT = 0.02  # a Hz
_RECOGNISED_WEIGHT = 1.0  # of each of the two things that the recogniser of phones says


@dataclass(frozen=True, slots=True)
class Recording:
    """One utterance as the vocoder learns it: T mel frames."""

    mel: NDArray[np.float16]  # (T, 80)
    f0_hz: NDArray[np.float16]  # (T,)
    samples: NDArray[np.int16]  # (480 T,)
    cycles: NDArray[np.float64]  # (8 T + 1,)
    phones: NDArray[np.uint8]  # (T,)
    knows_phase: bool


def run(settings: Settings) -> None:
    """Writes <folder>/vocoder.pt."""
    plan = settings.vocoder
    dice = trainer.seeded(settings, STAGE)
    recordings = read_recordings(settings)
    model = build(settings)
    if not (settings.path / f"{STAGE}.pt").exists():
        initialise(model, np.concatenate([one.mel for one in recordings[::40]]))
    distances = Distances(settings, recordings, dice)

    def losses_of(_: float) -> trainer.Losses:
        return distances(model, plan.train.batch).losses

    trainer.train(settings, plan.train, model, dice, losses_of)


class Compared(NamedTuple):
    """A batch that was made, what it should have been, and how far it is from that."""

    made: Tensor  # (B, N)
    wanted: Tensor  # (B, N)
    losses: trainer.Losses


class Distances:
    """Draws batches and measures the vocoder on them by everything but discriminators."""

    def __init__(self, settings: Settings, recordings: list[Recording], dice: trainer.Dice) -> None:
        self._plan, self._recordings, self._dice = settings.vocoder, recordings, dice
        self._spectra, self._aligned = SpectralLoss(), AlignedLoss(settings.vocoder.aligned_hz)
        self._recogniser = trained_recogniser(settings)

    def __call__(self, model: HiFT, batch: int) -> Compared:
        plan, dice = self._plan, self._dice
        drawn = _draw(self._recordings, plan.crop_frames, batch, dice.numpy)
        noise = torch.randn(drawn[2].shape, generator=dice.torch)
        mel, f0, samples, cycles, phones, is_known, noise = trainer.on_device((*drawn, noise))
        f0_error = (model.f0(mel, FullContext()).float() - f0).abs().mean()
        source = aligned_source(model.source, f0, cycles, model.source.drawn_noise(noise))
        made = decode(model, mel, source, plan.is_half)
        errors = self._spectra(made, samples)
        phase = self._aligned(made, samples, f0, is_known)
        mels = _MEL_WEIGHT * errors.mel + _SHORT_MEL_WEIGHT * errors.short_mel
        magnitudes = errors.convergence + errors.magnitude + mels
        heard = unlike(self._recogniser, errors.made_mel.mT, mel.mT, phones)
        clear, matched = (one.mean() for one in heard)
        recognised = _RECOGNISED_WEIGHT * (clear + matched)
        losses = {
            "loss": magnitudes + _F0_WEIGHT * f0_error + plan.aligned_weight * phase + recognised,
            "convergence": errors.convergence,
            "magnitude": errors.magnitude,
            "mel": errors.mel,
            "short mel": errors.short_mel,
            "phase": phase,
            "f0": f0_error,
            "phones clear": clear,
            "phones matched": matched,
        }
        return Compared(made, samples, losses)


def read_recordings(settings: Settings) -> list[Recording]:
    """Of at most `shards` shards of each voice of the corpus that has features; short ones are left out."""
    recordings = []
    for shard in features.shard_names(settings, settings.vocoder.shards):
        spoken = corpus.read_shard(settings.path / "corpus" / f"{shard}.npz")
        for one, (_, said, knows_phase) in zip(features.read_shard(settings, shard), spoken, strict=True):
            cycles = np.append(said.cycles, 2 * said.cycles[-1] - said.cycles[-2])
            recordings.append(Recording(one.mel, one.f0_hz, said.samples, cycles, one.phones, knows_phase))
    return [one for one in recordings if len(one.mel) >= settings.vocoder.crop_frames]


def config(settings: Settings) -> HiFTConfig:
    plan = settings.vocoder
    return HiFTConfig(
        sample_rate_hz=SAMPLE_RATE_HZ,
        base_channels=plan.channels,
        upsample_rates=(8, 5, 3),
        upsample_kernel_sizes=(16, 11, 7),
        resblock_kernel_sizes=plan.kernels,
        resblock_dilation_sizes=tuple((1, 3, 5) for _ in plan.kernels),
        source_resblock_kernel_sizes=(7, 7, 11),
        source_resblock_dilation_sizes=((1, 3, 5),) * 3,
        f0_channels=plan.f0_channels,
        num_harmonics=plan.harmonics,
        is_causal=False,
    )


def build(settings: Settings) -> HiFT:
    return HiFT(config(settings))


@torch.no_grad()
def initialise(model: HiFT, mel: NDArray[np.float16]) -> None:
    """The first convolutions see the mel as if it were normalised; the residual branches begin small."""
    mean, std = (
        torch.from_numpy(mel.astype(np.float32).mean(0)),
        torch.from_numpy(mel.astype(np.float32).std(0)),
    )
    first = model.f0.layers[0]
    assert isinstance(first, nn.Conv1d), first
    for conv in (model.generator.conv_pre, first):
        assert conv.bias is not None, conv
        conv.weight.div_(std[:, None])
        conv.bias.sub_((conv.weight * mean[:, None]).sum((1, 2)))
    for name, parameter in model.generator.named_parameters():
        if ".convs2." in name and name.endswith("weight"):
            parameter.mul_(0.3)
    model.f0.classifier.weight.mul_(100)
    model.f0.classifier.bias.fill_(80.0)


def decode(model: HiFT, mel: Tensor, source: Tensor, is_half: bool) -> Tensor:
    """As HiFT.decode; with `is_half` the body runs in bfloat16 where the machine computes in it. The last
    convolution and the Fourier transforms never do: their rounding would be a noise at -48 dB that no
    training can take away."""
    spectrum = model.stft.analyze(model.stft.centered(source))
    with autocast(mel.device.type, is_half):
        features = model.generator.features(mel, spectrum, FullContext())
    return model.waveform(model.generator.spectrum(features.float(), FullContext()), source.shape[-1])


class SpectralErrors(NamedTuple):
    convergence: Tensor  # ()
    magnitude: Tensor  # (), of the logarithms, low bands first
    mel: Tensor  # (), of the flow's log-mel
    short_mel: Tensor  # (), of log-mels of shorter windows
    made_mel: Tensor  # (B, 80, T), the flow's log-mel of what was made


class SpectralLoss:
    """Multi-resolution spectra (arXiv 1910.11480), the mel of the flow and mels of shorter windows."""

    def __init__(self) -> None:
        device = trainer.device()
        self._windows = {n_fft: torch.hann_window(n_fft).to(device) for n_fft, _ in _RESOLUTIONS}
        self._weights = {n_fft: _band_weights(n_fft).to(device) for n_fft, _ in _RESOLUTIONS}
        self._mel = MelExtractor(MEL, device)
        self._short_mels = [
            MelExtractor(MelConfig(SAMPLE_RATE_HZ, n_fft, hop, n_fft, num_mels=bins), device)
            for n_fft, hop, bins in _SHORT_MELS
        ]

    def __call__(self, made: Tensor, wanted: Tensor) -> SpectralErrors:
        """made, wanted (B, N)."""
        convergence, magnitude = made.new_zeros(()), made.new_zeros(())
        for n_fft, hop in _RESOLUTIONS:
            a, b = (self._magnitudes(x, n_fft, hop) for x in (made, wanted))
            convergence = convergence + (a - b).norm() / b.norm()
            magnitude = magnitude + ((a.log() - b.log()).abs() * self._weights[n_fft]).mean()
        made_mel = self._mel(made)
        short = [(mel(made) - mel(wanted)).abs().mean() for mel in self._short_mels]
        return SpectralErrors(
            convergence / len(_RESOLUTIONS),
            magnitude / len(_RESOLUTIONS),
            (made_mel - self._mel(wanted)).abs().mean(),
            torch.stack(short).mean(),
            made_mel,
        )

    def _magnitudes(self, samples: Tensor, n_fft: int, hop: int) -> Tensor:
        """(B, N) -> (B, bins, frames)."""
        spectrum = torch.stft(samples, n_fft, hop, window=self._windows[n_fft], return_complex=True)
        return (spectrum.real.square() + spectrum.imag.square() + _FLOOR).sqrt()


def _band_weights(n_fft: int) -> Tensor:
    """-> (bins, 1), 1 in the mean."""
    hz = torch.linspace(0, SAMPLE_RATE_HZ / 2, n_fft // 2 + 1)
    weights = torch.zeros(len(hz))
    for top_hz, weight in reversed(_BANDS):
        weights[hz <= top_hz] = weight
    return (weights / weights.mean())[:, None]


def _draw(
    recordings: list[Recording], frames: int, number: int, rng: np.random.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """-> mel (B, 80, T), F0 (B, T), samples (B, 480 T), cycles (B, 8 T + 1), phones (B, T), is known (B,)."""
    places = rng.integers(len(recordings), size=number)
    rows = []
    for place in places:
        one = recordings[place]
        start = rng.integers(len(one.mel) - frames + 1)
        samples = one.samples[start * SAMPLES_PER_FRAME :][: frames * SAMPLES_PER_FRAME]
        cycles = one.cycles[start * STEPS_PER_FRAME :][: frames * STEPS_PER_FRAME + 1]
        mel, f0, phones = (column[start:][:frames] for column in (one.mel, one.f0_hz, one.phones))
        rows.append((mel.T, f0, samples, cycles, phones))
    columns = (torch.from_numpy(np.stack(column)) for column in zip(*rows, strict=True))
    mel, f0, samples, cycles, phones = columns
    assert mel.shape[1] == NUM_MELS, mel.shape
    is_known = torch.tensor([recordings[place].knows_phase for place in places])
    return mel.float(), f0.float(), samples.float() / 32768, cycles, phones.long(), is_known
