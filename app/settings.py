"""Reads the settings from arguments, the environment and `.env`, and validates them."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from dataclasses import field as dataclass_field
from difflib import get_close_matches
from typing import Any, Final, get_type_hints

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from firstword.app.budget import WorkLimits
from firstword.app.hosts.ray.options import RayOptions
from firstword.app.options import (
    EngineOptions,
    InvalidOptions,
    LMEngineOptions,
    NetworkOptions,
    SpeakerOptions,
)
from firstword.app.server_options import Limits, LogOptions, ProvenanceOptions, ServerOptions
from firstword.app.surfaces.batches.options import BatchOptions
from firstword.app.surfaces.grpc.options import GrpcOptions
from firstword.app.surfaces.openai.options import OpenAIOptions

PREFIX: Final = "FIRSTWORD_"
PREFIXED_GROUPS: Final = frozenset({"vllm", "trtllm", "grpc", "openai", "batch", "ray"})
"""Groups whose name stands in their variables."""
LISTED_BEHIND: Final = {
    "solver_steps": "window_s",
    "grpc_port": "metrics_port",
    "grpc_tls_certificate": "grpc_port",
    "grpc_tls_key": "grpc_tls_certificate",
    "openai_models": "allowed_hosts",
    "openai_voices": "openai_models",
    "batch_disk_mb": "default_speaker",
}
"""Where a list of all settings has one that does not stand with its group."""
CLIENT_VARIABLES: Final = frozenset({f"{PREFIX}CLIENT_URL", f"{PREFIX}CLIENT_API_KEY"})
"""Read by the commands that talk to a running server; no settings of the server."""


class InvalidSettings(InvalidOptions):
    """Settings that cannot be used; the message names each variable. It never shows a key."""


@dataclass(frozen=True, slots=True)
class SurfaceOptions:
    """The settings that surfaces have of their own."""

    grpc: GrpcOptions = dataclass_field(default_factory=GrpcOptions)
    openai: OpenAIOptions = dataclass_field(default_factory=OpenAIOptions)
    batch: BatchOptions = dataclass_field(default_factory=BatchOptions)


class Settings(BaseSettings):
    """All settings, in the groups that the parts of the service are given.

    Arguments override the environment, the environment overrides `.env`, and `.env` overrides the defaults;
    an empty value means the default. Variables are flat: FIRSTWORD_PORT is `server.port`, and
    FIRSTWORD_VLLM_DTYPE is `lm_engines.vllm.dtype`. Raises InvalidSettings for an unknown variable with our
    prefix, pydantic's ValidationError for a bad value; `load_settings` turns that into one line.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=".env",
        env_file_encoding="utf-8",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,  # an input may be a key
        allow_inf_nan=False,
    )

    server: ServerOptions = ServerOptions()
    limits: Limits = Limits()
    networks: NetworkOptions = NetworkOptions()
    engine: EngineOptions = EngineOptions()
    work: WorkLimits = WorkLimits()
    speakers: SpeakerOptions = SpeakerOptions()
    lm_engines: LMEngineOptions = LMEngineOptions()
    provenance: ProvenanceOptions = ProvenanceOptions()
    log: LogOptions = LogOptions()
    surfaces: SurfaceOptions = SurfaceOptions()
    ray: RayOptions = RayOptions()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        sources = [init_settings]
        for source, where in ((env_settings, "the environment"), (dotenv_settings, "the .env file")):
            assert isinstance(source, EnvSettingsSource), source
            variables = {name.upper(): value for name, value in source.env_vars.items()}
            _refuse_unknown(variables.keys(), where)
            given = {
                name: variables[variable_of(name)] for name in SETTINGS if variable_of(name) in variables
            }
            sources.append(InitSettingsSource(settings_cls, _grouped(given)))
        return tuple(sources)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, by its flat name. path: the fields of `Settings` that lead to it."""

    name: str
    path: tuple[str, ...]
    default: object
    description: str


def _settings() -> Iterator[Setting]:
    for group, info in Settings.model_fields.items():
        assert isinstance(info.annotation, type)
        yield from _settings_of(info.annotation, (group,))


def _settings_of(options: type, path: tuple[str, ...]) -> Iterator[Setting]:
    prefix = f"{path[-1]}_" if path[-1] in PREFIXED_GROUPS else ""
    hints = get_type_hints(options, include_extras=True)
    for field in fields(options):
        hint = hints[field.name]
        if is_dataclass(hint):
            assert isinstance(hint, type)
            yield from _settings_of(hint, (*path, field.name))
            continue
        default = field.default if field.default_factory is MISSING else field.default_factory()
        (described,) = (value for value in hint.__metadata__ if isinstance(value, FieldInfo))
        yield Setting(prefix + field.name, (*path, field.name), default, described.description or "")


def _in_order(settings: Iterable[Setting]) -> list[Setting]:
    by_name = {setting.name: setting for setting in settings}
    ordered = [name for name in by_name if name not in LISTED_BEHIND]
    for name, other in LISTED_BEHIND.items():
        ordered.insert(ordered.index(other) + 1, name)
    return [by_name[name] for name in ordered]


SETTINGS: Final[Mapping[str, Setting]] = {setting.name: setting for setting in _in_order(_settings())}
"""By flat name: of FIRSTWORD_VLLM_DTYPE it is vllm_dtype."""
LOCAL_URL: Final = f"http://{SETTINGS['host'].default}:{SETTINGS['port'].default}"
"""Where a server with the default settings is."""


def variable_of(name: str) -> str:
    """The environment variable of a setting by its flat name."""
    return f"{PREFIX}{name.upper()}"


def load_settings(**given: object) -> Settings:
    """given: options of a command, by flat names, that override the environment; None leaves one to it.

    Raises InvalidSettings.
    """
    options = {name: value for name, value in given.items() if value is not None}
    try:
        return Settings(**_grouped(options))
    except ValidationError as error:
        problems = "; ".join(_problem(detail, options) for detail in error.errors(include_url=False))
        raise InvalidSettings(f"{problems}. `firstword settings` lists every setting.") from None


def _grouped(given: Mapping[str, object]) -> dict[str, Any]:
    """By flat name -> by path. An unknown name stays where it is, to be refused."""
    grouped: dict[str, Any] = {}
    for name, value in given.items():
        if name in SETTINGS:
            *groups, field = SETTINGS[name].path
            group = grouped
            for one in groups:
                group = group.setdefault(one, {})
            group[field] = value
        else:
            grouped[name] = value
    return grouped


def _problem(detail: ErrorDetails, options: Container[str]) -> str:
    """`FIRSTWORD_PORT is '99999': input should be …`, or --port; a key's value is left out."""
    loc = tuple(map(str, detail["loc"]))
    name = next((s.name for s in SETTINGS.values() if s.path == loc[: len(s.path)]), loc[0])
    is_hidden = name in ("api_keys", "store") or detail["type"] == "value_error"
    value = "" if is_hidden else f" is {str(detail['input'])[:80]!r}"
    message = detail["msg"].removeprefix("Value error, ")
    where = f"--{name.replace('_', '-')}" if name in options else variable_of(name)
    return f"{where}{value}: {message[:1].lower()}{message[1:]}"


def _refuse_unknown(names: Iterable[str], where: str) -> None:
    known = {variable_of(name) for name in SETTINGS}
    unknown = sorted(
        name for name in names if name.startswith(PREFIX) and name not in known | CLIENT_VARIABLES
    )
    if unknown:
        nearest = {name: get_close_matches(name, known, n=1, cutoff=0)[0] for name in unknown}
        raise InvalidSettings(
            "; ".join(
                f"{name} in {where} is no setting; did you mean {nearest[name]}? Rename or remove it"
                for name in unknown
            )
        )
