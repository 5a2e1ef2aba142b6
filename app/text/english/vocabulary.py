"""English words, abbreviations, signs and units that change how their neighbors are read."""

import re

# ruff: noqa: RUF001  typographic dashes, quotes and signs are meant


MONTHS = {
    "jan": "January",
    "feb": "February",
    "mar": "March",
    "apr": "April",
    "may": "May",
    "jun": "June",
    "jul": "July",
    "aug": "August",
    "sep": "September",
    "oct": "October",
    "nov": "November",
    "dec": "December",
}
MONTH = (
    r"(?:[Jj]an(?:uary|\.)?|[Ff]eb(?:ruary|\.)?|[Mm]ar(?:ch|\.)?|[Aa]pr(?:il|\.)?|[Mm]ay|[Jj]une?\b|[Jj]un\.?"
    r"|[Jj]uly?\b|[Jj]ul\.?|[Aa]ug(?:ust|\.)?|[Ss]ep(?:tember|t?\.)?|[Ss]ept|[Oo]ct(?:ober|\.)?"
    r"|[Nn]ov(?:ember|\.)?|[Dd]ec(?:ember|\.)?"
    r"|JAN(?:UARY|\.)?|FEB(?:RUARY|\.)?|MAR(?:CH|\.)?|APR(?:IL)?|MAY|JUNE?|JULY?|AUG(?:UST|\.)?"
    r"|SEPT?(?:EMBER|\.)?|OCT(?:OBER|\.)?|NOV(?:EMBER|\.)?|DEC(?:EMBER)?)"
)
WEEKDAYS = {
    **{"Mon": "Monday", "Tue": "Tuesday", "Tues": "Tuesday", "Wed": "Wednesday", "Thu": "Thursday"},
    **{"Thur": "Thursday", "Thurs": "Thursday", "Fri": "Friday", "Sat": "Saturday", "Sun": "Sunday"},
}
WORDS_TOO = frozenset({"Wed", "Sat", "Sun"})  # of those, the ones that are other words as well

