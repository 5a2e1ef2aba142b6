"""Traces: whose they belong to, which spans they have, what they never hold, and that off is off."""

import http.server
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from firstword.app.events import StreamEvents
from firstword.app.http.rpc.messages import message
from firstword.app.http.service import Service
from firstword.app.service import open_tracing
from firstword.app.settings import InvalidSettings
from firstword.app.telemetry.tracing import NO_TRACE, NO_TRACING, OpenTelemetryTracing
from tests.support.fake_engine import FakeEngine
from tests.support.grpc_serving import grpc_serving
from tests.support.serving import in_process, make_services, serving
from tests.support.toy_engine import ToyEngine, asked
from tests.support.ws_client import connect_client

pytestmark = pytest.mark.anyio

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
PARENT_ID = "b7ad6b7169203331"
PARENT = {"traceparent": f"00-{TRACE_ID}-{PARENT_ID}-01"}
SECRET = "Nobody reads this."


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def services(exporter: InMemorySpanExporter) -> Service:
    return replace(make_services(FakeEngine()), tracing=OpenTelemetryTracing(exporter))


def root_and_stages(exporter: InMemorySpanExporter) -> tuple[ReadableSpan, list[ReadableSpan]]:
    """Of the one trace there is; every stage is a child of its stream, and within it."""
    *stages, root = exporter.get_finished_spans()
    assert root.name == "speech"
    for stage in stages:
        assert stage.parent is not None
        assert stage.parent.span_id == root.context.span_id
        assert stage.context.trace_id == root.context.trace_id
        assert root.start_time <= stage.start_time <= stage.end_time <= root.end_time
    return root, stages


async def test_a_request_is_a_part_of_its_clients_trace(
    services: Service, exporter: InMemorySpanExporter
) -> None:
    before_ns = time.time_ns()
    async with in_process(services) as client:
        body = {"text": SECRET, "format": "pcm", "speaker": "anna"}
        (await client.post("/tts", json=body, headers=PARENT)).raise_for_status()
    root, stages = root_and_stages(exporter)
    assert f"{root.context.trace_id:032x}" == TRACE_ID
    assert f"{root.parent.span_id:016x}" == PARENT_ID
    assert before_ns <= root.start_time <= root.end_time <= time.time_ns()
    names = [stage.name for stage in stages]
    assert set(names) == {"encode", "send"}
    assert names.index("encode") < names.index("send")
    attributes = dict(root.attributes)
    assert attributes["tts.speaker"] == "anna"
    assert attributes["tts.outcome"] == "ok"
    assert attributes["tts.protocol"] == "http"
    assert root.resource.attributes["service.name"] == "firstword"
    assert SECRET.split()[0] not in "".join(span.to_json() for span in exporter.get_finished_spans())


async def test_contexts_of_a_websocket_are_parts_of_its_upgrades_trace(
    services: Service, exporter: InMemorySpanExporter
) -> None:
    async with serving(services) as url, connect_client(url, additional_headers=PARENT) as client:
        for context in ("a", "b"):
            await client.send_turn("Hello.", context)
            await client.receive_until("done", context)
    roots = [span for span in exporter.get_finished_spans() if span.name == "speech"]
    assert [f"{root.context.trace_id:032x}" for root in roots] == [TRACE_ID] * 2
    assert {dict(root.attributes)["tts.protocol"] for root in roots} == {"websocket"}


async def test_grpc_calls_are_parts_of_their_clients_trace(
    services: Service, exporter: InMemorySpanExporter
) -> None:
    synthesize = message("firstword.v1.SynthesizeRequest")(text="Hi.")
    turn = [
        message("firstword.v1.ConverseRequest")(text="Hi."),
        message("firstword.v1.ConverseRequest")(end={}),
    ]
    infer = message("inference.ModelInferRequest")(model_name="cosyvoice2")
    infer.inputs.add(name="target_text", datatype="BYTES", shape=[1, 1]).contents.bytes_contents.append(
        b"Hi."
    )
    async with grpc_serving(services) as rpc:
        metadata = tuple(PARENT.items())
        for call in (
            rpc.speech("Synthesize")(synthesize, metadata=metadata),
            rpc.speech("Converse")(iter(turn), metadata=metadata),
            rpc.inference_method("ModelStreamInfer")(iter([infer]), metadata=metadata),
        ):
            assert [answer async for answer in call]
        await rpc.inference_method("ModelInfer")(infer, metadata=metadata)
    roots = [span for span in exporter.get_finished_spans() if span.name == "speech"]
    assert [f"{root.context.trace_id:032x}" for root in roots] == [TRACE_ID] * 4


async def test_a_stream_of_tensors_is_sent_once_piece_by_piece(
    services: Service, exporter: InMemorySpanExporter
) -> None:
    async with in_process(services) as client:
        path, body = "/v2/models/cosyvoice2/generate_stream", {"target_text": "Hi."}
        (await client.post(path, json=body, headers=PARENT)).raise_for_status()
    root, stages = root_and_stages(exporter)
    assert f"{root.context.trace_id:032x}" == TRACE_ID
    assert [stage.name for stage in stages] == ["encode", "send"] * len("Hi.")
    for stage, following in pairwise(stages):
        assert stage.end_time <= following.start_time


