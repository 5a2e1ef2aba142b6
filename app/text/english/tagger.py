"""Tag the parts of an English phrase: of what class each is, from its own form and the words beside it."""

import itertools
import re
from collections.abc import Iterator

from firstword.app.text.addresses import find_addresses
from firstword.app.text.english import contexts, numbers, rules, units, vocabulary
from firstword.app.text.english.conditions.dates import is_small_weekday
from firstword.app.text.english.context import Context, Tag
from firstword.app.text.english.numerals import is_roman
from firstword.app.text.phrases import Phrase
from firstword.app.text.rules import Rules

# ruff: noqa: RUF001  typographic quotes are meant

_AROUND = re.compile(r"(?P<before>[\"'“‘(\[]*)(?P<core>\S*?)(?P<after>[\"'”’)\],;:!?]*(?:(?<=[)\]\"”’])\.)?)")
_SPOKEN = frozenset({"sec.", "art.", "min.", "max.", "fig.", "ex.", "ext.", "tab.", "para."})
_NUMBERS = frozenset({"no.", "No.", "nos.", "Nos."})
_LETTERED = frozenset(
    {"Apt", "Apt.", "apt.", "Rm", "Rm.", "Ste", "Ste.", "Fig.", "fig.", "Bldg", "Bldg.", "p."}
)
_VERSE = re.compile(r"\d{1,3}:\d")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)")
_BEHIND_ORDINAL = {
    "ed.": "edition",
    "qtr": "quarter",
    "qtr.": "quarter",
    "c.": "century",
    "Fl": "floor",
    "Fl.": "floor",
}
_TIME = re.compile(r"\d{1,2}:\d\d")
_HOUR = re.compile(r"\d{1,2}(?:[:.]\d\d)?[ap]\.?m|\d{1,2}:\d\d", re.IGNORECASE)
_HOURS = re.compile(r"1?\d[-–]1?\d")
_BEFORE_HOURS = re.compile(r"[\d.,;:|)(–-]$|\d[ap]\.?m\.?$|^(?:Hours|Weekends|Open|Closed)$", re.IGNORECASE)
_SATURDAY_BEFORE = re.compile(r"\b(?:Sat|Saturday)\.? (?:&|and|or|-|–) $")
_EARNING = re.compile(r"(?:[%\dk€£¥]|percent|[A-Z]{3})$")
_LETTER = re.compile(r"[B-HJ-Z][.,;:)]*|A[.,;:)]+")  # "Rm. B"
_CODE = re.compile(r"[A-Z]{1,4}-?\d[A-Z\d-]*")
_DAYS = "|".join(vocabulary.WEEKDAYS)
_DAY_BEFORE = re.compile(
    rf"\b(?:Mon|Tues?|Thu|Thurs?|Fri) (?:&|and|or)\s*$"
    rf"|\b(?:{_DAYS}) [-–]\s*$|\b(?:{_DAYS}), (?:{_DAYS}),? (?:&|and|or)\s*$"
)
_RUN = re.compile(
    r"\s+|</?[a-z]+>|<\|[^<>\s]{1,20}\|>|[^\W\d_⁰¹²³⁴-⁹]+(?:['’][^\W\d_⁰¹²³⁴-⁹]+)*|.", re.DOTALL
)


def tag(text: str, phrase: Phrase) -> Iterator[Tag | str]:
    """Yield the tagged parts of a phrase and, as strings, what stands between them; together the text."""
    parts = _AROUND.fullmatch(text)
    if parts and parts["core"][:1].isalpha() and (spoken := _long_form(parts["core"], phrase)):
        yield from filter(None, [parts["before"]])
        yield Tag("abbreviation.word", parts["core"], {"spoken": spoken})
        yield from filter(None, [parts["after"]])
        return
    context = Context(text, phrase)
    position = 0
    for start, end, fields in find_addresses(text, phrase.before):
        yield from _tags(context, position, start)
        yield Tag("electronic.address", text[start:end], fields)
        position = end
    yield from _tags(context, position, len(text))


