"""The evaluation's figures as tables and as a file."""

import json
from dataclasses import asdict

from training.evaluate import Result
from training.report import markdown, musts


def result(speaker: str) -> Result:
    one = Result(speaker)
    for path in ("teacher", "streamed", "by words"):
        one.errors[path], one.words[path], one.heard[path] = [1, 0], [4, 6], ["a", "b"]
    one.durations, one.faults = [1.0, 1.5], ["hello: silent, -60 dB"]
    one.join_jumps, one.other_jumps = [0.1, 0.3], [0.2, 0.2]
    one.mel_distance_db, one.own_similarity, one.other_similarity = [5.0], [0.9], [0.2]
    one.enrolled_right = [True, False]
    one.single_words, one.single_durations = {"No.": ["no", "no no"], "Yes.": ["yes"]}, [1.0, 2.1, 0.9]
    return one


def test_the_tables_have_a_column_for_each_speaker_and_every_fault() -> None:
    text = markdown([result("rms"), result("slt")])
    assert "| teacher | 0.100 | 0.100 | 0.100 |" in text
    assert "| sentences within 0.8 to 1.25 | 50% | 50% |" in text
    assert "| enrolled, nearest to its teacher | 1 of 2 | 1 of 2 |" in text
    assert "| utterances whose largest jump is a join | 1 | 1 |" in text
    assert "| single words said whole and once | 67% | 67% |" in text
    assert "| single words heard right | 2 of 3 | 2 of 3 |" in text
    assert text.endswith("Faults: 2\n- rms: hello: silent, -60 dB\n- slt: hello: silent, -60 dB")


def test_what_is_missed_is_said() -> None:
    missed = {one.name.split(":")[0] for one in musts([result("rms"), result("slt")]) if not one.is_met}
    assert missed == {
        "silent, looping, endless, of unequal length",
        "within 0.8 to 1.25 of the teacher's time",
        "single words said whole and once",
        "enrolled, nearest to their teacher",
        "utterances whose largest jump is a join",
    }


def test_a_result_can_be_written_down() -> None:
    assert json.loads(json.dumps(asdict(result("rms"))))["errors"]["teacher"] == [1, 0]
