"""Open a model directory of CosyVoice 1, 2 or 3 as its publisher ships it, and load its networks.

Nothing in the directory is executed, and nothing outside it is read. A checkpoint loads exactly or
not at all: everything that is wrong with a file stands in one CheckpointError.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from firstword.models.checkpoint import config_parser
from firstword.models.checkpoint import yaml as hyperyaml
from firstword.models.checkpoint.descriptions import SpeakerDescription, read_descriptions
from firstword.models.checkpoint.names import (
    COSYVOICE1_FLOW,
    DIT_FLOW,
    HIFT,
    QWEN2_LM,
    TRANSFORMER_LM,
    UNET_FLOW,
    Table,
)
from firstword.models.checkpoint.speaker_table import read_speaker_table
from firstword.models.checkpoint.traits import Traits, default_traits, read_traits
from firstword.models.checkpoint.weights import (
    check_fit,
    fold_weight_norm,
    load_exactly,
    published_shapes,
    read_tensors,
)
from firstword.models.checkpoint.yaml import Fields
from firstword.models.config import (
    ACCENTS,
    DESCRIPTIONS_FILE,
    ESTIMATOR_FILE,
    FLOW_FILES,
    HIFT_FILES,
    LM_FILES,
    SPEAKER_ENCODER_FILE,
    SPEAKER_TABLE_FILE,
    SPEECH_TOKENIZER_FILES,
    TRAITS_FILE,
    YAML_FILES,
    AlignmentHeads,
    CheckpointError,
    CosyVoice1FlowConfig,
    DiTFlowConfig,
    HarmonicVocosConfig,
    HiFTConfig,
    ModelConfig,
    Qwen2Config,
    Qwen2LMConfig,
    TransformerLMConfig,
)
from firstword.models.flow.cosyvoice1 import CosyVoice1Flow
from firstword.models.flow.flow import Flow
from firstword.models.frontend.features import FrontendError
from firstword.models.frontend.prompt_reader import PromptReader
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.harmonic_vocos.network import HarmonicVocos
from firstword.models.hift.hift import HiFT, causal_noise_table
from firstword.models.lm.plan import LengthRatios
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.transformer_lm import TransformerLM
from firstword.models.tokenizer import (
    PRONUNCIATION_FOLDER,
    QWEN2_FOLDER,
    TextTokenizer,
    TokenizerError,
    load_text_tokenizer,
)
from firstword.models.tokenizer.accents import AccentedWords, AccentTokens, accent_file
from firstword.models.tokenizer.heteronyms import HETERONYMS_FILE, Heteronyms, read_heteronyms
from firstword.models.tokenizer.mandarin import MANDARIN_FILE
from firstword.models.tokenizer.pronunciation import DICTIONARY_FILE, NETWORK_FILE
from firstword.models.tokenizer.whisper import RANKS_FILE

QWEN2_CONFIG_FILE = f"{QWEN2_FOLDER}/config.json"
TOKENIZER_FILES = (
    RANKS_FILE,
    *(
        f"{QWEN2_FOLDER}/{name}"
        for name in ("tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json")
    ),
    f"{PRONUNCIATION_FOLDER}/{DICTIONARY_FILE}",
    f"{PRONUNCIATION_FOLDER}/{NETWORK_FILE}",
    f"{PRONUNCIATION_FOLDER}/{HETERONYMS_FILE}",
    f"{PRONUNCIATION_FOLDER}/{MANDARIN_FILE}",
    *(f"{PRONUNCIATION_FOLDER}/{accent_file(accent)}" for accent in ACCENTS),
)

CHECKPOINT_FILES = (
    *YAML_FILES,
    QWEN2_CONFIG_FILE,
    *TOKENIZER_FILES,
    *LM_FILES,
    *FLOW_FILES,
    *HIFT_FILES,
    SPEAKER_ENCODER_FILE,
    *SPEECH_TOKENIZER_FILES.values(),
    SPEAKER_TABLE_FILE,
    TRAITS_FILE,
    DESCRIPTIONS_FILE,
)
"""Every file that may be read of a model directory, of any family."""

UNUSED_TENSORS = frozenset({"llm.model.lm_head.weight", "decoder.estimator.rotary_embed.inv_freq"})
"""Published files hold them; the networks do not need them."""

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model directory whose files are all there and whose sizes are known; weights are read on demand.

    dtype: float32 or bfloat16, float16 on a GPU. Every method raises CheckpointError.
    """

    directory: Path
    config: ModelConfig
    traits: Traits

    def check(self) -> None:
        """Refuse what any of the methods below would refuse, by the same reading, but copy no weights."""
        self.load_accent_tokens(self.load_tokenizer())
        self.load_accented_words(self.load_heteronyms())
        self.load_prompt_reader(num_threads=1)
        self.load_speakers()
        parts: tuple[_Part[Any], ...] = (self._lm(), self._flow(), self._hift())
        for part in parts:
            network, tensors, path = self._read(part)
            check_fit(network, tensors, part.table, path, UNUSED_TENSORS)

    def load_lm(
        self, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
    ) -> Qwen2LM | TransformerLM:
        return self._load(self._lm(), dtype, device)

    def load_flow(
        self, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
    ) -> Flow | CosyVoice1Flow:
        return self._load(self._flow(), dtype, device)

    def load_vocoder(
        self, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
    ) -> HiFT | HarmonicVocos:
        """As `load_hift`, of either class of vocoder."""
        if isinstance(self.config.vocoder, HiFTConfig):
            return self.load_hift(dtype, device)
        vocos = self._load(self._hift(), torch.float32, device)
        assert isinstance(vocos, HarmonicVocos), vocos
        return vocos.to_dtype(dtype)

    def load_hift(self, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> HiFT:
        """`dtype` is the generator's: F0, which is integrated over time, is not rounded to it.

        Raises CheckpointError for a checkpoint with another vocoder.
        """
        config = self.config.hift
        hift = self._load(self._hift(), torch.float32, device)
        assert isinstance(hift, HiFT), hift
        hift.generator.to(dtype)
        if config.is_causal:
            hift.noise = hift.source.sum_noise(causal_noise_table(self.config).to(device))
        return hift

    def load_tokenizer(self) -> TextTokenizer:
        for name in TOKENIZER_FILES:
            if (self.directory / name).exists():
                _file_within(self.directory, name)
        try:
            tokenizer = load_text_tokenizer(
                self.config.family,
                self.directory,
                self.traits.reads_sounds,
                speaks_mandarin="zh" in self.traits.languages,
            )
        except TokenizerError as error:
            raise CheckpointError(str(error)) from error
        if tokenizer.vocab_size > self._text_vocab_size:
            raise CheckpointError(
                f"{self.directory}: the text tokenizer has {tokenizer.vocab_size} ids, the language model's "
                f"table {self._text_vocab_size} rows"
            )
        return tokenizer

    def load_heteronyms(self) -> Heteronyms | None:
        """None where the checkpoint reads no word in two ways."""
        name = f"{PRONUNCIATION_FOLDER}/{HETERONYMS_FILE}"
        if not (self.traits.reads_sounds and (self.directory / name).exists()):
            return None
        try:
            return read_heteronyms(_file_within(self.directory, name))
        except TokenizerError as error:
            raise CheckpointError(str(error)) from error

    def load_accented_words(self, heteronyms: Heteronyms | None = None) -> dict[str, AccentedWords]:
        """What is read otherwise in each accent; with `heteronyms` beside it."""
        accents = {}
        for accent in self.traits.accents:
            name = f"{PRONUNCIATION_FOLDER}/{accent_file(accent)}"
            try:
                accents[accent] = AccentedWords(_file_within(self.directory, name), heteronyms)
            except TokenizerError as error:
                raise CheckpointError(str(error)) from error
        return accents

    def load_accent_tokens(self, tokenizer: TextTokenizer) -> dict[str, AccentTokens]:
        """tokenizer: the checkpoint's."""
        try:
            return {accent: AccentTokens(tokenizer, accent) for accent in self.traits.accents}
        except TokenizerError as error:
            raise CheckpointError(f"{self.directory}: {error}") from error

    def load_prompt_reader(self, num_threads: int, device: str = "cpu") -> PromptReader:
        """What makes a speaker of a recording; num_threads, device: for each of its two ONNX graphs."""
        try:
            return PromptReader.from_folder(self.directory, self.config, num_threads, device)
        except FrontendError as error:
            raise CheckpointError(str(error)) from error

    def load_speakers(self) -> dict[str, SpeakerFeatures]:
        """The speakers that the checkpoint itself brings, by name; empty where it has no table.

        The first is the default speaker.
        """
        speakers: dict[str, SpeakerFeatures] = {}
        if (self.directory / SPEAKER_TABLE_FILE).exists():
            path = _file_within(self.directory, SPEAKER_TABLE_FILE)
            try:
                speakers = read_speaker_table(path, self._text_vocab_size, self.config.flow.vocab_size)
            except FrontendError as error:
                raise CheckpointError(str(error)) from error
        default = self.traits.default_speaker
        for field, name in [
            ("default_speaker", default),
            *((f"default_speakers.{code}", name) for code, name in self.traits.default_speakers.items()),
            *((f"former_speakers.{former}", name) for former, name in self.traits.former_speakers.items()),
        ]:
            if name is not None and name not in speakers:
                raise CheckpointError(
                    f"{self.directory / TRAITS_FILE}: {field} is {name!r}; expected one of "
                    f"{SPEAKER_TABLE_FILE}: {', '.join(speakers) or 'there is none'}"
                )
        return speakers if default is None else {default: speakers[default], **speakers}

    def load_descriptions(self) -> Mapping[str, SpeakerDescription]:
        """What the checkpoint says of its speakers, by name; of those that it describes."""
        return read_descriptions(self.directory / DESCRIPTIONS_FILE)

    @property
    def ratios(self) -> LengthRatios:
        """How many speech tokens there may be for a text token."""
        return LengthRatios(self.traits.min_token_ratio, self.traits.max_token_ratio)

    @property
    def _text_vocab_size(self) -> int:
        lm = self.config.lm
        return lm.text_token_size if isinstance(lm, TransformerLMConfig) else lm.qwen2.vocab_size

    def _lm(self) -> "_Part[Qwen2LM | TransformerLM]":
        config = self.config.lm
        if isinstance(config, TransformerLMConfig):
            return _Part("llm", lambda: TransformerLM(config), TRANSFORMER_LM)
        return _Part("llm", lambda: Qwen2LM(config), QWEN2_LM)

    def _flow(self) -> "_Part[Flow | CosyVoice1Flow]":
        config = self.config.flow
        if isinstance(config, CosyVoice1FlowConfig):
            return _Part("flow", lambda: CosyVoice1Flow(config), COSYVOICE1_FLOW)
        return _Part(
            "flow", lambda: Flow(config), DIT_FLOW if isinstance(config, DiTFlowConfig) else UNET_FLOW
        )

    def _hift(self) -> "_Part[HiFT | HarmonicVocos]":
        config = self.config.vocoder
        if isinstance(config, HarmonicVocosConfig):
            return _Part("hift", lambda: HarmonicVocos(config), ())
        return _Part("hift", lambda: HiFT(config), HIFT)

    def _load(self, part: "_Part[Network]", dtype: torch.dtype, device: torch.device | str) -> Network:
        network, tensors, path = self._read(part)
        load_exactly(network, tensors, part.table, path, UNUSED_TENSORS, dtype)
        return network.to(device).eval()

    def _read(self, part: "_Part[Network]") -> tuple[Network, dict[str, Tensor], Path]:
        """Return a network without weights, and the tensors of its file, mapped and not yet compared."""
        path = _weights_file(self.directory, part.stem)
        tensors = read_tensors(path)
        try:
            with torch.device("meta"), _WithoutInitialValues():
                network = part.build()
        except (ValueError, RuntimeError) as error:  # groups that do not divide channels, and the like
            raise CheckpointError(
                f"{self.directory}: the sizes of {part.stem} make no network: {error}"
            ) from error
        if part.stem == "hift":
            shapes = published_shapes(network, part.table)
            renamed = {name.replace("generator.", ""): tensor for name, tensor in tensors.items()}  # of a GAN
            if len(renamed) != len(tensors):
                raise CheckpointError(f"{path}: holds tensors both with and without the prefix generator.")
            tensors = fold_weight_norm(renamed, shapes)
        return network, tensors, path


class _WithoutInitialValues(TorchFunctionMode):
    """No random values for new modules: to draw some on "meta", torch loads its compiler, for a second."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if func.__name__ in {"normal_", "uniform_", "kaiming_uniform_"}:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


@dataclass(frozen=True, slots=True)
class _Part(Generic[Network]):
    """A network, the stem of the name of its file, and how its tensors are named there."""

    stem: str
    build: Callable[[], Network]
    table: Table


def open_checkpoint(directory: Path | str) -> Checkpoint:
    """Check that a directory is a whole checkpoint and reads its configuration.

    Raises:
        CheckpointError: no directory, no known yaml, a file missing, not a regular file or lying
            outside the directory, a yaml or config.json that asks for anything but the published networks.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise CheckpointError(f"{directory}: not a directory; expected a CosyVoice model directory")
    yaml_name = _yaml_name(directory)
    family = YAML_FILES[yaml_name]
    for stem in ("llm", "flow", "hift"):
        _weights_file(directory, stem)
    _file_within(directory, SPEAKER_ENCODER_FILE)
    _file_within(directory, SPEECH_TOKENIZER_FILES[family])
    file = hyperyaml.read(_file_within(directory, yaml_name))
    qwen2 = None
    if family != "cosyvoice1":
        qwen2 = config_parser.parse_qwen2(Fields.from_json(_file_within(directory, QWEN2_CONFIG_FILE)))
    traits = default_traits(family)
    if (directory / TRAITS_FILE).exists():
        traits = read_traits(_file_within(directory, TRAITS_FILE), family)
    config = config_parser.parse(file, family, qwen2)
    if isinstance(config.lm, Qwen2LMConfig):
        _check_alignment_heads(traits.alignment_heads, config.lm.qwen2, directory / TRAITS_FILE)
        lm = replace(
            config.lm,
            prompt_before_blocks=traits.prompt_before_blocks,
            alignment_heads=traits.alignment_heads,
        )
        config = replace(config, lm=lm)
    return Checkpoint(directory, config, traits)


def _check_alignment_heads(heads: AlignmentHeads, qwen2: Qwen2Config, named_in: Path) -> None:
    for layer, head in heads:
        if layer >= qwen2.num_hidden_layers or head >= qwen2.num_attention_heads:
            raise CheckpointError(
                f"{named_in}: alignment_heads names head {head} of layer {layer}; the language model "
                f"has {qwen2.num_attention_heads} heads in each of {qwen2.num_hidden_layers} layers, from 0"
            )


def _weights_file(directory: Path, stem: str) -> Path:
    """`STEM.safetensors` where it is there, else the published `STEM.pt`."""
    name = f"{stem}.safetensors"
    return _file_within(directory, name if (directory / name).exists() else f"{stem}.pt")


def _file_within(directory: Path, name: str) -> Path:
    path = directory / name
    if not path.exists():
        raise CheckpointError(f"{path}: missing")
    if not path.is_file():
        raise CheckpointError(f"{path}: not a regular file")
    if not path.resolve().is_relative_to(directory.resolve()):
        raise CheckpointError(
            f"{path}: a link to {path.resolve()}, outside the model directory. Hugging Face's cache is made "
            "of such links: download into a directory of its own, with `hf download REPOSITORY --local-dir "
            "DIRECTORY`, or copy it with `cp -rL`"
        )
    return path


MAX_WHOLE_BYTES = 16 << 20  # a file up to this size is hashed whole
END_BYTES = 1 << 20  # of a larger one: its head, its tail,
NUM_SAMPLES = 64  # and pieces at even distances between them
SAMPLE_BYTES = 16 << 10
_SCHEME = b"1"  # another way of hashing is another fingerprint


def fingerprint(directory: Path, matches_recordings: bool = False) -> str:
    """Tell whether two checkpoints would make the same of a recording, without reading gigabytes.

    Return 32 hexadecimal digits of the contents of all that a speaker's features and prompt state depend
    on: yaml, config.json, the ONNX graphs, the flow's weights, the text tokenizer; where recordings are
    matched, also what the match is fitted by: the vocoder, which tells pitches, the speaker table, and the
    traits, which have a mean embedding.

    Names, dates and places of the files do not count, nor does the language model.
    A file over 16 MiB is known by its size, both ends and 64 pieces between: a retrained network is
    noticed, a few numbers changed by hand in a large one may not be. It reads 3 MiB of such a file.

    Raises CheckpointError if the directory holds no known yaml or a file cannot be read.
    """
    yaml_name = _yaml_name(directory)
    speech_tokenizer = SPEECH_TOKENIZER_FILES[YAML_FILES[yaml_name]]
    return _fingerprint(
        directory,
        [
            yaml_name,
            QWEN2_CONFIG_FILE,
            *TOKENIZER_FILES,
            speech_tokenizer,
            SPEAKER_ENCODER_FILE,
            *FLOW_FILES,
            *((*HIFT_FILES, SPEAKER_TABLE_FILE, TRAITS_FILE) if matches_recordings else ()),
        ],
    )


def lm_fingerprint(directory: Path) -> str:
    """Return the same of all that the language model depends on: yaml, config.json and its weights."""
    return _fingerprint(directory, [_yaml_name(directory), QWEN2_CONFIG_FILE, *LM_FILES])


def token2wav_fingerprint(directory: Path) -> str:
    """Return the same of all that engines of flow and vocoder are built of."""
    return _fingerprint(directory, [_yaml_name(directory), *FLOW_FILES, *HIFT_FILES, ESTIMATOR_FILE])


def weights_fingerprint(directory: Path) -> str:
    """Return the same of all three networks: yaml, config.json and their weights."""
    names = (*LM_FILES, *FLOW_FILES, *HIFT_FILES)
    return _fingerprint(directory, [_yaml_name(directory), QWEN2_CONFIG_FILE, *names])


def _fingerprint(directory: Path, names: Iterable[str]) -> str:
    digest = hashlib.sha256(_SCHEME)
    try:
        for name in names:
            path = directory / name
            if path.is_file():
                digest.update(f"\0{name}\0{path.stat().st_size}\0".encode())
                digest.update(_content_hash(path))
    except OSError as error:
        raise CheckpointError(f"{directory}: cannot be read: {error}") from error
    return digest.hexdigest()[:32]


def _yaml_name(directory: Path) -> str:
    yaml_name = next((name for name in YAML_FILES if (directory / name).exists()), None)
    if yaml_name is None:
        raise CheckpointError(f"{directory}: expected one of {', '.join(YAML_FILES)}, found none")
    return yaml_name


def _content_hash(path: Path) -> bytes:
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= MAX_WHOLE_BYTES:
            return hashlib.file_digest(file, "sha256").digest()
        digest = hashlib.sha256()
        step = (size - 2 * END_BYTES) // NUM_SAMPLES
        samples = [(END_BYTES + number * step, SAMPLE_BYTES) for number in range(NUM_SAMPLES)]
        for start, length in [(0, END_BYTES), *samples, (size - END_BYTES, END_BYTES)]:
            file.seek(start)
            digest.update(file.read(length))
        return digest.digest()