async def test_the_engine_adds_its_stages(exporter: InMemorySpanExporter) -> None:
    trace = OpenTelemetryTracing(exporter).start_stream({}, time.perf_counter())
    events = StreamEvents(time.perf_counter, trace.on_event)
    async with ToyEngine() as toy, toy.engine.open(asked("abcdefgh. ijkl."), events) as stream:
        num_chunks = len([event async for event in stream])
    names = [span.name for span in exporter.get_finished_spans()]
    assert names[:3] == ["speaker", "queue", "text"]
    assert (names.count("prefill"), names.count("decode")) == (2, 2)  # segments
    assert names.count("flow") == names.count("vocoder") >= num_chunks >= 3
    flow, vocoder = (
        next(s for s in exporter.get_finished_spans() if s.name == name) for name in ("flow", "vocoder")
    )
    assert flow.end_time == vocoder.start_time
    assert flow.end_time - flow.start_time == pytest.approx(1e9, rel=1e-6)  # what the toy says


async def test_a_refused_and_a_failed_stream_are_traced(
    services: Service, exporter: InMemorySpanExporter
) -> None:
    engine = services.engine
    assert isinstance(engine, FakeEngine)
    async with in_process(services) as client:
        assert (await client.post("/tts", json={"text": "Hi.", "speaker": "nobody"})).status_code == 404
        engine.failure = RuntimeError("a bug")
        assert (await client.post("/tts", json={"text": "Hi."})).status_code == 500
    refused, failed = [span for span in exporter.get_finished_spans() if span.name == "speech"]
    assert (dict(refused.attributes)["tts.outcome"], refused.status.is_ok) == ("rejected", True)
    assert (dict(failed.attributes)["tts.outcome"], failed.status.is_ok) == ("failed", False)


async def test_what_the_client_does_not_sample_is_not_traced(
    services: Service, exporter: InMemorySpanExporter
) -> None:
    headers = {"traceparent": PARENT["traceparent"].removesuffix("01") + "00"}
    assert services.tracing.start_stream(headers, 0.0) is NO_TRACE
    async with in_process(services) as client:
        (await client.post("/tts", json={"text": "Hi."}, headers=headers)).raise_for_status()
    assert exporter.get_finished_spans() == ()


async def test_the_first_byte_leads_to_its_trace(services: Service) -> None:
    async with in_process(services) as client:
        (await client.post("/tts", json={"text": "Hi."}, headers=PARENT)).raise_for_status()
        openmetrics = await client.get("/metrics", headers={"Accept": "application/openmetrics-text"})
        text = await client.get("/metrics")
    assert text.headers["content-type"].startswith("text/plain")
    assert TRACE_ID not in text.text
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
    (family,) = (
        family
        for family in text_string_to_metric_families(openmetrics.text)
        if family.name == "tts_time_to_first_byte_seconds"
    )
    exemplars = [sample.exemplar.labels for sample in family.samples if sample.exemplar]
    assert exemplars == [{"trace_id": TRACE_ID}]


def test_off_imports_nothing() -> None:
    program = (
        "import sys, asyncio\n"
        "from firstword.app.service import open_tracing\n"
        "async def main():\n"
        "    async with open_tracing('off') as tracing:\n"
        "        return tracing.start_stream({}, 0.0)\n"
        "from firstword.app.telemetry.tracing import NO_TRACE\n"
        "assert asyncio.run(main()) is NO_TRACE\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


async def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(InvalidSettings, match=r"pip install 'firstword\[otel\]'"):
        async with open_tracing("otlp"):
            pass


async def test_off_makes_no_traces() -> None:
    services = make_services(FakeEngine())
    assert services.tracing is NO_TRACING
    assert services.tracing.start_stream(PARENT, 0.0) is NO_TRACE
    async with in_process(services) as client:
        (await client.post("/tts", json={"text": "Hi."}, headers=PARENT)).raise_for_status()


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes OTLP over HTTP."""

    spans: list[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans += [span.name for span in scope.spans]
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the spans that a collector on this machine was sent."""
    spans: list[str] = []
    with http.server.HTTPServer(("127.0.0.1", 0), type("Here", (Collector,), {"spans": spans})) as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield spans
        server.shutdown()
        thread.join()


async def test_spans_reach_a_collector_before_the_server_ends(collected: list[str]) -> None:
    async with (
        open_tracing("otlp") as tracing,
        in_process(replace(make_services(), tracing=tracing)) as client,
    ):
        (await client.post("/tts", json={"text": "Hi."})).raise_for_status()
    assert collected[-1] == "speech"
    assert {"encode", "send"} <= set(collected)
