"""Calls of gRPC that send most of their message and stop, in frames of HTTP/2 that no library would send; and
requests of HTTP that do so."""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8  # RFC 9113
END_HEADERS: Final = 4
ACK: Final = 1
ADDRESS: Final = "127.0.0.2"  # of the attacker, so that the server can tell it from others
FRAME_BYTES: Final = 16_384
WINDOW_BYTES: Final = 65_535
RETRY_S: Final = 1.0
INITIAL_WINDOW: Final = 4  # the setting of that name


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack("!I", len(payload))[1:] + bytes([kind, flags]) + struct.pack("!I", stream) + payload


def literal(name: str, value: str) -> bytes:
    """A header without compression (RFC 7541, 6.2.2)."""
    return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


class HeldUpload:
    """One call whose message never ends, on a connection of its own."""

    def __init__(self, address: str, path: str, num_bytes: int) -> None:
        """num_bytes: of the message, of which all but the last are sent, as far as the server lets them."""
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=5, source_address=(ADDRESS, 0))
        self._received = b""
        self._window = self._window_of_all = WINDOW_BYTES
        self._rest = struct.pack("!BI", 0, num_bytes) + bytes(num_bytes - 1)
        self._offset = 0
        head = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost"}
        head |= {"te": "trailers", "content-type": "application/grpc"}
        block = b"".join(literal(*header) for header in head.items())
        self._socket.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + frame(HEADERS, END_HEADERS, 1, block))

    @property
    def num_sendable(self) -> int:
        """Bytes that the server takes now."""
        return min(self._window, self._window_of_all, FRAME_BYTES, len(self._rest) - self._offset)

    def step(self) -> bool:
        """Send what may be sent, and read what has come. False: the server has ended the call."""
        part = self._rest[self._offset : self._offset + self.num_sendable]
        if part:
            self._socket.sendall(frame(DATA, 0, 1, part))
            self._offset += len(part)
            self._window -= len(part)
            self._window_of_all -= len(part)
        self._socket.settimeout(0.0)
        with suppress(BlockingIOError):
            came = self._socket.recv(65_536)
            if not came:
                return False
            self._received += came
        self._socket.settimeout(5)
        return all([self._take(*one) for one in self._frames()])

    def close(self) -> None:
        self._socket.close()

    def _frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        while len(self._received) >= 9:
            end = 9 + int.from_bytes(self._received[:3], "big")
            if len(self._received) < end:
                return
            head, payload = self._received[:9], self._received[9:end]
            self._received = self._received[end:]
            yield head[3], head[4], int.from_bytes(head[5:], "big"), payload

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> bool:
        if kind == WINDOW_UPDATE:
            more = int.from_bytes(payload, "big")
            self._window += more if stream else 0
            self._window_of_all += 0 if stream else more
        elif kind == SETTINGS and not flags & ACK:
            for setting, value in struct.iter_unpack("!HI", payload):
                self._window += value - WINDOW_BYTES if setting == INITIAL_WINDOW else 0
            self._socket.sendall(frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self._socket.sendall(frame(PING, ACK, 0, payload))
        return kind not in (HEADERS, RST_STREAM, GOAWAY)


class HeldBody:
    """One request of HTTP whose body never ends."""

    def __init__(self, address: str, sent: bytes) -> None:
        """sent: all but its last byte."""
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=5, source_address=(ADDRESS, 0))
        self._socket.setblocking(False)
        self._rest = memoryview(sent)
        self.num_sendable = len(sent)
        self._answered_s: float | None = None

    def step(self) -> bool:
        """Send what may be sent. False: the server has answered, and the second that it asks for is over."""
        if self._answered_s is not None:
            return time.monotonic() - self._answered_s < RETRY_S
        try:
            self._rest = self._rest[self._socket.send(self._rest[: 4 * FRAME_BYTES]) :]
            self.num_sendable = len(self._rest)
        except BlockingIOError:
            self.num_sendable = 0
        with suppress(BlockingIOError):
            self._socket.recv(1)
            self._answered_s = time.monotonic()
            self.num_sendable = 0
        return True

    def close(self) -> None:
        self._socket.close()


def hold(call_anew: Callable[[], HeldUpload | HeldBody], num_calls: int, until_s: float) -> None:
    """Keep so many such calls; one that the server ends is made anew."""
    calls: list[HeldUpload | HeldBody] = []
    while time.monotonic() < until_s:
        with suppress(OSError):
            while len(calls) < num_calls:
                calls.append(call_anew())
        for call in list(calls):
            try:
                goes_on = call.step()
            except OSError:
                goes_on = False
            if not goes_on:
                call.close()
                calls.remove(call)
        if not any(call.num_sendable for call in calls):
            time.sleep(0.001)
