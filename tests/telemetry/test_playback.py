import pytest

from firstword.app.telemetry.metrics import Playback

RATE_HZ = 1000  # a sample is a millisecond

CASES = {
    "all at once": ([(0, 500)], 0.0),
    "each chunk before the last one ends": ([(0, 100), (50, 100), (150, 100)], 0.0),
    "exactly when the last one ends": ([(0, 100), (100, 100)], 0.0),
    "a gap of 30 ms": ([(0, 100), (130, 100)], 0.03),
    "two gaps add, for the second comes to a listener who should be further": (
        [(0, 100), (130, 100), (250, 100)],
        0.05,
    ),
    "what is caught up later does not undo a gap": ([(0, 100), (160, 500), (170, 500)], 0.06),
    "audio ahead covers a late chunk": ([(0, 100), (10, 300), (390, 10)], 0.0),
}


@pytest.mark.parametrize(("arrivals_ms", "deficit_s"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("start_s", [0.0, 5000.0])
def test_worst_deficit_is_how_late_the_latest_audio_came(
    arrivals_ms: list[tuple[int, int]], deficit_s: float, start_s: float
) -> None:
    playback = Playback(RATE_HZ)
    for at_ms, num_samples in arrivals_ms:
        playback.received(num_samples, start_s + at_ms / 1000)
    assert playback.worst_deficit_s == pytest.approx(deficit_s, abs=1e-9)
    assert playback.first_at_s == start_s
    assert playback.audio_s == pytest.approx(sum(samples for _, samples in arrivals_ms) / RATE_HZ)


def test_nothing_heard_is_no_deficit() -> None:
    playback = Playback(RATE_HZ)
    assert (playback.first_at_s, playback.worst_deficit_s, playback.audio_s) == (None, 0.0, 0.0)


def test_no_samples_start_no_playback() -> None:
    playback = Playback(RATE_HZ)
    playback.received(0, 1.0)
    assert playback.first_at_s is None
    playback.received(10, 2.0)
    assert (playback.first_at_s, playback.worst_deficit_s) == (2.0, 0.0)


@pytest.mark.parametrize("deficit_s", [0.0, 0.03, 0.4])
def test_a_pre_buffer_of_the_worst_deficit_leaves_no_gap(deficit_s: float) -> None:
    arrivals = [(0.0, 100), (0.1 + deficit_s, 50), (0.12 + deficit_s, 200)]
    playback = Playback(RATE_HZ)
    for at_s, num_samples in arrivals:
        playback.received(num_samples, at_s)
    plays_until_s = playback.worst_deficit_s
    for at_s, num_samples in arrivals:
        assert at_s <= plays_until_s + 1e-9
        plays_until_s += num_samples / RATE_HZ