# What a word stands for before a name: its full stop ends no sentence.
TITLES = {
    "Dr.": "Doctor",
    "Drs.": "Doctors",
    "Mr.": "Mister",
    "Mrs.": "Missus",
    "Ms.": "Miz",
    **{"Wm.": "William", "Geo.": "George", "Chas.": "Charles", "Jas.": "James", "Jos.": "Joseph"},
    **{"Thos.": "Thomas", "Robt.": "Robert"},
    "mr.": "mister",
    "mrs.": "missus",
    "ms.": "miz",
    "dr.": "doctor",
    "prof.": "professor",
    "Messrs.": "Messieurs",
    "Prof.": "Professor",
    "Rev.": "Reverend",
    "Msgr.": "Monsignor",
    "Mme.": "Madame",
    "Mlle.": "Mademoiselle",
    "Adm.": "Admiral",
    "Brig.": "Brigadier",
    "Fr.": "Father",
    "Hon.": "Honorable",
    "Gen.": "General",
    "Maj.": "Major",
    "Col.": "Colonel",
    "Capt.": "Captain",
    "Cmdr.": "Commander",
    "Lt.": "Lieutenant",
    "Sgt.": "Sergeant",
    "Cpl.": "Corporal",
    "Pvt.": "Private",
    "Gov.": "Governor",
    "Sen.": "Senator",
    "Rep.": "Representative",
    "Pres.": "President",
    "Amb.": "Ambassador",
    "Atty.": "Attorney",
    "Supt.": "Superintendent",
    "Det.": "Detective",
    "Insp.": "Inspector",
    "Mt.": "Mount",
    "Ft.": "Fort",
    "Govt.": "Government",
    **{"Sens.": "Senators", "Govs.": "Governors", "Profs.": "Professors"},
    "Univ.": "University",
    "Dist.": "District",
}
# Before a number only, in digits or roman; elsewhere they are words ("No.") or rare.
COUNTED = {
    "No.": "Number",
    "no.": "number",
    "Nos.": "Numbers",
    "nos.": "numbers",
    "Nr.": "Number",
    "Fig.": "Figure",
    "fig.": "figure",
    "Figs.": "Figures",
    "figs.": "figures",
    "Eq.": "Equation",
    "eq.": "equation",
    "Tab.": "Table",
    "Vol.": "Volume",
    "vol.": "volume",
    "Vols.": "Volumes",
    "Ch.": "Chapter",
    "ch.": "chapter",
    "Chap.": "Chapter",
    "Sec.": "Section",
    "sec.": "section",
    "Sect.": "Section",
    "Art.": "Article",
    "Pt.": "Part",
    "Ps.": "Psalm",
    "Rev.": "Revision",
    "Sc.": "Scene",
    "sc.": "scene",
    "pt.": "part",
    "Ex.": "Example",
    "ex.": "example",
    "p.": "page",
    "pp.": "pages",
    "pg.": "page",
    "para.": "paragraph",
    "ver.": "version",
    "Ep.": "Episode",
    "ep.": "episode",
    "ext.": "extension",
    "Ext.": "extension",
    "ext": "extension",
    "Apt": "Apartment",
    "Apt.": "Apartment",
    "apt.": "apartment",
    "Ste.": "Suite",
    "Ste": "Suite",
    "Bldg": "Building",
    "Rm": "Room",
    "Bldg.": "Building",
    "Rm.": "Room",
    "Rs.": "Rupees",
    "Rt.": "Route",
    "ca.": "circa",
    "c.": "circa",
    "est.": "established",
    "Est.": "established",
    **{"max.": "maximum", "min.": "minimum", "Max.": "Maximum", "Min.": "Minimum"},
    "tel.": "telephone",
    **{"pp": "pages", "vol": "volume", "Vol": "Volume", "Fig": "Figure", "Div.": "Division", "Mk.": "Mark"},
    **{"Lv.": "Level", "Lv": "Level", "Lvl.": "Level", "Lvl": "Level", "lvl": "level", "Cat.": "Category"},
    **{
        "Pg.": "Page",
        "Para.": "Paragraph",
        "Ver.": "Version",
        "Blk.": "Block",
        "Blk": "Block",
        "Bk.": "Book",
    },
    **{"Wk.": "Week", "Wk": "Week", "bldg.": "building", "bldg": "building", "rm.": "room", "rm": "room"},
    **{"Secs.": "Sections", "Chs.": "Chapters", "Eqs.": "Equations", "Arts.": "Articles"},
    "Tel.": "telephone",
}
# Before a time of day, as timetables have them.
TIMED = {"Dep.": "Departs", "dep.": "departs", "Arr.": "Arrives", "arr.": "arrives"}
# Their full stop ends no sentence, whatever follows.
BETWEEN = {
    "e.g.": "for example",
    "i.e.": "that is",
    "E.g.": "For example",
    "I.e.": "That is",
    "Cf.": "Compare",
    "vs.": "versus",
    "v.": "versus",
    "viz.": "namely",
    "a.k.a.": "A K A",
    "cf.": "compare",
    **{"approx.": "approximately", "Approx.": "Approximately", "Incl.": "Including", "Esp.": "Especially"},
    "incl.": "including",
    "esp.": "especially",
}
# Their full stop ends a sentence where the next word is one that begins sentences, or none follows.
ABBREVIATIONS = {
    "etc.": "et cetera",
    **{"m.p.h.": "miles per hour", "r.p.m.": "revolutions per minute", "m.p.g.": "miles per gallon"},
    "p.a.": "per annum",
    "doz.": "dozen",
    "Acct.": "Account",
    "acct.": "account",
    "Amt.": "Amount",
    "amt.": "amount",
    "Qty.": "Quantity",
    "qty.": "quantity",
    "Pkg.": "Package",
    "pkg.": "package",
    "al.": "al",
    "Ph.D.": "P H D",
    "Ph.D": "P H D",
    "Jr.": "Junior",
    "Sr.": "Senior",
    "Esq.": "Esquire",
    "Inc.": "Incorporated",
    "Ltd.": "Limited",
    "Corp.": "Corporation",
    "Co.": "Company",
    "Bros.": "Brothers",
    "Dept.": "Department",
    "dept.": "department",
    "Assn.": "Association",
    "Assoc.": "Association",
    "Asst.": "Assistant",
    "Natl.": "National",
    "Intl.": "International",
    **{"Ave.": "Avenue", "Aves.": "Avenues"},
    "Blvd.": "Boulevard",
    "Rd.": "Road",
    "Ln.": "Lane",
    "Hwy.": "Highway",
    "Pkwy.": "Parkway",
    "Sq.": "Square",
    "Mon.": "Monday",
    "Tue.": "Tuesday",
    "Tues.": "Tuesday",
    "Wed.": "Wednesday",
    "Thu.": "Thursday",
    "Thur.": "Thursday",
    "Thurs.": "Thursday",
    "Fri.": "Friday",
    "Sat.": "Saturday",
    "hrs.": "hours",
    "mins.": "minutes",
    "yrs.": "years",
    "lbs.": "pounds",
    "ft.": "feet",
    "sq.": "square",
    "cu.": "cubic",
    "fl.": "fluid",
    "misc.": "miscellaneous",
    "temp.": "temperature",
    **{"avg.": "average", "Avg.": "Average", "Temp.": "Temperature", "Misc.": "Miscellaneous"},
    **{"Appt.": "Appointment", "Mgmt.": "Management", "Mfg.": "Manufacturing", "Mgr.": "Manager"},
    "govt.": "government",
    "mgmt.": "management",
    "asst.": "assistant",
    "assoc.": "associate",
    "appt.": "appointment",
    "ret.": "retired",
    "Attn.": "Attention",
    "ea.": "each",
}
# Before chapter and verse.
BOOKS = {
    **{
        "Gen.": "Genesis",
        "Exod.": "Exodus",
        "Lev.": "Leviticus",
        "Deut.": "Deuteronomy",
        "Prov.": "Proverbs",
    },
    **{"Isa.": "Isaiah", "Jer.": "Jeremiah", "Ezek.": "Ezekiel", "Rom.": "Romans"},
    **{"Cor.": "Corinthians", "Eph.": "Ephesians", "Thess.": "Thessalonians", "Heb.": "Hebrews"},
    "Chron.": "Chronicles",
    "Rev.": "Revelation",
}
# Those that are names as well stand between a number and a verse: "1 Sam. 3:4".
NUMBERED_BOOKS = {"Sam": "Samuel", "Tim": "Timothy", "Pet": "Peter"}
NUMBERED_BOOK = re.compile(rf"(?<!\d)[123] (?:{'|'.join(NUMBERED_BOOKS)})\.$")
# Behind a city, as newspapers have them; not those that are words as well.
PLACES = {
    **{"Fla.": "Florida", "Calif.": "California", "Tex.": "Texas", "Mich.": "Michigan", "Ariz.": "Arizona"},
    **{"Minn.": "Minnesota", "Wis.": "Wisconsin", "Conn.": "Connecticut", "Colo.": "Colorado"},
    **{"Ala.": "Alabama", "Ark.": "Arkansas", "Ky.": "Kentucky", "Tenn.": "Tennessee", "Okla.": "Oklahoma"},
    **{"Nev.": "Nevada", "Neb.": "Nebraska", "Ga.": "Georgia", "Va.": "Virginia", "Md.": "Maryland"},
    **{
        "Mont.": "Montana",
        "Kan.": "Kansas",
        "Vt.": "Vermont",
        "Mass.": "Massachusetts",
        "Wash.": "Washington",
    },
    **{"Ill.": "Illinois", "Ore.": "Oregon", "Pa.": "Pennsylvania", "N.J.": "New Jersey", "N.Y.": "New York"},
}
PLACES_OF_MEMBERS = {
    **{"Del.": "Delaware", "La.": "Louisiana", "Miss.": "Mississippi", "Mo.": "Missouri", "Ind.": "Indiana"},
    **{"Wyo.": "Wyoming", "N.H.": "New Hampshire", "N.C.": "North Carolina", "S.C.": "South Carolina"},
    **{"N.D.": "North Dakota", "S.D.": "South Dakota", "N.M.": "New Mexico", "R.I.": "Rhode Island"},
    **{"W.Va.": "West Virginia", "Kans.": "Kansas"},
}
"""Only behind a party: "(D-Del.)"."""
# Without a full stop.
SHORT_FORMS = {
    **{
        "Mr": "Mister",
        "Mrs": "Missus",
        "Ms": "Miz",
        "Sgt": "Sergeant",
        "Capt": "Captain",
        "Prof": "Professor",
    },
    **{"Dept": "Department", "dept": "department", "Univ": "University", "Mgr": "Manager"},
    **{"approx": "approximately", "w/out": "without", "C/O": "care of"},
    "Attn": "Attention",
    "Acct": "Account",
    "acct": "account",
    "Amt": "Amount",
    "Qty": "Quantity",
    "qty": "quantity",
    "Rd": "Road",
    "int'l": "international",
    "Int'l": "International",
    "nat'l": "national",
    "Nat'l": "National",
    "gov't": "government",
    "Gov't": "Government",
    "dep't": "department",
    "Dep't": "Department",
    "cont'd": "continued",
    **{"YoY": "year over year", "QoQ": "quarter over quarter"},
    **{"y/y": "year over year", "q/q": "quarter over quarter", "m/m": "month over month"},
    **{
        "hwy": "highway",
        "pkwy": "parkway",
        "blvd": "boulevard",
        "flr": "floor",
        "mgr": "manager",
        "Wt": "Weight",
    },
    **{"hrs": "hours", "mins": "minutes", "yrs": "years", "lbs": "pounds"},
    **{"mgmt": "management", "appt": "appointment", "avg": "average", "govt": "government"},
    "w/": "with",
    "w/o": "without",
    "w/in": "within",
    "b/c": "because",
    "a/c": "A C",
    "c/o": "care of",
    "n/a": "not applicable",
    "N/A": "not applicable",
    "vs": "versus",
    "Ave": "Avenue",
    "Blvd": "Boulevard",
    "Hwy": "Highway",
    "Pkwy": "Parkway",
    "Rte": "Route",
    "WWI": "World War one",
    "WWII": "World War two",
}
SAINT_OR_STREET = "St."
ARROWS = frozenset(["→", "⇒", "->", "=>", "-->"])
OPERATORS = {
    "+": "plus",
    "=": "equals",
    "×": "times",
    "÷": "divided by",
    "*": "times",
    "/": "divided by",
    "x": "by",
    "<": "is less than",
    ">": "is greater than",
    "≤": "at most",
    "≥": "at least",
    "≈": "about",
    "≠": "is not equal to",
    ">=": "at least",
    "<=": "at most",
    "!=": "is not equal to",
    "==": "equals",
    "-": "to",
    "–": "to",
    "—": "to",
    "--": "to",
    "−": "minus",
}
FUNCTIONS = {
    **{"sin": "sine", "cos": "cosine", "tan": "tangent", "log": "log", "ln": "natural log"},
    **{"sqrt": "square root", "exp": "exponential"},
}
"""Before "(", of what stands in it."""
SCALES = {
    "k": "thousand",
    "K": "thousand",
    "m": "million",
    "M": "million",
    "mn": "million",
    "mln": "million",
    "mil": "million",
    "mio": "million",
    "Mio": "million",
    "Mrd": "billion",
    "MM": "million",
    "bn": "billion",
    "Bn": "billion",
    "bln": "billion",
    "B": "billion",
    "b": "billion",
    "tn": "trillion",
    "T": "trillion",
    "hundred": "hundred",
    "thousand": "thousand",
    "million": "million",
    "billion": "billion",
    "trillion": "trillion",
    "quadrillion": "quadrillion",
    "lakh": "lakh",
    "crore": "crore",
}
SCALES |= {name.capitalize(): name for name in ("hundred", "thousand", "million", "billion", "trillion")}

