# ruff: noqa: RUF001  Chinese punctuation and letters of IPA are meant
"""SSML gives the same parts as marks in brackets, keeps all of its text, and reads nothing but itself."""

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstword.app.errors import InvalidRequest
from firstword.app.text.marks import Language, Part, Pause, Rate, Span, Voice
from firstword.app.text.phonemes import phoneme_marks
from firstword.app.text.ssml import SsmlReader, begins_ssml
from firstword.models.tokenizer import PHONEME_MARKS
from tests.text.marked import joined, speech_marks


@functools.cache
def marks_of(takes_all: bool = True):  # type: ignore[no-untyped-def]
    return speech_marks() if takes_all else speech_marks(())


def parts_of(
    text: str, pieces: list[str] | None = None, takes_all: bool = True
) -> tuple[list[Part], list[str]]:
    warnings: list[str] = []
    marks = marks_of(takes_all)
    reader = SsmlReader(marks, True, warnings.append, is_whole=True)
    parts = [part for piece in pieces or [text] for part in reader.read(piece, False)]
    return parts + reader.read("", True), warnings


def shown(parts: list[Part]) -> list[object]:
    """What is said, joined, and what stands between."""
    found: list[object] = []
    for part in parts:
        if not isinstance(part, Span):
            found.append((type(part).__name__, *(value for value in part_values(part))))
        elif part.written:
            said = marks_of().shown(part.written)
            if found and isinstance(found[-1], str):
                said = str(found.pop()) + said
            found.append(said)
    return found