def _long_form(word: str, phrase: Phrase) -> str | None:
    """What an abbreviation stands for beside its neighbors; None: the word is none."""
    following = phrase.following.strip(vocabulary.EDGES)
    if word == vocabulary.SAINT_OR_STREET:
        return "Saint" if is_saint(phrase) else "Street"
    if counted := _counted_form(word, following, phrase):
        return counted
    if word in _TOLD and (told := _told_form(word, following, phrase)):
        return told
    is_day = word in vocabulary.WEEKDAYS and is_weekday(word, phrase)
    is_sunday = word == "Sun." and _SATURDAY_BEFORE.search(phrase.before + " ") is not None
    if is_day or is_sunday or (word == "Sun." and phrase.previous.lower() in contexts.KEPT):
        return vocabulary.WEEKDAYS[word.rstrip(".")]
    if word in contexts.STREETS and phrase.previous[:1].isdigit() and phrase.previous[-1:].isalpha():
        return contexts.STREETS[word]
    if word == "Sr." and following.rstrip(".") in contexts.SISTERS and not phrase.previous[:1].isupper():
        return "Sister"
    if word == "Co." and phrase.previous == "&":
        return "Company"
    if word.endswith(".") and vocabulary.MONTH_NAME.fullmatch(word):
        return vocabulary.MONTHS[word[:3].lower()]
    if word in vocabulary.PLACES and phrase.previous[:1].isupper() and phrase.previous.endswith(","):
        return vocabulary.PLACES[word]
    is_closed = phrase.text[-1:] in ":;," or not following[:1].isupper() or begins_sentence(following)
    is_apart = phrase.previous.endswith(",") and is_closed  # "Adore, v.: To venerate"
    is_name = word == "Gen." and begins_sentence(following)
    if is_name or (
        word == "v." and (is_apart or not (phrase.previous[:1].isupper() and following[:1].isupper()))
    ):
        return None
    return _last_form(word, phrase) or _in_tables(word) or vocabulary.SHORT_FORMS.get(word.removesuffix("."))


def _last_form(word: str, phrase: Phrase) -> str | None:
    """ "(tax incl.)", not "incl. tax"; "his p.a.", not "4% p.a."."""
    if word == "incl." and not phrase.text.endswith("incl."):
        return "included"
    return "P A" if word == "p.a." and not _EARNING.search(phrase.previous) else None


def _told_form(word: str, following: str, phrase: Phrase) -> str | None:
    """What a word without a full stop stands for before the one that tells, and a unit behind "per"."""
    if word == "St":
        return "Saint" if _is_saint_without_stop(phrase) else None
    if word == "eta":
        return "E T A" if _is_arrival(phrase) else None
    if word in contexts.MOUNTAINS:
        return contexts.MOUNTAINS[word] if following[:1].isupper() and following[1:].islower() else None
    if word in ("Dr", "Dr."):
        return "Drive" if is_drive(phrase) else "Doctor" if _is_doctor(word, following, phrase) else None
    if word == "st.":
        *_, before, last = ["", "", *phrase.before.lower().split()]
        return "stone" if last.isdecimal() and before in contexts.WEIGHED else None
    if word in _DEGREES:
        is_scale = _is_degree(word, following, phrase)
        return _DEGREES[word] + "." * (word[-1] == "." and not following[:1].islower()) if is_scale else None
    if word in contexts.COMPASS:  # "E. 42nd St.", "onto S. Main St."
        is_road = phrase.previous.lower() in _ONTO and following.istitle()
        return contexts.COMPASS[word] if is_road or _ORDINAL.match(following) else None
    if word in _BEFORE:
        form, words = _BEFORE[word]
        return form if following in words else None
    if word in SMALL_DAYS:
        return _small_day(word, following, phrase)
    if word in OF_LIFE:
        return OF_LIFE[word] if _is_of_life(following, phrase) else None
    unit = word.rstrip(".")
    return units.UNITS[unit][0] if phrase.previous.lower() == "per" and unit in units.SHORT else None


