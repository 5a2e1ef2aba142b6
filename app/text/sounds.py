"""Tags that describe a sound or a manner, such as `[laugh]`, `*sighs*` and `(whispering)`: never read "
"aloud."""

import re
from typing import Final

_MARKS: Final = {
    "[laughter]": "laugh laughs laughing laughed laughter chuckle chuckles chuckling giggle giggles "
    "giggling snicker "
    "snickers snickering cackle cackles guffaw guffaws haha",
    "[sigh]": "sigh sighs sighing sighed",
    "[breath]": "breath breathe breathes breathing breaths inhale inhales inhaling exhale exhales exhaling",
    "[quick_breath]": "gasp gasps gasping pant pants panting",
    "[cough]": "cough coughs coughing throat",
    "[hissing]": "hiss hisses hissing",
    "[lipsmack]": "lipsmack smacks smack",
    "[noise]": "noise noises static",
    "[clucking]": "cluck clucks clucking tsk tut",
}
"""The mark of the architecture that says most of it, and the words of other engines for it."""
_SOUNDS = (
    "cry cries crying sob sobs sobbing weep weeps weeping sniff sniffs sniffing sniffle sniffles "
    "sniffling groan groans "
    "groaning moan moans moaning grunt grunts grunting yawn yawns yawning scream screams screaming "
    "shout shouts shouting "
    "yell yells yelling whisper whispers whispering whispered sing sings singing hum hums humming "
    "mumble mumbles "
    "mumbling mutter mutters muttering gulp gulps gulping swallow swallows swallowing hiccup hiccups "
    "burp burps sneeze "
    "sneezes sneezing snore snores snoring clap claps clapping applause cheer cheers cheering snort "
    "snorts snorting "
    "shush shushes whistle whistles whistling stammer stammers stammering stutters whimpers whimpering "
    "wheezes wheezing "
    "growls growling roars huffs scoffs squeals shrieks clears clearing smiles smiling smirks smirking "
    "grins grinning "
    "nods nodding shrugs shrugging winks winking frowns frowning blushes pauses pausing hesitates trembling"
)
_MANNERS = (
    "pause silence music beep bleep happy happily sad sadly angry angrily excited excitedly calm calmly "
    "nervous nervously "
    "sarcastic sarcastically softly loudly quietly slowly quickly cheerful cheerfully serious seriously "
    "surprised "
    "fearful fearfully disgusted curious curiously confused dramatic dramatically gentle gently playful "
    "playfully "
    "mischievously warmly coldly tenderly crying wry wryly tired amused annoyed proud shocked "
    "melancholic enthusiastic "
    "enthusiastically monotone hesitant robotic british accent s1 s2 s3 s4 speaker clear smile nod "
    "shrug wink grin"
)
_BESIDE = (
    "a an the and in with to at of deep deeply soft loud short long big little heavy heavily nervous "
    "slight slightly "
    "voice tone playing softly loudly quietly nervously sadly happily under his her their breath "
    "himself herself light "
    "lightly bitterly awkwardly again eyes rolls hard gently strong"
)
_MARK_OF: Final = {word: mark for mark, words in _MARKS.items() for word in words.split()}
_ACTIONS: Final = frozenset({*_MARK_OF, *_SOUNDS.split()}) - {"static", "noise", "throat", "tut"}
_ALL: Final = frozenset({*_MARK_OF, *_SOUNDS.split(), *_MANNERS.split()})
_OTHERS: Final = frozenset(_BESIDE.split())
MAX_CHARS: Final = 32
_TAG = re.compile(rf"(?P<open>[\[<(*])(?P<words>/?[A-Za-z][A-Za-z0-9' _-]{{0,{MAX_CHARS - 1}}})[\])>*]")
_OPEN = re.compile(rf"[\[<(*][A-Za-z/]?[A-Za-z0-9' _-]{{0,{MAX_CHARS - 1}}}")
_CLOSING: Final = {"[": "]", "<": ">", "(": ")", "*": "*"}


def find_sound(text: str, at: int, previous: str) -> tuple[str, str] | None:
    """Return the tag that begins at a place and its speech mark, "" for one that has none; None: no tag.

    previous: the character before the text. Between parentheses and asterisks only what somebody does is one:
    "(whispering)", but "(sad)" is text.
    """
    found = _TAG.match(text, at)
    if found is None or _CLOSING[found["open"]] != found[0][-1]:
        return None
    if found["open"] == "*" and "*" in ((text[at - 1] if at else previous), text[found.end() :][:1]):
        return None  # it is bold
    words = found["words"].lower().strip("/").replace("_", " ").replace("-", " ").split()
    meant = _ACTIONS if found["open"] in "(*" else _ALL
    if not any(word in meant for word in words) or not all(word in _ALL or word in _OTHERS for word in words):
        return None
    mark = next((_MARK_OF[word] for word in words if word in _MARK_OF), "")
    return found[0], "" if found["words"].startswith("/") else mark


def may_begin_sound(text: str) -> bool:
    """Whether more text could make it a tag: all its words but the last are words of tags, and that "
    "begins one."""
    if _OPEN.fullmatch(text) is None:
        return False
    *words, last = re.split(r"[ _-]", text[1:].lstrip("/").lower())
    if not all(word in _ALL or word in _OTHERS for word in words):
        return False
    return not last or last in _BEGINNINGS


_BEGINNINGS: Final = frozenset(word[:end] for word in _ALL | _OTHERS for end in range(1, len(word) + 1))