def part_values(part: Part) -> list[object]:
    match part:
        case Pause():
            return [part.seconds]
        case Voice():
            return [part.name]
        case Rate():
            return [part.rate]
        case Language():
            return [part.language]
    return []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("One &amp; two &#x33;.", ["One & two 3."]),
        ('A<break time="500ms"/>b', ["A", ("Pause", 0.5), "b"]),
        ('A<break strength="strong"/>b<break/>', ["A", ("Pause", 0.8), "b", ("Pause", 0.5)]),
        ("<p>One.</p><s>Two</s>", ["\n\nOne.\n\n\n\nTwo\n\n"]),
        ('<sub alias="World Wide Web">W<s/>WW</sub>!', ["World Wide Web!"]),
        (
            '<voice name="anna">Hi<voice name="bob">ho</voice>ha</voice>.',
            [("Voice", "anna"), "Hi", ("Voice", "bob"), "ho", ("Voice", "anna"), "ha", ("Voice", None), "."],
        ),
        (
            '<prosody rate="80%">a<prosody rate="fast">b</prosody></prosody>c',
            [("Rate", 0.8), "a", ("Rate", 1.0), "b", ("Rate", 0.8), ("Rate", 1.0), "c"],
        ),
        (
            'a<lang xml:lang="de-DE">Guten Tag</lang>b',
            ["a", ("Language", "de-DE"), "Guten Tag", ("Language", None), "b"],
        ),
        ('<phoneme alphabet="x-cmu-arpabet" ph="M AY0">my</phoneme>', ["[M][AY0]"]),
        ('<phoneme alphabet="ipa" ph="njuːˈjɔɹk">New York</phoneme>', ["[N][Y][UW0][Y][AO1][R][K]"]),
        ('<phoneme alphabet="pinyin" ph="chong2 qing4">重庆</phoneme>', ["[ch][óng][q][ìng]"]),
        ('<say-as interpret-as="characters">AB-1</say-as>', ["A B dash one"]),
        ('<say-as interpret-as="digits">204</say-as>', ["two zero four"]),
        ('<say-as interpret-as="telephone">(555) 12-3</say-as>', ["five five five, one two, three"]),
        ('<say-as interpret-as="date" format="mdy">6/5/2024</say-as>', ["June 5, 2024"]),
        ('<say-as interpret-as="time">19h05</say-as>', ["19:05"]),
        ('<say-as interpret-as="currency">USD 45.30</say-as>', ["45.30 USD"]),
        ("<laughter>Ha [breath]</laughter><desc>x</desc> <strong>no</strong>", None),
        ("<![CDATA[<b> & ]]>\r\nx", ["<b> &  x"]),
        ("Hello\n  Bob", ["Hello   Bob"]),
        ("[pause:1s]", [("Pause", 1.0)]),
    ],
)
def test_elements_are_read_as_marks_are(content: str, said: list[object] | None) -> None:
    text = f'<?xml version="1.0"?>\n<speak version="1.1">{content}</speak>\n'
    parts, warnings = parts_of(text)
    assert warnings == []
    if said is None:
        said = ["<laughter>Ha [breath]</laughter> <strong>no</strong>"]
    assert shown(parts) == said
    assert "".join(part.source for part in parts) == text
    cut, _ = parts_of(text, list(text))
    assert shown(cut) == said
    assert "".join(part.source for part in cut) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<speak>Hello", "not well-formed at line 1, column 13: no element found"),
        ("<speak>a</p></speak>", "mismatched tag"),
        ("<speak>&bomb;</speak>", "undefined entity"),
        ('<!DOCTYPE speak [<!ENTITY a "b">]><speak>&a;</speak>', "it has a document type"),
        ('<!DOCTYPE speak SYSTEM "file:///etc/passwd"><speak/>', "it has a document type"),
        ("<talk>a</talk>", "<talk> stands where it may not"),
        ("<speak>" + "<p>" * 40 + "</p>" * 40 + "</speak>", "more than 32 elements in each other"),
        ("<speak>" + "<s/>" * 3000 + "</speak>", "2000 in all"),
        ('<speak><break time="1h"/></speak>', 'the mark <break time="1h"/> in the text has a bad value'),
        ('<speak><break strength="huge"/></speak>', "choose one of none, x-weak"),
        ('<speak><prosody rate="9">a</prosody></speak>', "a rate of 9; expected 0.5 to 2"),
        ('<speak><prosody rate="quick">a</prosody></speak>', 'rate="quick"'),
        ("<speak><voice>a</voice></speak>", "<voice> has no name"),
        ("<speak><sub>a</sub></speak>", "<sub> has no alias"),
        ('<speak><phoneme ph="ʘ">a</phoneme></speak>', "is no English sound of IPA"),
        ('<speak><phoneme alphabet="x" ph="a">a</phoneme></speak>', "alphabet 'x' is unknown"),
        ('<speak><say-as interpret-as="song">a</say-as></speak>', "choose one of characters"),
    ],
)
def test_what_cannot_be_read_is_refused_and_named(text: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parts_of(text)
    assert words in refused.value.message
    assert refused.value.param == "text"


def test_what_is_not_supported_is_told_and_its_text_said() -> None:
    text = '<speak><emphasis>so</emphasis><prosody pitch="high"> it</prosody> <audio src="a"/>is</speak>'
    parts, warnings = parts_of(text)
    assert shown(parts) == ["so it is"]
    assert len(warnings) == 3
    parts, warnings = parts_of('<speak><phoneme ph="maɪ">my</phoneme><laughter/></speak>', takes_all=False)
    assert shown(parts) == ["my"]
    assert ["does not take" in warning for warning in warnings] == [True] * 3


@pytest.mark.parametrize(
    ("text", "is_ssml"),
    [("<speak>a</speak>", True), (" \n<speak >a</speak>", True), ("<speaker>a", False), ("<?xml ?>", True)],
)
def test_ssml_is_found_where_the_text_begins_with_it(text: str, is_ssml: bool) -> None:
    assert begins_ssml(text) is is_ssml
    answers = [begins_ssml(text[:end]) for end in range(len(text))]
    assert [answer for answer in answers if answer is not None] in ([], [is_ssml] * answers.count(is_ssml))


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    *(
                        "<p>",
                        "</p>",
                        "<s/>",
                        '<break time="1s"/>',
                        "&lt;",
                        "&#233;",
                        "<!-- c -->",
                        "[pause:1s]",
                    ),
                    *(
                        '<sub alias="x">',
                        "</sub>",
                        '<prosody rate="0.9">',
                        "</prosody>",
                        "\r\n",
                        "é你😀",
                        "]]",
                    ),
                ]
            ),
            st.text(st.characters(exclude_characters="<&"), max_size=8),
        ),
        max_size=10,
    )
)
def test_any_document_is_kept_whole_or_refused(content: list[str]) -> None:
    text = "<speak>" + "".join(content) + "</speak>"
    outcomes = []
    for pieces in ([text], list(text)):
        try:
            parts, _ = parts_of(text, pieces)
        except InvalidRequest:
            outcomes.append(None)
            continue
        assert "".join(part.source for part in parts) == text
        outcomes.append(shown(joined(parts)))
    assert outcomes[0] == outcomes[1]


def test_pronunciations_become_marks_that_exist() -> None:
    for alphabet, text in [
        ("ipa", "ˈhæpi ðə tʃɜːtʃ θɪŋk ʒʊə bɔɪ"),
        ("x-cmu-arpabet", "HH AE1 P IY0"),
        ("pinyin", "nǐ hǎo zhong1 guo2 liu4 gui3 lü4 ma er2"),
    ]:
        assert set(phoneme_marks(alphabet, text)) <= set(PHONEME_MARKS), text
