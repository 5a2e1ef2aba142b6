"""Simulates many servers behind a balancer: first byte, speakers found ready, cost, and what deaths do.

Events come one after the other, in seconds of the model (simpy); what a server takes is measured
(`--calibrate` runs two servers with small random networks, and tells how far the model is from them).
"""

import argparse
import heapq
import json
import random
from bisect import bisect
from collections import OrderedDict, deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count as numbers_from
from math import ceil
from typing import Any, Literal

import numpy as np
import simpy
from rich.table import Table

from firstword.bench.arguments import amount, count, counts
from firstword.bench.terminal import show

Process = Generator[simpy.Event, Any, None]
Policy = Literal["any", "ring", "bounded"]
POLICIES: tuple[Policy, ...] = ("any", "ring", "bounded")
RING_POINTS = 100  # of a server
RETRIES = 2  # of deploy/envoy/envoy.yaml, before the first byte
RETRY_S = 0.025
AUTOSCALED_EVERY_S = 15.0  # by Kubernetes' HPA, as the next
DOWN_AFTER_S = 300.0
SLOTS_IN_USE = 0.7  # of deploy/helm


@dataclass(frozen=True, slots=True)
class Times:
    """One server, as measured. Its streams share its computing: `parallel` of them go at full speed.

    overhead_s: of the way there and back. prompt_s: computing of a speaker that is not ready. first_s,
    stream_s: computing until the first byte, and of the whole stream.
    """

    first_s: float
    stream_s: float
    prompt_s: float
    overhead_s: float = 0.002
    parallel: float = 1.0
    audio_s: float = 3.0  # of a stream
    slots: int = 8
    max_queued: int = 16


SMALL = Times(first_s=0.05, stream_s=0.3, prompt_s=0.1)


NOTICED_S = 1.0  # from the death of a server until the balancer knows


@dataclass(frozen=True, slots=True)
class Scenario:
    """rate_hz: requests a second over all. kept: speakers that one server keeps ready. exponent: of Zipf's.

    bound: a server with more than this times the mean load is passed over ("bounded"). mean_life_s: until a
    server dies; start_s: from then until another is ready in its place,
    and until one that autoscaling asks for is. scales_to: the share of slots in use that autoscaling wants,
    with `num_servers` at least; 0: no autoscaling. surge: what the rate grows by after a third of the time.
    """

    num_servers: int
    rate_hz: float
    seconds: float
    policy: Policy = "ring"
    num_speakers: int = 1_000_000
    exponent: float = 1.0
    kept: int = 500
    bound: float = 1.25
    mean_life_s: float = float("inf")
    start_s: float = 30.0
    scales_to: float = 0.0
    surge: float = 1.0


@dataclass(slots=True)
class Tally:
    first_s: list[float] = field(default_factory=list)
    num_hits: int = 0
    num_misses: int = 0
    num_refused: int = 0
    num_cut: int = 0  # after their first byte
    num_whole: int = 0
    server_s: float = 0.0
    most_servers: int = 0

    def quantile_ms(self, share: float) -> float:
        return 1000 * float(np.quantile(self.first_s, share)) if self.first_s else float("nan")

    @property
    def hit_rate(self) -> float:
        return self.num_hits / max(1, self.num_hits + self.num_misses)

    def row(self, times: Times) -> dict[str, float]:
        """server_h: hours of a server for a thousand hours of audio."""
        audio_s = self.num_whole * times.audio_s
        return {
            "p50_ms": self.quantile_ms(0.5),
            "p95_ms": self.quantile_ms(0.95),
            "hit_rate": self.hit_rate,
            "server_h": 1000 * self.server_s / audio_s if audio_s else float("nan"),
            "refused": self.num_refused,
            "cut": self.num_cut,
        }


class Died(Exception):
    """The server of a stream is gone."""


