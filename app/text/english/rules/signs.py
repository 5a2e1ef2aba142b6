"""Forms that begin with a sign, a blank or inside a word; the first that fits, in this order, is taken."""

from firstword.app.text.addresses import FILE
from firstword.app.text.english import vocabulary
from firstword.app.text.english.conditions import amounts, codes, dates, money, names
from firstword.app.text.english.rules.patterns import AMOUNT, NOUN, PER_PRICE, SCALE, SIGN, compile_rules

# ruff: noqa: RUF001  typographic dashes, quotes and signs are meant

OFFSET = r"(?:(?<=UTC)|(?<=GMT))(?P<sign>[+−-])(?P<hours>\d\d?):(?P<minutes>[0-5]\d)(?![\d:])"
LOW_SCALE = SCALE.replace("<scale>", "<low_scale>")
CURRENCIES = compile_rules(
    (
        "money.range",
        rf"(?P<sign>{SIGN})\s?(?P<low>{AMOUNT})(?:\s?(?P<low_scale>[kKMB])\b)?\s?[-–]\s?{SIGN}?(?P<number>{AMOUNT})"
        rf"(?:[\s-]?{SCALE})?{PER_PRICE}",
        money.is_money,
    ),
    (
        "money.range",
        rf"(?P<sign>{SIGN})\s?(?P<low>{AMOUNT})[\s-]?{LOW_SCALE}\s?[-–—]\s?{SIGN}(?P<number>{AMOUNT})[\s-]?{SCALE}{PER_PRICE}",
        money.is_money,
    ),
    (
        "money.grouped",
        r"(?P<sign>€)\s?(?P<whole>\d{1,3}(?:\.\d{3})+)(?P<cents>(?!))?(?P<per>(?!))?(?!\d|[.,]\d)",
        money.is_grouped,
    ),
    (
        "money.amount",
        rf"(?P<sign>{SIGN})\s?(?P<number>{AMOUNT})(?:[\s-]?{SCALE})?\s(?P<code>[A-Z]{{3}})(?P<per>(?!))?(?![\w-])",
        money.is_money_with_code,
    ),
    (
        "money.amount",
        rf"(?P<sign>{SIGN})\s?(?P<number>{AMOUNT})(?:[\s-]?{SCALE})?(?P<per>(?!))?\s(?P<currency>[a-z]{{3,7}})\b",
        money.is_named_twice,
    ),
    (
        "money.amount",
        rf"(?P<sign>{SIGN})(?P<minus>\()(?P<number>{AMOUNT})\)(?:[\s-]?{SCALE})?(?P<per>(?!))?",
        money.is_money,
    ),
    (
        "money.amount",
        rf"(?P<sign>{SIGN})(?P<minus>[-−])(?P<number>{AMOUNT}|\.\d+)(?:[\s-]?{SCALE})?{PER_PRICE}",
        money.is_money,
    ),
    (
        "money.comma",
        rf"(?P<sign>€)\s?(?P<whole>\d{{1,3}}(?:\.\d{{3}})*),(?P<cents>\d\d)(?!\d|[.,]\d){PER_PRICE}",
        money.is_money,
    ),
    (
        "money.fraction",
        rf"(?P<sign>{SIGN})\s?(?P<whole>\d{{1,3}})\s(?P<above>\d)/(?P<below>[2348])(?!\w|/\d)(?:[\s-]?{SCALE})?{PER_PRICE}",
        money.is_money_with_part,
    ),
    ("money.many", rf"(?P<sign>{SIGN})(?P<number>100|1,?000)s\b", money.is_spent),
    ("money.decade", rf"(?P<sign>{SIGN})(?P<number>[1-9]0|[125]|100|1,?000)s\b"),
    (
        "money.amount",
        rf"(?P<sign>{SIGN})\s?(?P<number>{AMOUNT}|\.\d+)(?P<gap>[\s-]?)(?:{SCALE}){NOUN}{PER_PRICE}",
        money.is_money,
    ),
    ("money.amount", rf"(?P<sign>{SIGN})\s?(?P<number>{AMOUNT}|\.\d+){NOUN}{PER_PRICE}", money.is_money),
)
OTHERS = compile_rules(
    ("time.offset", OFFSET),
    (
        "telephone.number",
        r"(?<![\w.,$€£])(?:\+\d[\d .()-]{6,20}\d|\(\d{3}\)[ -]?\d{3}[ .-]\d{4}"
        r"|\(0\d{0,4}\)(?: |(?<=\(0\))\d{2,4} )\d{3,4} \d{3,4}"
        r"|\(0\d{2,4}\) (?!(?:19|20)\d\d-(?:19|20)\d\d(?!\d))\d{3,4}-\d{4})(?:\sx(?P<extension>\d{1,5}))?"
        r"(?!\w|[.,]\d|-\d)",
    ),
    ("roman.sign", r"(?P<roman>[Ⅰ-ⅿ]+)"),
    ("cardinal.sign", r"(?P<number>[①-⑳❶-❿])"),
    ("formula.power", r"(?<=[\w)])\^\(?(?P<power>[-−]?\w{1,9})\)?"),
    ("formula.charge", r"(?<=[\w)])(?P<raised>[²³⁴]?)(?P<sign>[⁺⁻]+)(?![\w⁰¹²³⁴-⁹])"),
    (
        "formula.charge",
        r"(?:(?<=[A-Z]\d)|(?<=[A-Z]))\s?(?P<raised>[1-4])(?P<sign>[+-])(?![\w-])",
        codes.is_of_elements,
    ),
    ("electronic.note", r"(?<=[\w)])[¹⁴-⁹][⁰¹²³⁴-⁹]?(?![⁰¹²³⁴-⁹\w(])", amounts.is_note),
    ("electronic.note", r"(?:(?<=[a-z]{2}[.,;:!?])|(?<=[a-z][.!?][\"”’)]))[¹²³⁴-⁹][⁰¹²³⁴-⁹]?(?!\w)"),
    ("formula.power", r"(?<=[\w)])(?P<raised>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)"),
    (
        "formula.by",
        r"(?:(?<=\d [cm]m)|(?<=\d[cm]m)|(?<=\dm)|(?<=\d m)|(?<=\d (?:in|ft))|(?<=\d(?:in|ft)))"
        r"\s?(?P<sign>×)\s?(?=(?P<other>\d[\d.]*\s?(?:[cm]?m|in|ft))\b)",
        amounts.is_size,
    ),
    ("formula.factorial", r"(?<=\d)!(?=\s?[=+×*/)-])"),
    ("formula.factorial", r"(?:(?<=\b[kmn])|(?<=[\d)]\)))!(?=[=+×*/)-]|$)", amounts.is_factorial),
    ("formula.sign", r"(?<=[\w)])\s?(?P<sign>=|\+|÷|×)\s?(?=[\w(√-])"),
    ("formula.minus", r"(?<=[a-z])\s?[-−–]\s?(?=[\d(])", amounts.is_formula),
    (
        "formula.minus",
        r"(?<=[a-z][²³⁴-⁹])(?<![A-Za-z]{2}.)(?<!\d\sm.)(?<!\dm.)\s?[-−–](?:\s?(?=\w)|$)",
        amounts.is_power_ahead,
    ),
    ("formula.minus", r"(?<=[\d)²³])\s?[-−–]\s?(?=[\d(])", amounts.is_formula),
    ("formula.minus", r"(?:(?<=[\d)²³%])|(?<=\b[a-z]))\s−\s(?=[\d($€£√])"),
    ("formula.minus", r"(?<=[\d)(]\b[b-hj-z])\s-\s(?=\d+\))"),
    ("formula.minus", r"(?<=[\d)²³%])\s[-–]\s(?=[\d($€£√])", amounts.is_asked),
    ("formula.sign", r"(?<=[\d)])\s?(?P<sign>\*)\s?(?=[\d(])"),
    ("formula.sign", r"(?<=[\d)])(?P<sign>/)(?=[\d(])", amounts.is_formula),
    ("money.for", r"(?:(?<=^\d)|(?<=\W\d))/(?=[$€£]\d)"),
    (
        "measure.per",
        r"(?<=\d)/(?=(?P<several>\d{1,3}(?:,\d{3})*|\d+)(?P<scale>[kKMB]?)(?![\w/]|[.,]\d))",
        money.is_priced,
    ),
    ("measure.per", r"(?<=[A-Za-z])/(?=\d+\s?(?P<per>km|m[lL]|g|h|hrs?|min)\b)", amounts.is_share),
    ("formula.sign", r"(?<=[\d)])\s(?P<sign>/)\s(?=[\d(])"),
    ("formula.sign", r"\s(?P<sign>/)(?=\s|$)", amounts.is_formula),
    ("cardinal.comma", r"\s/(?=\s|$)|(?<=\b[NSEW])/(?=[A-Z][a-z])"),
    (
        "cardinal.comma",
        r"(?<=[A-Za-z°])/(?=[−-]?\d{1,3}(?:[:.]\d\d?)?\s?(?:°|[CF]\b|[AaPp]\.?[Mm]\b))",
        amounts.is_said_twice,
    ),
    ("formula.times", r"(?<=\d)\sx\s(?=\d)", amounts.is_formula),
    ("formula.times", r"(?<=\d)\sx\s(?=10[\^⁰¹²³⁴-⁹⁻])"),
    ("formula.times", r"(?<=\d)\sx\s(?=\d)", amounts.is_several),
    ("formula.by", r"(?<=[\w\"'.])\s(?P<sign>x)\s(?=\d)"),
    ("formula.limit", r"(?<![\w)%°])(?<![\w)%°]\s)(?P<sign>[<>])(?=[\d.])"),
    ("formula.compare", r"(?P<sign>[<>≤≥≠≈])\s?(?=[\d.])"),
    ("serial.hyphen", r"(?:(?<=\bi[3579])|(?<=[A-Z]{2}\d)|(?<=\b[A-Z]\d))-(?=\d{4,5}[A-Z]{0,2}\d?\b)"),
    ("serial.hyphen", r"(?<=\d)-(?=\d+[A-Z])", codes.is_within_code),
    ("serial.hyphen", r"(?<=\d)-(?=\d)", codes.is_part_of_code),
    ("serial.hyphen", r"(?<=\bx86)-(?=64\b)"),
    ("serial.hyphen", r"(?<=[A-Z]\d[A-Z]\d)-(?=\d)|(?<=\b[A-Z]\d)-(?=\d{2,}[A-Z]\b)"),  # "A1B2-99", "X7-22Q"
    ("serial.hyphen", r"(?<=\bA3\d0)-(?=(?:[1-9]00|1000)\b)"),
    ("serial.hyphen", r"(?<=\d)-(?=\d+(?:\.\d+)?[BM]\b)", codes.is_model_size),
    (
        "range.to",
        r"(?:(?<=[\d%°])|(?<=[\w])(?<=\d[a-zA-Z])|(?<=[\d\s][apAP][mM])|(?<=\d[snrt][tdh])"
        r"|(?<=[ap]\.m\.)|(?<=\bnoon)|(?<=\bmidnight))\s?[-–—]\s?(?=[$€£¥₹]?\d)",
    ),
    ("range.to", r"(?<=\d[\"″”])\s?[-–]\s?(?=\d+(?:\.\d+)?['′’\"″”])"),
    ("range.to", rf"(?<=\w)\s?[-–]\s?(?={vocabulary.MONTH}\s\d)", dates.is_from_month),
    ("range.to", rf"(?<=[a-z.])\s?[-–]\s?(?=\d\d?\s{vocabulary.MONTH}\b)", dates.is_behind_day_and_month),
    ("range.to", r"(?<=[A-Za-z²³])\s?[-–]\s?(?=\d)", amounts.is_from_measure),
    ("range.to", r"(?<=[\dmM.])\s?[-–—]\s?(?=noon\b|midnight\b)"),
    ("range.to", r"(?<=[\dmM.])\s[-–—]$", amounts.is_before_noon),
    ("range.to", r"(?<=\d)[-–](?=['’]\d\d(?!\w))"),
    ("range.to", r"(?<=\d)\s?[~～]\s?(?=\d)"),
    ("range.to", r"(?<=\d[€£$%])\s?[-–—]\s?(?=\d)"),
    ("cardinal.minus", r"(?:(?<=UTC)|(?<=GMT))−(?=\d)"),
    ("cardinal.minus", r"(?<![\w)])[-−](?=[a-z](?![\w'’=-]))", amounts.is_formula),
    ("cardinal.minus", r"(?<![\w)])[-−](?=\.?\d|[$€£¥₹])"),
    ("cardinal.comma", r"(?<=[\d²³])\s[-–—]+|(?<=[A-Za-z])\s(?:--|—)(?=\s|$)"),
    ("cardinal.hash", r"#\s?(?=\d)|#\s?(?=[A-Z]{1,2}-?\d{3}|[A-Z]{1,4}-\d|[A-Z]{1,3}\d[A-Z\d]{2,}\b)"),
    ("cardinal.about", r"(?<!\w)[~≈](?=[\d$€£¥])"),
    ("date.decade", r"['’](?P<digits>[1-9]0)s\b"),
    ("date.short_year", r"(?:(?<!\w)|(?<=\b[QH][1-4])|(?<=\bFY))['’](?P<digits>\d\d)(?!\w)"),
    ("cardinal.number", r"(?<!\.)(?P<number>\.\d+)"),
    (
        "electronic.path",
        r"(?<![\w/.:<)$€£¥])(?:~(?=/))?(?:/(?:(?<=~/)\.)?[A-Za-z](?:[\w.-]*\w)?)+/?",
        codes.is_path,
    ),
    (
        "electronic.dot",
        r"(?<![\w.])\.(?=(?:env|git(?:ignore|hub)|bashrc|zshrc|vimrc|dockerignore|NET"
        rf"|(?!(?:go|swift|bat|lock|conf)\b(?! files?\b)){FILE})\b)",
    ),
    ("electronic.handle", r"(?<!\w)@(?P<host>[A-Za-z_](?:[\w.]*\w)?)(?![\w\u00c0-\uffff])"),
    ("formula.ion", r"(?:(?<=\bCl)|(?<=\bBr)|(?<=\bOH))-(?![\w-])", codes.is_ion),
    ("formula.grade", r"(?<=\b[A-D])[-−–](?![\w-])", names.is_grade),
    ("serial.hyphen", r"(?<=\bK)–(?=12\b)"),
    ("range.to", r"(?<=\bK)–(?=\d\d?(?![\w-]))", codes.is_of_grades),
    ("formula.triangle", r"△(?=\s?[A-Z]{3}\b)"),
    ("cardinal.comma", r"(?<=V)/(?=\d+(?:\.\d+)?\s?A\b)", amounts.is_beside_volts),
    ("range.circa", r"(?<=\d)[-–]c\.\s?(?=\d)"),
    ("formula.root", r"√\s?(?=[\d(])"),
    ("measure.unit", r"(?P<unit>°[CF])(?:/(?P<per>[A-Za-z]+))?(?!\w)", amounts.is_scale_alone),
)
AFTER_DIGIT = compile_rules(
    ("abbreviation.hours", r"(?<=\d:\d\d)hrs\b(?:\.(?= [a-z]))?"),
    ("formula.times", r"(?<=\d)x(?=\d)", amounts.is_formula),
    ("formula.by", r"(?<=\d)x(?=\d)"),
    ("formula.multiple", r"(?<=\d)x\b", amounts.is_multiple),
    ("cardinal.per", r"(?<=[A-Z]\$)/(?P<per>[a-z]{3,})(?![\w/])"),
    ("cardinal.per", r"(?:(?<=\^\d)|(?<=\^\d\d)|(?<=[⁰-⁹]))/(?P<per>[A-Za-z]+)(?![\w/])", amounts.is_per),
    ("cardinal.per", r"(?<=[a-z])/(?P<per>[A-Za-zµμ]+[²³23]?)(?![\w/])", amounts.is_per_behind_letters),
    ("formula.chemical", r"(?<=\d)(?=[A-Za-z]*\d)(?:[A-Z][a-z]?\d{0,3}){2,12}(?![\w-])", codes.is_chemical),
    (
        "formula.sign",
        r"(?:(?<=\b[A-Za-z])|(?<=[\d)]))(?P<sign>/)(?=[A-Za-z](?!\w)|[\d(])",
        amounts.is_quotient,
    ),
)
CODES = compile_rules(
    ("time.offset", OFFSET),
    ("cardinal.minus", r"(?:(?<=\bUTC)|(?<=\bGMT))-(?=\d\d?(?![\w-]))"),
    # A letter code and its number: "A4", "COVID-19", "BA2490", "c325b".
    (
        "serial.inner",
        r"(?:(?<=[a-z])|(?<=[A-Z])(?<![RG]TX)(?<!RX)(?=\d{4}|\d{3}[A-Z]))(?<!\dx)(?P<digits>\d{3,})"
        r"(?=(?!s\b|[KMGT]i?B\b)[A-Za-z])",
    ),
    ("serial.inner", r"(?<=[A-Z])(?P<digits>\d{3,})(?!\w)", codes.is_plate),
    (
        "range.to",
        r"(?:(?<=\d [VAWCFK])|(?<=\d[VAWCFK]))\s?[-–—]\s?(?=\d+\s?[VAWCFK]\b)",
    ),
    ("range.to", r"(?<=\bK)-(?=\d\d?(?![\w-]))", codes.is_of_grades),
    ("serial.craft", r"(?<=[A-Z])(?P<digits>[1-9]\d\d)(?![.,]?\d|[\w-])", codes.is_of_flight),
    ("serial.craft", r"(?<![A-Za-z][A-Za-z])(?<=[A-Z])-?(?P<digits>[1-9]\d\d)(?![.,]?\d|[\w-])"),
    ("serial.plural", r"(?<=[A-Z])(?P<digits>\d{1,3})s\b"),
    ("serial.plural", r"(?:(?<=[A-Z])-(?=\d\d)|(?<=\b[A-SU-Z])-)(?P<digits>\d{1,3})s\b"),
    ("serial.code", r"(?<=[A-Za-z])(?P<digits>\d+)(?![.,]?\d)"),
    ("serial.code", r"(?<=[A-Z])-(?P<digits>\d+)(?![.,]?\d|s\b)"),
)
