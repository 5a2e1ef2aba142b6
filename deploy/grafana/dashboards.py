"""The dashboards: *Service* for what clients get, *Capacity* for how much more fits."""

from deploy.grafana.panels import Dashboard, Panel, Query, Row
from deploy.grafana.promql import FAMILIES, WINDOW, Distribution, gauge, info, rate, rate_of, series, total

FIRST_BYTE_OBJECTIVE_S = 0.5  # a bound of the buckets; deploy/prometheus/rules.yml has the same
UNDERRUN_S = 0.1  # a gap that listeners notice

FIRST_BYTE = Distribution.of(FAMILIES.time_to_first_byte_seconds)
FIRST_TEXT = Distribution.of(FAMILIES.first_text_to_first_byte_seconds)
STAGES = Distribution.of(FAMILIES.stage_seconds)
BATCHES = Distribution.of(FAMILIES.batch_size)
RTF = Distribution.of(FAMILIES.real_time_factor)
QUEUE_WAIT = Distribution.of(FAMILIES.queue_wait_seconds)
UNDERRUNS = Distribution.of(FAMILIES.underrun_seconds)
INTERVALS = Distribution.of(FAMILIES.chunk_interval_seconds)
CANCELS = Distribution.of(FAMILIES.cancel_to_stop_seconds)

REQUESTS = total(rate(FAMILIES.requests))
FAILED = total(rate(FAMILIES.requests, 'outcome="failed"'))
NO_SLOT = total(rate(FAMILIES.rejected, 'reason="queue_full"'))
STREAMS = total(gauge(FAMILIES.requests_in_flight))
SLOTS = total(gauge(FAMILIES.max_streams))
CACHE_HITS, CACHE_MISSES = (
    total(rate(FAMILIES.speaker_cache_hits)),
    total(rate(FAMILIES.speaker_cache_misses)),
)


def quantiles(distribution: Distribution, by: str = "") -> list[Query]:
    """Return p50, p95 and p99, for each value of a label if one is given."""
    suffix = f" {{{{{by}}}}}" if by else ""
    labels = [by] if by else []
    return [
        Query(distribution.quantile(share, labels), f"{name}{suffix}")
        for name, share in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)]
    ]


READY = Panel(
    "Servers ready",
    "Servers that are warm and admit streams, of those that answer Prometheus.",
    "short",
    [Query(total(gauge(FAMILIES.ready)), "ready"), Query(f"count({gauge(FAMILIES.ready)})", "of")],
    kind="stat",
)
SATURATION = Panel(
    "Slots in use",
    "Requests in flight over the streams that may run at once; above 100 % requests wait.",
    "percentunit",
    [Query(f"{STREAMS} / {SLOTS}", "in use")],
    bound=1,
)
STREAMS_AND_SLOTS = Panel(
    "Streams",
    "Requests that have not ended, those of them that wait (files apart), and how many may run.",
    "short",
    [
        Query(STREAMS, "in flight"),
        Query(total(gauge(FAMILIES.queue_depth)), "waiting"),
        Query(total(gauge(FAMILIES.file_queue_depth)), "files waiting"),
        Query(SLOTS, "slots"),
    ],
)
REFUSALS = Panel(
    "Refusals by reason",
    "queue_full: no slot within the time; the others are limits, keys, or a server that stops or starts.",
    "reqps",
    [Query(total(rate(FAMILIES.rejected), ["reason"]), "{{reason}}")],
)
SPEAKER_CACHE = Panel(
    "Speakers found in memory",
    "Share of requests whose speaker did not have to be computed again.",
    "percentunit",
    [Query(f"{CACHE_HITS} / ({CACHE_HITS} + {CACHE_MISSES})", "hits")],
)
WAIT = Panel(
    "Wait for a slot", "Of requests that got one.", "s", quantiles(QUEUE_WAIT), bound=FIRST_BYTE_OBJECTIVE_S
)

