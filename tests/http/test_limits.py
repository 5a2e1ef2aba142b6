"""A key's owner gets so many requests a minute and so many streams at once."""

from dataclasses import replace

import pytest

from firstword.app.errors import RateLimited
from firstword.app.http.limits import Quotas, TokenBucket
from tests.support.clock import Clock
from tests.support.serving import LIMITS, counted, error_of, in_process, make_services


def test_a_bucket_fills_as_time_passes_and_never_over_its_rim() -> None:
    bucket = TokenBucket(capacity=2, per_second=0.5, level=2, updated_s=0)
    assert [bucket.take(0), bucket.take(0), bucket.take(0)] == [0, 0, 2]
    assert bucket.take(1) == pytest.approx(1)
    assert bucket.take(2) == 0
    assert [bucket.take(1000), bucket.take(1000), bucket.take(1000)] == [0, 0, 2]


def test_requests_over_the_quota_are_told_when_to_come_again() -> None:
    clock = Clock()
    quotas = Quotas(replace(LIMITS, requests_per_minute=30), clock)
    for _ in range(30):
        quotas.charge("anna")
    with pytest.raises(RateLimited, match="30 requests") as refused:
        quotas.charge("anna")
    assert refused.value.retry_after_s == 2
    quotas.charge("bo")
    clock.now_s += 2
    quotas.charge("anna")


def test_a_place_is_free_again_when_a_stream_ends_in_whatever_way() -> None:
    quotas = Quotas(replace(LIMITS, streams_per_key=1), Clock())
    with quotas.admitted("anna"):
        with pytest.raises(RateLimited), quotas.admitted("anna"):
            pytest.fail("a second stream was admitted")
        with quotas.admitted("bo"):
            pass
    with pytest.raises(KeyError), quotas.admitted("anna"):
        raise KeyError
    with quotas.admitted("anna"):
        pass


def test_who_is_refused_a_stream_is_not_charged_for_it() -> None:
    quotas = Quotas(replace(LIMITS, streams_per_key=1, requests_per_minute=2), Clock())
    with quotas.admitted("anna"):
        for _ in range(5):
            with pytest.raises(RateLimited, match="streams"), quotas.admitted("anna"):
                pytest.fail("a second stream was admitted")
    with quotas.admitted("anna"):
        pass


@pytest.mark.anyio
async def test_a_client_over_its_requests_gets_429() -> None:
    services = make_services(limits=replace(LIMITS, requests_per_minute=1), clock=Clock())
    async with in_process(services) as client:
        statuses = [(await client.post("/tts", json={"text": "Hi."})).status_code for _ in range(2)]
        openai = await client.post("/v1/audio/speech", json={"input": "Hi."})
        enrolment = await client.post("/speakers", data={"name": "bo"}, files={"audio": b"abc"})
        harmless = await client.get("/speakers")
    assert statuses == [200, 429]
    assert (openai.status_code, enrolment.status_code, harmless.status_code) == (429, 429, 200)
    assert openai.headers["retry-after"] == "60"
    assert error_of(openai)["type"] == "rate_limit_error"
    assert counted(services, "tts_rejected_total", reason="rate_limit") == 3
