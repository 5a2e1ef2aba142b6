"""Read a checkpoint's HyperPyYAML as data; nothing in the file is ever imported, called or executed.

A `!new:`, `!name:` or `!apply:` tag becomes a `Tagged` value whose target was found in a closed
table. A `!ref <name>` is replaced by the plain top-level value it names. Anchors, aliases, deep
nesting and large files are refused before anything is built from them. `Fields` then takes the values
one by one and refuses what is missing, left over or of the wrong kind.
"""

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from firstword.models.config import CheckpointError

MAX_BYTES = 1 << 20
MAX_DEPTH = 24
MAX_NODES = 20_000
MAX_REFERENCE_DEPTH = 8
MAX_FACTORS = 4  # of a product of references
MAX_SCALAR_CHARACTERS = 100  # of a number, flag or null

NETWORK_TARGETS = frozenset(
    {
        "cosyvoice.llm.llm.TransformerLM",
        "cosyvoice.llm.llm.Qwen2LM",
        "cosyvoice.llm.llm.Qwen2Encoder",
        "cosyvoice.llm.llm.CosyVoice3LM",
        "cosyvoice.transformer.encoder.ConformerEncoder",
        "cosyvoice.transformer.encoder.TransformerEncoder",
        "cosyvoice.transformer.upsample_encoder.UpsampleConformerEncoder",
        "cosyvoice.transformer.upsample_encoder.PreLookaheadLayer",
        "cosyvoice.flow.flow.MaskedDiffWithXvec",
        "cosyvoice.flow.flow.CausalMaskedDiffWithXvec",
        "cosyvoice.flow.flow.CausalMaskedDiffWithDiT",
        "cosyvoice.flow.length_regulator.InterpolateRegulator",
        "cosyvoice.flow.flow_matching.ConditionalCFM",
        "cosyvoice.flow.flow_matching.CausalConditionalCFM",
        "cosyvoice.flow.decoder.ConditionalDecoder",
        "cosyvoice.flow.decoder.CausalConditionalDecoder",
        "cosyvoice.flow.DiT.dit.DiT",
        "cosyvoice.hifigan.generator.HiFTGenerator",
        "cosyvoice.hifigan.generator.CausalHiFTGenerator",
        "cosyvoice.hifigan.f0_predictor.ConvRNNF0Predictor",
        "cosyvoice.hifigan.f0_predictor.CausalConvRNNF0Predictor",
        "cosyvoice.utils.common.ras_sampling",
        "cosyvoice.tokenizer.tokenizer.get_tokenizer",
        "cosyvoice.tokenizer.tokenizer.get_qwen_tokenizer",
        "whisper.tokenizer.get_tokenizer",
        "matcha.utils.audio.mel_spectrogram",
        "omegaconf.DictConfig",
        "firstword.models.harmonic_vocos.HarmonicVocos",
    }
)
"""Targets that a network, tokenizer or feature extractor is built from."""

TRAINING_TARGETS = frozenset(
    {
        "random.seed",
        "numpy.random.seed",
        "torch.manual_seed",
        "torch.cuda.manual_seed_all",
        "cosyvoice.hifigan.hifigan.HiFiGan",
        "cosyvoice.hifigan.discriminator.MultipleDiscriminator",
        "cosyvoice.hifigan.discriminator.MultiResolutionDiscriminator",
        "cosyvoice.hifigan.discriminator.MultiResSpecDiscriminator",
        "matcha.hifigan.models.MultiPeriodDiscriminator",
    }
)
"""Targets that stand in published files for training and are passed over."""

TRAINING_PREFIX = "cosyvoice.dataset.processor."

# libyaml's, which takes a tenth of the time, where PyYAML was built with it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_REFERENCE = re.compile(r"<([A-Za-z_][A-Za-z0-9_]*)>")


@dataclass(frozen=True, slots=True)
class Tagged:
    """`!new:target`, `!name:target` or `!apply:target` with its arguments, which stay data."""

    kind: str
    target: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class Reference:
    """`!ref expression`, not yet looked up."""

    expression: str


