"""A TensorRT that builds nothing."""

from collections.abc import Mapping

from firstword.models.runtimes.tensorrt.library import Range, TensorRTError


class FakeLibrary:
    """Its plans say what they were built of."""

    name = "tensorrt-rtx"
    version = "1.2.3"
    builds_without_gpu = True

    def __init__(self) -> None:
        self.caches: list[bytes] = []

    def build(
        self, graph: bytes, ranges: Mapping[str, Range], timing_cache: bytes = b""
    ) -> tuple[bytes, bytes]:
        self.caches.append(timing_cache)
        if graph == b"bad":
            raise TensorRTError("cannot read the graph")
        return b"plan of " + graph, timing_cache + b"+"