class Replica:
    """One server: slots, a queue before them, computing that its streams share, speakers kept ready.

    Work is counted in shares: with n streams each gets min(1, parallel ÷ n) of a second a second.
    """

    def __init__(self, env: simpy.Environment, times: Times, number: int, kept: int) -> None:
        self.number = number
        self.is_alive = True
        self.is_left_out = False  # by the balancer
        self.ready: OrderedDict[int, None] = OrderedDict()
        self.num_busy = 0
        self.queue: deque[simpy.Event] = deque()
        self._env, self._times, self._kept = env, times, kept
        self._work: list[tuple[float, int, simpy.Event]] = []  # by the share at which it is done
        self._ids = numbers_from()
        self._share, self._counted_at, self._armed = 0.0, env.now, 0

    @property
    def is_full(self) -> bool:
        return self.num_busy >= self._times.slots and len(self.queue) >= self._times.max_queued

    @property
    def load(self) -> int:
        return self.num_busy + len(self.queue)

    def admit(self) -> simpy.Event:
        event = self._env.event()
        if self.num_busy < self._times.slots:
            self.num_busy += 1
            event.succeed()
        else:
            self.queue.append(event)
        return event

    def leave(self) -> None:
        if self.queue:
            self.queue.popleft().succeed()
        else:
            self.num_busy -= 1

    def finds(self, speaker: int) -> bool:
        """Whether a speaker is ready; it is the next time."""
        is_ready = speaker in self.ready
        self.ready[speaker] = None
        self.ready.move_to_end(speaker)
        if len(self.ready) > self._kept:
            self.ready.popitem(last=False)
        return is_ready

    def compute(self, seconds: float) -> simpy.Event:
        self._count()
        event = self._env.event()
        heapq.heappush(self._work, (self._share + seconds, next(self._ids), event))
        self._arm()
        return event

    def die(self) -> None:
        self.is_alive = False
        self.num_busy = 0
        for event in (*self.queue, *(event for _, _, event in self._work)):
            event.defused = True
            event.fail(Died())
        self.queue.clear()
        self._work.clear()
        self.ready.clear()
        self._armed += 1

    def _rate(self) -> float:
        return min(1.0, self._times.parallel / max(1, len(self._work)))

    def _count(self) -> None:
        self._share += (self._env.now - self._counted_at) * self._rate()
        self._counted_at = self._env.now

    def _arm(self) -> None:
        self._armed += 1
        if not self._work:
            return
        mine = self._armed
        wait_s = max(0.0, (self._work[0][0] - self._share) / self._rate())

        def done(_: simpy.Event) -> None:
            if mine != self._armed:
                return
            self._count()
            until, _number, ended = heapq.heappop(self._work)
            self._share = max(self._share, until)
            ended.succeed()
            self._arm()

        self._env.timeout(wait_s).callbacks.append(done)


