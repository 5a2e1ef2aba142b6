"""Chinese characters as pinyin marks: polyphones, text in pieces, traditional ones, beside English words."""

# ruff: noqa: RUF001
import gzip
import json
import random
import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from firstword.app.budget import DEFAULT_LIMITS, Work
from firstword.app.options import BUILTIN_CHECKPOINT
from firstword.app.text.heteronyms import HeteronymReader
from firstword.app.text.marks import MarkReader, Part, Reading, Span, SpeechMarks
from firstword.app.text.normalize import Normalizer
from firstword.app.text.phonemes import phoneme_marks
from firstword.app.text.segment import FamilyRules, Segment, SegmentLimits
from firstword.app.text.stream import Mode, Pronunciations, TextFrontend
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import TRAITS_FILE
from firstword.models.tokenizer import PHONEME_MARKS, PRONUNCIATION_FOLDER, SPEECH_MARKS, load_text_tokenizer
from firstword.models.tokenizer.interface import TokenizerError
from firstword.models.tokenizer.mandarin import MANDARIN_FILE, Mandarin, pinyin_marks
from firstword.models.tokenizer.pronunciation import SOUNDS, PronouncingTokenizer
from firstword.models.tokenizer.qwen2 import PINYIN_TOKENS, Qwen2Tokenizer, special_tokens
from training.pronunciation.mandarin import write_phrases
from training.text.mandarin import evaluation_sentences, make_texts, mixed_sentences
from training.text_tokenizer import write_tokenizer

FOLDER = BUILTIN_CHECKPOINT / PRONUNCIATION_FOLDER
CASES = [line.split(" ") for line in Path(__file__).with_name("mandarin.txt").read_text("utf-8").splitlines()]
MIXED = "我用 Python 和重庆银行 行长 Tom 长大的弟弟还了2本书，音乐 record 很快乐！他们得还给銀行。"


@pytest.fixture(scope="module")
def mandarin() -> Mandarin:
    return Mandarin(FOLDER / MANDARIN_FILE)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PronouncingTokenizer:
    """That of a voice whose language model knows the marks."""
    folder = tmp_path_factory.mktemp("voice")
    (folder / "CosyVoice-BlankEN").mkdir()
    write_tokenizer(folder / "CosyVoice-BlankEN", (), 0, (*SOUNDS, *PINYIN_TOKENS))
    shutil.copytree(FOLDER, folder / PRONUNCIATION_FOLDER)
    loaded = load_text_tokenizer("cosyvoice2", folder, reads_sounds=True, speaks_mandarin=True)
    assert isinstance(loaded, PronouncingTokenizer)
    return loaded


@pytest.mark.parametrize(
    ("syllables", "marks"),
    [
        ("ni3 hao3", "[n][ǐ][h][ǎo]"),
        ("nv3 lv4 lve4 nve4", "[n][ǚ][l][ǜ][l][vè][n][vè]"),
        ("yu2 wu3 yi1 yuan2 yue4 yun1 you3", "[y][ú][w][ǔ][y][ī][y][uán][y][uè][y][ūn][y][ǒu]"),
        ("ju1 xue2 quan2 jun1", "[j][ū][x][ué][q][uán][j][ūn]"),
        ("jian4 hua1 liu2 gui4 xiong2 guai4", "[j][iàn][h][uā][l][iú][g][uì][x][ióng][g][uài]"),
        ("er2 er an1 e4", "[ér][r][ān][è]"),
        ("le de zhi shang", "[l][e][d][e][zh][i][sh][ang]"),
        ("jia", "[j][iā]"),  # there is no mark of that final without a tone
    ],
)
def test_syllables_become_marks(syllables: str, marks: str) -> None:
    assert "".join(mark for one in syllables.split() for mark in pinyin_marks(one)) == marks


def test_every_syllable_has_marks_of_the_tokenizer_and_they_are_those_that_clients_get(
    mandarin: Mandarin,
) -> None:
    written = gzip.decompress((FOLDER / MANDARIN_FILE).read_bytes()).decode()
    syllables = set(re.findall("[a-z]+[1-5]?", written))
    assert len({one.rstrip("12345") for one in syllables}) > 400
    assert (
        {mark for one in syllables for mark in pinyin_marks(one)} == set(mandarin.marks) <= set(PINYIN_TOKENS)
    )
    for one in syllables:
        if one[-1].isdigit():
            assert phoneme_marks("pinyin", one) == pinyin_marks(one), one