class HyperYaml:
    """The top level of one file: a mapping of names to plain values, `Tagged` and `Reference`."""

    def __init__(self, path: Path, values: dict[str, Any]):
        self.path = path
        self.values = values

    def resolve(self, value: Any, depth: int = 0) -> Any:
        """Return the value of a `Reference`, or of a product of them; anything else as it is."""
        if not isinstance(value, Reference):
            return value
        names = [_REFERENCE.fullmatch(part.strip()) for part in value.expression.split("*")]
        if depth > MAX_REFERENCE_DEPTH or len(names) > MAX_FACTORS or any(name is None for name in names):
            raise self.error(f"!ref {value.expression[:80]!r} cannot be followed; expected !ref <name>")
        factors = []
        for name in names:
            assert name is not None
            if name[1] not in self.values:
                raise self.error(f"!ref <{name[1]}> names nothing in the file")
            factors.append(self.resolve(self.values[name[1]], depth + 1))
        if len(factors) == 1:
            return factors[0]
        if not all(isinstance(factor, int) and abs(factor) < 1 << 31 for factor in factors):
            raise self.error(f"!ref {value.expression[:80]!r} multiplies what are not whole numbers")
        product = 1
        for factor in factors:
            product *= factor
        return product

    def error(self, problem: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: {problem}")


def read(path: Path) -> HyperYaml:
    """Read one file.

    Raises:
        CheckpointError: not readable, not YAML, larger or deeper than any published file, holding
            anchors or aliases, or a tag whose target is not in the table.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise CheckpointError(
            f"{path}: larger than {MAX_BYTES} bytes; a checkpoint's yaml has a few thousand"
        )
    try:
        text = content.decode("utf-8")
        _check_events(path, text)
        root = yaml.compose(text, Loader=_LOADER)
    except (
        yaml.YAMLError,
        ValueError,
        OverflowError,
    ) as error:  # the latter: `"\UFFFFFFFF"`, `%YAML 1.999...`
        raise CheckpointError(f"{path}: not valid YAML: {' '.join(str(error).split())[:300]}") from error
    if not isinstance(root, yaml.MappingNode):
        raise CheckpointError(f"{path}: expected a mapping of names to values at the top level")
    return HyperYaml(path, _Builder(path).mapping(root))


def _check_events(path: Path, text: str) -> None:
    """Walk the parser's events, which needs no recursion, before any node is composed."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_LOADER)):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise CheckpointError(f"{path}: anchors and aliases (& and *) are not accepted")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH or count > MAX_NODES:
            raise CheckpointError(f"{path}: nested deeper than {MAX_DEPTH} or longer than {MAX_NODES} nodes")


class _Builder:
    """Turns nodes into plain values; the only conversions are those of YAML's own scalars."""

    def __init__(self, path: Path):
        self._path = path
        self._scalars = yaml.constructor.SafeConstructor()

    def value(self, node: yaml.Node) -> Any:
        if node.tag.startswith("tag:yaml.org,2002:"):
            return self._plain(node)
        if node.tag == "!ref" and isinstance(node, yaml.ScalarNode):
            return Reference(node.value)
        kind, separator, target = node.tag.removeprefix("!").partition(":")
        known = target in NETWORK_TARGETS | TRAINING_TARGETS or target.startswith(TRAINING_PREFIX)
        if not separator or kind not in ("new", "name", "apply") or not known:
            raise CheckpointError(
                f"{self._path}:{node.start_mark.line + 1}: the tag {node.tag[:120]!r} is not one of a "
                "CosyVoice checkpoint; nothing was executed"
            )
        arguments: Any = {}
        if isinstance(node, yaml.MappingNode):
            arguments = self.mapping(node)
        elif isinstance(node, yaml.SequenceNode):
            arguments = [self.value(item) for item in node.value]
        return Tagged(kind, target, arguments)

    def _plain(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self.mapping(node)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self.value(item) for item in node.value]
        name = node.tag.removeprefix("tag:yaml.org,2002:")
        if isinstance(node, yaml.ScalarNode) and name in ("str", "int", "float", "bool", "null"):
            return self._scalar(node, name)
        raise CheckpointError(
            f"{self._path}:{node.start_mark.line + 1}: the tag {node.tag[:120]!r} is not accepted"
        )

    def _scalar(self, node: yaml.ScalarNode, name: str) -> Any:
        if name == "str":
            return node.value
        try:
            if len(node.value) > MAX_SCALAR_CHARACTERS:  # 1:1:1:... takes quadratic time
                raise ValueError("too long")
            return getattr(self._scalars, f"construct_yaml_{name}")(node)
        except (ValueError, KeyError, IndexError, OverflowError) as error:  # `!!int x`, `!!bool perhaps`
            raise CheckpointError(
                f"{self._path}:{node.start_mark.line + 1}: {node.value[:80]!r} is not a {name}"
            ) from error

    def mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                raise CheckpointError(
                    f"{self._path}:{key.start_mark.line + 1}: a name is expected as the key"
                )
            if key.value in values:
                raise CheckpointError(
                    f"{self._path}:{node.start_mark.line + 1}: {key.value!r} stands there twice"
                )
            values[key.value] = self.value(value)
        return values


MAX_SIZE = 1 << 20
MAX_LAYERS = 64
MAX_LIST = 16


MAX_PAIRS = 16  # of a list of them


class Fields:
    """The arguments of one `!new:` of a checkpoint's yaml, or one object of a JSON file.

    Every method that returns a value removes its field; `done` raises CheckpointError for those left over.
    `yaml_path` is where the values stand in the file, for messages. `kind` is the class that a `!new:` names.
    """

    def __init__(self, file: HyperYaml, yaml_path: str, values: Any, kind: str = ""):
        if not isinstance(values, dict):
            raise file.error(f"{yaml_path}: expected named values, found {values!r:.80}")
        self._file = file
        self._yaml_path = yaml_path
        self._values = dict(values)
        self.kind = kind

    @classmethod
    def from_json(cls, path: Path) -> "Fields":
        """Read the object that a JSON file holds."""
        try:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
            if len(content) > MAX_BYTES:
                raise CheckpointError(f"{path}: larger than {MAX_BYTES} bytes")
            values = json.loads(content)
        except (ValueError, RecursionError, OSError) as error:
            raise CheckpointError(f"{path}: not valid JSON: {error}") from error
        return cls(HyperYaml(path, {}), "top level", values)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the fields that nobody has taken yet."""
        return tuple(self._values)

    def size(self, name: str, default: int | None = None, maximum: int = MAX_SIZE) -> int:
        """A positive whole number that a real network can have."""
        return self._checked_size(name, self._take(name, default), maximum)

    def layers(self, name: str) -> int:
        """How many of something are built one by one."""
        return self.size(name, maximum=MAX_LAYERS)

    def size_or_zero(self, name: str) -> int:
        """A size that may be 0, and is 0 where it is not there."""
        value = self._take(name, 0)
        return 0 if value == 0 else self._checked_size(name, value)

    def sizes(self, name: str) -> tuple[int, ...]:
        values = self._checked_list(name, self._take(name, None))
        return tuple(self._checked_size(f"{name}: entry", value) for value in values)

    def size_lists(self, name: str) -> tuple[tuple[int, ...], ...]:
        entry = f"{name}: entry"
        lists = self._checked_list(name, self._take(name, None))
        return tuple(
            tuple(self._checked_size(entry, value) for value in self._checked_list(entry, values))
            for values in lists
        )

    def pairs(self, name: str) -> tuple[tuple[int, int], ...]:
        """A list of pairs of numbers from 0 to 999; () where it is not there."""
        lists = self._values.pop(name, [])
        if not isinstance(lists, list) or len(lists) > MAX_PAIRS:
            raise self.error(f"{name} is {lists!r:.80}; expected a list of {MAX_PAIRS} pairs at most")
        for pair in lists:
            if (
                not isinstance(pair, list)
                or len(pair) != 2
                or not all(type(one) is int and 0 <= one < 1000 for one in pair)
            ):
                raise self.error(f"{name} holds {pair!r:.80}; expected two numbers from 0 to 999")
        return tuple((first, second) for first, second in lists)

    def number(self, name: str, default: float | None = None) -> float:
        return self._checked_number(name, self._take(name, default))

    def numbers(self, name: str) -> tuple[float, ...]:
        """A list of finite numbers; () where it is not there."""
        values = self._values.pop(name, [])
        if not isinstance(values, list):
            raise self.error(f"{name} is {values!r:.80}; expected a list of numbers")
        return tuple(self._checked_number(f"a number of {name}", value) for value in values)

    def optional_number(self, name: str) -> float | None:
        """A number, or None where it is null or not there."""
        value = self._file.resolve(self._values.pop(name, None))
        return None if value is None else self._checked_number(name, value)

    def flag(self, name: str, default: bool | None = None) -> bool:
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise self.error(f"{name} is {value!r:.80}; expected true or false")
        return value

    def texts(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """A list of texts, empty only where the default is."""
        if not self.has(name):
            return default
        values = self._take(name, None)
        values = [] if values == [] and not default else self._checked_list(name, values)
        for value in values:
            if not isinstance(value, str):
                raise self.error(f"{name} holds {value!r:.80}; expected text")
        return tuple(values)

    def optional_text(self, name: str) -> str | None:
        """A text that is not empty, or None where it is null or not there."""
        value = self._values.pop(name, None)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.error(f"{name} is {value!r:.80}; expected text")
        return value

    def text_map(self, name: str) -> dict[str, str]:
        """Texts by name; {} where it is not there."""
        values = self._values.pop(name, {})
        if not isinstance(values, dict) or not all(isinstance(one, str) for one in values.values()):
            raise self.error(f"{name} is {values!r:.80}; expected texts by name")
        return values

    def choice(self, name: str, *accepted: Any) -> Any:
        """One of the values that this implementation computes; the first where the field is not there."""
        value = self._take(name, accepted[0])
        if value not in accepted or isinstance(value, bool) != isinstance(accepted[0], bool):
            raise self.error(f"{name} is {value!r:.80}; only {' or '.join(map(repr, accepted))} is supported")
        return value

    def ignore(self, *names: str) -> None:
        """Remove fields of training, which the network's function does not depend on."""
        for name in names:
            self._values.pop(name, None)

    def tagged(self, name: str, *targets: str) -> "Fields":
        """The arguments of a `!new:` or `!name:` value, the last part of whose target is one of `targets`."""
        value = self._take(name, None)
        found = value.target.rpartition(".")[2] if isinstance(value, Tagged) else None
        if found not in targets:
            raise self.error(f"{name} is {found or value!r:.80}; expected {' or '.join(targets)}")
        return Fields(self._file, f"{self._yaml_path}.{name}", value.arguments, found)

    def mapping(self, name: str) -> "Fields":
        return Fields(self._file, f"{self._yaml_path}.{name}", self._take(name, None))

    def has(self, name: str) -> bool:
        return name in self._values

    def done(self) -> None:
        if self._values:
            raise self.error(f"unknown: {', '.join(sorted(map(str, self._values)))[:300]}")

    def error(self, problem: str) -> CheckpointError:
        return self._file.error(f"{self._yaml_path}: {problem}")

    def _take(self, name: str, default: Any) -> Any:
        if name not in self._values and default is None:
            raise self.error(f"{name} is missing")
        return self._file.resolve(self._values.pop(name, default))

    def _checked_size(self, label: str, value: Any, maximum: int = MAX_SIZE) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= maximum:
            raise self.error(f"{label} is {value!r:.80}; expected a whole number from 1 to {maximum}")
        return value

    def _checked_number(self, label: str, value: Any) -> float:
        """Return a finite number; `1e-06`, which YAML 1.1 reads as text, is one too."""
        number = None
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            with suppress(ValueError, OverflowError):
                number = float(value)
        if number is None or not abs(number) < 1e12:
            raise self.error(f"{label} is {value!r:.80}; expected a number")
        return number

    def _checked_list(self, label: str, value: Any) -> list[Any]:
        if not isinstance(value, list) or not 0 < len(value) <= MAX_LIST:
            raise self.error(f"{label} is {value!r:.80}; expected a list of 1 to {MAX_LIST} entries")
        return [self._file.resolve(entry) for entry in value]
