import base64
import json
import sys
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing

from firstword.models.tokenizer import TextTokenizer, TokenizerError, load_text_tokenizer
from firstword.models.tokenizer.qwen2 import (
    ARPABET_TOKENS,
    BASE_TOKENS,
    EXPRESSION_TOKENS,
    PINYIN_TOKENS,
    Qwen2Tokenizer,
    special_tokens,
)
from firstword.models.tokenizer.whisper import LANGUAGES, SPECIAL_TOKENS, WhisperTokenizer

MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "w"), ("'", "s"), ("Ġ", "Ġ"), ("1", "2")]
NUM_BYTES = 256
BASE_SIZE = NUM_BYTES + len(MERGES)  # 264, where the published vocabulary has 151643
PUBLISHED_BASE_SIZE = 151_643

TEXTS = [
    "Hello, world! It's 2024.",
    "你好。世界、 日本語のかな 한국어 ภาษาไทย عربى",
    "🙂 👩‍👩‍👧 \u200d\ufeff",
    "tabs\tand\r\nlines\n\n  and   blanks ",
    "",
    "\x00\x7f",
    "<strong not a tag> [breat",
]


def entries() -> dict[str, int]:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return {
        entry: index for index, entry in enumerate([*alphabet, *(left + right for left, right in MERGES)])
    }