DOTTED = re.compile(r"(?:[A-Za-z]\.){2,}")
_BEFORE_LAST = re.compile(r"^(?:[A-Za-z.]{3,10}|\d{1,2}(?:st|nd|rd|th)?)[/–-]")  # "Aug./Sept.", "1-Dec."
INITIAL = re.compile(r"[A-Z]\.")

EDGES = "\"'“”‘’()[],;:!?*_"  # what may stand around a word; full stops belong to it
MONTH_NAME = re.compile(MONTH)
ORDINAL_ENDS = frozenset({"st", "nd", "rd", "th"})
HALF_APART = re.compile(r"\d\s?[AaPp]\.\s?[Mm]\.$")
HALF_OF_DAY = re.compile(r"[AaPp]\.?[Mm]\.?")
_STOPPED = frozenset(
    {*TITLES, *COUNTED, *TIMED, *BETWEEN, *ABBREVIATIONS, *BOOKS, *PLACES, SAINT_OR_STREET}
    | {f"{word}." for word in SHORT_FORMS}
)


def is_title(word: str) -> bool:
    """Whether a word is one before a name, which "Dr." and "Ft." are too."""
    return word in TITLES and word != "Mt."


def is_book(word: str) -> bool:
    """Whether a word stands for the name of a book of verses."""
    return word in BOOKS or word[:-1] in NUMBERED_BOOKS


def is_company(word: str) -> bool:
    return word.strip(EDGES) in ("Inc.", "Ltd.", "Corp.", "Co.", "Bros.")


def is_weekday(word: str) -> bool:
    return word in WEEKDAYS or word in WEEKDAYS.values()


def is_abbreviation(word: str) -> bool:
    """Whether the full stop at its end belongs to the word, judged by the word alone."""
    bare = word.strip(EDGES)
    if not bare.endswith("."):
        return False
    return (
        bare in _STOPPED
        or DOTTED.fullmatch(bare) is not None
        or INITIAL.fullmatch(bare) is not None
        or MONTH_NAME.fullmatch(_BEFORE_LAST.sub("", bare)) is not None
    )
