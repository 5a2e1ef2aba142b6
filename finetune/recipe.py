"""The training half of a checkpoint's yaml: what is followed, and the names of what is not."""

import contextlib
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from firstword.models.checkpoint.yaml import HyperYaml, Tagged
from firstword.models.config import FRAMES_PER_TOKEN

Schedule = Literal["constant", "warmup", "cosine"]
_SCHEDULES: Final[dict[str, Schedule]] = {"constantlr": "constant", "warmuplr": "warmup"}
_OPTIMIZERS: Final = ("adam", "adamw")


@dataclass(frozen=True, slots=True)
class Recipe:
    """The published defaults; `of` takes them from a yaml. size: padded mel frames of a batch.

    unfollowed: what the yaml asks for and training here does otherwise, in words.
    """

    optimizer: str = "adam"
    lr: float = 1e-5
    schedule: Schedule = "constant"
    warmup: int = 2500
    epochs: int = 200
    clip: float = 5.0
    accumulate: int = 2
    batch_frames: int = 2000
    max_text: int = 200  # tokens
    max_text_share: float = 1.0  # text tokens a frame of 10 ms
    frames: tuple[int, int] = (100, 6000)  # of 10 ms
    unfollowed: tuple[str, ...] = field(default=())

    @property
    def batch_tokens(self) -> int:
        """Speech tokens of as much speech, for the language models."""
        return self.batch_frames // FRAMES_PER_TOKEN


def recipe_of(file: HyperYaml) -> Recipe:
    """Read `train_conf`, `filter`, `batch`, `padding` of a yaml; a file without them gives the defaults."""
    reader = _Reader(file)
    conf = reader.mapping("train_conf")
    optim_conf = reader.inner(conf, "optim_conf", "train_conf")
    scheduler_conf = reader.inner(conf, "scheduler_conf", "train_conf")
    default = Recipe()
    optimizer = str(conf.pop("optim", default.optimizer))
    if optimizer not in _OPTIMIZERS:
        reader.unfollowed.append(f"train_conf.optim {optimizer}: Adam is used")
        optimizer = default.optimizer
    scheduler = str(conf.pop("scheduler", "constantlr"))
    if scheduler not in _SCHEDULES:
        reader.unfollowed.append(f"train_conf.scheduler {scheduler}: the rate is constant")
    conf.pop("log_interval", None)  # every step is logged
    conf.pop("save_per_step", None)  # of --save-every
    filters, batch, padding = (reader.arguments(name) for name in ("filter", "batch", "padding"))
    if batch.pop("batch_type", "dynamic") != "dynamic":
        reader.unfollowed.append("batch.batch_type: batches are dynamic")
        batch.pop("batch_size", None)
    highest = min(reader.number(filters, "max_length", default.frames[1]), 6000)
    lowest = reader.number(filters, "min_length", default.frames[0])
    recipe = Recipe(
        optimizer=optimizer,
        lr=float(reader.number(optim_conf, "lr", default.lr)),
        schedule=_SCHEDULES.get(scheduler, "constant"),
        warmup=int(reader.number(scheduler_conf, "warmup_steps", default.warmup)),
        epochs=int(reader.number(conf, "max_epoch", default.epochs)),
        clip=float(reader.number(conf, "grad_clip", default.clip)),
        accumulate=int(reader.number(conf, "accum_grad", default.accumulate)),
        batch_frames=int(reader.number(batch, "max_frames_in_batch", default.batch_frames)),
        max_text=int(reader.number(filters, "token_max_length", default.max_text)),
        max_text_share=float(reader.number(filters, "max_output_input_ratio", default.max_text_share)),
        frames=(int(lowest), int(highest)),
    )
    if padding.pop("use_spk_embedding", True) is False:
        reader.unfollowed.append("padding.use_spk_embedding False: a speaker's mean embedding is learned")
    filters.pop("token_min_length", None)
    filters.pop("min_output_input_ratio", None)
    for name, left in (
        ("train_conf", conf),
        ("train_conf.optim_conf", optim_conf),
        ("train_conf.scheduler_conf", scheduler_conf),
        ("filter", filters),
        ("batch", batch),
        ("padding", {key: value for key, value in padding.items() if value}),
    ):
        reader.unfollowed += [f"{name}.{key}" for key in left]
    for name in ("hifigan", "train_conf_gan"):
        if name in file.values:
            reader.unfollowed.append(f"{name}: the vocoder is not trained")
    return Recipe(**{**_values(recipe), "unfollowed": tuple(reader.unfollowed)})


def _values(recipe: Recipe) -> dict[str, Any]:
    return {name: getattr(recipe, name) for name in Recipe.__slots__}


class _Reader:
    """Takes values out of the yaml's mappings; what is left over afterwards was not followed."""

    def __init__(self, file: HyperYaml) -> None:
        self._file = file
        self.unfollowed: list[str] = []

    def mapping(self, name: str) -> dict[str, Any]:
        value = self._file.values.get(name, {})
        if not isinstance(value, dict):
            raise self._file.error(f"{name} is {value!r:.80}; expected named values")
        return dict(value)

    def inner(self, values: dict[str, Any], name: str, yaml_path: str) -> dict[str, Any]:
        value = values.pop(name, {})
        if not isinstance(value, dict):
            raise self._file.error(f"{yaml_path}.{name} is {value!r:.80}; expected named values")
        return dict(value)

    def arguments(self, name: str) -> dict[str, Any]:
        value = self._file.values.get(name)
        return (
            dict(value.arguments) if isinstance(value, Tagged) and isinstance(value.arguments, dict) else {}
        )

    def number(self, values: dict[str, Any], name: str, default: float) -> float:
        value = self._file.resolve(values.pop(name, default))
        if isinstance(value, str):  # `1e-5` is text to YAML 1.1, which wants 1.0e-5
            with contextlib.suppress(ValueError):
                value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._file.error(f"{name} is {value!r:.80}; expected a number")
        return value
