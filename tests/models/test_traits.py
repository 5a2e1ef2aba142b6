"""A voice's traits are data in its directory, read strictly."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.checkpoint.traits import Traits, default_traits, read_traits, write_traits
from firstword.models.config import TRAITS_FILE, CheckpointError, Family, Qwen2LMConfig
from firstword.models.lm.plan import LengthRatios
from tests.support.checkpoints import FAMILIES, copied_checkpoint, small_checkpoint

BUILTIN = Path(__file__).parents[2] / "models" / "builtin"
BUILTIN_TRAITS = Traits(
    languages=("en", "zh"),
    takes_instruct=False,
    takes_speech_marks=False,
    segment_max_length=110,
    segment_min_length=80,
    segment_merge_length=26,
    ends_cut_segments_in_stop=True,
    default_speaker="wren",
    default_speakers={"zh": "lotus"},
    former_speakers={"rms": "alder", "slt": "wren", "awb": "flint", "kal16": "alder", "lark": "finch"},
    transcripts=dict.fromkeys(
        (
            *("wren", "alder", "flint", "iris", "linnet", "finch", "rowan"),
            *("heron", "aspen", "willow", "laurel", "bryony", "jay", "birch"),
        ),
        "Hello, my voice was made on a small machine, so please be kind.",
    )
    | dict.fromkeys(
        ("lotus", "bamboo", "crane", "plum"),
        "你好，我的声音是在一台小电脑上做出来的，请多多关照。",  # noqa: RUF001  Chinese commas are meant
    ),
    reads_sounds=True,
    accents=("british",),
    continues_prompts=False,
    matches_recordings=True,
    prompt_before_blocks=True,
    min_token_ratio=1.3,
    max_token_ratio=8.0,
    alignment_heads=((2, 0),),
)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_checkpoint_without_the_file_has_the_published_traits(family: Family) -> None:
    traits = open_checkpoint(small_checkpoint(family)).traits

    assert traits == default_traits(family)
    others = ("de", "es", "fr", "it", "ru") if family == "cosyvoice3" else ()
    assert traits.languages == ("zh", "en", "ja", "yue", "ko", *others)
    assert traits.takes_instruct


def test_a_copy_of_the_builtin_voice_has_its_traits(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(BUILTIN, tmp_path / "voice"))

    traits = open_checkpoint(BUILTIN).traits
    assert replace(traits, mean_embedding=()) == BUILTIN_TRAITS
    assert len(traits.mean_embedding) == 192
    assert open_checkpoint(copy).traits == traits


def test_a_flow_of_cosyvoice_1_cannot_be_matched(tmp_path: Path) -> None:
    path = tmp_path / TRAITS_FILE
    path.write_text('{"matches_recordings": true}')
    assert read_traits(path, "cosyvoice3").matches_recordings
    with pytest.raises(CheckpointError, match="matches_recordings is true; expected that for cosyvoice2"):
        read_traits(path, "cosyvoice1")


def test_fields_left_out_keep_their_defaults(tmp_path: Path) -> None:
    path = tmp_path / TRAITS_FILE
    path.write_text('{"languages": ["en", "zh"]}')

    assert read_traits(path, "cosyvoice3") == Traits(languages=("en", "zh"))
    path.write_text("{}")
    assert read_traits(path, "cosyvoice3") == default_traits("cosyvoice3")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"langauges": ["en"]}, "unknown: langauges"),
        ({"languages": []}, r"languages is \[\]; expected a list of 1 to 16 entries"),
        ({"languages": "en"}, "languages is 'en'; expected a list of 1 to 16 entries"),
        ({"languages": [1]}, "languages holds 1; expected text"),
        ({"languages": ["English"]}, "languages holds 'English'; expected codes such as en, zh or yue"),
        ({"languages": ["en", "en"]}, "languages holds a code twice"),
        ({"takes_instruct": 1}, "takes_instruct is 1; expected true or false"),
        ({"continues_prompts": "no"}, "continues_prompts is 'no'; expected true or false"),
        ({"takes_instruct": None}, "takes_instruct is None; expected true or false"),
        ({"min_token_ratio": 9, "max_token_ratio": 8}, "min_token_ratio 9 and max_token_ratio 8; expected"),
        ({"mean_embedding": [0.0] * 192}, "mean_embedding is given; expected that with matches_recordings"),
        (
            {"matches_recordings": True, "mean_embedding": [0, 1]},
            "mean_embedding holds 2 numbers; expected 192",
        ),
        ({"mean_embedding": 1}, "mean_embedding is 1; expected a list of numbers"),
        ({"mean_embedding": ["a"]}, "a number of mean_embedding is 'a'; expected a number"),
        ({"max_token_ratio": 1000}, "max_token_ratio 1000; expected"),
        ({"reads_sounds": 1}, "reads_sounds is 1; expected true or false"),
        ({"accents": ["british"]}, "accents are given and reads_sounds is false; expected it to be true"),
        ({"accents": ["welsh"], "reads_sounds": True}, "accents holds 'welsh'; expected one of british"),
        ({"segment_max_length": 0}, "segment_max_length is 0; expected a whole number from 1 to 10000"),
        ({"segment_max_length": 40.5}, "segment_max_length is 40.5; expected a whole number"),
        ({"segment_max_length": 50}, "segment_min_length 60 and segment_max_length 50; expected each"),
        ({"ends_cut_segments_in_stop": "yes"}, "ends_cut_segments_in_stop is 'yes'; expected true or false"),
        ({"default_speaker": ""}, "default_speaker is ''; expected text"),
        ({"default_speakers": {"sw": "ann"}}, "default_speakers holds 'sw'; expected one of its languages"),
        ({"former_speakers": ["rms"]}, r"former_speakers is \['rms'\]; expected texts by name"),
        ({"former_speakers": {"rms": 1}}, "former_speakers is {'rms': 1}; expected texts by name"),
        ([], "top level: expected named values, found"),
    ],
)
def test_bad_traits_are_named(tmp_path: Path, values: object, message: str) -> None:
    directory = copied_checkpoint(tmp_path)
    (directory / TRAITS_FILE).write_text(json.dumps(values))

    with pytest.raises(CheckpointError, match=rf"{TRAITS_FILE}: .*{message}"):
        open_checkpoint(directory)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b"[" * 100_000], ids=["empty", "cut", "binary", "deep"]
)
def test_traits_that_are_no_json_are_named(tmp_path: Path, content: bytes) -> None:
    directory = copied_checkpoint(tmp_path)
    (directory / TRAITS_FILE).write_bytes(content)

    with pytest.raises(CheckpointError, match=rf"{TRAITS_FILE}: not valid JSON"):
        open_checkpoint(directory)


def test_traits_outside_the_directory_are_not_read(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    (tmp_path / "outside").write_text("{}")
    (directory / TRAITS_FILE).symlink_to(tmp_path / "outside")

    with pytest.raises(CheckpointError, match=rf"{TRAITS_FILE}: a link to"):
        open_checkpoint(directory)


def test_the_default_speaker_comes_first(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    names = list(open_checkpoint(directory).load_speakers())
    write_traits(directory / TRAITS_FILE, Traits(default_speaker=names[-1]))

    assert list(open_checkpoint(directory).load_speakers()) == [names[-1], *names[:-1]]


def test_a_former_name_of_a_speaker_who_is_not_there_is_named(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    write_traits(directory / TRAITS_FILE, Traits(former_speakers={"rms": "nobody"}))

    with pytest.raises(CheckpointError, match=r"former_speakers\.rms is 'nobody'; expected one of"):
        open_checkpoint(directory).load_speakers()


def test_a_default_speaker_who_is_not_there_is_named(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    write_traits(directory / TRAITS_FILE, Traits(default_speaker="nobody"))

    with pytest.raises(
        CheckpointError, match=rf"{TRAITS_FILE}: default_speaker is 'nobody'; expected one of"
    ):
        open_checkpoint(directory).load_speakers()


def test_a_default_speaker_of_a_language_who_is_not_there_is_named(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    write_traits(directory / TRAITS_FILE, Traits(default_speakers={"zh": "nobody"}))

    with pytest.raises(CheckpointError, match=r"default_speakers\.zh is 'nobody'; expected one of"):
        open_checkpoint(directory).load_speakers()


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write_traits(tmp_path / TRAITS_FILE, BUILTIN_TRAITS)

    assert read_traits(tmp_path / TRAITS_FILE, "cosyvoice2") == BUILTIN_TRAITS


def test_a_checkpoint_says_where_its_prompt_stands_and_how_long_speech_is(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    traits = Traits(prompt_before_blocks=True, min_token_ratio=0.5, max_token_ratio=8.0)
    write_traits(directory / TRAITS_FILE, traits)

    checkpoint = open_checkpoint(directory)

    assert isinstance(checkpoint.config.lm, Qwen2LMConfig)
    assert checkpoint.config.lm.prompt_before_blocks
    assert checkpoint.ratios == LengthRatios(0.5, 8.0)


def test_a_checkpoint_that_reads_sounds_needs_their_dictionary(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    write_traits(directory / TRAITS_FILE, Traits(reads_sounds=True))

    with pytest.raises(CheckpointError, match=r"pronunciation/dictionary.gz: cannot be read"):
        open_checkpoint(directory).load_tokenizer()
