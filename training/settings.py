"""The settings of the recipe, read from voice.yaml."""

import dataclasses
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import yaml

from firstword.models.config import SamplingConfig

DEFAULT = Path(__file__).parent / "voice.yaml"
BUILTIN = Path(__file__).parent.parent / "models" / "builtin"  # the checkpoint that is shipped
_T = TypeVar("_T")
Reading = Literal["letters", "phonemes"]


class SettingsError(ValueError):
    """A settings file that lacks something or says something unknown."""


@dataclass(frozen=True, slots=True)
class CorpusSettings:
    everyday: int
    examples: int
    definitions: int
    prose: int
    names: int
    documents: int
    words: int
    drills: int
    short: int
    long: int
    shard: int


@dataclass(frozen=True, slots=True)
class VoiceSettings:
    """One speaker of the corpus."""

    name: str
    teacher: str  # as training.teachers.open_teacher takes it
    share: int  # of the corpus, beside the others' shares
    is_shipped: bool  # as a speaker of the checkpoint; others only make it know more voices
    accent: str = ""  # one of ACCENTS, where the teacher has it


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """How a network is trained: AdamW, a rate that rises, stays and falls, gradients clipped to a norm.

    bf16: computed in bfloat16 on machines that have arithmetic for it. muon: the matrices inside by Muon,
    tables, the first and the last layers by AdamW as before.
    """

    steps: int
    batch: int
    rate: float
    warmup: int  # steps
    fall: float  # share of the steps
    weight_decay: float
    beta1: float
    beta2: float
    clip: float
    bf16: bool
    threads: int
    muon: bool


@dataclass(frozen=True, slots=True)
class SpeechTokenizerSettings:
    shards: int  # of each voice
    crop_tokens: int
    frame_width: int
    token_width: int
    recogniser: TrainSettings
    train: TrainSettings


@dataclass(frozen=True, slots=True)
class PronunciationSettings:
    """Of the network that reads what the dictionary does not have."""

    width: int
    layers: int
    train: TrainSettings


@dataclass(frozen=True, slots=True)
class LanguageModelSettings:
    reads: Reading  # letters, or the phonemes that training/pronunciation writes for them
    merges: int  # of the text tokenizer, where letters are read
    mix_ratio: tuple[int, int]  # text tokens : speech tokens, where they are interleaved
    width: int
    feedforward: int
    layers: int
    heads: int
    kv_heads: int
    max_tokens: int  # speech tokens of a row, its prompt included
    sampling: SamplingConfig  # of the exported checkpoint
    train: TrainSettings  # its batch: positions, not rows


@dataclass(frozen=True, slots=True)
class AccentSettings:
    """Of the language model's own text tokens for accents."""

    train: TrainSettings  # its batch: positions, not rows


@dataclass(frozen=True, slots=True)
class SpeakerEncoderSettings:
    recordings: int  # of each teacher
    width: int
    train: TrainSettings


@dataclass(frozen=True, slots=True)
class FlowSettings:
    encoder_width: int
    encoder_feedforward: int
    encoder_layers: int  # before the upsampling; four follow
    width: int
    heads: int
    head_dim: int
    mid_blocks: int
    solver_steps: int  # with guidance, of the exported checkpoint before it is distilled
    train: TrainSettings  # its batch: speech tokens, not rows


@dataclass(frozen=True, slots=True)
class FlowEnrolmentSettings:
    """Of the flow's second training, by which registered speakers resemble their recordings."""

    kept_weight: float  # of what is changed for the shipped speakers
    taught: tuple[str, ...]  # the shipped speakers whose teachers go on teaching
    taught_share: float  # rows of them for each row of a voice that is not shipped
    train: TrainSettings  # its batch: speech tokens, half of voices that are not shipped, half of those kept


@dataclass(frozen=True, slots=True)
class FlowDistilSettings:
    """Of the flow's third training, after which it needs no guidance."""

    solver_steps: int  # of the exported checkpoint
    train: TrainSettings  # its batch: speech tokens


