"""The texts of a JSON Lines file."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from firstword.bench.data_set import Item, own_sentences, read_items


def test_lines_are_items_with_recordings_beside_the_file(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "voice.wav", np.zeros((24_000, 2), np.float32), 24_000)
    path = tmp_path / "texts.jsonl"
    path.write_text(
        '{"text": "One."}\n\n{"text": "Zwei.", "language": "de", "speaker": "anna", "seed": 9, "name": "b"}\n'
        '{"text": "Three.", "reference": "voice.wav", "transcript": "Hum."}\n'
    )
    first, second, third = read_items(path)
    assert first == Item("000", "One.", seed=0)
    assert second == Item("b", "Zwei.", "de", "anna", seed=9)
    assert third.reference is not None
    assert (third.reference.samples().shape, third.reference.transcript) == ((16_000,), "Hum.")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "has no texts"),
        ("no", ":1: "),
        ("[]", 'expected an object such as {"text": "Hello."}'),
        ('{"text": 3}', "expected an object"),
        ('{"text": "a", "voice": "b"}', "unknown field 'voice'"),
        ('{"text": "a", "seed": -1}', "seed is -1"),
        ('{"text": "a", "name": "../b"}', "without a folder"),
        ('{"text": "a", "reference": "nothing.wav"}', "nothing.wav"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(line: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text(line)
    with pytest.raises(ValueError, match=r"texts\.jsonl") as caught:
        read_items(path)
    assert why in str(caught.value)


def test_a_line_ends_where_the_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "One.\u2028Two."}\r\n', encoding="utf-8", newline="")
    assert [item.text for item in read_items(path)] == ["One.\u2028Two."]


def test_own_sentences_have_names_and_seeds_of_their_own() -> None:
    items = own_sentences(("en",))
    assert len({item.name for item in items}) == len({item.seed for item in items}) == len(items) == 100
