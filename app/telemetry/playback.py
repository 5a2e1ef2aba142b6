"""Simulates a listener who plays from the first byte on, with no pre-buffer."""


class Playback:
    """Fed with what arrived and when, in the order of arrival. One per stream.

    worst_deficit_s: how late the latest audio came, measured against playing without a stop. It is the
    pre-buffer that would have avoided every gap, and the sum of the gaps of a listener who waits in each.
    """

    def __init__(self, sample_rate_hz: int) -> None:
        assert sample_rate_hz > 0, sample_rate_hz
        self.sample_rate_hz = sample_rate_hz
        self.first_at_s: float | None = None  # None: nothing heard
        self.worst_deficit_s = 0.0
        self._num_samples = 0

    @property
    def audio_s(self) -> float:
        return self._num_samples / self.sample_rate_hz

    def heard(self, num_samples: int, at_s: float) -> None:
        """Audio of `num_samples` arrived at `at_s`, on any clock that does not run backwards."""
        assert num_samples >= 0, num_samples
        if num_samples == 0:
            return
        if self.first_at_s is None:
            self.first_at_s = at_s
        runs_dry_at_s = self.first_at_s + self.audio_s
        self.worst_deficit_s = max(self.worst_deficit_s, at_s - runs_dry_at_s)
        self._num_samples += num_samples