@pytest.mark.parametrize("syllable", ["", "ni9", "b", "xyz1", "好"])
def test_what_is_no_syllable_is_refused(syllable: str) -> None:
    with pytest.raises(ValueError, match="is no syllable of pinyin"):
        pinyin_marks(syllable)


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_polyphones_are_read_by_their_context(mandarin: Mandarin, case: list[str]) -> None:
    """case: a text, a character, its syllable, and which of its places is meant where it has several."""
    text, character, syllable, *number = case
    places = [place for place, one in enumerate(text) if one == character]
    assert len(places) == 1 or number, "which of them?"
    place = places[int(number[0]) - 1 if number else 0]
    syllables = mandarin.syllables(text)
    before = re.sub(r"\d+", "#", text[:place])  # digits are one piece
    assert syllables[len(before)] == syllable


def test_phrases_leave_the_tones_of_the_dictionary() -> None:
    for line in gzip.decompress((FOLDER / MANDARIN_FILE).read_bytes()).decode().splitlines():
        phrase, _, read = line.partition("\t")
        for one, syllable in zip(phrase, read.split(" "), strict=False):
            assert (one, syllable) not in {("一", "yi2"), ("一", "yi4"), ("不", "bu2")}, phrase


@pytest.mark.parametrize("text", ["我有3只猫", "5行字", "2只鸡", "3只有", "第12行长"])
def test_a_measure_word_behind_digits_is_read_alike_however_it_is_cut(
    mandarin: Mandarin, tokenizer: PronouncingTokenizer, text: str
) -> None:
    marks = speech_marks(tokenizer)
    whole = spans(read(mandarin, marks, [text]))
    assert spans(read(mandarin, marks, list(text))) == whole
    for cut in range(1, len(text)):
        assert spans(read(mandarin, marks, [text[:cut], text[cut:]])) == whole


def test_digits_beside_a_measure_word_are_said_in_chinese(tokenizer: PronouncingTokenizer) -> None:
    assert tokenizer.decode(ids(tokenizer, ["我有3只猫。"], "whole")) == "[w][ǒ][y][ǒu][s][ān][zh][ī][m][āo]."


@pytest.mark.parametrize(
    ("traditional", "simplified"),
    [
        ("我去銀行還錢", "我去银行还钱"),
        ("重慶的長江大橋", "重庆的长江大桥"),
        ("音樂讓人快樂", "音乐让人快乐"),
        ("媽媽說頭髮長長了", "妈妈说头发长长了"),
        ("他們睡著了，門開著", "他们睡着了，门开着"),
        ("乾淨的衣服，乾坤", "干净的衣服，乾坤"),
        ("瞭解歷史，瞭望塔", "了解历史，瞭望塔"),
        ("後來發現數學很難", "后来发现数学很难"),
        ("著名的著作", "著名的著作"),
    ],
)
def test_traditional_characters_are_read_as_simplified(
    mandarin: Mandarin, traditional: str, simplified: str
) -> None:
    assert mandarin.syllables(traditional) == mandarin.syllables(simplified)
    assert mandarin.write(traditional) == mandarin.write(simplified)


