"""The evaluation's figures as tables and as a file."""

import json
from dataclasses import asdict

from training.evaluate import Result, Scores, figures
from training.report import markdown, musts


def result(speaker: str) -> Result:
    one = Result(speaker)
    for path in ("teacher", "copy", "tokens", "streamed", "by words", "hard"):
        lost = path != "teacher"
        one.paths[path] = Scores([1, lost], [2, 1], [4, 6], [4.0, 4.0 - lost], [3.0, 2.9], {"a": "b"})
    one.durations, one.faults = [1.0, 1.5], ["hello: silent, -60 dB"]
    one.join_jumps, one.other_jumps = [0.1, 0.3], [0.2, 0.2]
    one.mel_distance_db, one.likeness, one.enrolled_likeness = [5.0], [0.9], [0.7]
    one.enrolled_right = [True, False]
    one.single_words, one.single_durations = {"No.": ["no", "no no"], "Yes.": ["yes"]}, [1.0, 2.1, 0.9]
    return one


def test_the_tables_have_a_column_for_each_speaker_and_every_fault() -> None:
    text = markdown([result("wren"), result("alder")], "wren")
    assert "| word error rate, Whisper | wren | alder |\n|---|---|---|\n| teacher | 0.100 | 0.100 |" in text
    assert "| copy, WER | +0.100 ± 0.200 | +0.100 ± 0.200 |" in text
    assert "| copy, P.808 | -0.500 ± 1.000 | -0.500 ± 1.000 |" in text
    assert "| sentences within 0.8 to 1.25 | 50% | 50% |" in text
    assert "| enrolled, nearest to its teacher | 1 of 2 | 1 of 2 |" in text
    assert "| utterances whose largest jump is a join | 1 | 1 |" in text
    assert "| single words said whole and once | 67% | 67% |" in text
    assert "| single words heard right | 2 of 3 | 2 of 3 |" in text
    assert text.endswith("Faults: 2\n- wren: hello: silent, -60 dB\n- alder: hello: silent, -60 dB")


def test_the_teacher_is_compared_in_the_sentences_that_it_said() -> None:
    one = result("wren")
    one.teacher_every = 2
    one.paths["streamed"] = Scores([2, 0, 4], [], [4, 6, 4], [4.0, 1.0, 3.5], [3.0, 2.9, 2.0])
    one.paths["teacher"] = Scores([1, 1], [], [4, 4], [4.0, 4.0], [3.0, 3.0])
    one.paths["copy"] = one.paths["tokens"] = one.paths["teacher"]
    text = markdown([one], "wren")
    assert "| streamed, WER | +0.500 ± 0.500 |" in text
    assert "| streamed, P.808 | -0.250 ± 0.500 |" in text
    assert "| copy, WER | +0.000 ± 0.000 |" in text


def test_what_is_missed_is_said() -> None:
    results = [result("wren"), result("alder")]
    missed = {one.name for one in musts(results, "wren") if not one.is_met}
    assert missed == {
        "streamed, wren: WER at most 0.05",
        "streamed, each: WER at most 0.07",
        "streamed, wren: overall at least 3.0",
        "hard sentences, each: at most 0.12",
        "tokens spoken again, wren: WER at most 0.015 more",
        "tokens spoken again, wren: P.808 at most 0.3 less",
        "silent, looping, endless, of unequal length: none",
        "within 0.8 to 1.25 of the teacher's time: 95 %",
        "single words said whole and once: 95 %",
        "enrolled, nearest to their teacher: 90 %",
        "utterances whose largest jump is a join: 1 %",
    }


def test_what_tokens_lose_is_judged_by_all_sentences_of_the_default_speaker() -> None:
    one = result("wren")
    one.other_sentences = {name: Scores([0] * 2, [], [45] * 2, [4.0] * 2, [3.0] * 2) for name in one.paths}
    (must,) = (must for must in musts([one], "wren") if "tokens" in must.name and "WER" in must.name)
    assert must[1:] == ("+0.010 of 4 sentences", True)


def test_a_result_can_be_written_down() -> None:
    assert json.loads(json.dumps(asdict(result("wren"))))["paths"]["teacher"]["errors"] == [1, 0]


def test_the_figures_of_the_repository_are_short() -> None:
    one = result("wren")
    one.likeness = [0.912345]
    (kept,) = json.loads(figures([one]))
    assert kept["likeness"] == [0.91]
    assert kept["paths"]["hard"] == asdict(one)["paths"]["hard"]
    assert kept["paths"]["tokens"]["misheard"] == {}
    assert one.paths["tokens"].misheard  # what is judged keeps it
