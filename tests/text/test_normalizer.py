"""The normalizer takes anything, fast, from any thread."""

import random
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from firstword.app.text.chinese import contexts
from firstword.app.text.normalize import Normalizer
from firstword.bench.reading import read_cases
from tests.text.examples import HOSTILE, SENTENCES, chinese_texts, random_texts

LANGUAGES = ("en", "zh", "de")
MAX_CHARS = 4096
MAX_LONG_CHARS = 20_000
ALLOWED_S = 2.0  # a hundred times what the slowest takes; a quadratic reading takes longer


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_takes_no_long_time(unit: str, normalizer: Normalizer) -> None:
    text = (unit * MAX_CHARS)[:MAX_CHARS]
    for language in LANGUAGES:
        began = time.process_time()
        normalizer(text, language)
        assert time.process_time() - began < ALLOWED_S, language


def test_nested_brackets_take_no_long_time(normalizer: Normalizer) -> None:
    half = MAX_CHARS // 2
    began = time.process_time()
    normalizer("[" * half + "](" * half + ")" * half, "en")
    normalizer("(" * half + ")" * half, "en")
    assert time.process_time() - began < ALLOWED_S


@pytest.mark.parametrize("language", LANGUAGES)
def test_any_text_is_read_without_what_cannot_be_said(language: str, normalizer: Normalizer) -> None:
    for text in random_texts(1500):
        spoken = normalizer(text, language)
        assert spoken == spoken.strip()
        assert not set(spoken) & set("\ud800\x00😀[\n"), text
        if language in ("en", "zh"):
            assert not set(spoken) & set("0123456789#*"), text


def test_no_chinese_numbers_and_signs_fail_to_be_read(normalizer: Normalizer) -> None:
    for text in chinese_texts(800, 12):
        assert not set(normalizer(text, "zh")) & set("0123456789"), text


@pytest.mark.parametrize("form", ["3/4{}", "5{}/8{}", "2-3{}", "5{}~6{}", "+5{}", "10^3{}", "1/2/3{}"])
def test_every_unit_is_read_in_every_form(form: str, normalizer: Normalizer) -> None:
    for unit in (*contexts.UNITS, "in"):
        text = form.replace("{}", unit)
        assert not set(normalizer(text, "zh")) & set("0123456789"), text


def test_twenty_thousand_characters_of_chinese_take_no_long_time(normalizer: Normalizer) -> None:
    for unit in ["第138****", *chinese_texts(6, 4)]:
        began = time.process_time()
        normalizer((unit * 20_000)[:20_000], "zh")
        assert time.process_time() - began < 2 * ALLOWED_S, unit


@pytest.fixture(scope="module")
def pieces() -> list[str]:
    """The runs of letters, of digits and the signs of which the cases of English are made."""
    sources = [case.source for case in read_cases() if case.language == "en"]
    return [piece for source in sources for piece in re.findall(r"[^\W\d_]+|\d+|.", source)]


@pytest.mark.parametrize("joint", ["", " "])
def test_english_of_what_cases_are_made_of_is_read(
    joint: str, pieces: list[str], normalizer: Normalizer
) -> None:
    chooser = random.Random(7)
    for _ in range(1000):
        text = joint.join(chooser.choices(pieces, k=chooser.randrange(1, 40)))
        assert not set(normalizer(text, "en")) & set("0123456789"), text


@pytest.mark.parametrize("joint", ["", " "])
def test_long_english_of_what_cases_are_made_of_takes_no_long_time(
    joint: str, pieces: list[str], normalizer: Normalizer
) -> None:
    chooser = random.Random(8)
    for size in (1, 1, 2, 2, 3, 400):
        unit = joint.join(chooser.choices(pieces, k=size)) + joint
        text = (unit * (MAX_LONG_CHARS // len(unit) + 1))[:MAX_LONG_CHARS]
        began = time.process_time()
        normalizer(text, "en")
        assert time.process_time() - began < ALLOWED_S, unit


def test_threads_read_the_same_as_one_alone() -> None:
    sentences = [(text, language) for language, texts in SENTENCES.items() for text in texts] * 4
    alone = Normalizer()
    expected = [alone(*sentence) for sentence in sentences]
    shared = Normalizer()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda sentence: shared(*sentence), sentences)) == expected


def test_warm_up_loads_what_importing_does_not() -> None:
    program = (
        "import sys, firstword.app.text.stream, firstword.app.text.normalize\n"
        "from firstword.app.text.normalize import Normalizer\n"
        "heavy = {'wetext', 'py3langid', 'inflect', 'torch'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "normalizer = Normalizer()\n"
        "normalizer.warm_up(('en',))\n"
        "assert heavy & set(sys.modules) == {'py3langid'}, heavy & set(sys.modules)\n"
        "normalizer('1 October 2024', 'en')\n"
        "assert heavy & set(sys.modules) == {'py3langid'}, heavy & set(sys.modules)\n"
        "normalizer.warm_up(('en', 'yue'))\n"
        "assert heavy & set(sys.modules) == {'py3langid', 'wetext'}, heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