def scattered(*parts: int) -> int:
    """Return a point of the ring, always the same for the same numbers (the mixer of splitmix64)."""
    value = 0
    for part in parts:
        value = (value ^ part) + 0x9E3779B97F4A7C15 & (1 << 64) - 1
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
        value = (value ^ value >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
        value ^= value >> 31
    return value


class Cluster:
    def __init__(self, env: simpy.Environment, times: Times, scenario: Scenario, seed: int) -> None:
        self.env, self.times, self.scenario = env, times, scenario
        self.tally = Tally()
        self._random = random.Random(seed)
        self._speakers = np.random.default_rng(seed)
        weights = np.arange(1, scenario.num_speakers + 1, dtype=np.float64) ** -scenario.exponent
        self._zipf = np.cumsum(weights) / weights.sum()
        self._drawn: Iterator[int] = iter(())
        self._wanted = scenario.num_servers
        self._numbers = numbers_from()
        self.replicas: list[Replica] = []
        self._points: list[int] = []
        self._owners: list[Replica] = []
        self._load = 0  # of all servers
        for _ in range(scenario.num_servers):
            self._add()
        self._place()
        self._warm()

    def speaker(self) -> int:
        """Draw by Zipf's law."""
        number = next(self._drawn, None)
        if number is None:
            drawn = np.searchsorted(self._zipf, self._speakers.random(1 << 16))
            self._drawn = iter(drawn.tolist())
            number = next(self._drawn)
        return number

    def candidates(self, speaker: int) -> Iterator[Replica]:
        """Give the servers that the balancer tries one after the other, of those it takes for ready."""
        if self.scenario.policy == "any":
            known = [replica for replica in self.replicas if not replica.is_left_out]
            yield from self._random.sample(known, min(len(known), RETRIES + 1))
            return
        at, seen, passed = bisect(self._points, scattered(speaker)), set[int](), list[Replica]()
        limit = float("inf")
        if self.scenario.policy == "bounded":
            limit = self.scenario.bound * (self._load + 1) / len(self.replicas)
        for step in range(len(self._points)):
            replica = self._owners[(at + step) % len(self._owners)]
            if replica.number in seen or replica.is_left_out:
                continue
            seen.add(replica.number)
            if replica.load >= limit:
                passed.append(replica)
                continue
            yield replica
        yield from passed

    def stream(self, speaker: int) -> Process:
        """One request, from its first attempt to its last byte."""
        asked_at, times = self.env.now, self.times
        tried = 0
        for replica in self.candidates(speaker):
            if tried > RETRIES:
                break
            tried += 1
            if not replica.is_alive or replica.is_full:
                yield self.env.timeout(RETRY_S)
                continue
            self._load += 1
            has_begun = False
            try:
                yield replica.admit()
                if replica.finds(speaker):
                    self.tally.num_hits += 1
                else:
                    self.tally.num_misses += 1
                    yield replica.compute(times.prompt_s)
                yield replica.compute(times.first_s)
                has_begun = True
                self.tally.first_s.append(self.env.now - asked_at + times.overhead_s)
                yield replica.compute(times.stream_s - times.first_s)
                self.tally.num_whole += 1
            except Died:
                if has_begun:
                    self.tally.num_cut += 1
                    return
                continue
            else:
                replica.leave()
                return
            finally:
                self._load -= 1
        self.tally.num_refused += 1

    def arrivals(self) -> Process:
        scenario = self.scenario
        while self.env.now < scenario.seconds:
            grown = scenario.surge if self.env.now > scenario.seconds / 3 else 1.0
            yield self.env.timeout(self._random.expovariate(scenario.rate_hz * grown))
            self.env.process(self.stream(self.speaker()))

    def deaths(self) -> Process:
        while True:
            yield self.env.timeout(self._random.expovariate(len(self.replicas) / self.scenario.mean_life_s))
            alive = [replica for replica in self.replicas if replica.is_alive]
            if alive:
                self.env.process(self._death(self._random.choice(alive)))

    def _death(self, replica: Replica) -> Process:
        replica.die()
        yield self.env.timeout(NOTICED_S)
        replica.is_left_out = True
        yield self.env.timeout(max(0.0, self.scenario.start_s - NOTICED_S))
        replica.is_alive, replica.is_left_out = True, False

    def autoscaling(self) -> Process:
        """As HPA does: by the share of slots in use, up at once, down after five calm minutes."""
        wanted: deque[int] = deque(maxlen=round(DOWN_AFTER_S / AUTOSCALED_EVERY_S))
        while True:
            yield self.env.timeout(AUTOSCALED_EVERY_S)
            in_use = self._load / self.times.slots
            wanted.append(max(self.scenario.num_servers, ceil(in_use / self.scenario.scales_to)))
            now = wanted[-1] if wanted[-1] > self._wanted else min(max(wanted), self._wanted)
            if now > self._wanted:
                self.env.process(self._start(now - self._wanted))
            elif now < self._wanted:
                # Those with the least to do go; their streams finish.
                self.replicas = sorted(self.replicas, key=lambda replica: -replica.load)[:now]
                self._place()
            self._wanted = now

    def _start(self, num_servers: int) -> Process:
        yield self.env.timeout(self.scenario.start_s)
        for _ in range(num_servers):
            self._add()
        self._place()

    def cost(self) -> Process:
        while True:
            self.tally.server_s += self._wanted
            self.tally.most_servers = max(self.tally.most_servers, self._wanted)
            yield self.env.timeout(1.0)

    def _add(self) -> None:
        replica = Replica(self.env, self.times, next(self._numbers), self.scenario.kept)
        self.replicas.append(replica)

    def _place(self) -> None:
        if self.scenario.policy == "any":
            return
        placed = sorted(
            (scattered(replica.number + 1, point), replica.number)
            for replica in self.replicas
            for point in range(RING_POINTS)
        )
        by_number = {replica.number: replica for replica in self.replicas}
        self._points = [at for at, _ in placed]
        self._owners = [by_number[number] for _, number in placed]

    def _warm(self) -> None:
        """Let the servers have spoken before, each four times what it can keep ready."""
        for _ in range(min(4 * self.scenario.kept * len(self.replicas), 2_000_000)):
            speaker = self.speaker()
            next(self.candidates(speaker)).finds(speaker)


def simulate(times: Times, scenario: Scenario, seed: int = 0) -> Tally:
    env = simpy.Environment()
    cluster = Cluster(env, times, scenario, seed)
    env.process(cluster.arrivals())
    env.process(cluster.cost())
    if scenario.mean_life_s != float("inf"):
        env.process(cluster.deaths())
    if scenario.scales_to:
        env.process(cluster.autoscaling())
    env.run(until=scenario.seconds)
    return cluster.tally


def scenarios(
    sizes: Sequence[int], times: Times, base: Scenario, usage: float
) -> Iterator[tuple[str, Scenario]]:
    """Each size and policy as it is, with deaths, and with a load that doubles under autoscaling.

    usage: the share of the servers' computing that is wanted.
    """
    for size in sizes:
        rate_hz = usage * size * times.parallel / times.stream_s
        for policy in POLICIES:
            calm = replace(base, num_servers=size, rate_hz=rate_hz, policy=policy)
            yield "", calm
            yield "deaths", replace(calm, mean_life_s=base.seconds * 5)
            yield "doubled", replace(calm, surge=2.0, scales_to=SLOTS_IN_USE)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench cluster", description=__doc__)
    parser.add_argument(
        "--servers", type=counts, default=(10, 100, 1000), help="sizes, by default 10,100,1000"
    )
    parser.add_argument("--speakers", type=count, default=1_000_000)
    parser.add_argument("--kept", type=count, default=500, help="speakers that one server keeps ready")
    parser.add_argument("--seconds", type=amount, default=120.0, help="of the model")
    parser.add_argument("--usage", type=amount, default=0.6, help="share of the computing that is wanted")
    parser.add_argument("--times", default="{}", help='JSON of what is measured, as {"first_s": 0.05}')
    parser.add_argument("--calibrate", action="store_true", help="run two servers, and tell the deviation")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    if given.calibrate:
        from firstword.bench.cluster_calibration import calibrate

        return calibrate(given.seconds, as_json=given.json)
    times = replace(SMALL, **json.loads(given.times))
    base = Scenario(1, 1.0, given.seconds, num_speakers=given.speakers, kept=given.kept)
    rows: list[dict[str, Any]] = []
    for what, scenario in scenarios(given.servers, times, base, given.usage):
        tally = simulate(times, scenario)
        named = {"servers": scenario.num_servers, "policy": scenario.policy, "what": what}
        rows.append({**named, **tally.row(times), "most": tally.most_servers})
    if given.json:
        print(json.dumps({"rows": rows}))
        return 0
    show(table_of(rows))
    return 0


def table_of(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="of the model; server h: for 1,000 h of audio", title_justify="left", box=None)
    for name in rows[0]:
        table.add_column(name, justify="left" if name in ("policy", "what") else "right")
    for row in rows:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    return table
