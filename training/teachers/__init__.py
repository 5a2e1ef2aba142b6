"""The voices that the built-in one learns from, opened by what the settings call them."""

import re

from training.teachers.spoken import Teacher, TeacherError

_KOKORO = re.compile(
    r"kokoro( (?P<reads>british|mandarin))?( (?P<speed>\d+(\.\d+)?))?(?P<styles>( [a-z]\S*)+)"
)


def open_teacher(call: str) -> Teacher:
    """call: hibari, shifted PITCH FORMANTS [RANGE [COEFFICIENTS]], kokoro [british|mandarin] [SPEED]
    STYLE[:SHARE] ..., festival VOICE [RATE], rhvoice VOICE [RATE], pico VOICE [RATE] or flite VOICE.

    Teachers' packages are imported here: each is needed only where its teacher is asked for. Raises
    TeacherError for a call that names none.
    """
    kind, *words = call.split()
    try:
        if kind == "hibari" and not words:
            from training.teachers.hibari import Hibari

            return Hibari()
        if kind == "shifted" and 2 <= len(words) <= 4:
            from training.teachers.shifted import Shifted

            return Shifted(*(float(word) for word in words))
        if kind == "kokoro" and (found := _KOKORO.fullmatch(call)):
            pairs = [word.partition(":") for word in found["styles"].split()]
            styles = {name: float(share or 1) for name, _, share in pairs}
            speed = float(found["speed"] or 1)
            if found["reads"] == "mandarin":
                from training.teachers.kokoro_mandarin import MandarinKokoro

                return MandarinKokoro(styles, speed)
            from training.teachers.kokoro import Kokoro

            return Kokoro(styles, found["reads"] == "british", speed)
        if kind == "festival" and 1 <= len(words) <= 2:
            from training.teachers.festival import Festival

            return Festival(words[0], *(float(word) for word in words[1:]))
        if kind in ("rhvoice", "pico") and 1 <= len(words) <= 2:
            from training.teachers.programs import SpeakingProgram

            return SpeakingProgram(kind, words[0], *(float(word) for word in words[1:]))
        if kind == "flite" and len(words) == 1:
            from training.teachers.flite import Flite

            return Flite(words[0])
    except ModuleNotFoundError as error:
        raise TeacherError(f"{call}: {error}; fix: pip install -e '.[voice]'") from error
    raise TeacherError(
        f'teacher {call!r}: expected "hibari", "shifted 0.55 0.86", "kokoro jm_kumo" or "flite rms"'
    )