@dataclass(frozen=True, slots=True)
class SpeakerEmbeddingsSettings:
    """Of the speakers whose embeddings are tuned after the export, being understood worse than others."""

    tuned: tuple[str, ...]  # the speakers
    crop_tokens: int
    kept_weight: float  # of the mean distance between the mels (natural log) before and now
    train: TrainSettings  # its batch: rows of crop_tokens


@dataclass(frozen=True, slots=True)
class HarmonicVocosSettings:
    shards: int  # of each voice
    channels: int
    layers: int
    f0_channels: int
    f0_layers: int
    told_frames: int  # of a crop whose spectra are told
    told_rows: int  # of a batch, once other voices are in it
    crop_frames: int  # of the others
    altered_every: int  # the others' recordings of which one comes a second time, altered
    train: TrainSettings


@dataclass(frozen=True, slots=True)
class ThroughFlowSettings:
    """Of the tokenizer's second training, against the flow."""

    crop_tokens: int
    train: TrainSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class MandarinVoiceSettings(VoiceSettings):
    """One speaker of what is said in Mandarin."""

    median_hz: float  # of its pitch in finals, from which the registers of units are counted
    unheard_share: int = 0  # of the unheard texts, beside the others' shares


@dataclass(frozen=True, slots=True)
class MandarinCorpusSettings:
    """How many texts of each kind, and how many a file has."""

    sentences: int
    joined: int  # two sentences
    mixed: int  # with words of both languages
    words: int  # one to three everyday words
    phrases: int  # two to eight words of a dictionary
    english: int  # of those that the English corpus says
    shard: int


@dataclass(frozen=True, slots=True)
class MandarinLanguageModelSettings:
    """Of the language model's second language."""

    english_share: float  # of the batches
    english_weight: float  # of how far English has moved from the language model before
    guide_weight: float
    train: TrainSettings  # its batch: positions, not rows


@dataclass(frozen=True, slots=True)
class MandarinFlowSettings:
    """Of the flow's second language, with guidance."""

    kept_weight: float  # of how far `mu` of English tokens has moved
    recogniser: TrainSettings
    train: TrainSettings  # its batch: speech tokens


@dataclass(frozen=True, slots=True)
class MandarinFlowDistilSettings:
    """Of the flow that needs no guidance for either language."""

    english_share: float  # of the steps
    foreign_share: float  # of the steps: Mandarin behind an English speaker's prompt
    train: TrainSettings  # its batch: speech tokens


@dataclass(frozen=True, slots=True)
class MandarinVocoderSettings:
    """Of the vocoder's last training, with Mandarin's voices."""

    english_shards: int  # of each voice
    other_rows: int  # of English, learned as Mandarin is; and as many of which the filters are held
    other_weight: float
    kept_weight: float  # of how far those filters have moved, in parts of their size
    plain_share: float  # of the training, before discriminators join
    adversary_channels: int
    adversary_times: float  # the discriminators' rate, beside the vocoder's
    fooled_weight: float  # of what the discriminators say of it
    matched_weight: float  # of how far their layers are from what they are for the teacher
    train: TrainSettings  # its batch: rows of Mandarin


@dataclass(frozen=True, slots=True)
class MandarinSettings:
    """Of the second language, which is learned where its stages are named."""

    is_shipped: bool  # by the checkpoint; else it speaks English alone
    voices: tuple[MandarinVoiceSettings, ...]
    corpus: MandarinCorpusSettings
    unheard: MandarinCorpusSettings  # of which the language model learns the speech tokens alone
    language_model: MandarinLanguageModelSettings
    flow: MandarinFlowSettings
    flow_distil: MandarinFlowDistilSettings
    vocoder: MandarinVocoderSettings


