"""Which texts count as being in another language, and what is said of them."""

from dataclasses import replace

import pytest

from firstword.app.commands.published import read_published
from firstword.app.errors import InvalidRequest
from firstword.app.text.language import detect_language
from firstword.app.text.other_languages import PUBLISHED, OtherLanguages, SpokenLanguages, remedy
from firstword.models.checkpoint.traits import LANGUAGES

REFUSING = SpokenLanguages("fake-voice", ("en",), refuses_others=True)


def judge(known: SpokenLanguages, *segments: str) -> None:
    languages = OtherLanguages(known)
    for segment in segments:
        languages.read(segment, detect_language(segment))
        languages.check(is_whole=False)
    languages.check()


@pytest.mark.parametrize(
    ("segments", "language"),
    [
        (["你好"], "Chinese (zh)"),
        (["Guten Morgen, wie geht es Ihnen heute? Der Zug fährt um sieben."], "German (de)"),
        (["Hello.", "Сегодня хорошая погода."], "Russian (ru)"),
        (["Привет."], "Russian (ru)"),
        (
            ["Guten Morgen.", "wie geht es Ihnen heute?", "Der Zug ist heute leider verspaetet."],
            "German (de)",
        ),
        (["Guten Morgen.", "wie geht es Ihnen heute?"], "German (de)"),
    ],
)
def test_most_of_a_text_decides(segments: list[str], language: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        judge(REFUSING, *segments)
    message = refused.value.message
    assert message.startswith(f"the text seems to be {language}, and fake-voice speaks en only; ")
    assert "ask for the language en" in message
    assert refused.value.param == "text"
    judge(replace(REFUSING, refuses_others=False), *segments)


@pytest.mark.parametrize(
    "segments",
    [
        ["The word 你好 is a greeting."],
        ["The weather was fine on that day.", "Привет, мир."],
        ["π", " is about three."],
        ["Hallo Welt"],
        ["12:30"],
        ["She turned to the others on the platform and said:", "Der Zug ist leider verspaetet.", "Oh no."],
        ["Sure!", "Here you go.", "Bon appetit.", "Ciao!", "See you at seven.", "Take care."],
    ],
)
def test_a_name_or_a_sentence_among_others_does_not(segments: list[str]) -> None:
    judge(REFUSING, *segments)


def test_a_language_that_was_asked_for_is_not_judged() -> None:
    languages = OtherLanguages(REFUSING, asked="en")
    for segment in ("Guten Morgen.", "wie geht es Ihnen heute?"):
        assert languages.read(segment, "en") == []
    languages.check()


def test_short_segments_are_warned_of_once_together_they_tell() -> None:
    languages = OtherLanguages(replace(REFUSING, refuses_others=False))
    said = [languages.read(one, "en") for one in ("Guten Morgen.", "wie geht es Ihnen heute?", "Danke.")]
    assert [len(warnings) for warnings in said] == [0, 1, 0]
    assert "German (de)" in said[1][0]


def test_a_text_that_comes_word_by_word_is_not_judged_by_its_first() -> None:
    judge(REFUSING, *["Привет", "means", "hello", "in", "Russian."])
    languages = OtherLanguages(REFUSING)
    for word in ("Сегодня", "погода", "хорошая"):
        languages.read(word, detect_language(word))
        languages.check(is_whole=False)
    languages.read("и будет такой", "ru")
    with pytest.raises(InvalidRequest, match="Russian"):
        languages.check(is_whole=False)


def test_single_letters_do_not_make_a_text_another_language_of_a_spoken_script() -> None:
    russian = "Сегодня хорошая погода, и мы идём гулять по городу Київ."
    assert detect_language(russian) == "uk"
    judge(replace(REFUSING, codes=("en", "ru")), russian)
    judge(replace(REFUSING, codes=("zh", "en")), "今天我们去喝午後の红茶，然后回家。")  # noqa: RUF001
    with pytest.raises(InvalidRequest, match="Ukrainian"):
        judge(REFUSING, russian)


@pytest.mark.parametrize("text", ["こんにちは、今日はいい天気ですね。", "今日は天気がいい。"])
def test_japanese_is_refused_where_chinese_is_spoken(text: str) -> None:
    with pytest.raises(
        InvalidRequest, match=r"seems to be Japanese \(ja\).* firstword download CosyVoice2-0\.5B"
    ):
        judge(replace(REFUSING, codes=("en", "zh")), text)
    judge(replace(REFUSING, codes=("en", "ja")), text)


def test_a_refusal_proposes_english_where_it_is_spoken() -> None:
    with pytest.raises(InvalidRequest, match="ask for the language en,"):
        judge(replace(REFUSING, codes=("zh", "en")), "Сегодня хорошая погода.")


def test_what_nothing_tells_counts_as_english_which_is_never_refused() -> None:
    judge(replace(REFUSING, codes=("de",)), "Good morning to you, and to all of your friends.")


def test_the_remedy_names_a_checkpoint_that_can_be_downloaded() -> None:
    assert PUBLISHED.keys() <= read_published().keys()
    assert list(PUBLISHED.values()) == [LANGUAGES["cosyvoice2"], LANGUAGES["cosyvoice3"]]
    assert "firstword download CosyVoice2-0.5B, then" in remedy("zh", "fake-voice")
    assert "firstword download Fun-CosyVoice3-0.5B-2512, then" in remedy("zh", "CosyVoice2-0.5B")
    assert remedy("th", "fake-voice") == "no checkpoint that is known here speaks Thai"
