"""What may be set, which place goes first, and what a mistake is told."""

import os
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from pydantic import ValidationError

from firstword.app.options import BUILTIN_CHECKPOINT, VllmOptions
from firstword.app.server_options import ServerOptions
from firstword.app.settings import (
    PREFIX,
    SETTINGS,
    InvalidSettings,
    Settings,
    load_settings,
    variable_of,
)
from firstword.app.surfaces.openai.options import VOICES


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.upper().startswith(PREFIX)]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def refusal(**given: object) -> str:
    with pytest.raises(InvalidSettings) as caught:
        load_settings(**given)
    return str(caught.value)


def test_defaults_serve_the_builtin_voice_to_this_machine_alone() -> None:
    settings = load_settings()
    assert settings.server.host == "127.0.0.1"
    assert settings.networks.checkpoint == BUILTIN_CHECKPOINT
    assert (BUILTIN_CHECKPOINT / "cosyvoice2.yaml").is_file()
    assert settings.server.api_keys == ()


def test_argument_goes_before_environment_before_file_before_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("FIRSTWORD_PORT=1\nFIRSTWORD_MAX_STREAMS=2\nFIRSTWORD_MAX_QUEUED=3\n")
    monkeypatch.setenv("FIRSTWORD_PORT", "10")
    monkeypatch.setenv("FIRSTWORD_MAX_STREAMS", "20")
    settings = load_settings(port=100, host=None)
    assert (settings.server.port, settings.engine.max_streams, settings.engine.queue.max_queued) == (
        100,
        20,
        3,
    )
    assert settings.server.host == "127.0.0.1"  # None leaves it


def test_empty_value_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIRSTWORD_CHECKPOINT", "")
    (tmp_path / ".env").write_text("FIRSTWORD_MAX_STATE_MB=\n")
    settings = load_settings()
    assert settings.networks.checkpoint == BUILTIN_CHECKPOINT
    assert settings.networks.state.max_state_mb is None


def test_unknown_variable_is_refused_with_the_nearest_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTWORD_PROT", "8001")
    monkeypatch.setenv("FIRSTWORD_API_KEY", "anna:secret")
    message = refusal()
    assert "FIRSTWORD_PROT in the environment is no setting; did you mean FIRSTWORD_PORT?" in message
    assert "did you mean FIRSTWORD_API_KEYS?" in message  # else the server would stand open
    assert "secret" not in message


def test_unknown_variable_in_the_file_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("FIRSTWORD_CHEKPOINT=/models\n")
    assert (
        "FIRSTWORD_CHEKPOINT in the .env file is no setting; did you mean FIRSTWORD_CHECKPOINT?" in refusal()
    )


def test_variables_of_others_and_of_our_client_are_let_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("COMPOSE_PROJECT_NAME=speech\nPORT=9\nFIRSTWORD_CLIENT_URL=http://a\n")
    monkeypatch.setenv("FIRSTWORD_CLIENT_API_KEY", "secret")
    monkeypatch.setenv("HOST", "elsewhere")
    settings = load_settings()
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8000)


def test_unknown_argument_is_refused() -> None:
    with pytest.raises(ValidationError, match="prot"):
        Settings(prot=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("FIRSTWORD_PORT", "eight", "valid integer"),
        ("FIRSTWORD_PORT", "70000", "less than or equal to 65535"),
        ("FIRSTWORD_METRICS_PORT", "0", "greater than or equal to 1"),
        ("FIRSTWORD_BACKEND", "tensorrt", "'auto', 'torch', 'vllm' or 'trtllm'"),
        ("FIRSTWORD_DEVICE", "gpu", "'auto', 'cpu' or 'cuda'"),
        ("FIRSTWORD_PRECISION", "float8", "'int8' or 'int4'"),
        ("FIRSTWORD_MAX_STREAMS", "-1", "greater than or equal to 0"),
        ("FIRSTWORD_MAX_QUEUED", "-1", "greater than or equal to 0"),
        ("FIRSTWORD_FIRST_HOP_TOKENS", "26", "less than or equal to 25"),
        ("FIRSTWORD_QUEUE_TIMEOUT_S", "0", "greater than 0"),
        ("FIRSTWORD_QUEUE_TIMEOUT_S", "nan", "finite"),
        ("FIRSTWORD_IDLE_TIMEOUT_S", "inf", "finite"),
        ("FIRSTWORD_LOG_FORMAT", "yaml", "'text' or 'json'"),
    ],
)
def test_bad_value_is_named_with_what_was_expected(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, expected: str
) -> None:
    monkeypatch.setenv(variable, value)
    message = refusal()
    assert message.startswith(f"{variable} is '{value}': ")
    assert expected in message
    assert "\n" not in message


