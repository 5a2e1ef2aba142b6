"""Speaks a text with a voice of festival that is no relative of the other teachers.

Catalan and Finnish voices read English as their own language: what they say is of no use to the language
model, but the flow learns how else a person can sound. Called as Debian's packages install it
(`festvox-kdlpc16k`: a license like X's; `festvox-ca-ona-hts`, `festvox-suopuhe-lj` and `-mv`: LGPL).
"""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from training.teachers.flite import US_ENGLISH
from training.teachers.spoken import (
    Spoken,
    TeacherError,
    as_int16,
    cycles_of_steps,
    phones_by_name,
    read_samples,
    run_program,
    voiced_only,
)
from training.teachers.world import f0_of

# A voice's phones, each beside misaki's symbol that is nearest to it.
_CATALAN = """
    pau _ a ɑ a1 ɑ ax ə e ɛ e1 ɛ E ɛ E1 ɛ i i i1 i o ɔ o1 ɔ O ɔ O1 ɔ u u u1 u j j y j w w b b B b d d D ð
    f f g ɡ G ɡ J j k k l l L l m m n n N ŋ p p r ɾ rr ɹ s s S ʃ t t tS ʧ dZ ʤ x h z z Z ʒ
"""  # noqa: RUF001
_FINNISH = """
    # _ a ɑ e ɛ i i o ɔ u u y u @ æ 7 ɜ b b d d f f g ɡ h h j j k k l l m m n n N ŋ p p r ɹ s s S ʃ t t T t
    v v
"""  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class _Voice:
    function: str  # of festival, that selects it
    package: str  # of Debian, that has it
    phones: str  # their names, as `phones_by_name` reads them


VOICES = {
    "ked": _Voice("voice_ked_diphone", "festvox-kdlpc16k", US_ENGLISH),
    "ona": _Voice("voice_upc_ca_ona_hts", "festvox-ca-ona-hts", _CATALAN),
    "lj": _Voice("voice_suo_fi_lj_diphone", "festvox-suopuhe-lj", _FINNISH),
    "mv": _Voice("voice_hy_fi_mv_diphone", "festvox-suopuhe-mv", _FINNISH),
}

_LISTING = '(mapcar (lambda (voice) (format t "%s\\n" voice)) (voice.list))'
_PROGRAM = """
(define (told segment)
  (format t "segment %s %f %s\\n" (item.name segment) (item.feat segment 'end)
    (item.feat segment "R:SylStructure.parent.parent.R:Word.id")))
({function})
(set! spoken (utt.synth (Utterance Text "{text}")))
(utt.save.wave spoken "{path}")
(mapcar told (utt.relation.items spoken 'Segment))
(format t "words %d\\n" (length (utt.relation.items spoken 'Word)))
"""


class Festival:
    knows_phase = False

    def __init__(self, voice: str, rate: float = 1.0) -> None:
        """rate: how many times as fast its samples are played, which makes another speaker of it.

        Raises TeacherError for another voice, and where festival or the voice is missing.
        """
        if voice not in VOICES:
            raise TeacherError(f"festival voice {voice!r}: expected one of {', '.join(VOICES)}")
        if shutil.which("festival") is None:
            raise TeacherError(f"festival is missing: `apt-get install festival {VOICES[voice].package}`")
        if VOICES[voice].function.removeprefix("voice_") not in _festival(_LISTING):
            raise TeacherError(f"festival's voice is missing: `apt-get install {VOICES[voice].package}`")
        self._voice, self._rate = VOICES[voice], rate
        self._phone_of = phones_by_name(self._voice.phones)

    def speak(self, text: str) -> Spoken:
        """Raises TeacherError when nothing came out."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "spoken.wav")
            quoted = text.replace("\\", " ").replace('"', " ")
            lines = _festival(_PROGRAM.format(function=self._voice.function, text=quoted, path=path))
            segments = [line.split()[1:] for line in lines if line.startswith("segment ")]
            num_words = [int(line.split()[1]) for line in lines if line.startswith("words ")]
            if not path.exists() or not segments or not num_words:
                raise TeacherError(
                    f"festival could not speak {text!r}; it needs Debian's {self._voice.package}"
                )
            samples = read_samples(path, self._rate)
        names = [name.removesuffix(":") for name, _, _ in segments]  # long ones are no phones of their own
        if unknown := set(names) - self._phone_of.keys():
            raise TeacherError(f"festival: unknown phones {sorted(unknown)} in {text!r}")
        phones = np.array([self._phone_of[name] for name in names], np.uint8)
        ends_s = np.array([float(end) for _, end, _ in segments], np.float32) / self._rate
        words = dict.fromkeys(word for _, _, word in segments if word != "0")  # a silence has none
        numbers = {word: number for number, word in enumerate(words)}
        f0_hz = f0_of(samples)
        return Spoken(
            as_int16(samples),
            phones,
            ends_s,
            np.array([numbers.get(word, -1) for _, _, word in segments], np.int32),
            num_words[0],
            voiced_only(f0_hz, phones, ends_s),
            cycles_of_steps(f0_hz),
            "",
        )


def _festival(program: str) -> list[str]:
    """-> the lines it wrote."""
    done = run_program(["festival", "-b", "--pipe"], program, encoding="latin-1", errors="ignore")
    return done.stdout.splitlines()
