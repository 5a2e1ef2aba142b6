"""What the wire of a surface cannot do, by story, with the reason. Every surface does all the rest."""

from typing import Final

_FLOATS = "the protocol has tensors of float32, whose rate and speed are the model's"
_RAW = "the published clients read raw samples at the model's rate"
_NO_WORDS = "the protocol has one tensor of samples and no place for words"
_LATER = "an item waits for a slot, as long as it takes, and is not refused"
_NOBODY = "nobody listens: the item is spoken to its end"

CANNOT: Final[dict[str, dict[str, str]]] = {
    "test_chinese_is_spoken_by_its_own_default_speaker_on_every_wire": {
        "cosyvoice": "a request always names a speaker"
    },
    "test_a_format_is_what_was_asked_for": {
        "inference-http": _FLOATS,
        "inference-grpc": _FLOATS,
        "cosyvoice": _RAW,
    },
    "test_every_rate_lasts_as_long": {
        "inference-http": _FLOATS,
        "inference-grpc": _FLOATS,
        "cosyvoice": _RAW,
    },
    "test_a_value_out_of_bounds_is_refused": {
        "inference-http": _FLOATS,
        "inference-grpc": _FLOATS,
        "cosyvoice": _RAW,
    },
    "test_changed_speed_leaves_the_mark": {"inference-http": _FLOATS, "inference-grpc": _FLOATS},
    "test_words_come_with_their_audio": {
        "inference-http": _NO_WORDS,
        "inference-grpc": _NO_WORDS,
        "batches": "an item becomes a file, and nothing keeps its words",
        "line": "a connection carries audio alone",
        "cosyvoice": _RAW,
    },
    "test_a_fault_among_words_never_looks_complete": {
        "inference-http": _NO_WORDS,
        "inference-grpc": _NO_WORDS,
        "batches": "an item becomes a file, and nothing keeps its words",
        "line": "a connection carries audio alone",
        "cosyvoice": _RAW,
    },
    "test_an_empty_text_is_refused": {
        "websocket": "a text comes in pieces, and an empty one adds nothing",
    },
    "test_nothing_to_say_is_a_moment_of_silence": {
        "websocket": "messages with audio come where there is audio; `done` is the answer",
    },
    "test_a_full_server_refuses": {"batches": _LATER},
    "test_a_refusal_says_when_to_come_again": {
        "websocket": "a close code of 1013 says it; an error message has no field for seconds",
        "batches": _LATER,
    },
    "test_a_text_over_the_limit_is_refused": {
        "batches": "an item may be a chapter: its own limit is of 100,000 characters",
    },
    "test_a_key_has_so_many_streams_at_once": {
        "batches": "what is spoken in the background counts as no stream of its key",
    },
    "test_who_leaves_frees_the_slot": {"batches": _NOBODY},
    "test_who_leaves_while_it_waits_leaves_the_queue": {"batches": _NOBODY},
    "test_a_draining_server_takes_nothing_new": {
        "batches": "it is kept, and spoken after the next start",
    },
    "test_a_stream_that_a_drain_cannot_wait_for_is_not_complete": {
        "batches": "it is kept, and spoken again after the next start",
    },
}