SERVICE = Dashboard(
    "firstword-service",
    "Firstword: Service",
    "What clients get: how soon they hear something, whether it stops, what goes wrong.",
    [
        Row(
            "Now",
            [
                READY,
                Panel("Requests", "Requests that ended.", "reqps", [Query(REQUESTS)], kind="stat"),
                Panel("Streams", "In flight.", "short", [Query(STREAMS)], kind="stat"),
                Panel(
                    "First byte, p95",
                    "Over all wires.",
                    "s",
                    [Query(FIRST_BYTE.quantile(0.95))],
                    kind="stat",
                    bound=FIRST_BYTE_OBJECTIVE_S,
                ),
                Panel(
                    "With an underrun",
                    f"Completed streams that a client without pre-buffer hears stop for over {UNDERRUN_S} s.",
                    "percentunit",
                    [Query(UNDERRUNS.share_over(UNDERRUN_S))],
                    kind="stat",
                    bound=0.01,
                ),
                Panel(
                    "Audio made",
                    "Seconds of audio per second.",
                    "short",
                    [Query(total(rate(FAMILIES.audio_seconds)))],
                    kind="stat",
                ),
            ],
            across=6,
        ),
        Row(
            "First audio",
            [
                Panel(
                    "Time to first byte by wire",
                    "Request received to first audio payload. On a WebSocket with the client's typing.",
                    "s",
                    quantiles(FIRST_BYTE, "protocol"),
                    bound=FIRST_BYTE_OBJECTIVE_S,
                ),
                Panel(
                    "First text to first byte",
                    "WebSocket contexts: first piece of text to first audio payload.",
                    "s",
                    quantiles(FIRST_TEXT),
                    bound=FIRST_BYTE_OBJECTIVE_S,
                ),
                Panel(
                    "Time to first byte",
                    "How many requests fell into each bucket.",
                    "s",
                    [Query(FIRST_BYTE.buckets())],
                    kind="heatmap",
                ),
                WAIT,
                Panel(
                    "Stages, p50 and p99",
                    "One pass. llm_first_token is a part of llm_first_hop; flow and vocoder are of a batch.",
                    "s",
                    [
                        Query(STAGES.quantile(0.5, ["stage"]), "p50 {{stage}}"),
                        Query(STAGES.quantile(0.99, ["stage"]), "p99 {{stage}}"),
                    ],
                ),
                Panel(
                    "Time in each stage",
                    "Seconds per second, of sums: quantiles do not add up. Without later speech tokens.",
                    "short",
                    [
                        Query(
                            Distribution.of(FAMILIES.stage_seconds, 'stage!="llm_first_token"').sum(
                                ["stage"]
                            ),
                            "{{stage}}",
                        )
                    ],
                    is_stacked=True,
                ),
            ],
        ),
        Row(
            "Streams",
            [
                STREAMS_AND_SLOTS,
                Panel(
                    "Real-time factor",
                    "Compute time over audio time of completed streams, p50, p95 and p99.",
                    "short",
                    quantiles(RTF),
                    bound=1,
                ),
                Panel(
                    "Time between two audio payloads",
                    "Payloads differ in length, so a long gap is not yet an underrun.",
                    "s",
                    quantiles(INTERVALS),
                ),
                Panel(
                    "Streams with an underrun",
                    "Share of completed streams, by the gap a client without pre-buffer hears.",
                    "percentunit",
                    [
                        Query(UNDERRUNS.share_over(0.02), "over 20 ms"),
                        Query(UNDERRUNS.share_over(UNDERRUN_S), "over 100 ms"),
                        Query(UNDERRUNS.share_over(0.5), "over 500 ms"),
                    ],
                    bound=0.01,
                ),
                Panel(
                    "Mean batch size",
                    "Streams that went through a stage at once.",
                    "short",
                    [Query(BATCHES.mean(["stage"]), "{{stage}}")],
                ),
                SPEAKER_CACHE,
            ],
        ),
        Row(
            "Ends",
            [
                Panel(
                    "Requests by outcome",
                    "Refused ones included.",
                    "reqps",
                    [
                        Query(
                            total(rate(FAMILIES.requests), ["protocol", "outcome"]),
                            "{{protocol}} {{outcome}}",
                        )
                    ],
                    is_stacked=True,
                ),
                REFUSALS,
                Panel(
                    "Cancels by reason",
                    "client_cancel and disconnect are the clients' wish; the others are not.",
                    "reqps",
                    [Query(total(rate(FAMILIES.cancelled), ["reason"]), "{{reason}}")],
                ),
                Panel(
                    "Failed requests",
                    "Share of all requests that ended in an error of the server.",
                    "percentunit",
                    [Query(f"{FAILED} / {REQUESTS}", "failed")],
                    bound=0.01,
                ),
                Panel(
                    "Anomalies",
                    "Generations that went wrong: token loops, silence, no end.",
                    "reqps",
                    [Query(total(rate(FAMILIES.generation_anomalies), ["kind"]), "{{kind}}")],
                ),
                Panel(
                    "Cancel to everything freed",
                    "How long a stream that nobody hears still computes.",
                    "s",
                    quantiles(CANCELS),
                ),
            ],
        ),
        Row(
            "vLLM",
            [
                Panel(
                    "Requests in vLLM",
                    "Decode requests of its engine, which are parts of utterances.",
                    "short",
                    [
                        Query(total(series("vllm:num_requests_running")), "running"),
                        Query(total(series("vllm:num_requests_waiting")), "waiting"),
                    ],
                ),
                Panel(
                    "Cached keys and values in use",
                    "Share of the memory for them; at 100 % vLLM preempts.",
                    "percentunit",
                    [Query(series("vllm:kv_cache_usage_perc"), "{{instance}}")],
                    bound=0.95,
                ),
                Panel(
                    "Prompt tokens found in the cache",
                    "Prompts of speakers, and earlier text of a stream whose text arrives in pieces.",
                    "percentunit",
                    [
                        Query(
                            f"{total(rate_of('vllm:prefix_cache_hits_total'))}"
                            f" / {total(rate_of('vllm:prefix_cache_queries_total'))}",
                            "hits",
                        )
                    ],
                ),
                Panel(
                    "Time to first token",
                    "Of a decode request.",
                    "s",
                    quantiles(Distribution("vllm:time_to_first_token_seconds")),
                ),
                Panel(
                    "Time between two tokens",
                    "Below 40 ms the language model keeps up with one stream's speech.",
                    "s",
                    quantiles(Distribution("vllm:inter_token_latency_seconds")),
                    bound=0.04,
                ),
                Panel(
                    "Preemptions and restarts",
                    "Requests that vLLM preempted for want of memory; engines started again.",
                    "short",
                    [
                        Query(total(rate_of("vllm:num_preemptions_total")), "preemptions per second"),
                        Query(total(rate(FAMILIES.engine_restarts)), "restarts per second"),
                    ],
                ),
            ],
            is_collapsed=True,
        ),
    ],
)