def _is_degree(word: str, following: str, phrase: Phrase) -> bool:
    """ "in degrees C", with a stop only behind how many, since "C." may be of a name."""
    *_, before, last = ["", "", *phrase.before.lower().split()]
    is_counted = before[-1:].isdigit() or before in _COUNTED or before.endswith(("teen", "ty"))
    return last in ("degree", "degrees") and (word[-1] != "." or is_counted or not following)


_COUNTED = frozenset([*numbers.DIGITS, "ten", "eleven", "twelve", "hundred", "in", "of", "to", "few"])


def _small_day(word: str, following: str, phrase: Phrase) -> str | None:
    """The day of the week in small letters before its month: "mon jan 4", not "He sat. may be"."""
    day = word.rstrip(".").capitalize()
    if vocabulary.MONTH_NAME.fullmatch(following) is None or not is_small_weekday(
        word, phrase.previous, following
    ):
        return None
    if not following[:1].isupper():
        return vocabulary.WEEKDAYS[day]
    is_end = word[-1] == "."  # "on fri. May I come?"
    return None if day in vocabulary.WORDS_TOO else vocabulary.WEEKDAYS[day] + "." * is_end


def _counted_form(word: str, following: str, phrase: Phrase) -> str | None:
    """What an abbreviation stands for beside a number or before a verse."""
    previous = phrase.previous
    if word in _BEHIND_ORDINAL and _ORDINAL.fullmatch(previous):
        return _BEHIND_ORDINAL[word]
    if word == "fl." and following[:1].isdigit():
        return "flourished"
    if word in vocabulary.BOOKS and _VERSE.match(following):
        return vocabulary.BOOKS[word]
    if word in vocabulary.TIMED and _TIME.match(following):
        return vocabulary.TIMED[word]
    if word in vocabulary.COUNTED:
        if _is_word_there(word, following, phrase):
            return None
        is_before_code = word in _LETTERED or (
            word in _NUMBERS and previous.lower() in contexts.NAMED_BY_CODE
        )
        numeral = following.rstrip(".,;:)")
        is_spoken = not is_before_code and _is_word_before_letter(word, following, previous)
        is_numbered = bool(
            following[:1].isdigit()
            or following[:1] == "#"
            or (is_roman(numeral) and word != "Rev." and not is_spoken)  # "Rev. D. Moody"
            or numeral in contexts.SMALL_ROMANS
            or following in _NUMBERS
            or (is_before_code and _CODE.fullmatch(following.rstrip(".")))
            or (is_before_code and word[0].isupper() and _LETTER.fullmatch(phrase.following))
        )
        if word in ("Est.", "est.") and following.lower() in contexts.ESTIMATED:
            return f"{word[0]}stimated"
        is_limit = word.lower() in ("min.", "max.") and following.lower() in contexts.LIMITED
        if is_numbered or is_limit:
            return vocabulary.COUNTED[word]
    return None


def _is_word_there(word: str, following: str, phrase: Phrase) -> bool:
    """ "Oh no. 5 more!", "vitamin c. I take it", "b. 1950, c. 1960", "my ex. 5 years ago"."""
    previous = phrase.previous.lower().strip(vocabulary.EDGES)
    if word in ("no.", "No."):
        if _QUESTION.search(phrase.before):
            return _ASKED.search(phrase.before) is None
        return (_ANSWER if word == "no." else _OH).search(phrase.before) is not None
    if word == "c.":
        is_listed = _LISTED_BEFORE.search(phrase.before) is not None
        is_year = previous == "is" and re.match(r"\d{3}", following) is not None  # "is c. 900 years old"
        return not following[:1].isdigit() or (previous in _BEFORE_LETTER and not is_year) or is_listed
    if (word == "ex." and previous in contexts.OWN) or (word in ("Max.", "Min.") and previous[-1:].isalnum()):
        return True
    return following == "I" and word[0].islower() and previous in contexts.ARTICLES | contexts.OWN


