"""The model of many servers: what sharing, affinity, deaths and autoscaling do to it."""

import json
from dataclasses import replace

import pytest
import simpy

from firstword.bench.cluster import Cluster, Replica, Scenario, Times, main, simulate

TIMES = Times(first_s=0.1, stream_s=0.4, prompt_s=0.2, overhead_s=0.0, slots=2, max_queued=4)
CALM = Scenario(8, rate_hz=4.0, seconds=60.0, num_speakers=1000, kept=60)


def test_streams_that_share_a_server_take_as_long_as_their_work_together() -> None:
    env = simpy.Environment()
    server = Replica(env, TIMES, 0, kept=1)
    ended = []

    def stream(begins_s: float, work_s: float):
        yield env.timeout(begins_s)
        yield server.compute(work_s)
        ended.append(round(env.now, 6))

    env.process(stream(0.0, 1.0))
    env.process(stream(0.5, 1.0))
    env.run()
    assert ended == [1.5, 2.0]  # half a second alone, then each at half its speed


def test_affinity_finds_more_speakers_ready_and_bounded_load_keeps_the_busiest_server_quick() -> None:
    of = {policy: simulate(TIMES, replace(CALM, policy=policy)) for policy in ("any", "ring", "bounded")}
    assert of["ring"].hit_rate > of["any"].hit_rate + 0.1
    assert of["bounded"].hit_rate > of["any"].hit_rate
    crowded = replace(CALM, rate_hz=10.0, exponent=1.5)
    of = {policy: simulate(TIMES, replace(crowded, policy=policy)) for policy in ("ring", "bounded")}
    assert of["bounded"].quantile_ms(0.95) < of["ring"].quantile_ms(0.95)


def test_deaths_cut_streams_and_every_request_is_accounted_for() -> None:
    tally = simulate(TIMES, replace(CALM, rate_hz=12.0, mean_life_s=30.0, start_s=5.0))
    assert tally.num_cut > 0
    assert tally.num_whole + tally.num_cut <= len(tally.first_s) < tally.num_whole + tally.num_cut + 16


def test_autoscaling_adds_servers_only_where_the_load_grows() -> None:
    scaled = replace(CALM, scales_to=0.7, start_s=5.0)
    assert simulate(TIMES, scaled).most_servers == 8
    assert simulate(TIMES, replace(scaled, surge=6.0)).most_servers > 8


def test_a_speaker_stays_with_its_server_when_another_one_comes() -> None:
    one = Cluster(simpy.Environment(), TIMES, CALM, seed=0)
    more = Cluster(simpy.Environment(), TIMES, replace(CALM, num_servers=9), seed=0)
    moved = [
        speaker
        for speaker in range(500)
        if next(one.candidates(speaker)).number != next(more.candidates(speaker)).number
    ]
    assert 0 < len(moved) < 500 / 4
    assert {next(more.candidates(speaker)).number for speaker in moved} == {8}


def test_the_command_tells_each_size_with_each_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--servers", "2", "--speakers", "100", "--kept", "10", "--seconds", "10", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["servers"], row["policy"]) for row in rows[::3]] == [(2, "any"), (2, "ring"), (2, "bounded")]