@pytest.mark.parametrize("pairs", ["alloy", "=alder", "alloy=", "alloy=alder=wren", "alloy=alder,onyx"])
def test_voice_map_that_is_no_map_is_refused(monkeypatch: pytest.MonkeyPatch, pairs: str) -> None:
    monkeypatch.setenv("FIRSTWORD_OPENAI_VOICES", pairs)
    assert "FIRSTWORD_OPENAI_VOICES: expected name=speaker pairs" in refusal()


def test_all_mistakes_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options by the names they are typed with, variables by theirs."""
    monkeypatch.setenv("FIRSTWORD_MAX_TEXT_CHARS", "0")
    message = refusal(port=-1, max_streams=-1)
    assert "--port is '-1'" in message
    assert "--max-streams is '-1'" in message
    assert "FIRSTWORD_MAX_TEXT_CHARS is '0'" in message


def test_openai_voices_may_be_mapped_and_are_else_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(set(VOICES)) == 13
    monkeypatch.setenv("FIRSTWORD_OPENAI_VOICES", " alloy = alder, narrator=wren,")
    voices = load_settings().surfaces.openai.speakers_of_voices("flint", ())  # nobody to spread them over
    assert voices == dict.fromkeys(VOICES, "flint") | {"alloy": "alder", "narrator": "wren"}


def test_keys_and_origins_are_split_at_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTWORD_API_KEYS", "anna:s3cret, bob:other ,")
    monkeypatch.setenv("FIRSTWORD_CORS_ORIGINS", "https://a.example,https://b.example")
    settings = load_settings()
    assert [key.get_secret_value() for key in settings.server.api_keys] == ["anna:s3cret", "bob:other"]
    assert settings.server.cors_origins == ("https://a.example", "https://b.example")


@pytest.mark.parametrize("value", [",", " , ,", " "])
@pytest.mark.parametrize(
    "name", [name for name, setting in SETTINGS.items() if isinstance(setting.default, tuple | dict)]
)
def test_list_of_separators_alone_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(variable_of(name), value)
    assert refusal().startswith(f"{variable_of(name)}: there is nothing between the commas; ")


def test_lists_that_can_be_empty_are_known() -> None:
    lists = {name for name, setting in SETTINGS.items() if isinstance(setting.default, tuple | dict)}
    assert {"api_keys", "cors_origins", "openai_voices"} <= lists


def test_keys_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTWORD_API_KEYS", "anna:s3cret")
    settings = load_settings()
    assert "s3cret" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    assert "s3cret" not in refusal(api_keys={"anna": "s3cret"})
    with pytest.raises(ValidationError) as caught:
        Settings(server={"port": -1})  # type: ignore[arg-type]
    assert "s3cret" not in str(caught.value)


def test_settings_cannot_be_changed_once_read() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load_settings().server = ServerOptions()  # type: ignore[misc]


def test_log_level_is_taken_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTWORD_LOG_LEVEL", "WARNING")
    assert load_settings().log.log_level == "warning"


def test_home_directory_is_found() -> None:
    assert load_settings(data_dir="~/speech").speakers.data_dir == Path.home() / "speech"


def test_every_setting_says_what_it_is_in_one_line() -> None:
    for name, setting in SETTINGS.items():
        assert setting.description, variable_of(name)
        assert "\n" not in setting.description
        assert not setting.description.endswith(".")


def test_a_group_is_a_plain_value_that_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTWORD_PORT", "1")
    assert ServerOptions() == ServerOptions(port=8000)
    assert load_settings().server == ServerOptions(port=1)
    with pytest.raises(FrozenInstanceError):
        ServerOptions().port = 1  # type: ignore[misc]


def test_variables_of_vllm_carry_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTWORD_VLLM_MEMORY_SHARE", "0.5")
    assert load_settings().lm_engines.vllm == VllmOptions(memory_share=0.5)
    monkeypatch.setenv("FIRSTWORD_VLLM_MEMORY_SHARE", "2")
    assert refusal().startswith("FIRSTWORD_VLLM_MEMORY_SHARE is '2': ")