def write_qwen2(model_dir: Path, num_configured: int = len(BASE_TOKENS)) -> Path:
    folder = model_dir / "CosyVoice-BlankEN"
    folder.mkdir(exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(entries()))
    lines = ["#version: 0.2", *(f"{left} {right}" for left, right in MERGES)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    configured = enumerate(BASE_TOKENS[:num_configured], start=BASE_SIZE)
    added = {str(token_id): {"content": token, **flags} for token_id, token in configured}
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    return folder


def write_whisper(model_dir: Path) -> Path:
    byte_strings = [bytes([byte]) for byte in range(NUM_BYTES)] + [b"he", b"ll", b"hell", b"hello"]
    lines = [f"{base64.b64encode(entry).decode()} {rank}" for rank, entry in enumerate(byte_strings)]
    lines.append(f"= {len(byte_strings)}")  # the published file ends so
    path = model_dir / "multilingual.tiktoken"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(params=["cosyvoice1", "cosyvoice2", "cosyvoice3"])
def tokenizer(request: pytest.FixtureRequest, tmp_path: Path) -> TextTokenizer:
    write_qwen2(tmp_path)
    write_whisper(tmp_path)
    return load_text_tokenizer(request.param, tmp_path)


@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back_as_it_went_in(tokenizer: TextTokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_half_a_surrogate_pair_does_no_harm(tokenizer: TextTokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode("a\ud800b🙂")) == "a\ufffdb🙂"


def test_an_unknown_id_is_refused(tokenizer: TextTokenizer) -> None:
    for token_id in (-1, tokenizer.vocab_size):
        with pytest.raises(TokenizerError, match=f"text token {token_id}"):
            tokenizer.decode([token_id])


def test_special_lists_have_the_published_lengths() -> None:
    assert len(EXPRESSION_TOKENS) == 17
    assert len(ARPABET_TOKENS) == 84
    assert len(PINYIN_TOKENS) == 176
    assert PUBLISHED_BASE_SIZE + len(special_tokens("cosyvoice2")) == 151_663
    assert PUBLISHED_BASE_SIZE + len(special_tokens("cosyvoice3")) == 151_924
    assert len(set(special_tokens("cosyvoice3"))) == len(special_tokens("cosyvoice3"))


@pytest.mark.parametrize(
    ("token", "published_id"),
    [
        ("<|endoftext|>", 151_643),
        ("<|im_end|>", 151_645),
        ("<|endofprompt|>", 151_646),
        ("[breath]", 151_647),
        ("[laughter]", 151_651),
        ("[quick_breath]", 151_655),
        ("</laughter>", 151_657),
        ("[mn]", 151_662),
        ("<|endofsystem|>", 151_663),
        ("[AA]", 151_664),
        ("[ZH]", 151_747),
        ("[a]", 151_748),
        ("[ǜ]", 151_923),
    ],
)
def test_special_tokens_follow_the_vocabulary_in_published_order(
    tmp_path: Path, token: str, published_id: int
) -> None:
    write_qwen2(tmp_path)

    ids = load_text_tokenizer("cosyvoice3", tmp_path).encode(token)

    assert ids == [published_id - PUBLISHED_BASE_SIZE + BASE_SIZE]


def test_each_family_has_its_own_vocabulary_size(tmp_path: Path) -> None:
    write_qwen2(tmp_path)

    second, third = (load_text_tokenizer(family, tmp_path) for family in ("cosyvoice2", "cosyvoice3"))

    assert second.vocab_size == BASE_SIZE + 20
    assert third.vocab_size == BASE_SIZE + 281
    assert second.end_of_prompt_id == third.end_of_prompt_id == BASE_SIZE + 3


def test_special_tokens_are_cut_out_of_the_text_exactly(tmp_path: Path) -> None:
    write_qwen2(tmp_path)
    tokenizer = load_text_tokenizer("cosyvoice2", tmp_path)
    breath, vocab = BASE_SIZE + 4, entries()

    assert tokenizer.encode("hello[breath] w") == [vocab["hello"], breath, vocab["Ġw"]]
    assert len(tokenizer.encode("[ breath]")) == len("[ breath]")
    assert len(tokenizer.encode("[AA]")) == len("[AA]")  # a phoneme of CosyVoice 3 only


def test_phonemes_outside_ascii_come_back(tmp_path: Path) -> None:
    write_qwen2(tmp_path)
    tokenizer = load_text_tokenizer("cosyvoice3", tmp_path)
    text = "x[j][ǐ][ā][é]ā"

    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode(text)) == 1 + 4 + 2


def test_qwen2_splits_words_as_published(tmp_path: Path) -> None:
    write_qwen2(tmp_path)
    tokenizer, vocab = load_text_tokenizer("cosyvoice2", tmp_path), entries()

    assert tokenizer.encode("hello's") == [vocab["hello"], vocab["'s"]]
    assert tokenizer.encode("12") == [vocab["1"], vocab["2"]]  # each digit alone, so the merge never applies
    assert tokenizer.encode("   w") == [vocab["ĠĠ"], vocab["Ġw"]]  # the last blank goes with the word


def test_qwen2_composes_characters(tmp_path: Path) -> None:
    write_qwen2(tmp_path)
    tokenizer = load_text_tokenizer("cosyvoice2", tmp_path)

    assert tokenizer.encode("e\u0301") == tokenizer.encode("é")


@pytest.mark.parametrize("num_configured", [0, 1, 3])
def test_base_tokens_the_files_lack_are_added_first(tmp_path: Path, num_configured: int) -> None:
    write_qwen2(tmp_path, num_configured)

    assert load_text_tokenizer("cosyvoice2", tmp_path).end_of_prompt_id == BASE_SIZE + 3


def test_a_whole_tokenizer_file_is_taken_first(tmp_path: Path) -> None:
    folder = write_qwen2(tmp_path)
    expected = load_text_tokenizer("cosyvoice3", tmp_path)
    saved = Tokenizer(BPE(vocab=entries(), merges=MERGES))
    saved.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    saved.decoder = decoders.ByteLevel()
    saved.add_special_tokens([AddedToken(token, normalized=False) for token in BASE_TOKENS])
    saved.post_processor = TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", BASE_SIZE + 1)]
    )
    saved.enable_truncation(4)
    saved.save(str(folder / "tokenizer.json"))
    (folder / "vocab.json").unlink()

    tokenizer = load_text_tokenizer("cosyvoice3", tmp_path)

    text = "hello world, hello world[ǜ]"
    assert tokenizer.vocab_size == expected.vocab_size
    assert tokenizer.encode(text) == expected.encode(text)  # nothing put in front, nothing cut


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt", "tokenizer_config.json"])
def test_a_missing_qwen2_file_is_named(tmp_path: Path, name: str) -> None:
    (write_qwen2(tmp_path) / name).unlink()

    with pytest.raises(TokenizerError, match=rf"{name}: cannot be read \(No such file"):
        load_text_tokenizer("cosyvoice2", tmp_path)


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt", "tokenizer_config.json"])
@pytest.mark.parametrize("kept", [0.3, 0.6, 0.95])
def test_a_qwen2_file_cut_short_is_named(tmp_path: Path, name: str, kept: float) -> None:
    path = write_qwen2(tmp_path) / name
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole))])

    with pytest.raises(TokenizerError, match=rf"{name}: "):
        load_text_tokenizer("cosyvoice2", tmp_path)