def test_english_punctuation_and_unknown_characters_stay(mandarin: Mandarin) -> None:
    assert mandarin.write("你好，World！好。Is it 好？") == "[n][ǐ][h][ǎo],World![h][ǎo].Is it[h][ǎo]?"
    assert mandarin.write("一、二；三：四") == "[y][ī],[èr];[s][ān]:[s][ì]"
    assert mandarin.write("\u3400好") == "\u3400[h][ǎo]"  # in no list
    assert mandarin.syllables("去\u3400 OK，一会儿") == ["qu4", "\u3400", "OK，", "yi1", "hui4", "er"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("他说：「你好！」", "[t][ā][sh][uō], [n][ǐ][h][ǎo]!"),
        ("《红楼梦》和『三国』", "[h][óng][l][óu][m][èng][h][é][s][ān][g][uó]."),
        ("他答：‘是的’，走了", "[t][ā][d][á], [sh][ì][d][e],[z][ǒu][l][e]."),
        ("达·芬奇……", "[d][á][f][ēn][q][í]..."),
        ("——好——的", "[h][ǎo], [d][e]."),
        ("第一\n第二", "[d][ì][y][ī],[d][ì][èr]."),
        ("有：\n- 梨\n* 瓜", "[y][ǒu], [l][í].[g][uā]."),
        ("A/B好", "[EY1] [B][IY1][h][ǎo]."),
        ("用C#和.NET", "[y][òng][S][IY1] [SH][AA1][R][P][h][é][d][iǎn][N][EH1][T]."),
        ("β波", "[b][èi][t][ǎ][b][ō]."),
    ],
)
def test_every_mark_of_a_chinese_text_is_read_or_left_out(
    tokenizer: PronouncingTokenizer, text: str, said: str
) -> None:
    assert tokenizer.decode(ids(tokenizer, [text], "whole")) == said
    in_pieces = tokenizer.decode(ids(tokenizer, list(text), "continuous"))
    assert re.sub("[.,]", "", in_pieces) == re.sub("[.,]", "", said)


def test_a_character_without_a_reading_is_left_out_with_a_warning(tokenizer: PronouncingTokenizer) -> None:
    warnings: list[str] = []
    feed = frontend(tokenizer).open("whole", None, Reading(), warnings, Work(DEFAULT_LIMITS), True)
    (segment,) = feed.read("𠮷野家", True)
    assert isinstance(segment, Segment)
    assert tokenizer.decode(segment.text_ids) == "[y][ě][j][iā]."
    assert warnings == ["the voice has no reading of '\\U00020bb7', which was left out"]


def test_a_sentence_that_is_cut_ends_in_a_stop_alone(tokenizer: PronouncingTokenizer) -> None:
    items = frontend(tokenizer, first_max_length=20).open("whole", None, Reading(), [], Work(DEFAULT_LIMITS))
    segments = items.read("渔船天没亮就出海了，PM2.5为35。", True)
    said = [tokenizer.decode(one.text_ids) for one in segments if isinstance(one, Segment)]
    assert said[0].endswith("[h][ǎi][l][e].")
    assert said[1].startswith("[P][IY2][EH1][M][èr][d][iǎn][w][ǔ]"), "in the language of its sentence"


def test_numbers_in_front_of_the_first_word_are_in_its_language(tokenizer: PronouncingTokenizer) -> None:
    for pieces in (["1", ". 苹果"], ["1. ", "苹", "果"], ["1. 苹果"]):
        feed = frontend(tokenizer).open("continuous", None, Reading(), [], Work(DEFAULT_LIMITS))
        items = [item for piece in pieces for item in feed.read(piece, False)] + feed.read("", True)
        said = [id for item in items if isinstance(item, Segment) for id in item.text_ids]
        assert tokenizer.decode(said) == "[y][ī].[p][íng][g][uǒ]"


def test_the_evaluation_and_the_corpus_leave_no_character_unread(mandarin: Mandarin) -> None:
    for text in (*evaluation_sentences(), *mixed_sentences(), *make_texts(300, random.Random(5))):
        assert not re.search("[\u3001\u3002\u3400-\u9fff\uff00-\uff1f]", mandarin.write(text)), text


def read(mandarin: Mandarin, marks: SpeechMarks, pieces: list[str]) -> list[Part]:
    reader = HeteronymReader(MarkReader(marks, True, print), mandarin, marks)
    return [part for piece in pieces for part in reader.read(piece, False)] + reader.read("", True)


def spans(parts: list[Part]) -> tuple[str, str]:
    found = [part for part in parts if isinstance(part, Span)]
    return "".join(part.source for part in found), "".join(part.written for part in found)


