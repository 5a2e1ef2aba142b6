"""Two networks on this machine and what joins them, which may be slow or cut, for root where `ip` is."""

import ctypes
import fcntl
import os
import selectors
import shutil
import struct
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

HERE, THERE = "10.213.0.1", "10.213.0.2"
TUN = Path("/dev/net/tun")
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
CLONE_NEWNET = 0x40000000


def may_have_networks() -> bool:
    """Try it: root in a container may not."""
    if os.geteuid() or shutil.which("ip") is None:
        return False
    name = f"firstword-{os.getpid()}-trial"
    try:
        os.close(os.open(TUN, os.O_RDWR))
        _ip("netns", "add", name)
        _ip("netns", "del", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


class Cable:
    """Carries packets between two devices. delay_s: of each; None: none arrives, and nobody is told."""

    def __init__(self, ends: tuple[int, int]) -> None:
        """ends: open TUN devices."""
        self.delay_s: float | None = 0.0
        self._ends = ends
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="cable")
        self._thread.start()

    @contextmanager
    def delaying(self, delay_s: float | None) -> Iterator[None]:
        self.delay_s = delay_s
        try:
            yield
        finally:
            self.delay_s = 0.0

    def close(self) -> None:
        self._is_closing = True
        self._thread.join()

    def _run(self) -> None:
        one, other = self._ends
        underway: deque[tuple[float, int, bytes]] = deque()  # when, where, what
        with selectors.DefaultSelector() as ready:
            ready.register(one, selectors.EVENT_READ, other)
            ready.register(other, selectors.EVENT_READ, one)
            while not self._is_closing:
                next_s = underway[0][0] - time.monotonic() if underway else 0.1
                for key, _ in ready.select(min(0.1, max(0.0, next_s))):
                    packet = os.read(key.fd, 1 << 16)
                    if self.delay_s is not None:
                        underway.append((time.monotonic() + self.delay_s, key.data, packet))
                while underway and underway[0][0] <= time.monotonic():
                    _, where, packet = underway.popleft()
                    with suppress(OSError):  # its network is being taken down
                        os.write(where, packet)


@contextmanager
def two_networks() -> Iterator[tuple[Cable, str]]:
    """Put this thread, and what it starts, into a network of its own with the address HERE; give the cable to
    another one with the address THERE, and that one's name for `ip netns exec`."""
    names = [f"firstword-{os.getpid()}-{number}" for number in range(2)]
    with ExitStack() as stack:
        ends = []
        for number, (name, address) in enumerate(zip(names, (HERE, THERE), strict=True)):
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "del", name)
            device = f"fw{os.getpid()}-{number}"
            end = os.open(TUN, os.O_RDWR)
            stack.callback(os.close, end)
            fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH", device.encode(), IFF_TUN | IFF_NO_PI))
            ends.append(end)
            _ip("link", "set", device, "netns", name)
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", device)
            for one in ("lo", device):
                _ip("-n", name, "link", "set", one, "up")
        cable = Cable((ends[0], ends[1]))
        stack.callback(cable.close)
        before = stack.enter_context(Path("/proc/thread-self/ns/net").open())
        with Path(f"/run/netns/{names[0]}").open() as own:
            _enter(own.fileno())
        stack.callback(_enter, before.fileno())
        yield cable, names[1]


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _enter(network: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(network, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "a network cannot be entered")