@dataclass(frozen=True, slots=True)
class Settings:
    folder: str
    seed: int
    processes: int
    voices: tuple[VoiceSettings, ...]
    unseen: tuple[str, ...]  # teachers that nothing is trained with: registered speakers are judged by them
    corpus: CorpusSettings
    speech_tokenizer: SpeechTokenizerSettings
    pronunciation: PronunciationSettings
    language_model: LanguageModelSettings
    accents: AccentSettings
    harmonic_vocos: HarmonicVocosSettings
    speaker_encoder: SpeakerEncoderSettings
    flow: FlowSettings
    flow_enrolment: FlowEnrolmentSettings
    flow_distil: FlowDistilSettings
    tokenizer_through_flow: ThroughFlowSettings
    speaker_embeddings: SpeakerEmbeddingsSettings
    mandarin: MandarinSettings

    @property
    def path(self) -> Path:
        return Path(self.folder)

    def teacher_of(self, name: str) -> str:
        """What open_teacher takes; of a name that is no voice, the voice of flite that is called so."""
        voices = (*self.voices, *self.mandarin.voices)
        return next((voice.teacher for voice in voices if voice.name == name), f"flite {name}")

    def accent_of(self, name: str) -> str:
        """Of a voice; "" for the language model's own."""
        return next((voice.accent for voice in self.voices if voice.name == name), "")

    @property
    def languages(self) -> tuple[str, ...]:
        """What the checkpoint speaks."""
        return ("en", "zh") if self.reads_mandarin and self.mandarin.is_shipped else ("en",)

    @property
    def reads_mandarin(self) -> bool:
        """Whether the front end of training reads Chinese characters, so that Mandarin can be learned. It
        cannot where letters are read."""
        return bool(self.mandarin.voices) and self.language_model.reads == "phonemes"

    @property
    def spoken_accents(self) -> tuple[str, ...]:
        """Those that some voice has, in the order of their text tokens; none where letters are read."""
        if self.language_model.reads == "letters":
            return ()
        return tuple(sorted({voice.accent for voice in self.voices} - {""}))

    @property
    def shipped(self) -> tuple[str, ...]:
        """Of the voices, the names of those that are speakers of the checkpoint."""
        return tuple(voice.name for voice in self.voices if voice.is_shipped)

    @property
    def mandarin_shipped(self) -> tuple[str, ...]:
        """Those of the second language."""
        return tuple(voice.name for voice in self.mandarin.voices if voice.is_shipped)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the voices, in the order in which networks count them."""
        return tuple(voice.name for voice in self.voices)


# No checkpoint says the first, voices have the usual accent, and most of Mandarin's say nothing unheard.
OPTIONAL = ("temperature", "accent", "unheard_share")


def read_settings(path: Path = DEFAULT) -> Settings:
    """Raises SettingsError naming what is missing, unknown or of another type."""
    return _read(Settings, yaml.safe_load(path.read_text()), path.name)


def _read(kind: type[_T], values: Any, where: str) -> _T:
    if not isinstance(values, dict):
        raise SettingsError(f"{where}: expected fields, got {values!r}")
    hints = get_type_hints(kind)
    names = [name for name in hints if name in values or name not in OPTIONAL]
    if set(values) != set(names):
        missing, unknown = sorted(set(names) - set(values)), sorted(set(values) - set(names))
        raise SettingsError(f"{where}: missing {missing}, unknown {unknown}")
    return kind(**{name: _value(hints[name], values[name], f"{where}.{name}") for name in names})


def _values(kinds: tuple[Any, ...], values: Any, where: str) -> tuple[Any, ...]:
    """kinds: of each value, or one and an ellipsis for any number of them."""
    if not isinstance(values, list):
        raise SettingsError(f"{where}: expected a list, got {values!r}")
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(values)
    if len(values) != len(kinds):
        raise SettingsError(f"{where}: expected a list of {len(kinds)}, got {values!r}")
    return tuple(_value(kind, value, where) for kind, value in zip(kinds, values, strict=True))


def _value(kind: Any, value: Any, where: str) -> Any:
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _read(kind, value, where)
    if isinstance(kind, types.GenericAlias):
        return _values(kind.__args__, value, where)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise SettingsError(f"{where}: expected {' or '.join(get_args(kind))}, got {value!r}")
        return value
    if kind is float and isinstance(value, int):
        return float(value)
    if type(value) is not kind:
        raise SettingsError(f"{where}: expected {kind.__name__}, got {value!r}")
    return value