CAPACITY = Dashboard(
    "firstword-capacity",
    "Firstword: Capacity",
    "How much is used, how much more fits, and what runs out first.",
    [
        Row(
            "Streams",
            [
                SATURATION,
                STREAMS_AND_SLOTS,
                Panel(
                    "First byte and streams",
                    "Whether the first byte comes later with more streams: both over the same time.",
                    "short",
                    [
                        Query(FIRST_BYTE.quantile(0.95), "first byte p95 (s)"),
                        Query(
                            f"avg_over_time({gauge(FAMILIES.requests_in_flight)}[{WINDOW}])", "{{instance}}"
                        ),
                    ],
                ),
                WAIT,
                Panel(
                    "Refused for lack of a slot",
                    "Share of all requests. More servers, or a longer FIRSTWORD_QUEUE_TIMEOUT_S.",
                    "percentunit",
                    [Query(f"{NO_SLOT} / {REQUESTS}", "refused")],
                    bound=0.05,
                ),
                Panel(
                    "WebSockets",
                    "Open connections and contexts; idle ones take no slot.",
                    "short",
                    [
                        Query(total(gauge(FAMILIES.ws_connections)), "connections"),
                        Query(total(gauge(FAMILIES.ws_contexts)), "contexts"),
                    ],
                ),
            ],
        ),
        Row(
            "Work",
            [
                Panel(
                    "Audio made",
                    "Seconds of audio per second: how many clients listen in real time.",
                    "short",
                    [Query(total(rate(FAMILIES.audio_seconds), ["instance"]), "{{instance}}")],
                    is_stacked=True,
                ),
                Panel(
                    "Compute per second",
                    "Audio made times the real-time factor: cores that streams keep busy, or a GPU's share.",
                    "short",
                    [Query(f"{total(rate(FAMILIES.audio_seconds))} * {RTF.mean()}", "busy")],
                ),
                Panel(
                    "Real-time factor by load",
                    "How many completed streams fell into each bucket.",
                    "short",
                    [Query(RTF.buckets())],
                    kind="heatmap",
                ),
                Panel(
                    "Speech tokens and characters",
                    "Per second; 25 speech tokens are a second of speech.",
                    "short",
                    [
                        Query(total(rate(FAMILIES.speech_tokens)), "speech tokens"),
                        Query(total(rate(FAMILIES.input_characters)), "characters"),
                    ],
                ),
                Panel(
                    "Mean batch size",
                    "What runs together costs less; on a CPU flow and vocoder run alone.",
                    "short",
                    [Query(BATCHES.mean(["stage"]), "{{stage}}")],
                ),
                SPEAKER_CACHE,
            ],
        ),
        Row(
            "Process",
            [
                Panel(
                    "Cores in use",
                    "Of the server's process; vLLM's own processes are not in it.",
                    "short",
                    [Query(rate_of("process_cpu_seconds_total"), "{{instance}}")],
                ),
                Panel(
                    "Memory",
                    "Resident, of the server's process, and in use on the device (0 on a CPU).",
                    "bytes",
                    [
                        Query(series("process_resident_memory_bytes"), "{{instance}}"),
                        Query(gauge(FAMILIES.device_memory_bytes), "device {{instance}}"),
                    ],
                ),
                Panel(
                    "Open files and tasks",
                    "Files and sockets; tasks of the event loop. Both fall back when streams end.",
                    "short",
                    [
                        Query(series("process_open_fds"), "files {{instance}}"),
                        Query(gauge(FAMILIES.event_loop_tasks), "tasks {{instance}}"),
                    ],
                ),
                Panel(
                    "Uptime",
                    "Since the start of the process.",
                    "s",
                    [Query(f"time() - {series('process_start_time_seconds')}", "{{instance}}")],
                ),
                Panel(
                    "Speakers",
                    "That can be requested.",
                    "short",
                    [Query(gauge(FAMILIES.speakers), "{{instance}}")],
                ),
                Panel(
                    "What runs",
                    "Checkpoint, back end and version of each server.",
                    "short",
                    [Query(info(FAMILIES.build_info))],
                    kind="table",
                ),
            ],
        ),
    ],
)

DASHBOARDS = {"service": SERVICE, "capacity": CAPACITY}
