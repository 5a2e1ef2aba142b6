"""Describe the WebSocket as an AsyncAPI 3.0 document, made from the messages' own models."""

from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from firstword.app.http import context_messages
from firstword.app.surfaces.websocket import messages

SERVER_MESSAGES: Final[tuple[type[context_messages.Message], ...]] = (
    context_messages.Started,
    context_messages.AudioFrame,
    context_messages.TextWarning,
    context_messages.FlushDone,
    context_messages.Done,
    context_messages.Cancelled,
    messages.Pong,
    messages.ErrorMessage,
)
SUMMARIES: Final = {
    "start": "Set voice and format of a context. Optional: the first text starts one with the defaults.",
    "text": "A piece of the text, of any size; pieces are joined exactly as sent.",
    "flush": "Speak the text received so far and keep the context.",
    "end": "No more text; the rest of the audio follows.",
    "cancel": "Stop at once, for example because the user has started to talk.",
    "ping": "Answered with pong.",
    "started": "The context is there, and what its audio will be.",
    "audio": "The next binary message is that many bytes of audio.",
    "warning": "The text is spoken, but probably not as its writer wants it.",
    "flushed": "All audio of the text before the flush has been sent.",
    "done": "The context has ended, all of its text is spoken.",
    "cancelled": "The context was stopped; no audio follows.",
    "pong": "Answers ping.",
    "error": "What was wrong and what to do; `fatal` tells whether it ended its context.",
}
EXAMPLES: Final[dict[str, dict[str, object]]] = {
    "start": {"type": "start", "context": "a", "speed": 1.1},
    "text": {"type": "text", "context": "a", "text": "The first word "},
    "flush": {"type": "flush", "context": "a"},
    "end": {"type": "end", "context": "a"},
    "cancel": {"type": "cancel", "context": "a"},
    "ping": {"type": "ping"},
}


def describe_websocket(version: str) -> dict[str, Any]:
    """version: of the API."""
    client_messages: tuple[type[BaseModel], ...] = get_args(messages.ClientMessage)
    all_messages = [*client_messages, *SERVER_MESSAGES]
    _, definitions = models_json_schema(
        [(model, "validation") for model in all_messages], ref_template="#/components/schemas/{model}"
    )
    types = {model: str(model.model_fields["type"].default) for model in all_messages}
    described: dict[str, Any] = {}
    for model, name in types.items():
        described[name] = {
            "name": name,
            "summary": SUMMARIES[name],
            "contentType": "application/json",
            "payload": {"$ref": f"#/components/schemas/{model.__name__}"},
        }
        if name in EXAMPLES:
            described[name]["examples"] = [{"payload": EXAMPLES[name]}]
    described["frame"] = {
        "name": "frame",
        "summary": "Binary: the audio that the `audio` message before it announced, in the context's format.",
        "contentType": "application/octet-stream",
        "payload": {"type": "string", "format": "binary"},
    }
    sent = [types[model] for model in SERVER_MESSAGES]
    sent.insert(sent.index("audio") + 1, "frame")
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Firstword: text that is still being written",
            "version": version,
            "description": "One WebSocket carries many contexts; each is one stream of text and speech.",
        },
        "channels": {
            "stream": {
                "address": "/tts/stream",
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in described},
                "bindings": {
                    "ws": {
                        "method": "GET",
                        "query": {
                            "type": "object",
                            "properties": {
                                "api_key": {
                                    "type": "string",
                                    "description": "For a browser, which cannot send the headers with a key.",
                                }
                            },
                        },
                    }
                },
            }
        },
        "operations": {
            "receive": _operation("receive", [types[model] for model in client_messages]),
            "send": _operation("send", sent),
        },
        "components": {"messages": described, "schemas": definitions["$defs"]},
    }


def _operation(action: str, names: list[str]) -> dict[str, Any]:
    """action: of the server."""
    references = [{"$ref": f"#/channels/stream/messages/{name}"} for name in names]
    return {"action": action, "channel": {"$ref": "#/channels/stream"}, "messages": references}
