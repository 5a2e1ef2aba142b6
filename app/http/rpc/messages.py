"""The messages of the gRPC services, from the compiled descriptions of protos/.

`protocol.binpb` is what protoc makes of the .proto files (`make protos`). It is loaded into a pool of its
own: a process that also uses NVIDIA's client has the inference protocol's names a second time.
"""

from collections.abc import Awaitable, Callable, Mapping
from operator import methodcaller
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

DESCRIPTORS: Final = Path(__file__).parent / "protocol.binpb"
SPEECH: Final = "firstword.v1.Speech"
INFERENCE: Final = "inference.GRPCInferenceService"

Entry = Callable[[Any, Any], Awaitable[Any]]
"""Takes the messages of a call as bytes, and its context."""


def load_pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS.read_bytes())
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


POOL: Final = load_pool()


def message(name: str) -> Any:
    """The class of a message by its full name, such as `firstword.v1.Voice`."""
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(name))


def handler_of(service: str, entries: Mapping[str, Entry]) -> grpc.GenericRpcHandler:
    """Return what a server is given for a service of the pool; entries: by its methods' names.

    To the server each method takes a stream of bytes, so that it is entered before a message is read. On the
    wire there is no difference.
    """
    methods = {}
    described = POOL.FindServiceByName(service).methods_by_name
    for name, entry in entries.items():
        streams = described[name].server_streaming
        kind = grpc.stream_stream_rpc_method_handler if streams else grpc.stream_unary_rpc_method_handler
        methods[name] = kind(entry, response_serializer=methodcaller("SerializeToString"))
    return grpc.method_handlers_generic_handler(service, methods)


def method_of(channel: Any, service: str, name: str) -> Any:
    """Return the callable of a client's channel for a method of the pool."""
    method = POOL.FindServiceByName(service).FindMethodByName(name)
    kinds = {
        (False, False): channel.unary_unary,
        (False, True): channel.unary_stream,
        (True, True): channel.stream_stream,
    }
    return kinds[method.client_streaming, method.server_streaming](
        f"/{service}/{name}",
        request_serializer=message(method.input_type.full_name).SerializeToString,
        response_deserializer=message(method.output_type.full_name).FromString,
    )
