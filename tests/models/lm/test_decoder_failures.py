"""What raises in the middle of a step leaves every row where it was."""

from collections.abc import Sequence

import pytest

from firstword.models.config import SamplingConfig
from firstword.models.lm.decoder import RowRequest, SpeechDecoder
from tests.models.lm.networks import COSYVOICE2, make_model
from tests.models.lm.test_decoder import ALL, ScriptedLM, make_plan, make_request, of_row


def test_a_run_that_fails_can_be_stepped_again() -> None:
    model = ScriptedLM(COSYVOICE2, favoured=range(60))
    decoder = SpeechDecoder(model, SamplingConfig())
    old = decoder.add(make_request("cosyvoice2", 0))
    decoder.step()
    new = decoder.add(make_request("cosyvoice2", 1))
    model.fails = True
    with pytest.raises(RuntimeError, match="out of memory"):
        decoder.step()
    assert (len(old.plan.speech_ids), len(new.plan.speech_ids)) == (1, 0)
    decoder.remove(new)
    assert len(of_row(decoder.step(), old)) == 1


@ALL
def test_a_draw_that_fails_can_be_repeated_and_is_the_same(
    monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    model = make_model(family)

    def ids(failing_steps: Sequence[int]) -> list[list[int]]:
        decoder = SpeechDecoder(model, SamplingConfig())
        rows = [decoder.add(make_request(family, index)) for index in range(3)]
        for number in range(8):
            if number in failing_steps:
                with monkeypatch.context() as patch:
                    patch.setattr("firstword.models.lm.decoder.sample", raise_out_of_memory)
                    with pytest.raises(RuntimeError, match="out of memory"):
                        decoder.step()
            decoder.step()
        return [list(row.plan.speech_ids) for row in rows]

    assert ids([0, 1, 5]) == ids([])


def raise_out_of_memory(*_: object, **__: object) -> None:
    raise RuntimeError("out of memory")


def test_a_row_that_cannot_be_made_leaves_nothing_behind() -> None:
    decoder = SpeechDecoder(ScriptedLM(COSYVOICE2, favoured=range(60)), SamplingConfig())
    with pytest.raises(ValueError, match="Overflow"):
        decoder.add(RowRequest(make_plan("cosyvoice2", 0), seed=1 << 70))
    row = decoder.add(make_request("cosyvoice2", 0))
    assert (row.index, decoder.rows) == (0, [row])
    assert of_row(decoder.step(), row)