def test_merges_cut_at_a_line_end_are_noticed(tmp_path: Path) -> None:
    path = write_qwen2(tmp_path) / "merges.txt"
    path.write_text("\n".join(path.read_text(encoding="utf-8").split("\n")[:-2]), encoding="utf-8")

    with pytest.raises(TokenizerError, match=r"merges\.txt: 1 entries .* '12'; is the file cut short"):
        load_text_tokenizer("cosyvoice2", tmp_path)


@pytest.mark.parametrize("content", ["[]", '{"a": "b"}', '{"a": true}', '{"a": 0}'])
def test_a_vocabulary_of_another_form_is_refused(tmp_path: Path, content: str) -> None:
    (write_qwen2(tmp_path) / "vocab.json").write_text(content)

    with pytest.raises(TokenizerError, match=r"vocab\.json: "):
        load_text_tokenizer("cosyvoice2", tmp_path)


@pytest.mark.parametrize("name", ["vocab.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", ["[" * 100_000, f'{{"a": {"1" * 5000}}}', '{"a": NaN', "\ufeff{}"])
def test_json_that_no_parser_takes_is_named(tmp_path: Path, name: str, content: str) -> None:
    (write_qwen2(tmp_path) / name).write_text(content, encoding="utf-8")

    with pytest.raises(TokenizerError, match=rf"{name}: not JSON"):
        load_text_tokenizer("cosyvoice2", tmp_path)


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt", "tokenizer_config.json", "tokenizer.json"])
def test_a_file_of_absurd_size_is_named(tmp_path: Path, name: str) -> None:
    with (write_qwen2(tmp_path) / name).open("wb") as file:
        file.truncate((64 << 20) + 1)

    with pytest.raises(TokenizerError, match=rf"{name}: larger than 67108864 bytes"):
        load_text_tokenizer("cosyvoice2", tmp_path)


def test_half_a_surrogate_pair_in_the_vocabulary_is_refused(tmp_path: Path) -> None:
    folder = write_qwen2(tmp_path, num_configured=0)
    (folder / "vocab.json").write_text(json.dumps(entries() | {"\ud800": BASE_SIZE}))

    with pytest.raises(TokenizerError, match=r"vocab\.json"):
        load_text_tokenizer("cosyvoice2", tmp_path)


@pytest.mark.parametrize("token_id", [-1, 0, 900, 2**40])
def test_ids_with_a_gap_are_refused(tmp_path: Path, token_id: int) -> None:
    folder = write_qwen2(tmp_path, num_configured=0)
    (folder / "vocab.json").write_text(json.dumps(entries() | {"12": token_id}))

    with pytest.raises(TokenizerError, match=r"vocab\.json: 264 vocabulary entries do not have the ids"):
        load_text_tokenizer("cosyvoice2", tmp_path)


@pytest.mark.parametrize(
    "added",
    [
        [],
        {"x": {"content": "<|a|>"}},
        {str(BASE_SIZE): {}},
        {str(BASE_SIZE): 3},
        {str(BASE_SIZE + 1): {"content": "<|a|>"}},
    ],
)
def test_configured_tokens_that_do_not_fit_are_refused(tmp_path: Path, added: object) -> None:
    path = write_qwen2(tmp_path) / "tokenizer_config.json"
    path.write_text(json.dumps({"added_tokens_decoder": added}))

    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json: "):
        load_text_tokenizer("cosyvoice2", tmp_path)


def test_a_broken_whole_tokenizer_file_is_named(tmp_path: Path) -> None:
    (write_qwen2(tmp_path) / "tokenizer.json").write_text('{"version": "1.0"}')

    with pytest.raises(TokenizerError, match=r"tokenizer\.json: not a tokenizer"):
        load_text_tokenizer("cosyvoice2", tmp_path)


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (write_qwen2(tmp_path) / "merges.txt").write_bytes(b"\xff\xfe")

    with pytest.raises(TokenizerError, match=r"merges\.txt: not UTF-8"):
        load_text_tokenizer("cosyvoice2", tmp_path)


def test_whisper_has_1609_special_tokens_behind_its_ranks(tmp_path: Path) -> None:
    tokenizer = WhisperTokenizer.from_file(write_whisper(tmp_path))
    base_size = tokenizer.vocab_size - len(SPECIAL_TOKENS)

    assert 50_257 + len(SPECIAL_TOKENS) == 51_866
    assert len(LANGUAGES) == len(set(LANGUAGES)) == 100
    assert base_size == NUM_BYTES + 4 + 1
    assert tokenizer.end_of_prompt_id is None
    published = {50_257: "<|endoftext|>", 50_260: "<|zh|>", 50_358: "<|yue|>", 50_364: "<|notimestamps|>"}
    for published_id, token in {**published, 50_365: "<|0.00|>", 51_865: "<|30.00|>"}.items():
        assert tokenizer.encode(token) == [published_id - 50_257 + base_size]


def test_whisper_cuts_language_tags_out_of_the_text(tmp_path: Path) -> None:
    tokenizer = WhisperTokenizer.from_file(write_whisper(tmp_path))

    ids = tokenizer.encode("<|en|>hello<|endofprompt|>")

    assert ids[1] == NUM_BYTES + 3  # hello, one entry
    assert len(ids) == 2 + len("<|endofprompt|>")  # which whisper does not know
    assert tokenizer.decode(ids) == "<|en|>hello<|endofprompt|>"


def test_ranks_of_an_installed_whisper_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assets = tmp_path / "whisper" / "assets"
    assets.mkdir(parents=True)
    (tmp_path / "whisper" / "__init__.py").write_text("raise RuntimeError('imported')")
    write_whisper(assets)
    monkeypatch.syspath_prepend(tmp_path)

    assert load_text_tokenizer("cosyvoice1", tmp_path / "model").vocab_size == 261 + 1609
    assert "whisper" not in sys.modules


def test_missing_ranks_say_where_to_put_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])

    with pytest.raises(
        TokenizerError, match=r"multilingual\.tiktoken: missing.*put .* of the openai-whisper package there"
    ):
        load_text_tokenizer("cosyvoice1", tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        *("aGVsbG8", "aGVsbG8= x", "aGVsbG8= 261 7", "aGVsb 261", "AA== 261", "aGk= 300"),
        *("é 0", f"aGk= {'9' * 5000}", f"= {'9' * 5000}"),
    ],
)
def test_a_malformed_ranks_file_is_named(tmp_path: Path, line: str) -> None:
    path = write_whisper(tmp_path)
    path.write_text(path.read_text() + line + "\n")

    with pytest.raises(TokenizerError, match=r"multilingual\.tiktoken: "):
        load_text_tokenizer("cosyvoice1", tmp_path)


def test_ranks_without_every_byte_are_refused(tmp_path: Path) -> None:
    path = write_whisper(tmp_path)
    path.write_text("\n".join(path.read_text().split("\n")[:100]))

    with pytest.raises(TokenizerError, match="156 of the 256 single bytes are missing"):
        load_text_tokenizer("cosyvoice1", tmp_path)


def test_a_folder_can_be_opened_without_a_family(tmp_path: Path) -> None:
    tokenizer = Qwen2Tokenizer.from_folder(write_qwen2(tmp_path), ["<|mine|>"])

    assert tokenizer.encode("<|mine|>") == [BASE_SIZE + 3]
    assert tokenizer.end_of_prompt_id is None
