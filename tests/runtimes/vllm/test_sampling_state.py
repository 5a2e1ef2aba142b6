"""What a request says about its draws arrives as it was sent."""

import json

import pytest

from firstword.models.config import SamplingConfig
from firstword.models.lm.plan import Forbidden, SamplingSpan
from firstword.models.runtimes.engines.sampling_state import SamplingState


def test_draws_travel_to_the_engine_and_back() -> None:
    span = SamplingSpan(9, Forbidden.STOPS, 5, Forbidden.ALL_BUT_EOS)
    draws = SamplingState.of(
        span, seed=1, num_drawn=2, history=(3, 4), is_greedy=True, config=SamplingConfig(top_k=3)
    )
    travelled = json.loads(json.dumps(draws.written()))  # tuples become lists on the way
    assert SamplingState.read(travelled) == draws
    assert (draws.first_rule, draws.num_first, draws.later_rule) == (
        Forbidden.STOPS,
        5,
        Forbidden.ALL_BUT_EOS,
    )


@pytest.mark.parametrize("extra_args", [None, {}, {"firstword": 1}])
def test_a_request_without_its_draws_is_refused(extra_args: dict[str, object] | None) -> None:
    with pytest.raises(ValueError, match="only Firstword"):
        SamplingState.read(extra_args)