def test_only_what_may_go_on_is_held(mandarin: Mandarin, tokenizer: PronouncingTokenizer) -> None:
    marks = speech_marks(tokenizer)
    reader = HeteronymReader(MarkReader(marks, True, print), mandarin, marks)
    given = [reader.read(piece, False) for piece in ("他去银", "行", "，", "")]
    assert [spans(parts)[0] for parts in given] == ["他去", "", "银行，", ""]
    assert marks.shown(spans(given[2])[1]) == "银[h][áng]，"


@pytest.mark.parametrize("text", ["Hello there. ", "Hello.\n", "He said ", "银行 ", "我们在银行。 "])
def test_no_blank_is_held(mandarin: Mandarin, text: str) -> None:
    assert mandarin.num_open(text) == 0


def test_an_english_sentence_leaves_at_its_blank(tokenizer: PronouncingTokenizer) -> None:
    feed = frontend(tokenizer).open("segments", None, Reading(), [], Work(DEFAULT_LIMITS))
    sentence = "Hello there, this is a long enough sentence to be said by itself. "
    assert any(isinstance(item, Segment) for item in feed.read(sentence, False))


def test_blanks_are_read_once(mandarin: Mandarin) -> None:
    text = " " * 100_000
    assert mandarin.write(text) == mandarin.write_characters(text) == text  # squared, it takes minutes
    assert mandarin.write(f"Tom{text}好{text}好{text}Tom") == "Tom[h][ǎo][h][ǎo]Tom"


def test_cuts_change_nothing(mandarin: Mandarin, tokenizer: PronouncingTokenizer) -> None:
    marks = speech_marks(tokenizer)
    for text in (MIXED, "".join(evaluation_sentences()[100:120])):
        whole = spans(read(mandarin, marks, [text]))
        assert whole[0] == text
        for cut in range(1, len(text)):
            assert spans(read(mandarin, marks, [text[:cut], text[cut:]])) == whole
        assert spans(read(mandarin, marks, list(text))) == whole
        tokens = ids(tokenizer, [text], "continuous")
        assert ids(tokenizer, list(text), "continuous") == tokens
        for cut in range(3, len(text), 15):
            assert ids(tokenizer, [text[:cut], text[cut:]], "continuous") == tokens


def speech_marks(tokenizer: PronouncingTokenizer) -> SpeechMarks:
    assert tokenizer.mandarin is not None
    return SpeechMarks(
        tokenizer.encode_text,
        tokenizer.encode,
        tokenizer.speech_marks,
        SPEECH_MARKS,
        PHONEME_MARKS,
        tokenizer.mandarin.marks,
    )


def frontend(tokenizer: PronouncingTokenizer, first_max_length: int = 300) -> TextFrontend:
    assert tokenizer.mandarin is not None
    return TextFrontend(
        Normalizer(("en", "zh")),
        speech_marks(tokenizer),
        SegmentLimits(400, 300, 20),
        first_max_length,
        FamilyRules(plain_chinese_marks=False, stops_cuts=True, unread=tokenizer.mandarin.unread),
        Pronunciations(heteronyms={"": [tokenizer.mandarin]}),
    )


def ids(tokenizer: PronouncingTokenizer, pieces: list[str], mode: Mode) -> list[int]:
    feed = frontend(tokenizer).open(mode, "zh", Reading(), [], Work(DEFAULT_LIMITS))
    items = [item for piece in pieces for item in feed.read(piece, False)] + feed.read("", True)
    return [id for item in items if isinstance(item, Segment) for id in item.text_ids]


def test_text_in_pieces_gives_the_tokens_of_the_whole(tokenizer: PronouncingTokenizer) -> None:
    whole = ids(tokenizer, [MIXED], "whole")
    said = tokenizer.decode(whole)
    assert "[ch][óng][q][ìng][y][ín][h][áng][h][áng][zh][ǎng][T][AA1][M][zh][ǎng][d][à][d][e]" in said
    assert "[h][uán][l][e][l][iǎng][b][ěn]" in said  # 2本 is written out by itself
    assert "[b][ěn][sh][ū],[y][īn][y][uè]" in said
    assert said.endswith("[d][ěi][h][uán][g][ěi][y][ín][h][áng].")
    assert " " not in said
    assert ids(tokenizer, [MIXED], "segments") == ids(tokenizer, [MIXED], "continuous") == whole
    for cut in range(1, len(MIXED)):
        assert ids(tokenizer, [MIXED[:cut], MIXED[cut:]], "continuous") == whole, cut
    for start, end in pairwise(range(0, len(MIXED), 7)):
        pieces = [MIXED[:start], *MIXED[start:end], MIXED[end:]]
        assert ids(tokenizer, pieces, "segments") == whole