_QUESTION = re.compile(r"[?][\"'”’)]*\s*$")
_ASKED = re.compile(r"\b(?:which|what|who|whose|where|guess|number)\b[^.!?]*[?]\W*$", re.IGNORECASE)
"""A question that a number answers: "Which gate? No. 14."."""
_OH = re.compile(r"\b(?:oh|yes or)\s*$", re.IGNORECASE)
_ANSWER = re.compile(
    r"\b(?:oh|yes or|say|says|said|saying|(?:answer|reply|response) (?:is|was))\s*$", re.IGNORECASE
)
"""Before "no." that is an answer, though a number follows; "The answer is No. 3" is a number."""
_BEFORE_LETTER = frozenset(["a", "vitamin", "option", "choice", "answer", "middle", "is", "or", "letter"])
_LISTED_BEFORE = re.compile(r"(?<![\w.])[Bb]\.\s+[^.\s][^.]*$")


def _is_word_before_letter(word: str, following: str, previous: str) -> bool:
    """ "Oh no. I forgot", "wait a sec. I come", "Modern Art. I saw", but "Art. I" and "see Art. I."."""
    if word in _NUMBERS:
        return len(following.rstrip(".,;:)")) == 1
    is_before_letter = word.lower() in _SPOKEN and len(following) == 1
    return is_before_letter and (word != "Art." or previous[:1].isupper())


def _in_tables(word: str) -> str | None:
    """What an abbreviation stands for, whatever stands beside it."""
    for table in (vocabulary.TITLES, vocabulary.BETWEEN, vocabulary.ABBREVIATIONS):
        if word in table:
            spoken = table[word]
            return (
                " ".join(spoken.replace(".", " ").upper().split())
                if vocabulary.DOTTED.fullmatch(spoken)
                else spoken
            )
    if vocabulary.DOTTED.fullmatch(word):
        return " ".join(word.replace(".", " ").upper().split())
    return None


def is_weekday(word: str, phrase: Phrase) -> bool:
    """Whether "Mon" or "Sat" is a day: beside a month or another day, or before a number."""
    following = phrase.following.strip(vocabulary.EDGES)
    previous = phrase.previous.strip(vocabulary.EDGES)
    is_listed = (phrase.text[-1:] == "," and following in vocabulary.WEEKDAYS) or (
        phrase.previous[-1:] == "," and previous in vocabulary.WEEKDAYS
    )
    if is_listed or vocabulary.MONTH_NAME.fullmatch(following) or _DAY_BEFORE.search(phrase.before):
        return True
    if previous.lower() in contexts.KEPT and not following[:1].isupper():
        return word != "Sun" or previous.lower() != "every" or _HOUR.match(following) is not None
    if word == "Sun" and previous.lower() in contexts.SUNNY:
        return _HOUR.match(following) is not None
    if word in vocabulary.WORDS_TOO:
        if _HOUR.match(following) or (previous == "" and following in contexts.KEPT):
            return True
        if _HOURS.fullmatch(following) and _may_precede_day(phrase.previous):
            return True
        if phrase.previous[-1:] in ",;" and following in contexts.KEPT:
            return True
        is_apart = previous == "" or previous.lower() in contexts.ON_DAY
        if phrase.text[-1:] == "," and is_apart and following[:1].isdigit():
            return True
        return following[:1].isdigit() and previous.lower() in contexts.ON_DAY
    return following[:1].isdigit() or following in ("-", "–", "&", "and", "or")


def _may_precede_day(previous: str) -> bool:
    """Whether "Sat 10-12" is of a day there: "brunch Sat 10-12", not "They Sat 10-12" or "The Sun 3-5"."""
    if previous.islower() and previous.isalpha():
        return previous not in contexts.ARTICLES and previous not in _PRONOUNS
    return previous == "" or _BEFORE_HOURS.search(previous) is not None


