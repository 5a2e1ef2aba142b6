"""Every kind of error looks as the table in docs/api.md says, with all four keys."""

import logging

import pytest

from firstword.app import errors
from firstword.app.errors import (
    AudioTooLong,
    AudioTooShort,
    BadAudio,
    Draining,
    InvalidApiKey,
    InvalidRequest,
    MethodNotAllowed,
    ModelNotFound,
    OriginNotAllowed,
    Overloaded,
    PathNotFound,
    RateLimited,
    Restarting,
    SpeakerChanged,
    SpeakerDamaged,
    SpeakerExists,
    SpeakerIncompatible,
    SpeakerNotFound,
    StoreFull,
    StoreUnavailable,
    StreamTimeout,
    StringTooLong,
    SynthesisFailed,
    TextTooLong,
    TtsError,
    UpgradeRequired,
    UploadTooLarge,
)
from firstword.app.http.errors import (
    INTERNAL,
    TABLE,
    ErrorResponse,
    error_body,
    outcome_of,
    row_of,
)
from tests.support.fake_engine import FakeEngine
from tests.support.fake_speakers import FakeSpeakers
from tests.support.serving import counted, error_of, in_process, make_services

ROWS = [
    (InvalidRequest("no", param="speed"), 400, "invalid_request_error", "invalid_request", None),
    (TextTooLong("no", param="text"), 413, "invalid_request_error", "text_too_long", None),
    (StringTooLong("no", param="input"), 400, "invalid_request_error", "string_above_max_length", None),
    (SpeakerNotFound("no"), 404, "not_found_error", "speaker_not_found", None),
    (ModelNotFound("no"), 404, "not_found_error", "model_not_found", None),
    (PathNotFound("no"), 404, "not_found_error", "not_found", None),
    (MethodNotAllowed("no", "GET"), 405, "invalid_request_error", "method_not_allowed", None),
    (errors.UrlTooLong("no"), 414, "invalid_request_error", "url_too_long", None),
    (errors.HeadersTooLarge("no"), 431, "invalid_request_error", "headers_too_large", None),
    (errors.UnsupportedCoding("no"), 501, "invalid_request_error", "unsupported_transfer_coding", None),
    (errors.ExpectationFailed("no"), 417, "invalid_request_error", "expectation_failed", None),
    (UpgradeRequired("no"), 426, "invalid_request_error", "upgrade_required", None),
    (SpeakerExists("no"), 409, "conflict_error", "speaker_exists", None),
    (SpeakerChanged("no"), 409, "conflict_error", "speaker_changed", None),
    (SpeakerIncompatible("no"), 409, "conflict_error", "speaker_incompatible", None),
    (SpeakerDamaged("no"), 410, "not_found_error", "speaker_damaged", None),
    (StoreUnavailable("no", 7), 503, "server_error", "store_unavailable", None),
    (StoreFull("no"), 507, "server_error", "store_full", None),
    (BadAudio("no"), 400, "invalid_request_error", "bad_audio", None),
    (AudioTooShort("no"), 400, "invalid_request_error", "audio_too_short", None),
    (AudioTooLong("no"), 400, "invalid_request_error", "audio_too_long", None),
    (UploadTooLarge("no"), 413, "invalid_request_error", "upload_too_large", None),
    (InvalidApiKey("no"), 401, "authentication_error", "invalid_api_key", 1008),
    (errors.InvalidSignature("no"), 401, "authentication_error", "invalid_signature", None),
    (errors.MissingScope("no", "enrol"), 403, "permission_error", "missing_scope", None),
    (errors.SpeakerNotYours("no"), 403, "permission_error", "speaker_not_yours", None),
    (OriginNotAllowed("no"), 403, "permission_error", "origin_not_allowed", None),
    (RateLimited("no", 7), 429, "rate_limit_error", "rate_limited", None),
    (Overloaded("no", 7), 503, "overloaded_error", "overloaded", 1013),
    (Restarting("no", 7), 503, "overloaded_error", "restarting", None),
    (Draining("no", 7), 503, "overloaded_error", "draining", 1012),
    (StreamTimeout("no"), 408, "invalid_request_error", "timeout", None),
    (SynthesisFailed("no"), 500, "server_error", "internal", 1011),
    (TtsError("no"), 500, "server_error", "internal", 1011),
    (RuntimeError("no"), 500, "server_error", "internal", 1011),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("error", "status", "type", "code", "close_code"), ROWS)
async def test_every_row_of_the_table_reaches_the_client(
    error: Exception, status: int, type: str, code: str, close_code: int | None
) -> None:
    services = make_services(FakeEngine(refusal=error))
    async with in_process(services) as client:
        answer = await client.post("/tts", json={"text": "Hi."})
    told = error_of(answer)
    assert (answer.status_code, told["type"], told["code"]) == (status, type, code)
    assert told["param"] == getattr(error, "param", None)
    assert (told["message"] == "no") == (status != 500)
    assert row_of(error).close_code == close_code
    assert answer.headers["x-request-id"]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers.get("retry-after") == ("7" if status in (429, 503) else None)
    assert ("www-authenticate" in answer.headers) == (status == 401 or code == "missing_scope")


