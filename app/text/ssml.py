"""Read SSML as the same parts as marks in brackets. XML without a document type: no entities, no files."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final
from xml.parsers import expat

from firstword.app.errors import InvalidRequest
from firstword.app.text.marks import (
    MAX_RATE,
    MIN_RATE,
    Language,
    MarkReader,
    Part,
    Rate,
    Span,
    SpeechMarks,
    Voice,
    pause,
)
from firstword.app.text.phonemes import phoneme_marks
from firstword.app.text.say_as import INTERPRETATIONS, spoken_as

MAX_DEPTH = 32
MAX_ELEMENTS = 2000

_BEGINNING = re.compile(r"\s*(?:<speak[\s>/]|<\?xml\s)")
_MAY_BEGIN = re.compile(r"\s*(?:<(?:s(?:p(?:e(?:a(?:k)?)?)?)?|\?(?:x(?:m(?:l)?)?)?)?)?")
_BREAKS = {"none": 0.0, "x-weak": 0.1, "weak": 0.25, "medium": 0.5, "strong": 0.8, "x-strong": 1.2}
_RATES = {"x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.75}
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)%", re.ASCII)
_NUMBER = re.compile(r"\d(?:\.\d{1,4})?", re.ASCII)
_PARAGRAPH: Final = "\n\n"
_UNSPOKEN = frozenset(("metadata", "meta", "desc", "lexicon", "lookup"))
_PLAIN = frozenset(("speak", "p", "s", "w", "token", "lang"))


@dataclass(slots=True)
class _Element:
    """replaced: what is spoken instead of its content; "": the content is spoken."""

    name: str
    rate: float
    voice: str | None
    language: str | None
    replaced: str = ""
    interpretation: str = ""
    is_unspoken: bool = False


class SsmlReader:
    """A `PartReader` of one document, which may come in pieces. Its text may have marks in brackets too."""

    def __init__(
        self, marks: SpeechMarks, reads_marks: bool, warn: Callable[[str], None], is_whole: bool
    ) -> None:
        """is_whole: the first flush is the end of the document."""
        self._marks = marks
        self._warn = warn
        self._is_whole = is_whole
        self._brackets = MarkReader(marks, reads_marks, warn)
        self._parts: list[Part] = []
        self._text = ""  # that is not given out yet
        self._start_byte = 0  # of it, in all bytes fed
        self._num_elements = 0
        self._path = [_Element("", 1.0, None, None)]
        self._spoken = ""  # by an element that interprets its content, and its source
        self._spoken_source = ""
        self._parser = parser = expat.ParserCreate("UTF-8")
        parser.buffer_text = False
        if hasattr(parser, "SetReparseDeferralEnabled"):
            parser.SetReparseDeferralEnabled(False)
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._refuse_doctype

    def read(self, piece: str, is_last: bool) -> list[Part]:
        fed = "".join("\ufffd" if "\ud800" <= one <= "\udfff" else one for one in piece)
        self._text += piece
        try:
            if self._parser is not None:
                self._parser.Parse(fed.encode(), is_last and self._is_whole)
        except expat.ExpatError as error:
            raise InvalidRequest(
                f"the SSML is not well-formed at line {error.lineno}, column {error.offset + 1}: "
                f'{expat.ErrorString(error.code)}; correct it, or send "ssml": false to have it read as text',
                "text",
            ) from None
        if is_last:
            self._parts += self._brackets.read("", True)
            if self._is_whole:
                self._give(self._text, "")
        parts, self._parts = self._parts, []
        return parts

    def _skip_to_event(self) -> None:
        """Give out the source before the event that is handled as what is not spoken."""
        num_bytes = self._parser.CurrentByteIndex - self._start_byte
        if num_bytes > 0:
            content = self._text[:num_bytes].encode("utf-8", "surrogatepass")[:num_bytes]
            self._give(content.decode("utf-8", "surrogatepass"), "")

    def _give(self, source: str, written: str | None) -> None:
        """written None: read it for marks."""
        if not source and not written:
            return
        self._text = self._text[len(source) :]
        self._start_byte += len(source.encode("utf-8", "surrogatepass"))
        element = self._path[-1]
        if element.interpretation:
            self._spoken_source += source
            self._spoken += source if written is None else written
        elif written is None and not element.replaced and not element.is_unspoken:
            self._parts += self._brackets.read(source, False)
        else:
            is_spoken = written and not element.replaced and not element.is_unspoken
            self._parts += [*self._brackets.read("", True), Span(source, written or "" if is_spoken else "")]

    def _say(self, written: str) -> None:
        """Something that has no source of its own, unless it stands in what is not spoken."""
        element = self._path[-1]
        if element.replaced or element.is_unspoken:
            return
        self._parts += [*self._brackets.read("", True), Span("", written)]

    def _control(self, part: Part) -> None:
        self._parts += [*self._brackets.read("", True), part]

    def _characters(self, data: str) -> None:
        self._skip_to_event()
        if self._text[:1] in ("\n", "\r"):  # a blank as any other, at which no sentence ends
            self._give("\r\n" if self._text[:2] == "\r\n" else self._text[:1], " ")
        elif self._text.startswith(data):
            self._give(data, None)
        elif self._text[:1] == "&":
            self._give(self._text[: self._text.index(";") + 1], data)
        else:  # a lone surrogate was fed as something else
            self._give(self._text[: len(data)], None)

    def _start(self, name: str, given: dict[str, str]) -> None:
        self._skip_to_event()
        self._num_elements += 1
        above = self._path[-1]
        self._refuse_misplaced(name, above)
        element = _Element(
            name, above.rate, above.voice, above.language, above.replaced, is_unspoken=above.is_unspoken
        )
        match name:
            case "break":
                self._break(given)
            case "p" | "s":
                self._say(_PARAGRAPH)
            case "voice":
                self._voice(element, given)
            case "prosody":
                self._prosody(element, given)
            case "sub":
                self._replace(element, _alias_of(given))
            case "phoneme":
                self._pronounce(element, given)
            case "say-as":
                element.interpretation = _interpretation_of(given)
            case "strong" | "laughter":
                self._speech_mark(f"<{name}>")
            case _ if name in _UNSPOKEN:
                element.is_unspoken = True
            case _ if name not in _PLAIN:
                self._warn(f"<{name!a:.40}> is not supported; what it holds is spoken as plain text")
        language = given.get("xml:lang", "")
        if language and name in ("speak", "lang", "p", "s", "voice"):
            element.language = language
            self._control(Language("", language))
        self._path.append(element)

    def _refuse_misplaced(self, name: str, above: _Element) -> None:
        if (self._num_elements == 1) != (name == "speak"):
            raise _bad(f"<{name[:40]}> stands where it may not; one <speak> holds everything")
        if len(self._path) > MAX_DEPTH or self._num_elements > MAX_ELEMENTS:
            raise _bad(f"more than {MAX_DEPTH} elements in each other or {MAX_ELEMENTS} in all; send less")
        if above.interpretation:
            raise _bad(f"<{name[:40]}> stands in <say-as>, which takes text alone")

    def _break(self, given: dict[str, str]) -> None:
        time, strength = given.get("time"), given.get("strength", "medium")
        if time is None and strength not in _BREAKS:
            raise _bad(f'<break strength="{strength[:40]}">; choose one of {", ".join(_BREAKS)}')
        value = f"{_BREAKS[strength]}s" if time is None else time
        self._control(replace(pause(f'<break time="{time}"/>', value), source=""))

    def _voice(self, element: _Element, given: dict[str, str]) -> None:
        element.voice = given.get("name", "").strip()
        if not element.voice:
            raise _bad("<voice> has no name; give that of a speaker")
        self._control(Voice("", element.voice))

    def _prosody(self, element: _Element, given: dict[str, str]) -> None:
        if "rate" in given:
            element.rate *= _rate_of(given["rate"])
            if not MIN_RATE <= element.rate <= MAX_RATE:
                raise _bad(f"a rate of {element.rate:g}; expected {MIN_RATE:g} to {MAX_RATE:g}")
            self._control(Rate("", element.rate))
        for attribute in given.keys() - {"rate"}:
            self._warn(f"<prosody {attribute!a:.40}> is not supported; it was left out")

    def _end(self, name: str) -> None:
        self._skip_to_event()
        element = self._path.pop()
        above = self._path[-1]
        if element.interpretation:
            spoken = spoken_as(element.interpretation, self._spoken, element.language or "en")
            self._parts += [*self._brackets.read("", True), Span(self._spoken_source, spoken)]
            self._spoken = self._spoken_source = ""
        match name:
            case "p" | "s":
                self._say(_PARAGRAPH)
            case "strong" | "laughter":
                self._speech_mark(f"</{name}>")
        if element.voice != above.voice:
            self._control(Voice("", above.voice))
        if element.rate != above.rate:
            self._control(Rate("", above.rate))
        if element.language != above.language:
            self._control(Language("", above.language))

    def _replace(self, element: _Element, spoken: str) -> None:
        self._say(spoken)
        element.replaced = spoken

    def _pronounce(self, element: _Element, given: dict[str, str]) -> None:
        alphabet, pronunciation = given.get("alphabet", "ipa"), given.get("ph", "")
        try:
            marks = phoneme_marks(alphabet, pronunciation)
        except ValueError as error:
            raise _bad(f'<phoneme ph="{pronunciation[:40]}">: {error}') from None
        characters = [self._marks.character(mark) for mark in marks]
        if all(characters):
            self._replace(element, "".join(one or "" for one in characters))
        else:
            self._warn(f"this checkpoint does not take the phonemes {pronunciation!a:.40}; the text was read")

    def _speech_mark(self, mark: str) -> None:
        character = self._marks.character(mark)
        if character:
            self._say(character)
        else:
            self._warn(f"this checkpoint does not take the mark {mark!a}; it was left out")

    def _refuse_doctype(self, *_: object) -> None:
        raise _bad("it has a document type; send it without <!DOCTYPE>")


def begins_ssml(text: str) -> bool | None:
    """Whether a text that begins so is SSML; None: more of it has to come."""
    return None if _MAY_BEGIN.fullmatch(text) else _BEGINNING.match(text) is not None


def _alias_of(given: dict[str, str]) -> str:
    alias = given.get("alias", "")
    if not alias.strip():
        raise _bad("<sub> has no alias; give what is to be spoken")
    return alias


def _interpretation_of(given: dict[str, str]) -> str:
    found = given.get("interpret-as", "")
    if found not in INTERPRETATIONS:
        choices = ", ".join(INTERPRETATIONS)
        raise _bad(f'<say-as interpret-as="{found[:40]}">; choose one of {choices}')
    return found


def _rate_of(value: str) -> float:
    value = value.strip()
    if value in _RATES:
        return _RATES[value]
    if found := _PERCENT.fullmatch(value):
        return float(found[1]) / 100
    if _NUMBER.fullmatch(value):
        return float(value)
    raise _bad(f'<prosody rate="{value[:40]}">; expected one of {", ".join(_RATES)}, 90% or 0.9')


def _bad(why: str) -> InvalidRequest:
    return InvalidRequest(
        f'the SSML cannot be read: {why}; correct it, or send "ssml": false to have it read as text', "text"
    )