_ONTO = frozenset(["onto", "toward", "towards", "along"])
_PRONOUNS = frozenset(["he", "she", "it", "we", "you", "they", "who", "that"])
_BEFORE = {
    "WW": ("World War", frozenset({"I", "II", "III", "1", "2", "3"})),
    "Sec.": ("Secretary", frozenset({"of", "for"})),
    "Mass.": ("Massachusetts", frozenset({"Ave.", "Ave", "Avenue"})),
    "Assoc.": (
        "Associate",
        frozenset({"Prof.", "Professor", "Dean", "Director", "Editor", "Attorney", "Justice"}),
    ),
}
SMALL_DAYS = frozenset(day.lower() for day in vocabulary.WEEKDAYS if day not in vocabulary.WORDS_TOO) | {
    f"{day.lower()}." for day in vocabulary.WEEKDAYS
}
OF_LIFE = {"b.": "born", "d.": "died", "r.": "reigned"}
_YEAR = re.compile(r"(?:1\d|20)\d\d(?:\D|$)")
_OPEN_BRACKET = re.compile(r"\((?:[^()]*[,;])?\s*$")


def _is_of_life(following: str, phrase: Phrase) -> bool:
    """Of a person: within brackets before a date, or behind a whole name before a year."""
    is_dated = _YEAR.match(following) is not None
    if phrase.text[:1] == "(" or _OPEN_BRACKET.search(phrase.before):
        is_month = vocabulary.MONTH_NAME.fullmatch(following) is not None
        return is_dated or (is_month and _WORDS_ONLY.search(phrase.before) is None)
    name = phrase.before.rstrip()
    is_apart = phrase.following[-1:] in ",;" and _NAME.search(name) is not None
    return is_dated and (is_apart or _WHOLE_NAME.search(name) is not None)


_WORDS_ONLY = re.compile(r"\([^()\d]+$")
_NAME = re.compile(r"[A-Z][a-z][\w'’-]*,$")
_WHOLE_NAME = re.compile(r"(?:^|\s)[A-Z][\w.'’-]*(?: [a-z]{2,3})? [A-Z][a-z][\w'’-]*,$")


def _is_saint_without_stop(phrase: Phrase) -> bool:
    """ "in St Andrews", not "Wall St Journal" or "Main St Apt 2"."""
    previous = phrase.previous.strip(vocabulary.EDGES)
    is_name = (
        previous[:1].isupper()
        and previous not in contexts.BEFORE_SAINT
        and phrase.previous[-1:] not in ".,:;!?"
    )
    return not is_name and is_saint(phrase)


def _is_doctor(word: str, following: str, phrase: Phrase) -> bool:
    """ "Thanks Dr Lee", not "Oak Dr Apt 5" or "on Rodeo Dr Beverly Hills"."""
    if word == "Dr.":
        return True
    is_name = following[:1].isupper() and following not in BEHIND_STREET and phrase.text[-1:].isalpha()
    if phrase.previous[:1].isdigit() or phrase.previous in contexts.STREET_NAMES or not is_name:
        return False
    *_, before, last = ["", "", *phrase.before.split()]
    is_first = last == "" or last in contexts.STARTERS or last in contexts.GREETINGS
    is_name = last.istitle() and not vocabulary.is_weekday(last) and not vocabulary.MONTH_NAME.fullmatch(last)
    return is_first or not is_name or (before[-1:].isalnum() and before not in contexts.ALONG)


def is_drive(phrase: Phrase) -> bool:
    """ "onto Rodeo Dr", "Oak Dr, Apt 5": behind its name, and not before that of a doctor."""
    words = phrase.before.split()
    following = phrase.following.strip(vocabulary.EDGES).rstrip(".")
    names = list(itertools.takewhile(_STREET_NAME.fullmatch, reversed(words)))
    if not names or names[0] in contexts.STARTERS or names[0] in contexts.GREETINGS:
        return False
    if following in _UNITS and (phrase.text[-1:] == "," or phrase.following[-1:] != ","):
        return True
    if names[0] in contexts.STREET_NAMES and begins_sentence(following) and following not in ("Who", "No"):
        return True
    *_, verb, before = ["", "", *words[: len(words) - len(names)]]
    if following[:1].isupper() and not begins_sentence(following):
        return before == "onto" or (before in contexts.ALONG and verb in contexts.PLACED)
    return before in contexts.ALONG