def test_every_kind_of_the_tree_has_a_row_of_its_own() -> None:
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TtsError)}
    abstract = {TtsError, errors.Refused, SynthesisFailed}
    assert kinds - abstract <= set(TABLE)
    assert {type(error) for error, *_ in ROWS} >= kinds - {errors.Refused}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (InvalidRequest("no"), ("rejected", None)),
        (TextTooLong("no"), ("rejected", "too_long")),
        (RateLimited("no", 1), ("rejected", "rate_limit")),
        (Overloaded("no", 1), ("rejected", "queue_full")),
        (Draining("no", 1), ("rejected", "draining")),
        (StreamTimeout("no"), ("cancelled", "timeout")),
        (SynthesisFailed("no"), ("failed", None)),
        (KeyError("no"), ("failed", None)),
    ],
)
def test_an_error_ends_a_record_as_what_it_is(error: Exception, outcome: tuple[str, str | None]) -> None:
    assert outcome_of(error) == outcome


@pytest.mark.anyio
async def test_a_rejected_stream_is_counted_by_its_reason() -> None:
    services = make_services(FakeEngine(refusal=Overloaded("full", 3)))
    async with in_process(services) as client:
        await client.post("/tts", json={"text": "Hi."})
    assert counted(services, "tts_rejected_total", reason="queue_full") == 1
    assert counted(services, "tts_requests_total", protocol="http", outcome="rejected") == 1
    assert counted(services, "tts_requests_in_flight") == 0


@pytest.mark.anyio
async def test_a_stream_that_the_server_stops_is_no_rejected_one() -> None:
    services = make_services(FakeEngine(failure=Draining("stopping", 1)))
    async with in_process(services) as client:
        answer = await client.post("/tts", json={"text": "Hi."})
    assert answer.status_code == 503
    assert counted(services, "tts_cancelled_total", reason="shutdown") == 1


@pytest.mark.anyio
async def test_a_fault_of_ours_says_nothing_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    secret = "the text of /home/somebody"
    services = make_services(speakers=FakeSpeakers(failure=RuntimeError(secret)))
    async with in_process(services) as client:
        answer = await client.post("/speakers", data={"name": "bo"}, files={"audio": b"abc"})
    assert answer.status_code == 500
    assert error_of(answer)["code"] == INTERNAL.code
    assert secret not in answer.text
    assert "Traceback" not in answer.text
    (logged,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert logged.getMessage() == "POST /speakers failed"
    assert logged.exc_info is not None
    assert logged.exc_info[1] is services.speakers.failure  # type: ignore[attr-defined]


@pytest.mark.anyio
async def test_a_synthesis_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with in_process(make_services(FakeEngine(failure=SynthesisFailed("no memory")))) as client:
        await client.post("/tts", json={"text": "Hi."})
    assert "POST /tts failed" in caplog.text


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("POST", "/v1/nowhere", 404), ("GET", "/" + "x" * 5000, 404)],
)
async def test_an_unknown_path_is_not_found(method: str, path: str, status: int) -> None:
    async with in_process(make_services()) as client:
        answer = await client.request(method, path)
    assert answer.status_code == status
    assert error_of(answer)["code"] == "not_found"
    assert len(answer.content) < 500


@pytest.mark.anyio
async def test_files_say_which_methods_they_know() -> None:
    async with in_process(make_services()) as client:
        answer = await client.post("/assets/console/style.css")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert error_of(answer)["message"] == "POST not allowed on /assets/console/style.css; allowed: GET, HEAD"


@pytest.mark.anyio
async def test_a_method_that_a_path_does_not_know_is_refused() -> None:
    async with in_process(make_services()) as client:
        answer = await client.delete("/v1/audio/speech")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert error_of(answer)["code"] == "method_not_allowed"
    assert error_of(answer)["message"] == "DELETE not allowed on /v1/audio/speech; allowed: POST"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/tts", {"text": "Hi.", "spaeker": "anna"}, "unknown field `spaeker`; did you mean `speaker`?"),
        ("/tts", {"text": "Hi.", "tempo": 1}, "unknown field `tempo`; remove it"),
        ("/tts", {"input": "Hi."}, "`text` is missing; unknown field `input`; did you mean `text`?"),
        ("/tts", {}, "`text` is missing"),
        ("/v1/audio/speech", {"input": 5}, "`input`: Input should be a valid string; got 5"),
        ("/tts", [], "send a JSON object with Content-Type: application/json"),
    ],
)
async def test_a_message_says_what_to_do(path: str, body: object, message: str) -> None:
    async with in_process(make_services()) as client:
        answer = await client.post(path, json=body)
    assert message in str(error_of(answer)["message"])


@pytest.mark.anyio
async def test_a_misspelled_field_of_a_form_is_named_with_the_right_one() -> None:
    async with in_process(make_services()) as client:
        answer = await client.post(
            "/speakers", data={"name": "bo", "transcirpt": "Hi."}, files={"audio": b"RIFF"}
        )
    assert error_of(answer)["message"] == "unknown field `transcirpt`; did you mean `transcript`?"


@pytest.mark.anyio
async def test_of_many_faults_a_message_shows_a_few() -> None:
    async with in_process(make_services()) as client:
        answer = await client.post("/tts", json={"text": "Hi."} | {f"field{n}": n for n in range(90)})
    assert answer.status_code == 400
    assert len(answer.content) < 1000
    assert "and 82 more" in str(error_of(answer)["message"])


def test_a_message_with_a_lone_surrogate_can_be_sent() -> None:
    body = bytes(ErrorResponse(InvalidRequest("\ud800 came", param="\ud800")).body)
    assert rb"\ud800 came" in body
    assert error_body(InvalidRequest("no"))["error"]["param"] is None
