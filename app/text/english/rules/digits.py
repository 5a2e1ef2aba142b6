"""Forms that begin with a digit; the first that fits, in this order, is taken."""

from firstword.app.text.english import contexts
from firstword.app.text.english.conditions import amounts, codes, dates, money, names
from firstword.app.text.english.conditions.condition import behind
from firstword.app.text.english.rules.patterns import (
    CODE,
    COMPASS,
    DAY,
    HALF,
    LAST_DAY,
    MIXED,
    MONTH,
    NUMBER,
    PER,
    PER_PRICE,
    SCALE,
    SIGN,
    STREET,
    UNIT,
    YEAR,
    ZONE,
    compile_rules,
)

# ruff: noqa: RUF001  typographic dashes, quotes and signs are meant

DIGITS = compile_rules(
    (
        "telephone.number",
        r"(?<![\w.,$€£(])(?:(?:1[ .-])?(?:\(\d{3}\)[ -]?|\d{3}[ ./-])\d{3}[ .-]\d{4}"
        r"|0\d{2,4} \d{3,4} \d{3,4}|1[38]00 \d{3} \d{3,4}"
        r"|0\d{4} \d{6}|0\d(?: \d\d){4}|(?!\d*000000(?!\d))\d{10,15})"
        r"(?:\sx(?P<extension>\d{1,5}))?"
        r"(?!\w|[.,]\d|-\d)",
        codes.is_no_count,
    ),
    (
        "telephone.number",
        r"(?<![\w.,$€£(])\d{3}-\d{4}(?:\sx(?P<extension>\d{1,5}))?(?!\w|[.,]\d|-\d)",
        codes.is_local_number,
    ),
    ("telephone.number", r"(?<![\w.,$€£(])0[58]00 \d{4}(?P<extension>(?!))?(?!\w|[.,]\d|-)", codes.is_called),
    (
        "telephone.toll_free",
        r"(?<![\w.,$€£(-])1-8(?:00|33|44|55|66|77|88)(?P<extension>(?!))?(?!\w|[.,]\d|-)",
        codes.is_toll_free,
    ),
    (
        "telephone.number",
        r"(?<![\w.,$€£(])\d{3}\.\d{4}(?!\w|[.,]\d|-\d)",
        behind(contexts.DIALED, 2),
    ),
    (
        "date.stamp",
        r"(?<!\w)(?P<year>\d{4})-(?P<first>\d\d)-(?P<second>\d\d)T(?P<hour>[01]\d|2[0-4]):(?P<minutes>[0-5]\d)"
        r"(?::(?P<seconds>[0-5]\d)(?:\.\d+)?)?(?P<zone>Z)?(?!\w)",
        dates.is_date,
    ),
    (
        "time.military",
        r"(?<![\w.,:-])(?P<hour>[01]\d|2[0-4])(?P<minutes>[0-5]\d)(?:\s?(?P<unit>hrs\.?|h\b))?(?![\w:-]|[.,]\d)",
        dates.is_military,
    ),
    (
        "serial.pixels",
        r"(?<!\w)(?P<wide>\d{3,4})\s?[x×]\s?(?P<high>\d{3,4})(?!\s?[x×]|\w|[.,]\d)",
        codes.is_pixels,
    ),
    (
        "measure.pressure",
        r"(?<![\w/.,])(?P<above>\d{2,3})/(?P<below>\d{2,3})(?:\s?(?P<unit>mm\s?Hg))?(?![\w/])",
        amounts.is_pressure,
    ),
    (
        "measure.latitude",
        rf"(?<![\d.,:/]){NUMBER}\s?°\s?(?:(?P<minutes>\d\d?)['′’]\s?"
        r"(?:(?P<seconds>\d\d?(?:\.\d+)?)(?:[\"″”]|'')\s?)?)?(?P<compass>[NSEW])(?!\w)",
    ),
    (
        "date.day_first",
        rf"(?<![\w.,:/-])(?P<day>[12]\d|3[01]|0?[1-9])(?P<gap>-?){MONTH}(?P=gap){YEAR}(?![\w-])",
    ),
    (
        "date.joined_day_first",
        rf"(?<![\w.,:/-])(?P<day>[12]\d|3[01]|0?[1-9])-{MONTH}-(?P<year>\d\d)(?![\w-])",
    ),
    (
        "time.central",
        r"(?<![\w.,:/])(?P<hour>1[0-2]|[1-9])(?::(?P<minutes>[0-5]\d))?(?:\s?(?P<half>[AaPp])\.?[Mm]\.?)?/"
        r"(?P<other>1[0-2]|[1-9])(?::(?P<other_minutes>[0-5]\d))?[cC]\b",
        dates.is_hour_apart,
    ),
    ("serial.hexadecimal", r"(?<!\w)0x[0-9A-Fa-f]+\b"),
    ("serial.hexadecimal", r"(?<![\w:])(?=[\d:]*[A-F])[0-9A-F]{2}(?::[0-9A-F]{2})+(?![\w:])"),
    (
        "serial.letter",
        r"(?<![\w.])(?P<digits>\d{1,2})(?P<letter>[sc])\b",
        behind(frozenset(["iphone"])),
    ),
    ("money.cents", r"(?<![\w.,$])(?P<number>\d{1,2})c\b(?!['’-])", money.is_in_cents),
    ("serial.lines", r"(?<!\w)(?P<digits>480|720|1080|1440|2160)(?P<letter>[pi])\b"),
    (
        "digits.zip",
        r"(?<![\w.,-])(?P<zip>\d{5}(?:-\d{4})?)(?![\w-])",
        behind(frozenset(["zip", "zipcode"]), 2),
    ),
    ("telephone.letters", r"(?<!\w)(?:1-)?[89]\d\d-(?:\d{3}-)?(?P<name>[A-Z][A-Z-]{2,})\b"),
    (
        "date.iso",
        r"(?<![\d/-])(?P<year>\d{4})([-/.])(?P<first>\d\d?)\2(?P<second>\d\d?)(?![\d/-])",
        dates.is_date,
    ),
    (
        "date.numeric",
        r"(?<![\d/.@-])(?P<first>\d\d?)(?P<sign>[/.-])(?P<second>\d\d?)(?P=sign)(?P<year>\d{4}"
        r"|\d\d)(?![\d/.-]\d|\d|-)",
        lambda found, context: (
            dates.is_date(found, context) and (found["sign"] != "-" or len(found["year"]) == 4)
        ),
    ),
    ("date.week", r"(?<!\w)(?P<year>\d{4})-W(?P<week>\d\d)(?:-(?P<weekday>[1-7]))?(?!\w)"),
    ("cardinal.team", r"(?<![\w.,$])(?P<digits>[1-9]\d)ers\b"),
    ("cardinal.plural", r"(?<=\dx)(?P<digits>\d{1,2})s\b"),
    ("cardinal.plural", r"(?<![\w.,$])(?P<digits>\d{1,4})['’]?s\b", amounts.is_plural),
    ("serial.models", r"(?<![\w.,$])(?P<digits>7[0-8]7|1040|109[589])s\b"),
    ("date.decade", r"(?<![\w.'’$])(?P<digits>[2-9]0)s(?=[-–][2-9]0s\b)"),
    (
        "date.days",
        r"(?<![\d/.-])(?P<first>\d\d?)/(?P<second>\d\d?)\s?[-–—]\s?"
        r"(?P<last_first>\d\d?)/(?P<last_second>\d\d?)(?![\d/]|[.,]\d)",
        dates.is_days,
    ),
    (
        "date.month_and_day",
        r"(?<![\d/.-])(?P<first>\d\d?)/(?P<second>\d\d?)(?![\d/]|[.,]\d)",
        dates.is_month_and_day,
    ),
    (
        "date.month_of_year",
        r"(?<![\d/.-])(?P<first>0?[1-9]|1[0-2])/(?P<year>(?:19|20)\d\d)(?!\w|[/-]\d|[.,]\d)",
        dates.is_month_of_year,
    ),
    (
        "date.year_and_month",
        r"(?<![\w/.,-])(?P<first>0[1-9])-(?P<year>(?:19|20)\d\d)(?!\w|[/-]|[.,]\d)",
        dates.is_joined_month,
    ),
    ("serial.groups", r"(?<![\w/.,-])0\d-\d{4}(?![\w/-]|[.,]\d)"),
    (
        "date.year_and_month",
        r"(?<![\w./-])(?P<year>(?:19|20)\d\d)-(?P<first>0[1-9]|1[0-2])(?![\w/-]|[.,:]\d)",
        dates.is_year_and_month,
    ),
    (
        "date.season",
        r"(?<![\w,.$-])(?P<year>(?:19|20)0\d)-(?P<last>0[1-9])(?![\w/:-]|[.,]\d)",
        dates.is_next_year,
    ),
    ("serial.year", r"(?<![\d-])(?P<year>19\d\d|20\d\d)-(?P<digits>0\d+)(?![\d-])"),
    (
        "serial.year",
        r"(?<![\d-])(?P<year>19\d\d|20\d\d)-(?P<digits>[3-9]\d{3,})(?![\d-])",
        behind(contexts.NAMED_BY_CODE),
    ),
    (
        "serial.record",
        r"(?<![\d-])\d{1,2}(?:-\d{1,2}){2}(?![\d-])",
        lambda found, context: context.is_ahead(found.end(), frozenset(["record", "season", "mark"])),
    ),
    (
        "serial.tally",
        r"(?<![\w.,$€£:/-])(?P<won>\d{1,3})[-–](?P<lost>\d{1,3})(?![\w%/:–-]|[.,]\d)",
        codes.is_tally,
    ),
    ("serial.groups", r"(?<![\d])\d+(?:-\d+){2,}(?![\d/])", amounts.is_no_formula),
    ("digits.long_zip", r"(?<![\w.,$-])(?P<zip>\d{5}-\d{4})(?![\w-]|[.,]\d)"),
    ("digits.zip", r"(?<![\w.,$-])(?P<zip>\d{5})(?![\w%°-]|[.,:]\d)", codes.is_behind_place),
    ("cardinal.always", r"(?<![\w.,$€£-])24-7(?!\w|[.,-]\d|-)", codes.is_always),
    ("serial.groups", r"(?<![\d.,-])\d{1,4}-\d{3,7}(?:-[A-Z])?(?![\w-]|[.,]\d)", codes.is_filed),
    ("serial.groups", r"(?<![\d-])\d+-0\d+(?![\d:-])", lambda found, context: ":" not in found.string),
    ("serial.groups", r"(?<![\d.,-])\d{4}(?: \d{4}){2,}(?: \d{1,4})?(?![\d.,]\d|\d)"),
    (
        "cardinal.grouped",
        r"(?<![\d.,])(?P<number>[1-9]\d{0,2}(?: \d{3}){2,}|[1-9]\d{0,2} \d00(?![A-Za-z]))(?![\d.,]\d|\d| \d)",
    ),
    (
        "serial.groups",
        r"(?<![\d.,$-])\d{3,4}(?: \d{3,4}){1,3}(?![\d.,]\d|\w|%|/)",
        codes.is_behind_code,
    ),
    ("digits.code", r"(?<![\d.,$-])(?P<digits>\d{3,12})(?![\d.,]\d|\d|\w|%|/)", codes.is_code),
    ("digits.code", r"(?<![\d.,$-])(?P<digits>\d{3,12})(?![\d.,]\d|\d|\w|%|/)", codes.is_named),
    ("digits.code", r"(?<![\d.,$-])(?P<digits>\d{3})(?![\d.,]\d|\d|\w|%|/|:)", codes.is_dialed),
    ("digits.code", r"(?<![\w.,$€£/-])(?P<digits>[2-9]\d\d)(?= area$)", codes.is_area_code),
    ("digits.code", r"(?<![\d.,$-])(?P<digits>\d{7,9})(?![\d.,]\d|\w|[%/:])", behind(contexts.DIALED)),
    (
        "date.day_first",
        rf"(?<![\d.,:/]){DAY}{LAST_DAY}\s+(?:of\s+)?{MONTH}(?!\w)(?:,?\s+{YEAR})?",
        dates.is_month,
    ),
    (
        "address.street",
        rf"(?<![\d.,:/$-])(?P<house>\d{{1,5}})(?P<letter>[A-Z])? (?P<name>(?:{COMPASS} )?"
        rf"(?:(?:[A-Z][\w.'’-]*|\d+(?:st|nd|rd|th)) ){{1,4}}?){STREET}(?: (?P<compass>{COMPASS}))?(?!\w)",
        names.is_address,
    ),
    (
        "duration.parts",
        r"(?<![\d.,:/$])(?:(?P<days>\d+)\s?(?:d|days?)[ ,]*(?=\d))?(?:(?P<hours>\d+)\s?(?:hrs?|h)[ ,]*)?"
        r"(?:(?P<minutes>\d+)\s?(?:mins?|m)(?![A-Za-z])[ ,]*|(?<=h)(?P<rest>\d\d)(?!\d))?"
        r"(?:(?P<seconds>\d+(?:\.\d+)?)\s?(?:secs?|s))?(?<=[a-z\d])(?<![\d]\d{3})(?![A-Za-z])",
        dates.is_duration,
    ),
    ("serial.mixed", r"(?<![\w.,-])\d+(?!x\d)[a-z]+\d+[a-z][0-9a-z]*(?!\w)", codes.is_mixed),
    (
        "duration.ago",
        r"(?<![\d.,:/$])(?P<number>\d{1,3})(?P<unit>d|w|y|mo)(?!\w)",
        lambda found, context: context.is_ahead(found.end(), frozenset(["ago"])),
    ),
    ("cardinal.all_year", r"(?<![\w.,/])24/7/365(?![\w/])"),
    ("duration.aged", r"(?<![\w.,:/$])(?P<number>\d{1,3})(?:yo|\s?y/o)(?!\w)", dates.is_age),
    ("duration.age", r"(?<![\w.,:/$])(?P<number>\d{1,3})(?:yo|\s?y/o)(?!\w)"),
    (
        "duration.match",
        r"(?<![\w.,:/$])(?P<minutes>\d{1,3})(?:\+(?P<added>\d{1,2}))?['’′](?=[),;]|$)",
        amounts.is_minute_of_match,
    ),
    ("duration.minutes", r"(?<![\d.,:/$])(?P<minutes>\d+)m\b(?![/²³])", dates.is_minutes),
    (
        "duration.clock",
        r"(?<![\d.,:/])(?P<hours>\d\d?):(?P<minutes>[0-5]\d):(?P<seconds>[0-5]\d(?:\.\d{1,3})?)(?![\d:]|\s?[AaPp]\.?[Mm])",
        dates.is_elapsed,
    ),
    ("duration.pace", r"(?<![\w.,:])(?P<minutes>\d{1,2}):(?P<seconds>[0-5]\d)/(?P<per>km|mi|mile)\b"),
    (
        "range.verse",
        r"(?<![\w.,:])(?P<chapter>\d{1,3}):(?P<verse>[1-9]\d{0,2})(?:[-–](?P<last>\d{1,3}))?(?![\d:])",
        names.is_verse,
    ),
    (
        "time.clock",
        rf"(?<![\d.,:])(?<!\d/)(?P<hour>1[0-2]|0?[1-9])\.(?P<minutes>[0-5]\d){HALF}{ZONE}(?!\w)",
    ),
    ("range.ratio", r"(?<![\w:.,])(?P<low>\d{1,2}):(?P<high>\d\d)(?![\w:])", dates.is_ratio),
    (
        "duration.hours",
        r"(?<![\w.,:/-])(?P<hours>\d):(?P<minutes>[0-5]\d)\s?hrs\b(?:\.(?= [a-z]))?",
        dates.is_in_hours,
    ),
    (
        "time.military",
        r"(?<![\w.,:/-])(?P<hour>[01]?\d|2[0-4]):(?P<minutes>00)\s?(?P<unit>hrs\b)(?:\.(?= [a-z]))?",
    ),
    (
        "time.on_hour",
        r"(?<![\d.,:])(?<!\d/)(?P<hour>1[0-2]|0?[1-9]):00(?!\d)",
        lambda found, context: context.ahead(found.end()).startswith(("o'clock", "o’clock")),
    ),
    (
        "duration.clock",
        r"(?<![\d.,:])(?P<hours>(?!))?(?P<minutes>0|2[5-9]|[3-9]\d):(?P<seconds>[0-5]\d(?:\.\d{1,3})?)(?![\d:])(?P<unit>\s(?:minutes|mins?)\b)?",
        dates.is_elapsed_minutes,
    ),
    (
        "time.hour",
        r"(?<![\d.,:])(?<!\d/)(?P<hour>1[0-2]|0?[1-9]):00(?=\s?[-–—]\s?\d\d?(?::\d\d)?\s?[AaPp]\.?[Mm]\b)",
    ),
    (
        "time.clock",
        rf"(?<![\d.,:])(?<!\d/)(?P<hour>[01]?\d"
        rf"|2[0-4]):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d))?{HALF}?{ZONE}(?![\d:])",
    ),
    (
        "time.short_hour",
        r"(?<![\w.,:/-])(?P<hour>1[0-2]|[1-9])(?P<half>[ap])(?P<zone>(?!))?(?=[-–](?:1[0-2]|[1-9])[ap]\b)",
        dates.is_short_hour,
    ),
    (
        "time.short_hour",
        r"(?<=\d[ap][-–])(?P<hour>1[0-2]|[1-9])(?P<half>[ap])(?P<zone>(?!))?\b",
        dates.is_short_hour,
    ),
    ("time.hour", rf"(?<![\d.,:])(?<!\d/)(?P<hour>1[0-2]|0?[1-9]){HALF}{ZONE}(?!\w)"),
    (
        "serial.network",
        r"(?<![\w.])(?P<digits>\d+(?:\.\d+){3,})(?!\d)(?::\d{2,5}\b)?(?P<path>/[\w./-]*\w)?",
    ),
    (
        "cardinal.european",
        r"(?<![\w.,])(?P<number>[1-9]\d{0,2}(?:\.\d{3})+),(?P<decimals>\d\d?)(?!\d|[.,]\d|\s?(?:€|EUR))",
    ),
    (
        "cardinal.grouped",
        r"(?<![\w.])(?P<number>[1-9]\d{0,2}\.\d{3}\.000)(?![\w.])",
        lambda found, context: not context.is_behind(found.start(), contexts.VERSIONS),
    ),
    ("serial.version", r"(?<![\w.])(?P<version>\d+(?:\.\d+){2})(?!\d)"),
    (
        "serial.version",
        r"(?<![\w.])(?P<version>(?P<major>\d+)\.\d\d)(?!\d)",
        codes.is_version,
    ),
    (
        "duration.pace",
        r"(?<![\d.,])(?P<minutes>\d{1,2})['′’](?P<seconds>[0-5]\d)[\"″”](?:/(?P<per>km|mi|mile)\b)?",
        dates.is_pace,
    ),
    (
        "measure.feet_and_inches",
        r"(?P<feet>\d+)['′’] ?(?P<inches>\d+)(?: (?P<above>\d)/(?P<below>\d+))?(?:[\"″”]|'')?(?!\w)",
    ),
    ("measure.feet_and_inches", r"(?<![\w.,])(?P<feet>\d+)ft\s?(?P<inches>\d+)in(?!\w)"),
    ("measure.foot", r"(?<![\w.])(?P<number>\d+)['′’](?=-(?:tall|long|wide|high|deep)\b)"),
    (
        "measure.foot",
        r"(?:(?<![\w.+])|(?<=['′’]x))(?P<number>\d+)['′’](?:(?!\w)|(?=x\d))",
        amounts.is_foot,
    ),
    (
        "measure.feet",
        r"(?P<number>\d{1,3}(?:,\d{3})+|\d+)['′’](?:(?!\w)|(?=x\d))",
        lambda found, context: (
            context.is_ahead(found.end(), contexts.SIZES)
            or amounts.is_far(found, context)
            or context.behind(found.start()) == ["x"]
            or found.string[found.end() : found.end() + 1] == "x"
            or found.string[found.start() - 1 : found.start()] == "x"
        ),
    ),
    (
        "measure.inches",
        r"(?P<number>\d+(?:\.\d+)?)(?:″|\"(?!\w)|\"(?=x\d|[LWHD]\b)|''(?!\w))",
        amounts.has_inches,
    ),
    ("measure.degrees", r"(?<![\w.])(?P<number>\d+\.\d+)(?P<unit>[CF])\b"),
    (
        "measure.degrees",
        r"(?<![\w.,:])(?P<number>0|[1-9]\d{0,2})\s?(?P<unit>[CF])\b(?!['’-])",
        amounts.is_temperature,
    ),
    (
        "formula.scientific",
        r"(?<![\w.])(?P<number>\d+(?:\.\d+)?)[eE](?P<power>[+-]?\d{1,3})(?!\w)",
    ),
    (
        "range.wickets",
        r"(?<![\w/.,$€£])(?P<runs>[1-9]\d{1,2})/(?P<wickets>\d)(?![\w/]|[.,]\d)",
        behind(contexts.BATTED),
    ),
    (
        "fraction.score",
        r"(?<![\w/.,$€£])(?P<above>\d{1,3}(?:\.\d)?)/(?P<below>5|\d0|[1-9]\d0|[1-9]5)(?![\w/]|[.,]\d)",
        amounts.is_score,
    ),
    (
        "fraction.part",
        r"(?<![\w/.,$€£])(?P<above>\d{1,3})/(?P<below>\d{1,3})(?![\w/]|[.,]\d)",
        amounts.is_part,
    ),
    (
        "measure.fraction",
        rf"(?<![\w/.,])(?:(?P<whole>\d{{1,3}}){MIXED})?(?P<above>\d{{1,3}})/(?P<below>\d{{1,4}})[\s-]?"
        r"(?P<unit>[A-Za-z]{1,4}|[\"″])(?![\w/])",
        amounts.is_measured_fraction,
    ),
    (
        "fraction.rare",
        r"(?<![\w/.,-])(?P<whole>(?!))?(?P<above>\d{1,3})/(?P<below>[1-9]|10|12|16|20|[3-9]\d|100)(?![\w/-]|[.,]\d|\s?=)",
        amounts.is_improper_alone,
    ),
    (
        "fraction.rare",
        r"(?<![\w/.,])(?:(?P<whole>\d{1,3})\s)?(?P<above>\d{1,3})/(?P<below>\d{1,4})(?![\w/]|[.,]\d|\s?=)",
        amounts.is_rare_fraction,
    ),
    (
        "fraction.rare",
        r"(?<![\w/.,])(?P<whole>(?!))?(?P<above>\d{1,3})/(?P<below>\d{1,4})(?![\d/]|[.,]\d)",
        amounts.is_proper_in_formula,
    ),
    (
        "duration.fraction",
        r"(?<![\w/.,$€£-])(?P<above>\d{1,2})/(?P<below>\d{1,4})s\b(?![/-])",
        dates.is_part_of_second,
    ),
    (
        "fraction.parts",
        r"(?<![\w/.,$€£-])(?P<above>\d{1,2})/(?P<below>[2-9]|10|12|16|32)s\b(?![/-])",
    ),
    (
        "fraction.common",
        rf"(?<![\w/.,])(?:(?P<whole>\d{{1,3}}){MIXED})?(?P<above>\d{{1,3}})/(?P<below>\d{{1,4}})(?:rds?|ths?|nds?)?"
        r"(?![\d/=]|[.,]\d|\s?=)",
    ),
    (
        "date.decade",
        r"(?<![\w.'’$])(?P<digits>1[1-9]\d0|20\d0)['’]?s\b",
    ),
    ("date.decade", r"(?<![\w.'’$])(?P<digits>[1-9]0)['’]?s\b", dates.is_bare_decade),
    ("date.decade", r"(?<![\w.'’$])(?P<digits>[2-9]0)s(?=-(?:themed|styled?|inspired|era|born|ish|esque)\b)"),
    ("date.decade", r"(?:(?<=[Mm]id-)|(?<=[Ll]ate-)|(?<=[Ee]arly-))(?P<digits>[1-9]0)s\b"),
    ("date.decade", r"(?<=\ds[-–])(?P<digits>[1-9]0)s\b"),
    ("cardinal.plural", r"(?<=[a-z]{2}-)(?<!\bsub-)(?P<digits>[1-9]\d?)s\b"),  # "omega-3s", "under-12s"
    ("cardinal.plural", r"(?<![\w.'’$])(?P<digits>[1-9]0)['’]s\b"),
    (
        "money.comma",
        rf"(?<![\w.,:/])(?P<whole>\d{{1,3}}(?:\.\d{{3}})*),(?P<cents>\d\d)\s?(?P<sign>€|EUR\b){PER_PRICE}",
        money.is_money,
    ),
    (
        "money.behind",
        rf"(?<![\d.,:/]){NUMBER}(?:\s?{SCALE}\.?)?\s?(?P<sign>{SIGN}|{CODE}){PER_PRICE}",
        money.is_money,
    ),
    ("date.era", rf"(?<![\w,.])(?P<digits>\d{{1,4}}|\d{{1,3}}(?:,\d{{3}})+)\s(?P<era>{contexts.ERAS})(?!\w)"),
    ("measure.type", rf"(?<![\d.,:/]){NUMBER}[\s-]?pt\b", amounts.is_type),
    ("measure.basis", rf"(?<![\d.,:/]){NUMBER}\s?(?P<unit>bps?)\b", amounts.is_basis),
    ("measure.points", rf"(?<![\d.,:/]){NUMBER}\s?pts\b", amounts.is_points),
    ("measure.percentage", rf"(?<![\d.,:/$€£¥]){NUMBER}\s?pp\b", amounts.is_percentage_point),
    (
        "measure.amount",
        rf"(?<![\d.,:])(?<!^/)(?<![^A-Za-z]/){NUMBER}(?:\s?(?P<scale>hundred|thousand|million|billion|trillion)\s)?"
        rf"(?P<gap>[\s-]?){UNIT}{PER}(?:\.(?=\s(?:(?:x|by|of)\b|[NSEW](?:$|\sof)|[+=(]|\d+\s?(?:in|oz)\b)))?",
        amounts.is_unit,
    ),
    (
        "measure.amount",
        rf"(?<![\d.,:])(?<!^/)(?<![^A-Za-z]/){NUMBER}(?P<gap>\s?){UNIT}(?=/[A-Z][a-z]|/gas\b)",
        amounts.is_unit_alone,
    ),
    ("range.halves", r"(?<![\w.,-])50-50(?![\w-])"),
    (
        "date.range",
        r"(?<![\w,.$-])(?P<year>1[1-9]\d\d|20\d\d)\s?[-–—]\s?(?P<last>1[1-9]\d\d|20\d\d|\d\d)(?![\d/:-]"
        r"|[.,]\d|\w)",
        lambda found, context: not context.has_equals,
    ),
    ("date.year", rf"(?<![\w,.])(?!1000){YEAR}(?![\w%°]|-\d)", dates.is_year),
    ("cardinal.scaled_apart", rf"(?<![A-Za-z]){NUMBER}\s(?P<scale>bn|tn|mln|mn)\b"),
    ("cardinal.letters", r"(?<![\w.])(?P<number>401)\(?(?P<letter>[kK])\b\)?"),
    ("measure.karat", r"(?<![\w.,$€£])(?P<number>14|18|22|24)[kK]\b", amounts.is_karat),
    ("cardinal.scaled", rf"(?<![A-Za-z]){NUMBER}(?P<scale>[kKmMBT]|[bmt]n)\b(?!-(?!\d))", amounts.is_scale),
    (
        "ordinal.number",
        r"(?P<number>\d{1,3}(?:,\d{3})+|\d+)-?(?:[Ss][Tt]|[Nn][Dd]|[Rr][Dd]|[Tt][Hh])(?P<several>s)?\b",
    ),
    ("measure.stone", r"(?<![\w.,$€£:/-])(?P<number>\d{1,3}) st\b(?!['’-])", amounts.is_stone),
    (
        "ordinal.number",
        r"(?<![\w.,$€£:/-])(?P<number>\d{1,4})\s(?P<end>st|nd|rd|th)(?P<several>(?!))?(?![\w.'’-])",
        amounts.is_ending_right,
    ),
    (
        "serial.standard",
        r"(?<![\w.,])(?P<number>\d{3,5})(?P<part>-\d{1,2})?:(?P<year>(?:19|20)\d\d)(?![\d:])",
        behind(frozenset(["iso", "iec", "en", "iso/iec"])),
    ),
    ("range.ratio", r"(?<![\w:])(?P<low>\d+):(?P<high>\d+)(?![\d:])"),
    (
        "serial.model",
        r"(?<![\w.,$:-])(?P<digits>7[0-8]7)-(?P<variant>[1-9]00)(?=(?:ER|LR|F)?(?![\w-]))",
    ),
    ("serial.model", r"(?<![\w.,$:-])(?P<digits>7[0-8]7)-(?P<variant>[89]|10)(?![\w-])", codes.is_airplane),
    (
        "serial.model",
        r"(?<![\w.,$:-])(?P<digits>\d{3})-(?P<variant>\d{1,3})(?![\w-])",
        behind(contexts.AIRCRAFT),
    ),
    (
        "cardinal.parts",
        r"(?<![\w.,$:-])(?P<digits>\d{3})(?![\d.,:]\d|[\w%°/'’-])",
        behind(contexts.AIRCRAFT | contexts.NUMBERED),
    ),
    ("cardinal.parts", r"(?<![\w.,$:-])(?P<digits>\d{3})(?=[a-z]{1,2}\b)", behind(contexts.AIRCRAFT)),
    (
        "cardinal.parts",
        r"(?<![\w.,$:-])(?P<digits>\d{3,4})(?=[A-Z]\b)",
        behind(contexts.NUMBERED | {"apt.", "unit"}),
    ),
    (
        "cardinal.parts",
        r"(?<![\w.,$:-])(?P<digits>\d{3,4})(?![\d.,:]\d|[\w%°/'’-])",
        codes.is_in_parts,
    ),
    ("cardinal.parts", r"(?<![\w.,$:-])(?P<digits>501)(?=\(c\))"),
    ("cardinal.parts", r"(?<![\w.,$:-])(?P<digits>802)(?=\.(?:11(?![\d.])|1[a-z]|3(?![\d.])))"),
    (
        "cardinal.parts",
        r"(?<![\w.,$:-])(?P<digits>[1-5]\d\d)(?![\d.,:]\d|[\w%°/'’-])",
        codes.is_failure,
    ),
    (
        "cardinal.number",
        r"(?P<number>(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,2}(?:,\d\d)+,000(?!\d)|\d+)(?:\.\d+)?)",
    ),
)