_STREET_NAME = re.compile("[A-Z][a-z]+")
_UNITS = frozenset(["Apt", "Suite", "Ste", "Unit"])
BEHIND_STREET = frozenset(
    {"Apt", "Suite", "Ste", "Unit", "North", "South", "East", "West", "N", "S", "E", "W"}
)
_DEGREES = {"F": "Fahrenheit", "F.": "Fahrenheit", "C": "Celsius", "C.": "Celsius"}


def _is_arrival(phrase: Phrase) -> bool:
    """The time of an arrival in small letters, rather than the Greek letter."""
    is_told = _CLOCK.match(phrase.following) is not None or phrase.text[-1:] in ":?"
    return is_told or phrase.previous.lower().strip(vocabulary.EDGES) in contexts.OWN


_CLOCK = re.compile(r"\d+(?:[:.]\d\d)?\s?(?:[ap]\.?m|min|hour)?|(?:is|was)$", re.IGNORECASE)


_TOLD = frozenset(
    {
        *("St", "st.", "Dr", "Dr.", *_DEGREES, "eta", *_BEFORE, *contexts.MOUNTAINS, *SMALL_DAYS),
        *OF_LIFE,
        *(letters for letters in contexts.COMPASS if letters.endswith(".")),
        *(form for unit in units.SHORT for form in (unit, f"{unit}.")),
    }
)


def begins_sentence(word: str) -> bool:
    """Whether the word behind an abbreviation's full stop begins a sentence: "Now", "I'll", "Don't"."""
    bare = word.strip(vocabulary.EDGES)
    bare = bare.rstrip(".") if len(bare) > 3 else bare  # "Stop.", not "No."
    return bare in contexts.STARTERS or _CONTRACTED.sub("", bare) in contexts.STARTERS


_CONTRACTED = re.compile(r"(?:n['’]t|['’](?:ll|ve|re|s|m|d))$")


def is_saint(phrase: Phrase) -> bool:
    """Whether "St." is one, rather than a street: before a name, and not behind that of a street."""
    following, previous = phrase.following.strip(vocabulary.EDGES), phrase.previous.strip(vocabulary.EDGES)
    is_compass = following.rstrip(".") in contexts.COMPASS
    if not following[:1].isupper() or begins_sentence(following) or is_compass:
        return False
    return not previous[:1].isdigit() and previous not in contexts.STREET_NAMES


def _tags(context: Context, position: int, end: int) -> Iterator[Tag | str]:
    text = context.text
    while position < end:
        character = text[position]
        found, rule = None, None
        for rule in _rules_for(text, position, character).among(context.characters):
            found = rule.pattern.match(text, position, end)
            if found and found.end() > position and (rule.where is None or rule.where(found, context)):
                break
            found = None
        if found is None:
            run = _RUN.match(text, position, end)
            assert run is not None, text
            yield run[0]
            position = run.end()
        else:
            assert rule is not None
            yield Tag(rule.form, found[0], found.groupdict())
            position = found.end()


def _rules_for(text: str, position: int, character: str) -> Rules[Context]:
    before = text[position - 1] if position else ""
    if character.isdigit() and character.isascii():
        is_cross = before == "x" and text[max(0, position - 3) : position - 1].rstrip("\"″'′’")[-1:].isdigit()
        return rules.DIGITS_OF_CODE if before.isalpha() and not is_cross else rules.DIGITS
    if character.isascii() and character.isalpha():
        if before.isdigit():
            return rules.AFTER_DIGIT
        return rules.NONE if before.isalnum() else rules.LETTERS
    if character in units.SIGNS:
        return rules.CURRENCIES
    if character == "-" and before.isalpha() and before.isascii():
        return rules.HYPHENS_OF_CODE
    return rules.SLASHES if character == "/" else rules.OTHERS