def test_a_whole_sentence_is_read_as_training_reads_it(
    mandarin: Mandarin, tokenizer: PronouncingTokenizer
) -> None:
    for text in ("我去银行还书。", "他们在重庆长大，音乐很快乐！", "我的iPhone摔了一下。"):
        trained = tokenizer.encode(tokenizer.pronunciation.write(mandarin.write(text)))
        assert ids(tokenizer, [text], "whole") == trained, text


def test_the_stage_makes_the_shipped_file(tmp_path: Path) -> None:
    for package in ("pypinyin", "opencc"):  # of the extra `voice`
        pytest.importorskip(package)
    write_phrases(tmp_path / MANDARIN_FILE)
    shipped = gzip.decompress((FOLDER / MANDARIN_FILE).read_bytes())
    assert gzip.decompress((tmp_path / MANDARIN_FILE).read_bytes()) == shipped


def test_the_builtin_voice_reads_mandarin() -> None:
    tokenizer = open_checkpoint(BUILTIN_CHECKPOINT).load_tokenizer()
    assert isinstance(tokenizer, PronouncingTokenizer)
    assert tokenizer.mandarin is not None
    assert set(tokenizer.speech_marks) == {*SOUNDS, *tokenizer.mandarin.marks}
    assert (
        tokenizer.decode(ids(tokenizer, ["我用 Python。"], "whole")) == "[w][ǒ][y][òng][P][AY1][TH][AA2][N]."
    )


def test_a_voice_does_not_read_mandarin_before_it_speaks_it(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(BUILTIN_CHECKPOINT, tmp_path / "voice"))
    traits = json.loads((copy / TRAITS_FILE).read_text())
    (copy / TRAITS_FILE).write_text(json.dumps(traits | {"languages": ["en"], "default_speakers": {}}))
    tokenizer = open_checkpoint(copy).load_tokenizer()
    assert (copy / PRONUNCIATION_FOLDER / MANDARIN_FILE).is_file()
    assert isinstance(tokenizer, PronouncingTokenizer)
    assert tokenizer.mandarin is None
    assert set(tokenizer.speech_marks) == set(SOUNDS)


def test_a_tokenizer_without_the_marks_is_named(
    mandarin: Mandarin, tokenizer: PronouncingTokenizer, tmp_path: Path
) -> None:
    write_tokenizer(tmp_path, (), 0, SOUNDS)
    without = Qwen2Tokenizer.from_folder(tmp_path, special_tokens("cosyvoice2"))
    with pytest.raises(TokenizerError, match=r"no token \[.*, which Mandarin needs"):
        PronouncingTokenizer(without, tokenizer.pronunciation, mandarin)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("好 hao3\n", "a phrase, a tab and its syllables"),
        ("好\tHAO\n", "a phrase, a tab and its syllables"),
        ("好\tblub3\n", "'blub3' is no syllable"),
        ("好\thao3\n你好\tni3\n", "in the order of their characters"),
        ("你好\tni3\n", "another number of syllables"),
        ("", "is empty"),
        ("好\t\n", "a phrase, a tab and its syllables"),
        ("好\t1\n", "a phrase, a tab and its syllables"),
        ("你\tni35\n", "a phrase, a tab and its syllables"),
        ("你好\tni3hao3 \n", "is no syllable"),
        ("你好\t\n", "is empty"),
        ("好\t好\n", "has no syllable"),
        ("你\t好\n", "has no syllable"),
        ("好\thao3\n好\thao4\n", "twice"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / MANDARIN_FILE
    path.write_bytes(gzip.compress(content.encode()))
    with pytest.raises(TokenizerError, match=message):
        Mandarin(path)
